// The attention kernel of the mma.sync family: one block of threads a tile of query rows of one head, sixteen
// rows a warp, all its key blocks one after the other. Any scheme of the contract, on sm_80 and newer.
//
// While a key block is computed the next one's K, V and constants are copied into buffers of their own; where
// those do not fit beside each other, K of the next block while the softmax and P V of this one run, and V
// while Q K^T does. Where keys are cut in parts, the warps of each have a buffer and every other key block.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/key_block.cuh"
#include "cuda/attn/key_parts.cuh"
#include "cuda/attn/merge_in_cluster.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/attn/softmax.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/mma/loads.cuh"
#include "cuda/mma/parked.cuh"
#include "cuda/mma/products.cuh"
#include "cuda/mma/shared_plan.cuh"
#include "cuda/mma/tile.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/threads.cuh"

namespace octet::cuda::mma {

using namespace attn;

template <class S, Tile kTile>
class Attention : protected Loads<S, kTile> {
  using Base = Loads<S, kTile>;

 public:
  using Base::kParts, Base::kTwoBuffers, Base::kParksKnown, Base::kMayHaveRanges;
  using typename Base::Queries;
  using typename Base::Shared;
  using typename Base::Tiles;
  static_assert(kParts == 1 || Tiles::kKeepsKeys ||
                    ((MergesParts<S> || kTile.lone_blocks > 0) && kTwoBuffers && kParts == 2),
                "each part has a buffer");

  __device__ Attention(const Call& call, Shared& shared)
      : Base(call, shared), known_(shared.known), rows_(shared.rows), scheme_(scheme_of<S>(call)) {}

  __device__ __forceinline__ void run() {
    with_rows([&](const Queries& q, const HeadOperand& k, const HeadOperand& v, const HeadBias& bias,
                  std::int32_t begin, const Sequence& queries, const Sequence& keys,
                  const BlockRange& range) {
      std::int32_t above = octaves_above(keys.length);
      while (!attend_rows(q, k, v, bias, begin, queries, keys, range, above)) above = 0;
    });
  }

 protected:
  /// body() of the operands of the block of threads' head, the bias, its first row, the sequences and the key
  /// blocks that it may see.
  template <class Body>
  __device__ __forceinline__ void with_rows(const Body& body) {
    // The last tiles come first: under a causal mask they are the longest.
    const std::int32_t group = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
    const std::int32_t index = sequence_of_group(call_.queries, group, rows_a_block_);
    const Sequence queries = sequence_at(call_.queries, index), keys = sequence_at(call_.keys, index);
    const std::int32_t begin =
        (group - first_group_bound(call_.queries, index, rows_a_block_)) * rows_a_block_;
    if (begin >= rows_of(queries.length)) return;
    BlockRange range{0, kNoEnd};
    if (has_ranges()) [[unlikely]] {
      const auto number = static_cast<std::int32_t>(blockIdx.z);
      range = range_of(call_, visible_blocks(call_, queries.length, keys.length), number);
      // The first one ends the rows of a sequence that sees no key; of a cluster all come to its end.
      if (number > 0 && range.begin >= range.end && !call_.ranges.are_cluster) return;
    }
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    const Queries q(call_, queries, head);
    const HeadOperand k(call_.k, call_.keys, keys, head / call_.group);
    const HeadOperand v(call_.v, call_.keys, keys, head / call_.group);
    const HeadBias bias(call_, queries.batch, head);
    body(q, k, v, bias, begin, queries, keys, range);
  }

  static constexpr int kTiles = kTile.computed / 8;
  static constexpr bool kParksRows = Shared::kKeepsRows == Keeps::in_shared_memory;
  using Rows = LaneRow<S>[kRowsALane];
  using Base::address_of_k, Base::address_of_v, Base::place_of_v, Base::warp;
  using Base::call_, Base::shared_, Base::thread_, Base::copies_, Base::reads_, Base::rows_a_block_;
  using Base::copy_places, Base::query_rows_of, Base::load_q, Base::load_k, Base::load_v, Base::load_block;
  using Base::rows_of_v, Base::first_row_of_warp, Base::flipped_rows;
  using typename Base::CopyPlaces;
  using typename Base::QueryRows;
  using typename Base::Threads;

  __device__ __forceinline__ bool has_ranges() const {
    if constexpr (kMayHaveRanges)
      return call_.has_ranges;
    else
      return false;
  }
  static constexpr std::int32_t kNoEnd = 0x7fffffff;
  /// Rows of so many tokens.
  __device__ __forceinline__ std::int32_t rows_of(std::int32_t tokens) const {
    if constexpr (kMayHaveRanges)
      return tokens * call_.queries.rows_a_token;
    else
      return tokens;
  }
  /// The tokens of rows `first` and on, `rows` of them.
  struct Tokens {
    std::int32_t begin, count;
  };
  __device__ __forceinline__ Tokens tokens_of(std::int32_t first, std::int32_t rows) const {
    if (!has_ranges()) [[likely]]
      return {first, rows};
    const std::int32_t begin = first / call_.queries.rows_a_token;
    return {begin, (first + rows - 1) / call_.queries.rows_a_token - begin + 1};
  }
  /// Tokens of rows, where these were numbered.
  __device__ __forceinline__ void to_tokens(Rows& rows) const {
    if (!has_ranges()) [[likely]]
      return;
#pragma unroll
    for (LaneRow<S>& row : rows) row.token = row.token / call_.queries.rows_a_token;
  }

  /// What the windows of rows' sums begin with (integer_window.h).
  __device__ __forceinline__ std::int32_t octaves_above(std::int32_t keys) const {
    if constexpr (LongRows<S>)
      return S::Window::octaves_above((keys + call_.key_block - 1) / call_.key_block);
    else
      return 0;
  }

  /// Rows from their first key block to their ends; whether these were reached, or sums have to be parted.
  __device__ __forceinline__ bool attend_rows(const Queries& q, const HeadOperand& k, const HeadOperand& v,
                                              const HeadBias& bias, std::int32_t begin,
                                              const Sequence& queries, const Sequence& keys,
                                              const BlockRange& range, std::int32_t above) {
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y), count = rows_of(queries.length);
    Rows rows;
    typename Outputs<S, kTile.head_dim / 8>::Local local;
    Outputs<S, kTile.head_dim / 8> outputs(shared_.sums(blockDim.x / 32, threadIdx.x / 32), local);
    RowScales<S> row_scales;
    q.visit([&](const auto& rows_of_q) {
      row_scales = scales_of_rows<S>(rows_of_q, begin + first_row_of_warp(), count, flipped_rows());
    });
    const QueryRows query_rows = query_rows_of(q, begin, count);
    EndScalesAt of_channel;
    if constexpr (kParts > 1) of_channel = EndScalesAt(v, min(Threads::number(), call_.dim_v - 1));
    ChannelScales<DeviceLane> channel_scales;
    float scales[RowScales<S>::kCount];
    const auto read = [&] {
      row_scales.read(scales);
      if constexpr (kParts > 1) channel_scales = of_channel.read();
    };
    const auto prepare = [&] {
      if constexpr (kParts == 1) {
        put_channels(v);
      } else {
        static_assert(kTile.head_dim <= 32 * kParts, "a thread has the constants of one channel");
        if (Threads::number() < kTile.head_dim)
          shared_.channels[Threads::number()] = scheme_.channel(channel_scales);
      }
      open_rows(rows, scheme_, scales, begin + first_row_of_warp(), flipped_rows());
      to_tokens(rows);
      if constexpr (LongRows<S>) rows[0].own.above = above;
    };
    const auto load_rows = [&] { load_q(q, query_rows, begin, count); };
    visit_blocks(rows, outputs, load_rows, read, prepare, k, v, bias, begin, queries, keys, range,
                 head / call_.group);
    if (call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
    if constexpr (kParts > 1) {
      end_parts_of_rows(rows, outputs);
      return true;
    }
    StagedRow<kTile.head_dim>* staged = shared_.outputs + first_row_of_warp();
    // Nobody reads the tiles any more, whose place the rows take.
    if constexpr (LongRows<S>) {
      if (__syncthreads_or(rows[0].own.window.mixed_up())) return false;
    } else {
      __syncthreads();
    }
    const Known known = known_.get(warp());
    const RowStore store = store_of(known);
    if constexpr (kParksKnown) put_tokens(rows, known.begin);
    if constexpr (std::is_empty_v<typename S::Bias>) {
      // Where no bias hides keys, what a row saw is known from where it stands: no register counts blocks.
#pragma unroll
      for (LaneRow<S>& row : rows) {
        KeyRange keys = Visibility{call_, known.queries, known.keys}.of(row.token);
        if constexpr (kMayHaveRanges) {
          const std::int32_t size = call_.key_block;
          keys = {max(keys.begin, known.first * size), min(keys.end, known.end * size)};
        }
        row.blocks_seen = keys.begin < keys.end;
      }
    }
    const auto ends = end_rows(scheme_, outputs, rows, shared_.channels, store, staged);
    if (merges_in_cluster<kRowsALane>(rows, staged, known)) return true;
    __syncwarp();
    const std::int32_t first = known.begin + first_row_of_warp(), all = rows_of(known.queries);
    store.template rows<kRowsAWarp, kWordsTogether<S>>(staged, first, all, call_.dim_v);
    store_ends<kRowsALane>(scheme_, rows, ends, store, first, flipped_rows(), all);
    return true;
  }

  /// The ends of rows of whose keys each of two warps has had its part: each ends and stores eight of them.
  __device__ __forceinline__ void end_parts_of_rows(Rows& rows,
                                                    const Outputs<S, kTile.head_dim / 8>& outputs) {
    constexpr int kRowsAPart = kRowsAWarp / kParts, kOfOther = 1;
    const int part = Threads::part(), first = first_row_of_warp() + part * kRowsAPart;
    StagedRow<kTile.head_dim>* staged = shared_.outputs + first;
    auto& parts = shared_.parts(blockDim.x / 32, threadIdx.x / 32);
    parts.of[part].template put<kOfOther>(outputs, rows[kOfOther]);
    __syncthreads();  // the parts are there, and nobody reads the tiles any more
    const Known known = known_.get(warp());
    const RowStore store = store_of(known);
    if (part == 0)
      end_part<Own::before>(scheme_, outputs, parts.of[1], rows[0], shared_.channels, store, staged);
    else
      end_part<Own::after>(scheme_, outputs, parts.of[0], rows[0], shared_.channels, store, staged);
    if (merges_in_cluster<1>(rows, staged, known)) return;
    __syncwarp();
    const std::int32_t all = rows_of(known.queries);
    store.template rows<kRowsAPart, kWordsTogether<S>>(staged, known.begin + first, all, call_.dim_v);
    store_ends<1>(scheme_, rows, Ends<S>{}, store, known.begin + first_row_of_warp(), flipped_rows(), all);
  }

  /// Whether ranges are a cluster's; then the first kRows of each lane's rows, which the warp has `staged`,
  /// are merged with those of the other ranges.
  template <int kRows>
  __device__ __forceinline__ bool merges_in_cluster(const Rows& rows, StagedRow<kTile.head_dim>* staged,
                                                    const Known& known) {
    if constexpr (kMayHaveRanges && ptx::kHasClusters) {
      if (!call_.ranges.are_cluster) [[likely]]
        return false;
      stage_lses<kRows>(scheme_, rows, staged);
      const std::int32_t count = min(rows_of(known.queries) - known.begin, std::int32_t{rows_a_block_});
      merge_in_cluster(call_, shared_.outputs,
                       StagedTile{known.begin, count, known.batch, static_cast<std::int32_t>(blockIdx.y)},
                       Threads::number(), Threads::count());
      return true;
    } else {
      return false;
    }
  }

  __device__ __forceinline__ RowStore store_of(const Known& known) const {
    std::int32_t batch = known.batch;
    if (has_ranges()) [[unlikely]]
      batch += static_cast<std::int32_t>(blockIdx.z) * call_.ranges.stride;
    return RowStore(call_, Sequence{known.batch, batch, rows_of(known.first_token), known.queries},
                    static_cast<std::int32_t>(blockIdx.y));
  }
  /// The rows' tokens anew, where no register has them. begin: the block of threads' first row.
  __device__ __forceinline__ void put_tokens(Rows& rows, std::int32_t begin) const {
    const int thread = static_cast<int>(tile::kept(threadIdx.x));
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      rows[r].token = begin + thread / 32 * kRowsAWarp + ((thread % 32 / 4 + 8 * r) ^ flipped_rows());
    to_tokens(rows);
  }

  /// load_rows(): Q; read() and prepare(): what rows and their ends need, read before the copies, behind
  /// which it would wait, and used while Q and the first key block are on their way. All threads see both
  /// from the first barrier on.
  template <class LoadRows, class Read, class Prepare>
  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                               const LoadRows& load_rows, const Read& read,
                                               const Prepare& prepare, const HeadOperand& k,
                                               const HeadOperand& v, const HeadBias& bias, std::int32_t begin,
                                               const Sequence& queries, const Sequence& keys,
                                               const BlockRange& range, std::int32_t head) {
    const Visibility visibility{call_, queries.length, keys.length};
    const Tokens of_block = tokens_of(begin, rows_a_block_),
                 of_warp = tokens_of(begin + first_row_of_warp(), kRowsAWarp);
    KeyBlocks blocks(call_, visibility, keys, head, of_block.begin, of_block.count);
    if constexpr (kMayHaveRanges) blocks.keep(range);
    const std::int32_t first_block = blocks.first, end_block = blocks.end;
    const SeenByRows seen(visibility, bias, blocks, kTile.computed, of_warp.begin, of_warp.count);
    const Known known{blocks.first_slot, keys.length,  blocks.end,    begin,         seen.some,
                      seen.whole,        blocks.first, queries.batch, queries.begin, queries.length};
    if (!kParksKnown || threadIdx.x % 32 == 0) known_.set(warp(), known);
    if constexpr (kParksKnown) __syncwarp();
    const CopyPlaces of_first = copy_places(k, v, blocks.first_slot);
    copies_.set(thread_, of_first);
    const KeyBlock first = blocks.at(first_block + Threads::part());
    const std::byte* const first_k = tile::kept(of_first.k_rows + first.number * call_.k_block_bytes);
    const std::byte* const first_v = tile::kept(rows_of_v(of_first, first));
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
    read();
    if (first_block < end_block) {
      if (first.number < end_block) {
        load_k(of_first, first, first_k);
        if constexpr (kTwoBuffers) load_v(of_first, first, first_v);
      }
      load_rows();  // where nothing waits for it, it would come into the rows on their way out
    }
    ptx::commit_copies();
    prepare();
    if constexpr (kParksRows) {
      rows_.set(thread_, {rows[0].row, rows[1].row});
      states().set(thread_, {rows[0].state, rows[1].state});
    }
#pragma unroll 1
    for (std::int32_t i = first_block; i < known_.get(warp()).end; i += kParts) {
      // Behind the last one for the last parts of an uneven number: no row sees a key of it.
      const KeyBlock block = block_at(i + Threads::part());
      const CopyPlaces copies = copies_.get(thread_);
      const bool has_next = i + 1 < known_.get(warp()).end, sees = known_.get(warp()).some.has(block.number);
      ptx::wait_copies<0>();
      __syncthreads();  // what was copied is there, and nobody reads the other buffers any more
      if constexpr (kParts == 1) {
        if constexpr (!kTwoBuffers)
          load_v(copies, block, rows_of_v(copies, block));
        else if (has_next)
          load_block(copies, block_at(i + 1));
        ptx::commit_copies();
      }
      const auto multiply = [&](auto& acc) {
        multiply_qk<S::kQk, Tiles::kQkRow>(acc, Place<Tiles::kQkRow>(reads_.get(thread_).q),
                                           address_of_k(block), Place<Tiles::kQkRow>(reads_.get(thread_).k),
                                           start_of_sums<S>());
      };
      const auto weigh = [&](auto& acc, PWords<S, kTiles>& p) {
        const KeyBlock block = block_at(i + Threads::part());
        const Known& known = known_.get(warp());
        const bool whole = tile::opaque(known.whole.has(block.number));
        if constexpr (kParksKnown) {
          forget_tokens(rows);
          if (!whole) put_tokens(rows, known.begin);
        }
        if constexpr (kParksRows) {
#pragma unroll
          for (int r = 0; r < kRowsALane; ++r) {
            rows[r].row = rows_.get(thread_).of[r];
            rows[r].state = states().get(thread_).of[r];
          }
        }
        weigh_block<Masses::of_quad, kTile.keys>(
            acc, p, rows, scheme_, call_, shared_.tiles.keys[Base::buffer_number(block)],
            block_constants<S>(call_, block), block, Visibility{call_, known.queries, known.keys},
            HeadBias(call_, known.batch, static_cast<std::int32_t>(blockIdx.y)), whole);
        if constexpr (kParksRows) states().set(thread_, {rows[0].state, rows[1].state});
      };
      if constexpr (kTwoBuffers) {
        if (sees) {
          typename S::Acc acc[kTiles][4];
          PWords<S, kTiles> p;
          multiply(acc);
          weigh(acc, p);
          fold_values(rows, outputs, p, block);
        }
      } else {
        // note: zeros where the warp sees nothing. Left as they are, they would take registers all through
        // the loop, for the compiler does not know that who skips one branch skips the others too.
        typename S::Acc acc[kTiles][4];
        PWords<S, kTiles> p{};
        if (sees)
          multiply(acc);
        else
          set_all(acc, typename S::Acc{});
        __syncthreads();  // nobody reads K any more
        if (has_next) {
          const KeyBlock next = block_at(i + 1);
          load_k(copies, next, copies.k_rows + next.number * call_.k_block_bytes);
        }
        ptx::commit_copies();
        if (sees) weigh(acc, p);
        ptx::wait_copies<1>();
        __syncthreads();  // V is there
        if (sees) fold_values(rows, outputs, p, block);
      }
      if constexpr (kParts > 1) {
        if (i + kParts < known_.get(warp()).end) [[unlikely]] {
          __syncthreads();  // nobody reads the buffers any more
          const KeyBlock next = block_at(i + kParts + Threads::part());
          if (next.number < known_.get(warp()).end) load_block(copies_.get(thread_), next);
          ptx::commit_copies();
        }
      }
    }
    if constexpr (kParksRows) {
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) rows[r].state = states().get(thread_).of[r];
    }
  }

  /// note: no member; of other kernels the compiler would spill one word more for it.
  __device__ __forceinline__ auto states() { return typename Shared::StatesByThread(shared_.states); }

  /// Key block `number` of the rows' sequence.
  __device__ __forceinline__ KeyBlock block_at(std::int32_t number) const {
    const Known& known = known_.get(warp());
    const std::int32_t size = call_.key_block, begin = number * size;
    return {number, begin, min(size, known.keys - begin), known.first_slot + number};
  }

  /// P V of the block into the outputs. kKeyTiles: of its keys.
  template <int kKeyTiles>
  __device__ __forceinline__ void fold_values(const Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                              const PWords<S, kKeyTiles>& p, const KeyBlock& block) {
    fold_products(rows, outputs, block, [&](auto& pv, int first) {
      if constexpr (Tiles::kByKeys)
        multiply_pv_by_keys<S::kP, S::kV, Tiles::kVRow>(pv, p.word, address_of_v(block), place_of_v(), first);
      else
        multiply_pv<S::kP, S::kV, Tiles::kVRow>(pv, p.word, address_of_v(block), place_of_v(), first);
    });
  }
  /// The same, so many channels at a time as leave registers for the rest: multiply(pv, first) makes P V of
  /// those from tile `first` on.
  template <class Multiply>
  __device__ __forceinline__ void fold_products(const Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                                const KeyBlock& block, const Multiply& multiply) {
    constexpr bool kFew = kTile.head_dim > 128 || (ptx::kUnpacksE4m3 && S::kV == Operand::e4m3);
    constexpr int kSome = kFew ? 4 : std::min(kTile.head_dim / 8, 8);
    outputs.open(scheme_, rows);
#pragma unroll
    for (int first = 0; first < kTile.head_dim / 8; first += kSome) {
      typename S::PvAcc pv[kSome][4];
      multiply(pv, first);
      const typename S::Channel unit = scheme_.channel({});
      if constexpr (LongRows<S>)
        outputs.fold(first, pv);
      else if (tile::opaque(call_.packed.channels != nullptr)) [[unlikely]]
        outputs.fold(scheme_, first, pv, rows, [&](int tile, int c) {
          return shared_.tiles.channels[Base::buffer_number(block)][channel_of_lane(tile, c)];
        });
      else
        outputs.fold(scheme_, first, pv, rows, [&](int, int) { return unit; });
    }
  }

  /// Constants of all channels for rows' ends, two a thread at a time: both are on their way before either is
  /// waited for.
  __device__ __forceinline__ void put_channels(const HeadOperand& v) {
    constexpr int kSome = 2;
    const int step = Threads::count();
#pragma unroll 1
    for (int first = Threads::number(); first < kTile.head_dim; first += kSome * step) {
      ChannelScales<DeviceLane> scales[kSome];
#pragma unroll
      for (int i = 0; i < kSome; ++i) scales[i] = end_scales(v, min(first + i * step, call_.dim_v - 1));
#pragma unroll
      for (int i = 0; i < kSome; ++i)
        if (first + i * step < kTile.head_dim)
          shared_.channels[first + i * step] = scheme_.channel(scales[i]);
    }
  }

  static __device__ __forceinline__ int channel_of_lane(int tile, int c) {
    return tile * 8 + static_cast<int>(threadIdx.x % 4) * 2 + c;
  }
  typename Shared::KnownByWarp known_;
  typename Shared::RowsByThread rows_;
  const S scheme_;
};

}  // namespace octet::cuda::mma
