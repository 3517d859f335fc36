// The attention kernel of Hopper's family: one block of threads a tile of query rows of one head. A warpgroup
// copies K and V of one key block after the other into rings of buffers; two to four others multiply 64 rows
// each by wgmma, whose accumulators lie as those of mma.sync do, so that softmax, masks, outputs and ends are
// the same text (cuda/attn). sm_90a.
//
// Inside a warpgroup nothing overlaps: Q K^T, softmax, P V and fold follow each other, and scores and sums of
// P V take turns in the registers. The matrix units work for one warpgroup while the others make weights.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/key_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/warpgroup.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/shared_plan.cuh"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

/// A place in a ring of buffers, and the parity of the phase that its barriers are in.
template <int kStages>
struct Place {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

template <class S, Tile kTile>
class Attention {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = OperandTiles<S, kTile>;
  static constexpr int kStages = Shared::kStages, kSets = Shared::kSets, kRows = Shared::kRows;
  static constexpr int kMultiplying = kTile.warpgroups * kWarpgroup;  ///< threads that multiply

  __device__ Attention(const Call& call, Shared& shared)
      : call_(call), shared_(shared), address_(ptx::shared_address(&shared)) {}

  __device__ __forceinline__ void run() {
    if (threadIdx.x == 0) open_barriers();
    __syncthreads();
    ptx::wait_for_earlier_kernels();
    // The last tiles come first: under a causal mask they are the longest.
    const std::int32_t group = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
    constexpr Divider rows(kRows);
    const std::int32_t index = sequence_of_group(call_.queries, group, rows);
    const Sequence queries = sequence_at(call_.queries, index), keys = sequence_at(call_.keys, index);
    const std::int32_t begin = (group - first_group_bound(call_.queries, index, rows)) * kRows;
    if (begin >= queries.length) return;
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y), key_head = head / call_.group;
    const Visibility visibility{call_, queries.length, keys.length};
    const KeyBlocks blocks(call_, visibility, keys, key_head, begin, kRows);
    if (threadIdx.x < kWarpgroup) {
      ptx::give_registers<kRegisters.copying>();
      if (threadIdx.x < kCopying)
        copy_blocks(HeadOperand(call_.k, call_.keys, keys, key_head), blocks);
      else if (threadIdx.x == kCopying)
        tell_of_blocks(blocks);
    } else {
      ptx::take_registers<kRegisters.multiplying>();
      attend_rows(HeadOperand(call_.q, call_.queries, queries, head),
                  HeadOperand(call_.v, call_.keys, keys, key_head), HeadBias(call_, queries.batch, head),
                  visibility, blocks, begin, queries, head);
    }
  }

 private:
  static constexpr int kTiles = kKeys / 8;
  static constexpr Registers kRegisters = registers_of<S>(kTile);
  static constexpr int kAll = 64 * 1024, kFirst = kAll / (kMultiplying + kWarpgroup) / 8 * 8;
  static_assert(kRegisters.copying + kTile.warpgroups * kRegisters.multiplying <=
                    (kTile.warpgroups + 1) * kFirst,
                "who takes registers waits for those that others of the block have given");
  using Rows = LaneRow<S>[kRowsALane];
  using Outputs = typename Shared::Outputs;

  __device__ __forceinline__ std::uint32_t address(const void* member) const {
    return address_ + static_cast<std::uint32_t>(static_cast<const std::byte*>(member) -
                                                 reinterpret_cast<const std::byte*>(&shared_));
  }

  __device__ __forceinline__ void open_barriers() {
    for (int stage = 0; stage < kStages; ++stage) {
      for (Barriers& set : shared_.barriers[stage]) {
        ptx::open_barrier(address(&set.is_copied), kCopying);
        ptx::open_barrier(address(&set.is_full), 1);
        ptx::open_barrier(address(&set.is_free), kMultiplying / 32);
      }
    }
  }

  // --- the warpgroup that copies

  /// Its threads that copy. Another one waits for what they copied and shows it to the matrix units: who
  /// copies would wait for all that it has under way, and who multiplies has no time to.
  static constexpr int kCopying = 64;

  __device__ __forceinline__ void tell_of_blocks(const KeyBlocks& blocks) {
    Place<kStages> at;
#pragma unroll 1
    for (std::int32_t i = blocks.first; i < blocks.end; ++i) {
      for (Barriers& set : shared_.barriers[at.stage]) {
        ptx::wait(address(&set.is_copied), at.parity);
        ptx::show_to_matrix_units();
        ptx::arrive(address(&set.is_full));
      }
      at.next();
    }
  }

  /// Rows of tiles of up to kTileRows rows on their way into shared memory, by all threads that copy.
  template <int kRowBytes, int kTileRows>
  struct RowCopy {
    using Lines = tile::Lines<kRowBytes, kTileRows>;
    static constexpr int kChunks = Lines::kLine / 16, kRowsATurn = kCopying / kChunks,
                         kTurns = kTileRows / kRowsATurn;
    // Eight rows or more a turn, after which the places of chunks repeat.
    static_assert(kRowsATurn % 8 == 0 && kTileRows % kRowsATurn == 0, "a turn is a step of all places");
    const std::byte* from;  ///< the thread's first chunk of the next tile
    std::int64_t row_bytes;

    __device__ __forceinline__ RowCopy(const std::byte* first, std::int64_t row_bytes)
        : from(first + row() * row_bytes + chunk() * 16), row_bytes(row_bytes) {}
    static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kChunks; }
    static __device__ __forceinline__ int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }

    /// The next tile of `rows` rows, as far from the one before as a whole tile of `stride` rows.
    __device__ __forceinline__ void operator()(std::uint32_t to, std::int32_t rows, std::int32_t stride) {
      to += Lines::offset(row(), chunk());
      const std::byte* at = from;
      const std::int32_t left = rows - row();
#pragma unroll 4
      for (int turn = 0; turn < kTurns; ++turn) {
        if (turn * kRowsATurn < left) {
#pragma unroll
          for (int line = 0; line < Lines::kOfRow; ++line)
            ptx::copy_async(to + turn * kRowsATurn * Lines::kLine + line * Lines::kLineBytes,
                            at + line * Lines::kLine);
        }
        at += kRowsATurn * row_bytes;
      }
      from += stride * row_bytes;
    }
  };

  /// K and V of all key blocks, one after the other, each as soon as its buffer is free.
  __device__ __forceinline__ void copy_blocks(const HeadOperand& k, const KeyBlocks& blocks) {
    constexpr int kBytes = Element<S::kQk>::kBytes;
    const bool packed = call_.packed.k != nullptr;
    const std::int32_t stride = packed ? kKeys : std::int32_t{call_.key_block};
    const std::byte* const rows =
        packed ? call_.packed.k + std::int64_t{blocks.first_slot} * kKeys * Tiles::kQkRow
               : static_cast<const std::byte*>(call_.k.codes.data) + k.offset(0, 0) * kBytes;
    const std::int64_t row_bytes = packed ? Tiles::kQkRow : call_.k.codes.stride[2] * kBytes;
    RowCopy<Tiles::kQkRow, kKeys> copy_k(rows + std::int64_t{blocks.first} * stride * row_bytes, row_bytes);
    constexpr std::int64_t kOfV = std::int64_t{kTile.head_dim} * Tiles::kVRow;
    RowCopy<Tiles::kVRow, kTile.head_dim> copy_v(call_.packed.v + (blocks.first_slot + blocks.first) * kOfV,
                                                 Tiles::kVRow);
    Place<kStages> at;
#pragma unroll 1
    for (std::int32_t i = blocks.first; i < blocks.end; ++i) {
      Barriers(&sets)[kSets] = shared_.barriers[at.stage];
      ptx::wait(address(&sets[0].is_free), at.parity ^ 1);
      const KeyBlock block = blocks.at(i);
      copy_k(address(shared_.tiles.buffers[at.stage].k), block.keys, stride);
      copy_constants_of_keys(block, at.stage);
      if constexpr (kSets > 1) {
        ptx::arrive_with_copies(address(&sets[0].is_copied));
        ptx::wait(address(&sets[1].is_free), at.parity ^ 1);
      }
      copy_v(address(shared_.tiles.buffers[at.stage].v), kTile.head_dim, kTile.head_dim);
      copy_constants_of_channels(block, at.stage);
      ptx::arrive_with_copies(address(&sets[kSets - 1].is_copied));
      at.next();
    }
  }

  __device__ __forceinline__ void copy_constants_of_keys(const KeyBlock& block, int stage) const {
    typename Tiles::Constants& constants = shared_.constants[stage];
    constexpr int kKeyBytes = Tiles::Keys::kBytes;
    if constexpr (kKeyBytes > 0)
      copy_bytes<kKeyBytes>(address(constants.keys),
                            call_.packed.keys + std::int64_t{block.slot} * kKeyBytes);
    if constexpr (!std::is_empty_v<typename S::Block>) {
      constexpr int kBytes = sizeof(typename S::Block), kWord = 4;
      static_assert(kBytes % kWord == 0, "constants are words");
      if (const int at = static_cast<int>(threadIdx.x) * kWord; at < kBytes)
        ptx::copy_word_async(address(&constants.block) + at,
                             call_.packed.blocks + std::int64_t{block.slot} * kBytes + at);
    }
  }
  __device__ __forceinline__ void copy_constants_of_channels(const KeyBlock& block, int stage) const {
    if constexpr (!std::is_empty_v<typename S::Channel>) {
      constexpr int kBytes = kTile.head_dim * static_cast<int>(sizeof(typename S::Channel));
      if (call_.packed.channels)
        copy_bytes<kBytes>(address(shared_.constants[stage].channels),
                           call_.packed.channels + std::int64_t{block.slot} * kBytes);
    }
  }
  template <int kBytes>
  static __device__ __forceinline__ void copy_bytes(std::uint32_t to, const std::byte* from) {
    for (int i = static_cast<int>(threadIdx.x) * 16; i < kBytes; i += kCopying * 16)
      ptx::copy_async(to + i, from + i);
  }

  // --- a warpgroup that multiplies

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) - kWarpgroup; }
  /// The same in all lanes, of which the compiler is told: it keeps what depends on it alone once a warp.
  static __device__ __forceinline__ int of_warp(int x) { return __shfl_sync(tile::kAllLanes, x, 0); }
  static __device__ __forceinline__ int warpgroup() { return of_warp(thread() / kWarpgroup); }
  static __device__ __forceinline__ int first_row_of_warp() { return thread() / 32 * kRowsAWarp; }

  /// Rows from their first key block to their ends.
  __device__ __forceinline__ void attend_rows(const HeadOperand& q, const HeadOperand& v,
                                              const HeadBias& bias, const Visibility& visibility,
                                              const KeyBlocks& blocks, std::int32_t begin,
                                              const Sequence& queries, std::int32_t head) {
    const S scheme = scheme_of<S>(call_);
    const std::int32_t first_row = begin + first_row_of_warp();
    load_q(q, first_row, queries.length);
    ptx::commit_copies();
    Rows rows;
    float scales[RowScales<S>::kCount];
    scales_of_rows<S>(q, first_row, queries.length, 0).read(scales);
    open_rows(rows, scheme, scales, first_row, 0);
    for (int c = thread(); c < kTile.head_dim; c += kMultiplying)
      shared_.channels[c] = scheme.channel(end_scales(v, min(c, call_.dim_v - 1)));
    ptx::wait_copies<0>();
    ptx::show_to_matrix_units();
    constexpr int kFirstOfWarpgroups = 2;  // barriers 0 and 1 are of all
    ptx::sync_threads(kFirstOfWarpgroups + warpgroup(), kWarpgroup);

    Outputs outputs(shared_.of_outputs);
    visit_blocks(rows, outputs, scheme, bias, visibility, blocks, begin);
    close_rows(rows);
    constexpr int kOfProducts = 1;
    // Nobody reads the tiles any more, whose place the rows take.
    ptx::sync_threads(kOfProducts, kMultiplying);
    ptx::let_the_next_kernel_start();
    const RowStore store(call_, queries, head);
    StagedRow<kTile.head_dim>* staged = shared_.outputs + first_row_of_warp();
    const auto ends = end_rows(scheme, outputs, rows, shared_.channels, store, staged);
    __syncwarp();
    store.template rows<kRowsAWarp>(staged, first_row, queries.length, call_.dim_v);
    store_ends<kRowsALane>(scheme, rows, ends, store, queries.length);
  }

  /// The warp's rows of Q into shared memory, padded by zeros; rows beyond the sequence are zeros.
  __device__ __forceinline__ void load_q(const HeadOperand& q, std::int32_t first_row, std::int32_t tokens) {
    constexpr int kBytes = Element<S::kQk>::kBytes, kElements = 16 / kBytes, kChunks = Tiles::kQkRow / 16;
    const DeviceOperand& x = q.operand();
    std::byte* const tile = shared_.tiles.q[warpgroup()];
    const int first_of_warp = first_row_of_warp() % kRowsAWarpgroup;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x % 32); i < kRowsAWarp * kChunks; i += 32) {
      const int row = i / kChunks, chunk = i % kChunks;
      const std::int32_t token = first_row + row, first = chunk * kElements;
      const std::uint32_t offset = Tiles::Q::offset(first_of_warp + row, chunk);
      if (call_.q_in_chunks) {
        const std::int64_t at = q.offset(min(token, tokens - 1), min(first, x.dim - kElements));
        ptx::copy_async_or_zeros(address(tile) + offset,
                                 static_cast<const std::byte*>(x.codes.data) + at * kBytes,
                                 token < tokens && first < x.dim ? 16 : 0);
        continue;
      }
      Elements<S::kQk, 16> element{};
#pragma unroll 1
      for (int c = 0; c < kElements && first + c < x.dim && token < tokens; ++c)
        element.of[c] = element_of<S::kQk>(q.number(token, first + c));
      *reinterpret_cast<uint4*>(tile + offset) = __builtin_bit_cast(uint4, element);
    }
  }

  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                               const HeadBias& bias, const Visibility& visibility,
                                               const KeyBlocks& blocks, std::int32_t begin) {
    const int warpgroup = this->warpgroup();
    const SeenByRows by_warpgroup(visibility, bias, blocks, kKeys, begin + warpgroup * kRowsAWarpgroup,
                                  kRowsAWarpgroup);
    const SeenByRows by_warp(visibility, bias, blocks, kKeys, begin + first_row_of_warp(), kRowsAWarp);
    const std::int32_t first = of_warp(blocks.first), end = of_warp(blocks.end);
    const std::uint32_t q =
        Tiles::Q::low_word(address(shared_.tiles.q[0])) +
        static_cast<std::uint32_t>(warpgroup) * (sizeof(shared_.tiles.q[0]) / Tiles::Q::kUnit);
    const std::uint32_t k = Tiles::K::low_word(address(shared_.tiles.buffers[0].k)),
                        v = Tiles::V::low_word(address(shared_.tiles.buffers[0].v));
    constexpr std::uint32_t kOfBuffer = sizeof(typename Tiles::Buffer) / Tiles::K::kUnit;
    Place<kStages> at;
#pragma unroll 1
    for (std::int32_t i = first; i < end; ++i) {
      const bool sees = by_warpgroup.some.has(i);
      Barriers(&sets)[kSets] = shared_.barriers[at.stage];
      ptx::wait(address(&sets[0].is_full), at.parity);
      PWords<S, kTiles> p{};  // note: left as it is, registers keep it through the loop, as in mma/attend.cuh
      const std::uint32_t buffer = at.stage * kOfBuffer;
      if (sees) {
        typename S::Acc acc[kTiles][4];
        multiply_qk(acc, q, k + buffer);
        const auto& constants = shared_.constants[at.stage];
        weigh_block<Masses::of_lane, kKeys>(acc, p, rows, scheme, call_, constants.keys, constants.block,
                                            blocks.at(i), visibility, bias,
                                            tile::opaque(by_warp.whole.has(i)));
      }
      if constexpr (kSets > 1) {
        release(sets[0]);
        ptx::wait(address(&sets[1].is_full), at.parity);
      }
      if (sees)
        outputs.template add<typename Tiles::V>(
            scheme, rows, p, v + buffer,
            call_.packed.channels ? shared_.constants[at.stage].channels : nullptr);
      release(sets[kSets - 1]);
      at.next();
    }
  }

  __device__ __forceinline__ void release(Barriers& set) const {
    __syncwarp();
    ptx::arrive_if(threadIdx.x % 32 == 0, address(&set.is_free));
  }

  static __device__ __forceinline__ void multiply_qk(typename S::Acc (&acc)[kTiles][4], std::uint32_t q,
                                                     std::uint32_t k) {
    constexpr auto kStart = start_of_sums<S>();
    if constexpr (kStart != 0) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][e] = kStart;
    }
    ptx::pin(acc);
    ptx::begin_products();
#pragma unroll
    for (int step = 0; step < Tiles::kQkRow / 32; ++step)
      ptx::multiply_shared<S::kQk>(acc, Tiles::Q::descriptor(q + Tiles::Q::step(0, step)),
                                   Tiles::K::descriptor(k + Tiles::K::step(0, step)),
                                   step == 0 && kStart == 0 ? ptx::Start::zero : ptx::Start::sums);
    ptx::commit_products();
    ptx::wait_products<0>();
    ptx::pin(acc);
  }

  const Call& call_;
  Shared& shared_;
  const std::uint32_t address_;  ///< of what is shared
};

/// kIndex: of the tile. note: nvcc 13 writes no host code for kernels that are templates of a struct's value.
template <class S, int kIndex>
__global__ void __launch_bounds__((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup, 1)
    attend(const __grid_constant__ Call call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  constexpr Tile kTile = tile_of<S>(kIndex);
  Attention<S, kTile>(call, *reinterpret_cast<SharedPlan<S, kTile>*>(memory)).run();
#endif
}

}  // namespace octet::cuda::wgmma
