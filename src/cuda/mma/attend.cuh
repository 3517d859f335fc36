// The attention kernel of the mma.sync family: one block of threads a tile of query rows of one head, sixteen
// rows a warp, all key blocks one after the other. Any scheme of the contract, on sm_80 and newer.
//
// K of the next key block is copied while the softmax and P V of this one run, V while Q K^T does, each into
// one buffer; constants of keys have two, for the softmax reads them meanwhile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/attn/softmax.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/mma/products.cuh"
#include "cuda/mma/tile.h"
#include "cuda/ptx/cp_async.cuh"

namespace octet::cuda::mma {

using namespace attn;

/// What a block of threads holds of the operands; q is last, of which fewer warps need less.
template <class S, Tile kTile>
struct SharedTiles {
  static constexpr int kQkRow = kTile.head_dim * Element<S::kQk>::kBytes;  // bytes
  static constexpr int kVRow = kTile.keys * Element<S::kV>::kBytes;
  alignas(128) std::byte k[kTile.keys * kQkRow];
  alignas(128) std::byte v[kTile.head_dim * kVRow];
  alignas(16) typename S::Key keys[2][kTile.keys];
  alignas(128) std::byte q[kMostWarps * kRowsAWarp * kQkRow];
};

/// Shared memory of a block of threads: the operands' tiles, and the rows on their way out after them; behind
/// them what warps keep of their outputs, if anything.
template <class S, Tile kTile>
struct SharedPlan {
  using Sums = typename Outputs<S, kTile.head_dim / 8>::Shared;

  typename S::Channel
      channels[kTile.head_dim];  ///< constants of the key block's channels, at last of the row's
  union {
    SharedTiles<S, kTile> tiles;
    float outputs[kMostWarps * kRowsAWarp][kTile.head_dim];
  };

  static OCTET_HD std::size_t bytes_before_sums(int warps) {
    const auto fewer = static_cast<std::size_t>(kMostWarps - warps) * kRowsAWarp;
    const std::size_t operands = sizeof(tiles) - fewer * SharedTiles<S, kTile>::kQkRow;
    const std::size_t rows = sizeof(outputs) - fewer * sizeof(outputs[0]);
    return offsetof(SharedPlan, tiles) + (operands > rows ? operands : rows);
  }
  static std::size_t bytes(int warps) {
    constexpr std::size_t kOfWarp = std::is_empty_v<Sums> ? 0 : sizeof(Sums);
    return bytes_before_sums(warps) + static_cast<std::size_t>(warps) * kOfWarp;
  }
  __device__ __forceinline__ Sums& sums(int warps, int warp) {
    static_assert(sizeof(tiles) % alignof(Sums) == 0 &&
                      kRowsAWarp * SharedTiles<S, kTile>::kQkRow % alignof(Sums) == 0 &&
                      sizeof(outputs[0]) % alignof(Sums) == 0,
                  "what stands before the sums leaves them aligned");
    return reinterpret_cast<Sums*>(reinterpret_cast<std::byte*>(this) + bytes_before_sums(warps))[warp];
  }
};

template <class S, Tile kTile>
class Attention {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = SharedTiles<S, kTile>;

  __device__ Attention(const Call& call, Shared& shared)
      : call_(call),
        shared_(shared),
        rows_a_block_(Divider::power_of_two(kLog2RowsAWarp + static_cast<std::int32_t>(blockDim.x) / 64)),
        scheme_(scheme_of<S>(call)) {}

  __device__ __forceinline__ void run() {
    // The last tiles come first: under a causal mask they are the longest.
    const std::int32_t group = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
    const std::int32_t index = sequence_of_group(call_.queries, group, rows_a_block_);
    const Sequence queries = sequence_at(call_.queries, index), keys = sequence_at(call_.keys, index);
    const std::int32_t begin =
        (group - first_group_bound(call_.queries, index, rows_a_block_)) * rows_a_block_;
    if (begin >= queries.length) return;
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    const HeadOperand q(call_.q, call_.queries, queries, head);
    const HeadOperand k(call_.k, call_.keys, keys, head / call_.group);
    const HeadOperand v(call_.v, call_.keys, keys, head / call_.group);
    const HeadBias bias(call_.bias, queries.batch, head);

    load_q(q, begin, queries.length);
    std::int32_t above = octaves_above(keys.length);
    while (!attend_rows(q, k, v, bias, begin, queries, keys, above)) above = 0;
  }

 private:
  using Key = typename S::Key;
  using Block = typename S::Block;
  static constexpr int kTiles = kTile.keys / 8;

  /// A key block: its keys, counted within the sequence, and where its constants and V are packed.
  struct KeyBlock {
    std::int32_t number, begin, keys, slot;
  };

  /// Where the rows of K lie: packed, or as they were given.
  struct KeyRows {
    const std::byte* first;
    std::int64_t block_bytes, row_bytes;  ///< from a key block, and from a key, to the next
  };
  __device__ __forceinline__ KeyRows key_rows(const HeadOperand& k, std::int32_t first_slot) const {
    constexpr int kBytes = Element<S::kQk>::kBytes;
    if (call_.packed.k) {
      const std::int64_t block_bytes = std::int64_t{kTile.keys} * Tiles::kQkRow;
      return {call_.packed.k + first_slot * block_bytes, block_bytes, Tiles::kQkRow};
    }
    const std::int64_t row_bytes = call_.k.codes.stride[2] * kBytes;
    return {static_cast<const std::byte*>(call_.k.codes.data) + k.offset(0, 0) * kBytes,
            call_.key_block * row_bytes, row_bytes};
  }

  /// What the windows of rows' sums begin with (integer_window.h).
  __device__ __forceinline__ std::int32_t octaves_above(std::int32_t keys) const {
    if constexpr (LongRows<S>)
      return S::Window::octaves_above((keys + call_.key_block - 1) / call_.key_block);
    else
      return 0;
  }

  /// Rows from their first key block to their ends; whether these were reached, or sums have to be parted.
  __device__ __forceinline__ bool attend_rows(const HeadOperand& q, const HeadOperand& k,
                                              const HeadOperand& v, const HeadBias& bias, std::int32_t begin,
                                              const Sequence& queries, const Sequence& keys,
                                              std::int32_t above) {
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    LaneRow<S> rows[kRowsALane];
    typename Outputs<S, kTile.head_dim / 8>::Local local;
    Outputs<S, kTile.head_dim / 8> outputs(
        shared_.sums(static_cast<int>(blockDim.x) / 32, static_cast<int>(threadIdx.x) / 32), local);
    open_rows(rows, q, begin, queries, keys);
    if constexpr (LongRows<S>) rows[0].own.above = above;
    visit_blocks(rows, outputs, k, v, bias, begin, queries, keys, head / call_.group);
    if constexpr (LongRows<S>) {
      if (__syncthreads_or(rows[0].own.window.mixed_up())) return false;
    } else {
      __syncthreads();  // nobody reads the tiles any more, whose place the rows take
    }
    put_channels([&](std::int32_t channel) { return end_channel(scheme_, v, channel); });
    __syncthreads();
    float(*staged)[kTile.head_dim] = shared_.outputs + first_row_of_warp();
    const RowStore store(call_, queries, head);
    const auto ends = end_rows(scheme_, outputs, rows, shared_.channels, store, staged);
    __syncwarp();
    store.rows(staged, begin + first_row_of_warp(), queries.length, call_.dim_v);
    store_ends(scheme_, rows, ends, store, queries.length);
    return true;
  }

  /// The same flag, of which the compiler does not know that a loop leaves it as it is: it would have a copy
  /// of the loop for each value.
  static __device__ __forceinline__ bool opaque(bool flag) {
    std::int32_t word = flag;
    asm volatile("" : "+r"(word));
    return word != 0;
  }

  __device__ __forceinline__ void open_rows(LaneRow<S> (&rows)[kRowsALane], const HeadOperand& q,
                                            std::int32_t begin, const Sequence& queries,
                                            const Sequence& keys) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      LaneRow<S>& row = rows[r];
      row.token = begin + first_row_of_warp() + static_cast<int>(threadIdx.x % 32) / 4 + 8 * r;
      const bool exists = row.token < queries.length;
      if constexpr (!LongRows<S>)
        row.row = scheme_.row(q.token_scale(exists ? row.token : queries.length - 1));
      row.visible = exists ? visible_range(call_, row.token, queries.length, keys.length) : KeyRange{0, 0};
    }
    if constexpr (LongRows<S>) {
      const std::int32_t token = rows[0].token + 8 * own_row<kRowsALane>();
      rows[0].own.row = scheme_.row(q.token_scale(min(token, queries.length - 1)));
    }
  }

  /// Rows of Q in shared memory, padded by zeros; rows beyond the sequence are zeros.
  __device__ __forceinline__ void load_q(const HeadOperand& q, std::int32_t begin, std::int32_t tokens) {
    constexpr int kChunks = Tiles::kQkRow / 16, kElements = 16 / Element<S::kQk>::kBytes;
    const DeviceOperand& x = q.operand();
    const bool whole = x.codes.dtype == native_dtype<S::kQk>() && x.dim % kElements == 0 &&
                       is_in_chunks(x.codes, Element<S::kQk>::kBytes);
    for (int i = static_cast<int>(threadIdx.x); i < rows_a_block_ * kChunks;
         i += static_cast<int>(blockDim.x)) {
      const int row = i / kChunks, chunk = i % kChunks;
      const std::int32_t token = begin + row;
      uint4 words{};
      if (token < tokens && chunk * kElements < x.dim) {
        if (whole) {
          words =
              *reinterpret_cast<const uint4*>(static_cast<const std::byte*>(x.codes.data) +
                                              q.offset(token, chunk * kElements) * Element<S::kQk>::kBytes);
        } else {
          Elements<S::kQk, 16> element{};
#pragma unroll 1
          for (int c = 0; c < kElements && chunk * kElements + c < x.dim; ++c)
            element.of[c] = element_of<S::kQk>(q.number(token, chunk * kElements + c));
          words = __builtin_bit_cast(uint4, element);
        }
      }
      *reinterpret_cast<uint4*>(shared_.tiles.q + tile::chunk_offset<Tiles::kQkRow>(row, chunk)) = words;
    }
  }

  __device__ __forceinline__ void visit_blocks(LaneRow<S> (&rows)[kRowsALane],
                                               Outputs<S, kTile.head_dim / 8>& outputs, const HeadOperand& k,
                                               const HeadOperand& v, const HeadBias& bias, std::int32_t begin,
                                               const Sequence& queries, const Sequence& keys,
                                               std::int32_t head) {
    const Divider size = call_.key_block;
    const std::int32_t last = min(begin + rows_a_block_, queries.length) - 1;
    const KeyRange first_sees = visible_range(call_, begin, queries.length, keys.length);
    const KeyRange last_sees = visible_range(call_, last, queries.length, keys.length);
    const std::int32_t first_block = first_sees.begin / size, end_block = (last_sees.end + size - 1) / size;
    const std::int32_t slot =
        head * call_.packed.blocks_per_head + first_group_bound(call_.keys, keys.index, size);
    const auto block_at = [&](std::int32_t i) -> KeyBlock {
      const std::int32_t count = min(size, keys.length - i * size);
      return {i, i * size, count, slot + i};
    };
    // What the warp's own rows see: under a causal mask less than the tile's.
    const std::int32_t own = begin + first_row_of_warp();
    const bool has_rows = own < queries.length;
    const KeyRange own_first =
        has_rows ? visible_range(call_, own, queries.length, keys.length) : KeyRange{0, 0};
    const KeyRange own_last = has_rows ? visible_range(call_, min(own + kRowsAWarp, queries.length) - 1,
                                                       queries.length, keys.length)
                                       : KeyRange{0, 0};

    // V's scales that a block's sums meet, for they vary along tokens and P does not carry them.
    const bool by_block = v.scales_vary_by_token() && !v.template scales_in_p<S>();
    const KeyRows k_rows = key_rows(k, slot);
    if (first_block < end_block) load_k(k_rows, block_at(first_block), first_block & 1);
    ptx::commit_copies();
#pragma unroll 1
    for (std::int32_t i = first_block; i < end_block; ++i) {
      const KeyBlock block = block_at(i);
      ptx::wait_copies<0>();
      __syncthreads();  // K is there, and nobody reads V of the block before any more
      load_v(block);
      ptx::commit_copies();
      if (opaque(by_block))
        put_channels([&](std::int32_t c) { return scheme_.channel({v.scale(block.begin, c), 0}); });
      const bool sees = has_rows && own_first.begin < block.begin + block.keys && own_last.end > block.begin;
      typename S::Acc acc[kTiles][4];
      if (sees)
        multiply_qk<S::kQk, Tiles::kQkRow>(acc, ptx::shared_address(shared_.tiles.q), first_row_of_warp(),
                                           ptx::shared_address(shared_.tiles.k));
      __syncthreads();  // nobody reads K any more
      if (i + 1 < end_block) load_k(k_rows, block_at(i + 1), (i + 1) & 1);
      ptx::commit_copies();
      PWords<S, kTiles> p;
      if (sees) {
        const Block constants = block_constants(block);
        const bool has_bias = opaque(bias.any());
        const bool whole = !has_bias && block.keys == kTile.keys && own_last.begin <= block.begin &&
                           own_first.end >= block.begin + block.keys;
        using Softmax = BlockSoftmax<S, kTiles>;
        const Key* of_keys = shared_.tiles.keys[i & 1];
        typename S::View view[kRowsALane];
        typename S::Score score[kTiles][4];
        Hidden hidden;
        if (whole) {
          rows[0].sees = rows[1].sees = true;
        } else if (!has_bias) {
          hidden = hidden_by_range<S, kTiles>(block.begin, block.keys, rows);
          if constexpr (S::kUsesRowPeak) Softmax::hide(acc, hidden);
        }
        if (has_bias) {
          const BlockBias<S, kTiles> added(scheme_, bias, block.begin, block.keys, rows);
          hidden = added.hidden;
          if constexpr (S::kUsesRowPeak) Softmax::hide(acc, hidden);
          Softmax::score(scheme_, acc, of_keys, constants, rows, view, score,
                         [&](int tile, int e) { return added.of[tile * 4 + e]; });
        } else {
          const typename S::Bias none{};  // bias(0), without its arithmetic
          Softmax::score(scheme_, acc, of_keys, constants, rows, view, score, [&](int, int) { return none; });
        }
        if (!whole) Softmax::hide(score, hidden);
        Softmax::run(scheme_, score, of_keys, view, rows, p, hidden, size - block.keys);
      }
      ptx::wait_copies<1>();
      __syncthreads();  // V is there
      if (sees) fold_values(rows, outputs, p, by_block);
    }
  }

  /// P V of the block into the outputs, 64 channels at a time.
  __device__ __forceinline__ void fold_values(const LaneRow<S> (&rows)[kRowsALane],
                                              Outputs<S, kTile.head_dim / 8>& outputs,
                                              const PWords<S, kTiles>& p, bool by_block) {
    constexpr int kSome = kTile.head_dim / 8 < 8 ? kTile.head_dim / 8 : 8;
    outputs.open(rows);
#pragma unroll
    for (int first = 0; first < kTile.head_dim / 8; first += kSome) {
      typename S::PvAcc pv[kSome][4];
      multiply_pv<S::kP, S::kV, Tiles::kVRow>(pv, p.word, ptx::shared_address(shared_.tiles.v), first);
      const typename S::Channel unit = scheme_.channel({});
      if constexpr (LongRows<S>)
        outputs.fold(first, pv);
      else if (opaque(by_block))
        outputs.fold(scheme_, first, pv, rows,
                     [&](int tile, int c) { return shared_.channels[channel_of_lane(tile, c)]; });
      else
        outputs.fold(scheme_, first, pv, rows, [&](int, int) { return unit; });
    }
  }

  __device__ __forceinline__ void load_k(const KeyRows& k, const KeyBlock& block, int buffer) {
    constexpr int kChunks = Tiles::kQkRow / 16;
    const std::uint32_t to = ptx::shared_address(shared_.tiles.k);
    for (int i = static_cast<int>(threadIdx.x); i < block.keys * kChunks; i += static_cast<int>(blockDim.x)) {
      const int row = i / kChunks, chunk = i % kChunks;
      const std::byte* from = k.first + block.number * k.block_bytes + row * k.row_bytes + chunk * 16;
      ptx::copy_async(to + tile::chunk_offset<Tiles::kQkRow>(row, chunk), from);
    }
    if constexpr (!std::is_empty_v<Key>) {
      const std::byte* from = call_.packed.keys + std::int64_t{block.slot} * kTile.keys * sizeof(Key);
      const std::uint32_t keys = ptx::shared_address(shared_.tiles.keys[buffer]);
      const int bytes = kTile.keys * static_cast<int>(sizeof(Key));
      for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += static_cast<int>(blockDim.x) * 16)
        ptx::copy_async(keys + i, from + i);
    }
  }

  __device__ __forceinline__ void load_v(const KeyBlock& block) {
    constexpr int kChunks = Tiles::kVRow / 16;
    const std::byte* from = call_.packed.v + std::int64_t{block.slot} * kTile.head_dim * Tiles::kVRow;
    const std::uint32_t to = ptx::shared_address(shared_.tiles.v);
    for (int i = static_cast<int>(threadIdx.x); i < kTile.head_dim * kChunks;
         i += static_cast<int>(blockDim.x)) {
      const int row = i / kChunks, chunk = i % kChunks;
      ptx::copy_async(to + tile::chunk_offset<Tiles::kVRow>(row, chunk),
                      from + row * Tiles::kVRow + chunk * 16);
    }
  }

  __device__ __forceinline__ Block block_constants(const KeyBlock& block) const {
    if constexpr (std::is_empty_v<Block>)
      return {};
    else
      return reinterpret_cast<const Block*>(call_.packed.blocks)[block.slot];
  }

  template <class Of>
  __device__ __forceinline__ void put_channels(const Of& of) {
    // note: unrolled, the loop would divide by its step.
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x); c < kTile.head_dim; c += static_cast<int>(blockDim.x))
      shared_.channels[c] = of(min(c, call_.dim_v - 1));
  }

  static __device__ __forceinline__ int channel_of_lane(int tile, int c) {
    return tile * 8 + static_cast<int>(threadIdx.x % 4) * 2 + c;
  }
  static __device__ __forceinline__ int first_row_of_warp() {
    return static_cast<int>(threadIdx.x) / 32 * kRowsAWarp;
  }

  const Call& call_;
  Shared& shared_;
  // 1, 2 or 4 warps: half of them is the logarithm.
  static_assert(kMostWarps == 4, "the logarithm of 8 is not half of it");
  const Divider rows_a_block_;
  const S scheme_;
};

/// Blocks of threads that a processor's registers hold; the compiler gives each thread what that leaves it.
/// Long rows spill beside a third block, and took 13 % longer (`integer`, 4 x 32 x 4096 x 64, H200).
template <class S>
constexpr int blocks_a_processor(const Tile& tile) {
  if (tile.head_dim > 128) return 1;
  return tile.head_dim > 64 || LongRows<S> ? 2 : 3;
}

/// kIndex: of the tile. note: nvcc 13 writes no host code for kernels that are templates of a struct's value.
template <class S, int kIndex>
__global__ void __launch_bounds__(kMostWarps * 32, blocks_a_processor<S>(kTileTable[kIndex]))
    attend(const __grid_constant__ Call call) {
  extern __shared__ __align__(128) std::byte memory[];
  constexpr Tile kTile = kTileTable[kIndex];
  Attention<S, kTile>(call, *reinterpret_cast<SharedPlan<S, kTile>*>(memory)).run();
}

}  // namespace octet::cuda::mma
