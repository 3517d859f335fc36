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
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/attn/softmax.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/mma/copy_rows.cuh"
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
class Attention {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = SharedTiles<S, kTile>;
  static constexpr bool kTwoBuffers = Tiles::kStages == 2;
  static constexpr int kParts = kTile.key_parts;
  static constexpr bool kParksKnown = Shared::kKeepsKnown == Keeps::in_shared_memory,
                        kParksPlaces = Shared::kKeepsPlaces == Keeps::in_shared_memory;
  static_assert(kParts == 1 || ((MergesParts<S> || kTile.lone_blocks > 0) && kTwoBuffers && kParts == 2),
                "each part has a buffer");

  __device__ Attention(const Call& call, Shared& shared)
      : call_(call),
        shared_(shared),
        rows_a_block_(Divider::power_of_two(kLog2RowsAWarp + static_cast<std::int32_t>(blockDim.x / 64))),
        address_(tile::kept(ptx::shared_address(&shared))),
        thread_(kParksKnown ? tile::kept(Threads::number()) : Threads::number()),
        copies_(shared.copies),
        reads_(shared.reads),
        known_(shared.known),
        rows_(shared.rows),
        scheme_(scheme_of<S>(call)) {
    reads_.set(thread_, ReadPlaces{address(shared_.tiles.q) + first_row_of_warp() * Tiles::kQkRow +
                                       Place<Tiles::kQkRow>::of_rows(flipped_rows()).offset(),
                                   Place<Tiles::kQkRow>::of_columns().offset(),
                                   Place<Tiles::kVRow>::of_columns().offset()});
  }

  __device__ __forceinline__ void run() {
    with_rows([&](const HeadOperand& q, const HeadOperand& k, const HeadOperand& v, const HeadBias& bias,
                  std::int32_t begin, const Sequence& queries, const Sequence& keys) {
      std::int32_t above = octaves_above(keys.length);
      while (!attend_rows(q, k, v, bias, begin, queries, keys, above)) above = 0;
    });
  }

 protected:
  /// body() of the operands of the block of threads' head, the bias, its first row and the sequences.
  template <class Body>
  __device__ __forceinline__ void with_rows(const Body& body) {
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
    const HeadBias bias(call_, queries.batch, head);
    body(q, k, v, bias, begin, queries, keys);
  }

  static constexpr int kTiles = kTile.computed / 8;
  using Rows = LaneRow<S>[kRowsALane];
  using Threads = tile::Threads<kParts>;

  /// note: where registers are few, none keeps sums of the address and what is at hand in the loop.
  __device__ __forceinline__ std::uint32_t address(const void* member) const {
    return (kParksKnown ? tile::kept(address_) : address_) +
           static_cast<std::uint32_t>(static_cast<const std::byte*>(member) -
                                      reinterpret_cast<const std::byte*>(&shared_));
  }

  /// Where K and V of a key block lie, in shared memory.
  __device__ __forceinline__ std::uint32_t address_of_k(const KeyBlock& block) const {
    return buffer(address(shared_.tiles.k[0]), sizeof(shared_.tiles.k[0]), block);
  }
  __device__ __forceinline__ std::uint32_t address_of_v(const KeyBlock& block) const {
    return buffer(address(shared_.tiles.v[0]), sizeof(shared_.tiles.v[0]), block);
  }
  /// first: the first buffer's address. note: of one buffer it is always the same, of which the compiler is
  /// not told: registers would keep all that is made of it for the steps of the products, up to twelve words.
  static __device__ __forceinline__ std::uint32_t buffer(std::uint32_t first, std::uint32_t bytes,
                                                         const KeyBlock& block) {
    if constexpr (kTwoBuffers)
      return first + static_cast<std::uint32_t>(block.number & 1) * bytes;
    else
      return tile::kept(first);
  }

  /// The warp's number; where no register has the thread's, made anew.
  __device__ __forceinline__ int warp() const {
    return (kParksPlaces ? thread_ : static_cast<int>(tile::kept(threadIdx.x))) / 32;
  }
  /// Rows of K and V that are as long have the same places in their tiles.
  static constexpr bool kSameRows = Tiles::kQkRow == Tiles::kVRow;
  __device__ __forceinline__ Place<Tiles::kVRow> place_of_v() const {
    return Place<Tiles::kVRow>(kSameRows ? reads_.get(thread_).k : reads_.get(thread_).v);
  }

  /// The one of two arrays that a key block has.
  template <class Array>
  __device__ __forceinline__ std::uint32_t buffer_of(const Array (&arrays)[2], const KeyBlock& block) const {
    return address(arrays) + static_cast<std::uint32_t>(block.number & 1) * sizeof(Array);
  }

  using CopyK = RowCopy<Tiles::kQkRow, kTile.computed, kMostWarps / kParts>;
  using CopyV = RowCopy<Tiles::kVRow, kTile.head_dim, kMostWarps / kParts>;
  /// Where the thread's rows of K of block 0 lie: packed, or as they were given.
  __device__ __forceinline__ const std::byte* key_rows(const HeadOperand& k, std::int32_t first_slot) const {
    constexpr int kBytes = Element<S::kQk>::kBytes;
    const std::byte* const first =
        call_.packed.k ? call_.packed.k + first_slot * call_.k_block_bytes
                       : static_cast<const std::byte*>(call_.k.codes.data) + k.offset(0, 0) * kBytes;
    return tile::kept(first + CopyK::offset(call_.k_row_bytes));
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
    Rows rows;
    typename Outputs<S, kTile.head_dim / 8>::Local local;
    Outputs<S, kTile.head_dim / 8> outputs(shared_.sums(blockDim.x / 32, threadIdx.x / 32), local);
    const RowScales<S> row_scales =
        scales_of_rows<S>(q, begin + first_row_of_warp(), queries.length, flipped_rows());
    const QueryRows query_rows = query_rows_of(q, begin, queries.length);
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
      if constexpr (LongRows<S>) rows[0].own.above = above;
    };
    const auto load_rows = [&] { load_q(q, query_rows, begin, queries.length); };
    visit_blocks(rows, outputs, load_rows, read, prepare, k, bias, begin, queries, keys, head / call_.group);
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
        const KeyRange range = Visibility{call_, known.queries, known.keys}.of(row.token);
        row.blocks_seen = range.begin < range.end;
      }
    }
    const auto ends = end_rows(scheme_, outputs, rows, shared_.channels, store, staged);
    __syncwarp();
    store.template rows<kRowsAWarp>(staged, known.begin + first_row_of_warp(), known.queries, call_.dim_v);
    store_ends<kRowsALane>(scheme_, rows, ends, store, known.queries);
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
    __syncwarp();
    store.template rows<kRowsAPart>(staged, known.begin + first, known.queries, call_.dim_v);
    if constexpr (kParksKnown) put_tokens(rows, known.begin);
    store_ends<1>(scheme_, rows, Ends<S>{}, store, known.queries);
  }

  __device__ __forceinline__ RowStore store_of(const Known& known) const {
    return RowStore(call_, Sequence{known.batch, known.batch, known.first_token, known.queries},
                    static_cast<std::int32_t>(blockIdx.y));
  }
  /// The rows' tokens anew, where no register has them. begin: the block of threads' first row.
  static __device__ __forceinline__ void put_tokens(Rows& rows, std::int32_t begin) {
    const int thread = static_cast<int>(tile::kept(threadIdx.x));
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      rows[r].token = begin + thread / 32 * kRowsAWarp + ((thread % 32 / 4 + 8 * r) ^ flipped_rows());
  }

  /// Rows of Q of which a lane copies a part, where they can be copied: what it has of them, and where it
  /// goes.
  struct QueryRows {
    static constexpr int kChunks = Tiles::kQkRow / 16, kTogether = std::min(kChunks, 4);
    static constexpr int kRowsATurn = 32 / kTogether;
    static constexpr int kTurns = kRowsAWarp / kRowsATurn / kParts;
    static_assert(kTurns > 0, "each part copies some of the rows");
    const std::byte* from[kTurns];
    std::uint32_t to[kTurns];
    int dim[kTurns];  ///< channels that there are; 0: no such row
  };
  __device__ __forceinline__ QueryRows query_rows_of(const HeadOperand& q, std::int32_t begin,
                                                     std::int32_t tokens) const {
    constexpr int kElements = 16 / Element<S::kQk>::kBytes;
    const DeviceOperand& x = q.operand();
    const int lane = static_cast<int>(threadIdx.x % 32), chunk = lane % QueryRows::kTogether;
    QueryRows rows;
#pragma unroll
    for (int turn = 0; turn < QueryRows::kTurns; ++turn) {
      const int row = first_row_of_warp() + (turn * kParts + Threads::part()) * QueryRows::kRowsATurn +
                      lane / QueryRows::kTogether;
      const std::int32_t token = begin + row;
      rows.from[turn] =
          tile::kept(static_cast<const std::byte*>(x.codes.data) +
                     q.offset(min(token, tokens - 1), chunk * kElements) * Element<S::kQk>::kBytes);
      rows.to[turn] = tile::kept(address(shared_.tiles.q) + tile::chunk_offset<Tiles::kQkRow>(row, chunk));
      rows.dim[turn] = token < tokens ? x.dim - chunk * kElements : 0;
    }
    return rows;
  }

  /// Rows of Q on their way into shared memory, each warp its own, padded by zeros; rows beyond the sequence
  /// are zeros.
  __device__ __forceinline__ void load_q(const HeadOperand& q, const QueryRows& rows, std::int32_t begin,
                                         std::int32_t tokens) {
    constexpr int kElements = 16 / Element<S::kQk>::kBytes, kChunks = QueryRows::kChunks;
    const DeviceOperand& x = q.operand();
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (call_.q_in_chunks) [[likely]] {
#pragma unroll
      for (int turn = 0; turn < QueryRows::kTurns; ++turn) {
#pragma unroll
        for (int c = 0; c < kChunks; c += QueryRows::kTogether)
          ptx::copy_async_or_zeros(rows.to[turn] ^ (c * 16), rows.from[turn] + c * 16,
                                   c * kElements < rows.dim[turn] ? 16 : 0);
      }
      return;
    }
#pragma unroll 1
    for (int i = Threads::part() * 32 + lane; i < kRowsAWarp * kChunks; i += 32 * kParts) {
      const int row = first_row_of_warp() + i / kChunks, chunk = i % kChunks;
      const std::int32_t token = begin + row, first = chunk * kElements;
      Elements<S::kQk, 16> element{};
#pragma unroll 1
      for (int c = 0; c < kElements && first + c < x.dim && token < tokens; ++c)
        element.of[c] = element_of<S::kQk>(q.number(token, first + c));
      *reinterpret_cast<uint4*>(shared_.tiles.q + tile::chunk_offset<Tiles::kQkRow>(row, chunk)) =
          __builtin_bit_cast(uint4, element);
    }
  }

  /// load_rows(): Q; read() and prepare(): what rows and their ends need, read before the copies, behind
  /// which it would wait, and used while Q and the first key block are on their way. All threads see both
  /// from the first barrier on.
  template <class LoadRows, class Read, class Prepare>
  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                               const LoadRows& load_rows, const Read& read,
                                               const Prepare& prepare, const HeadOperand& k,
                                               const HeadBias& bias, std::int32_t begin,
                                               const Sequence& queries, const Sequence& keys,
                                               std::int32_t head) {
    const Visibility visibility{call_, queries.length, keys.length};
    const KeyBlocks blocks(call_, visibility, keys, head, begin, rows_a_block_);
    const std::int32_t first_block = blocks.first, end_block = blocks.end;
    const Known known{
        blocks.first_slot,
        keys.length,
        blocks.end,
        begin,
        SeenByRows(visibility, bias, blocks, kTile.computed, begin + first_row_of_warp(), kRowsAWarp),
        queries.batch,
        queries.begin,
        queries.length};
    if (!kParksKnown || threadIdx.x % 32 == 0) known_.set(warp(), known);
    if constexpr (kParksKnown) __syncwarp();
    const CopyPlaces of_first{CopyK::place(), CopyV::place(), key_rows(k, blocks.first_slot)};
    copies_.set(thread_, of_first);
    const KeyBlock first = blocks.at(first_block + Threads::part());
    const std::byte* const first_k = tile::kept(of_first.k_rows + first.number * call_.k_block_bytes);
    const std::byte* const first_v = tile::kept(packed_v(first));
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
    if constexpr (Shared::kKeepsRows == Keeps::in_shared_memory)
      rows_.set(thread_, {rows[0].row, rows[1].row});
#pragma unroll 1
    for (std::int32_t i = first_block; i < known_.get(warp()).end; i += kParts) {
      // Behind the last one for the last parts of an uneven number: no row sees a key of it.
      const KeyBlock block = block_at(i + Threads::part());
      const CopyPlaces copies = copies_.get(thread_);
      const bool has_next = i + 1 < known_.get(warp()).end,
                 sees = known_.get(warp()).seen.some.has(block.number);
      ptx::wait_copies<0>();
      __syncthreads();  // what was copied is there, and nobody reads the other buffers any more
      if constexpr (kParts == 1) {
        if constexpr (!kTwoBuffers)
          load_v(copies, block, packed_v(block));
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
        const bool whole = tile::opaque(known.seen.whole.has(block.number));
        if constexpr (kParksKnown)
          if (!whole) put_tokens(rows, known.begin);
        if constexpr (Shared::kKeepsRows == Keeps::in_shared_memory) {
#pragma unroll
          for (int r = 0; r < kRowsALane; ++r) rows[r].row = rows_.get(thread_).of[r];
        }
        weigh_block<Masses::of_quad, kTile.keys>(
            acc, p, rows, scheme_, call_, shared_.tiles.keys[block.number & 1],
            block_constants<S>(call_, block), block, Visibility{call_, known.queries, known.keys},
            HeadBias(call_, known.batch, static_cast<std::int32_t>(blockIdx.y)), whole);
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
  }

  /// Key block `number` of the rows' sequence.
  __device__ __forceinline__ KeyBlock block_at(std::int32_t number) const {
    const Known& known = known_.get(warp());
    const std::int32_t size = call_.key_block, begin = number * size;
    return {number, begin, min(size, known.keys - begin), known.first_slot + number};
  }

  /// P V of the block into the outputs, so many channels at a time as leave registers for the rest.
  __device__ __forceinline__ void fold_values(const Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                              const PWords<S, kTiles>& p, const KeyBlock& block) {
    constexpr int kSome = kTile.head_dim > 128 ? 4 : std::min(kTile.head_dim / 8, 8);
    outputs.open(scheme_, rows);
#pragma unroll
    for (int first = 0; first < kTile.head_dim / 8; first += kSome) {
      typename S::PvAcc pv[kSome][4];
      multiply_pv<S::kP, S::kV, Tiles::kVRow>(pv, p.word, address_of_v(block), place_of_v(), first);
      const typename S::Channel unit = scheme_.channel({});
      if constexpr (LongRows<S>)
        outputs.fold(first, pv);
      else if (tile::opaque(call_.packed.channels != nullptr)) [[unlikely]]
        outputs.fold(scheme_, first, pv, rows, [&](int tile, int c) {
          return shared_.tiles.channels[block.number & 1][channel_of_lane(tile, c)];
        });
      else
        outputs.fold(scheme_, first, pv, rows, [&](int, int) { return unit; });
    }
  }

  __device__ __forceinline__ const std::byte* packed_v(const KeyBlock& block) const {
    return call_.packed.v + std::int64_t{block.slot} * kTile.head_dim * Tiles::kVRow +
           CopyV::offset(Tiles::kVRow);
  }
  __device__ __forceinline__ void load_block(const CopyPlaces& places, const KeyBlock& block) {
    load_k(places, block, places.k_rows + block.number * call_.k_block_bytes);
    load_v(places, block, packed_v(block));
  }
  /// from: where the block's rows lie.
  __device__ __forceinline__ void load_k(const CopyPlaces& places, const KeyBlock& block,
                                         const std::byte* from) {
    CopyK::copy(address_of_k(block) + places.k, from, call_.k_row_bytes, block.keys);
    using Keys = typename Tiles::Keys;
    if constexpr (Keys::kBytes > 0)
      copy_bytes<Keys::kBytes>(buffer_of(shared_.tiles.keys, block),
                               call_.packed.keys + std::int64_t{block.slot} * Keys::kBytes);
  }

  __device__ __forceinline__ void load_v(const CopyPlaces& places, const KeyBlock& block,
                                         const std::byte* from) {
    CopyV::copy(address_of_v(block) + (kSameRows ? places.k : places.v), from, Tiles::kVRow, kTile.head_dim);
    if constexpr (!std::is_empty_v<typename S::Channel>) {
      constexpr int kBytes = kTile.head_dim * static_cast<int>(sizeof(typename S::Channel));
      if (call_.packed.channels) [[unlikely]]
        copy_bytes<kBytes>(buffer_of(shared_.tiles.channels, block),
                           call_.packed.channels + std::int64_t{block.slot} * kBytes);
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

  /// Of two parts, the second one's halves of rows change places: what a lane ends lies first.
  static __device__ __forceinline__ int flipped_rows() { return 8 * Threads::part(); }
  static __device__ __forceinline__ int channel_of_lane(int tile, int c) {
    return tile * 8 + static_cast<int>(threadIdx.x % 4) * 2 + c;
  }
  static __device__ __forceinline__ int first_row_of_warp() {
    return static_cast<int>(threadIdx.x / 32) * kRowsAWarp;
  }

  const Call& call_;
  Shared& shared_;
  // 1, 2 or 4 warps: half of them is the logarithm.
  static_assert(kMostWarps == 4, "the logarithm of 8 is not half of it");
  const Divider rows_a_block_;
  const std::uint32_t address_;  ///< of what is shared
  const int thread_;             ///< its number in the block of threads
  typename Shared::Copies copies_;
  typename Shared::Reads reads_;
  typename Shared::KnownByWarp known_;
  typename Shared::RowsByThread rows_;
  const S scheme_;
};

}  // namespace octet::cuda::mma
