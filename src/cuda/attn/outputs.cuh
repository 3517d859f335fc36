// What a lane carries of its two rows' outputs from key block to key block.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/operand.cuh"

namespace octet::cuda::attn {

/// Tiles of eight channels that registers hold beside scores of 128 keys. Of 8-bit operands so many that two
/// blocks of threads share a processor of 228 KiB; of halves, whose tiles leave room for one block, fewer,
/// and of e4m3 the fewest, for sm_90 unpacks it (ptx/mma.cuh).
template <class S>
constexpr int tiles_beside_scores() {
  if (S::kV == Operand::e4m3) return 12;
  return Element<S::kV>::kBytes == 1 ? 20 : 16;
}

/// Numbers in registers, up to kMostKept tiles of them; those of further channels in shared memory, where a
/// key block reads and writes each once. kTiles: of eight channels each.
template <class S, int kTiles, int kMostKept = tiles_beside_scores<S>()>
class Outputs {
 public:
  using Out = typename S::Out;

 private:
  static constexpr int kKept = kTiles < kMostKept ? kTiles : kMostKept, kLanes = 32;
  struct alignas(16) Four {
    Out of[4];
  };
  struct OfWarp {
    Four out[kTiles > kKept ? kTiles - kKept : 1][kLanes];
  };
  struct Nothing {};

 public:
  using Shared = std::conditional_t<(kTiles > kKept), OfWarp, Nothing>;
  struct Local {};
  __device__ __forceinline__ Outputs(Shared& shared, Local&) : shared_(shared) {
    if constexpr (kTiles > kKept) {
#pragma unroll 1
      for (int i = kKept; i < kTiles; ++i) in_memory(i) = {};
    }
  }

  /// What is done before the sums of a key block are folded in.
  __device__ __forceinline__ void open(const S& scheme, const LaneRow<S> (&rows)[kRowsALane]) {
    if constexpr (kInTwoSteps) {
      bool rescales = false;
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) rescales |= rows[r].sees && !scheme.keeps(rows[r].step);
      if (!__any_sync(tile::kAllLanes, rescales)) return;
      const auto rescale = [&](Four& four) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (rows[e >> 1].sees) scheme.rescale(four.of[e], rows[e >> 1].step);
      };
#pragma unroll
      for (int i = 0; i < kKept; ++i) rescale(out_[i]);
      if constexpr (kTiles > kKept) {
#pragma unroll 4
        for (int i = kKept; i < kTiles; ++i) rescale(in_memory(i));
      }
    }
  }

  /// Sums of P V of the channels of tiles first ... first + kSome - 1, of which channel_of(tile, c) has the
  /// constants.
  template <int kSome, class ChannelOf>
  __device__ __forceinline__ void fold(const S& scheme, int first, const typename S::PvAcc (&pv)[kSome][4],
                                       const LaneRow<S> (&rows)[kRowsALane], const ChannelOf& channel_of) {
    Four some[kSome];
#pragma unroll
    for (int i = 0; i < kSome; ++i) some[i] = first + i < kKept ? out_[first + i] : in_memory(first + i);
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if (!rows[r].sees) continue;
      const auto each = [&](const auto& fold_one) {
#pragma unroll
        for (int i = 0; i < kSome; ++i) {
#pragma unroll
          for (int e = 2 * r; e < 2 * r + 2; ++e) fold_one(some[i].of[e], pv[i][e], first + i, e & 1);
        }
      };
      if constexpr (kAsksInFold)
        scheme.with_fold(rows[r].step, [&](const auto& fold) {
          each([&](Out& out, typename S::PvAcc acc, int, int) { fold(out, acc); });
        });
      else
        each([&](Out& out, typename S::PvAcc acc, int tile, int c) {
          if constexpr (kInTwoSteps)
            scheme.add(out, acc, rows[r].step, channel_of(tile, c));
          else
            scheme.fold(out, acc, rows[r].step, channel_of(tile, c));
        });
    }
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      if (first + i < kKept)
        out_[first + i] = some[i];
      else
        in_memory(first + i) = some[i];
    }
  }

  /// Numbers in registers, of which the compiler must not join what two branches do to them.
  __device__ __forceinline__ void pin() {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) asm("" : "+f"(out_[i].of[e]));
  }

  /// All of them, where registers hold them.
  __device__ __forceinline__ Out (&in_registers())[kTiles][4] {
    static_assert(kTiles == kKept && sizeof(Four) == sizeof(Out[4]));
    return reinterpret_cast<Out(&)[kTiles][4]>(out_);
  }

  __device__ __forceinline__ Out at(int tile, int e) const {
    return (tile < kKept ? out_[tile] : in_memory(tile)).of[e];
  }

 private:
  static constexpr bool kAsksInFold = requires(const S& s, const typename S::Step& step) {
    s.with_fold(step, [](const auto&) {});
  };
  // Where sums are added as they are, what was summed before is rescaled in the same multiply-add.
  static constexpr bool kAddsAsTheyAre = requires { S::kAddsAsTheyAre; };
  static constexpr bool kInTwoSteps = requires(S s, typename S::Step step) { s.keeps(step); }
  &&!kAddsAsTheyAre;

  __device__ __forceinline__ Four& in_memory(int tile) const {
    if constexpr (kTiles > kKept)
      return shared_.out[tile - kKept][threadIdx.x % kLanes];
    else
      __builtin_unreachable();
  }

  Shared& shared_;
  Four out_[kKept] = {};
};

/// 64-bit sums in bins, of rows that are long. Registers do not hold them beside a block's scores, so they
/// are in shared memory: a window of bins (integer_window.h), to which almost all key blocks add without a
/// branch. The other bins are in local memory, and so are all sums of more channels than other GPUs' shared
/// memory has room for.
template <LongRows S, int kTiles, int kMostKept>
class Outputs<S, kTiles, kMostKept> {
 public:
  using Out = typename S::Out;
  using Window = typename S::Window;
  /// Two outputs beside each other of a row; a lane has one for each tile and row.
  struct alignas(16) Pair {
    std::int64_t of[2];
  };

 private:
  static constexpr int kPairs = kTiles * kRowsALane, kLanes = 32;
  static constexpr bool kInShared = kTiles <= 16;

 public:
  /// A warp's windows: of its lanes beside each other.
  struct Shared {
    Pair window[kInShared ? kPairs : 1][kInShared ? kLanes : 1];
  };
  struct Local {
    Pair others[Window::kOthers][kPairs];
    Pair window[kInShared ? 1 : kPairs];
  };

  __device__ __forceinline__ Outputs(Shared& shared, Local& local) : shared_(shared), local_(local) {
#pragma unroll 1
    for (int n = 0; n < kPairs; ++n) window(n) = {};
  }

  __device__ __forceinline__ void open(const S&, const LaneRow<S> (&rows)[kRowsALane]) {
    const typename Window::Entry& entry = rows[0].own.entry;
    if (__any_sync(tile::kAllLanes, entry.moved > 0)) [[unlikely]]
      move(entry);
    any_other_ = __any_sync(tile::kAllLanes, entry.other_factor != 0);
    if (any_other_) [[unlikely]]
      open_others(entry);
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) factor_[r] = from_row(entry.factor, r);
  }

  template <int kSome>
  __device__ __forceinline__ void fold(int first, const typename S::PvAcc (&pv)[kSome][4]) {
    const auto each = [&](const auto& pair_of, const std::int32_t(&of)[kRowsALane]) {
      std::int32_t factor[kRowsALane];
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) factor[r] = here(of[r]);
      constexpr int kTogether = kSome < 4 ? kSome : 4;  // on their way from memory
#pragma unroll
      for (int i = 0; i < kSome; i += kTogether) {
        Pair sums[kTogether][kRowsALane];
#pragma unroll
        for (int n = 0; n < kTogether * kRowsALane; ++n) {
          const int r = n % kRowsALane;
          sums[n / kRowsALane][r] = pair_of((first + i) * kRowsALane + n, r);
        }
#pragma unroll
        for (int n = 0; n < kTogether * kRowsALane; ++n) {
          const int r = n % kRowsALane, tile = n / kRowsALane;
#pragma unroll
          for (int c = 0; c < 2; ++c)
            sums[tile][r].of[c] += std::int64_t{here(pv[i + tile][2 * r + c])} * factor[r];
          pair_of((first + i) * kRowsALane + n, r) = sums[tile][r];
        }
      }
    };
    each([&](int n, int) -> Pair& { return window(n); }, factor_);
    // Rows that add to their window add 0 to another bin here, whatever it holds.
    if (any_other_) [[unlikely]]
      each([&](int n, int r) -> Pair& { return local_.others[other_[r]][n]; }, other_factor_);
  }

  /// Puts totals in the place of windows.
  __device__ __forceinline__ void close(const LaneRow<S> (&rows)[kRowsALane]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::int32_t contents = from_row(rows[0].own.window.contents(), r);
#pragma unroll 1
      for (int n = r; n < kPairs; n += kRowsALane) {
        Pair sums = window(n);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          std::int64_t others[Window::kOthers];
#pragma unroll
          for (int i = 0; i < Window::kOthers; ++i) others[i] = local_.others[i][n].of[c];
          sums.of[c] = Window::total(contents, sums.of[c], others);
        }
        window(n) = sums;
      }
    }
  }
  /// Of the lane's row r, channels of its columns.
  __device__ __forceinline__ Pair& sums(int tile, int r) { return window(tile * kRowsALane + r); }

 private:
  __device__ __forceinline__ Pair& window(int n) {
    if constexpr (kInShared)
      return shared_.window[n][threadIdx.x % kLanes];
    else
      return local_.window[n];
  }

  /// x, widened where it is used: a product of numbers that were widened elsewhere is four.
  static __device__ __forceinline__ std::int32_t here(std::int32_t x) {
    asm("" : "+r"(x));
    return x;
  }

  /// Sums move down; what was not in use may be anything after it too.
  __device__ __forceinline__ void move(const typename Window::Entry& entry) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::int32_t moved = from_row(entry.moved, r);
      if (moved == 0) continue;
#pragma unroll 1
      for (int n = r; n < kPairs; n += kRowsALane) {
        local_.others[1][n] = moved == 1 ? local_.others[0][n] : window(n);
        local_.others[0][n] = window(n);
        window(n) = {};
      }
    }
  }

  __device__ __forceinline__ void open_others(const typename Window::Entry& entry) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      other_[r] = from_row(entry.other, r), other_factor_[r] = from_row(entry.other_factor, r);
      if (!from_row(std::int32_t{entry.opens}, r)) continue;
#pragma unroll 1
      for (int n = r; n < kPairs; n += kRowsALane) local_.others[other_[r]][n] = {};
    }
  }

  Shared& shared_;
  Local& local_;
  std::int32_t factor_[kRowsALane], other_factor_[kRowsALane], other_[kRowsALane];
  bool any_other_;
};

}  // namespace octet::cuda::attn
