// The ring of leaves that a block of one_pass.cu has in shared memory, and where their numbers and codes lie.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/quant/one_pass_words.cuh"
#include "cuda/quant/row_space.cuh"

namespace octet::cuda {

inline constexpr int kLeafRows = static_cast<int>(quant::TreeSum::kLeafTokens);

/// Where a leaf lies.
struct Leaf {
  std::uint32_t unit;
  std::int32_t b, h, begin, length;

  __device__ Leaf(const OnePassPlan& plan, const RowOrder& order, std::uint32_t number)
      : unit(plan.leaves_of_unit.quotient(number)) {
    b = static_cast<std::int32_t>(unit) / order.heads;
    h = static_cast<std::int32_t>(unit) - b * order.heads;
    begin = static_cast<std::int32_t>(number - unit * plan.leaves_of_unit.divisor) * kLeafRows;
    length = min(kLeafRows, plan.tokens - begin);
  }
};

/// Where what a leaf becomes goes.
struct LeafPlace {
  void* codes;    ///< of its first row, or of its key block, packed
  float* scales;  ///< of its first token or key block
  int length;     ///< rows that become codes in this round
};

/// Leaves that a block goes through: its leaf n is number first + n * step of all, as long as that is below
/// end.
struct LeafWalk {
  std::uint32_t first, step, end;

  __device__ std::uint32_t number(int n) const { return first + static_cast<std::uint32_t>(n) * step; }
};

/// All leaves are gone through once. The codes of a unit whose norms that does not give are left, and whoever
/// has its first leaf goes through all of it again.
enum class Round { first, again };

/// Shared memory of a block with so many coders. Leaf n of the block is in slot n % kSlots; what follows from
/// its unit is longer in use than its rows, in place n % kPlaces. Lines are segments of 64 channels, a tile
/// has 32 of them.
template <class Shape, int kCoders>
struct LeafRing {
  static constexpr int kTiles = kLeafRows / Shape::kRows, kLines = kLeafRows * Shape::kLanes;
  static constexpr int kSlots = 12 / Shape::kLanes;  // 192 KB
  static constexpr int kPlaces = 2 * kSlots;

  uint4 lines[kSlots][kLines][kChannels];                       // see row_place()
  uint4 codes[kCoders][kWarp][4];                               // see code_place()
  float4 words[kPlaces][Shape::kLanes][Shape::kCount / 4 + 1];  // segments begin in different banks
  uint4 flips[Shape::kDim / kChannels];
  std::uint32_t peaks[kPlaces][kTiles];  // the largest bits of each tile
  LeafWalk walks[2];                     // of K, of V
  int first_of_v;                        // number of the first of V among the block's leaves
  LeafPlace leaves[kPlaces];
  int begin, next;     // of V's walk the first leaf; that to look at when it is done
  std::uint32_t left;  // number of the first leaf of the unit that is gone through again
  Round round;
  std::uint32_t is_unit_left;  // no codes of a unit that the block has the first leaf of were written
  // Barriers, in the order in which they are passed: the leaf's rows are there, they have been added up, and
  // the slot is empty;
  std::uint64_t full[kSlots], summed[kSlots], empty[kSlots];
  // the words of its unit are there, and nobody needs them or peaks any more;
  std::uint64_t ready[kPlaces], used[kPlaces];
  // of K and of V, all peaks are there, and all codes wait in their place to be packed.
  std::uint64_t measured[2][kPlaces], coded[2][kPlaces];

  /// By one thread. All lanes of a warp arrive.
  __device__ void open() {
    const auto open = [](const std::uint64_t& barrier, int warps) {
      ptx::open_barrier(ptx::shared_address(&barrier), warps * kWarp);
    };
    for (int i = 0; i < kSlots; ++i) open(full[i], 1), open(summed[i], Shape::kLanes), open(empty[i], kTiles);
    for (int i = 0; i < kPlaces; ++i) {
      open(ready[i], 1), open(used[i], kTiles);
      for (int of = 0; of < 2; ++of) open(measured[of][i], kTiles), open(coded[of][i], kTiles);
    }
  }
};

/// Bytes from a tile's or leaf's first of the 16 bytes number `piece` of a line: in another order in each
/// line, so that lanes that have a line each, or the words of one line, meet in no bank.
__device__ inline int row_place(int line, int piece) { return line * 128 + (piece ^ line % 8) * 16; }
/// The same of a tile's codes, of which a line has 64 bytes.
__device__ inline int code_place(int line, int piece) {
  return line / 2 * 128 + ((piece ^ line / 2 % 4) + line % 2 * 4) * 16;
}

}  // namespace octet::cuda
