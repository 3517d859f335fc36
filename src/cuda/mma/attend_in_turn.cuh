// The attention kernel of the mma.sync family for rows of up to three key blocks that all of them see,
// without masks and bias: these stay in shared memory while a block of threads computes several tiles of
// rows, each warp its own rows, without waiting for the others once the keys are there. While a tile is
// computed the warp's next rows are copied.
#pragma once
#include <cstdint>

#include "cuda/mma/attend.cuh"

namespace octet::cuda::mma {

template <class S, Tile kTile>
class RowsInTurn : protected Attention<S, kTile> {
  using Base = Attention<S, kTile>;

 protected:
  using Base::call_, Base::shared_, Base::scheme_, Base::thread_;
  using typename Base::Queries;
  using typename Base::QueryRows;
  using typename Base::Rows;
  using typename Base::Shared;
  using typename Base::Tiles;

 private:
  static constexpr int kTiles = Base::kTiles, kFewTiles = few_eights(kTile);  ///< of keys
  static constexpr int kKept = Tiles::kStages;
  static_assert((kKept == 2 || kKept == 3) && kTile.key_parts == 1 && !LongRows<S>,
                "copies of two or three key blocks are waited for");
  static_assert(Tiles::kRowsOut >= Tiles::kRowsOfQ, "rows leave without reaching the next ones of Q");

 public:
  __device__ RowsInTurn(const Call& call, Shared& shared) : Base(call, shared) {}

  __device__ __forceinline__ void run() {
    const Place at = place();
    const Sequence keys{at.sequence, at.sequence, 0, call_.keys.tokens};
    const Queries q(call_, at.queries(call_), at.head);
    const HeadOperand k(call_.k, call_.keys, keys, at.head / call_.group);
    const HeadOperand v(call_.v, call_.keys, keys, at.head / call_.group);
    const typename Base::CopyPlaces places = Base::copy_places(k, v, block_at(0).slot);
    const QueryRows query_rows = Base::query_rows_of(q, at.first, call_.queries.tokens);
    const RowScales<S> row_scales =
        scales_of_rows<S>(q.first(), at.first + Base::first_row_of_warp(), call_.queries.tokens, 0);
    const std::byte* const first_v = tile::kept(Base::rows_of_v(places, block_at(0)));
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
    float scales[RowScales<S>::kCount];
    row_scales.read(scales);
    Base::load_k(places, block_at(0), places.k_rows);
    Base::load_v(places, block_at(0), first_v);
    Base::load_q(q, query_rows, at.first, call_.queries.tokens, query_buffer(0));
    ptx::commit_copies();
#pragma unroll
    for (int i = 1; i < kKept; ++i) {
      if (has_block(i)) Base::load_block(places, block_at(i));
      ptx::commit_copies();
    }
    Base::put_channels(v);

    std::int32_t turn = 0;
#pragma unroll 1
    while (true) {
      Rows rows;
      open_rows(rows, scheme_, scales, 0, 0);
      forget_tokens(rows);
      rows[0].blocks_seen = rows[1].blocks_seen = 1;
      const bool has_next = has_turn(turn + 1);
      if (has_next) load_rows(turn + 1, scales);
      ptx::commit_copies();
      typename Outputs<S, kTile.head_dim / 8>::Local local;
      Outputs<S, kTile.head_dim / 8> outputs(shared_.sums(blockDim.x / 32, threadIdx.x / 32), local);
      const auto arrived = [&](std::int32_t i) {
        if (turn > 0) return;
        // All groups of copies but the last ones, of the blocks behind and of the next rows.
        if (i == 0)
          ptx::wait_copies<kKept>();
        else if (i == 1)
          ptx::wait_copies<kKept - 1>();
        else
          ptx::wait_copies<1>();
        __syncthreads();
      };
      attend_blocks(rows, turn, arrived, [&](const auto& p, const KeyBlock& block) {
        this->fold_values(rows, outputs, p, block);
      });
      if (turn == 0 && call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
      if (has_rows(turn)) end(rows, outputs, turn);
      if (!has_turn(turn + 1)) break;
      ptx::wait_copies<0>();
      __syncwarp();  // the warp's next rows are there, and those before have left
      ++turn;
    }
  }

 protected:
  /// What a block of threads computes. first: row.
  struct Place {
    std::int32_t sequence, head, first;
    __device__ __forceinline__ Sequence queries(const Call& call) const {
      return {sequence, sequence, 0, call.queries.tokens};
    }
  };
  /// note: made anew where it is asked for, so that registers keep nothing of it through the key blocks.
  __device__ __forceinline__ Place place() const {
    const auto group = static_cast<std::int32_t>(tile::kept(blockIdx.x));
    const std::int32_t sequence = group / call_.queries.groups;
    return {sequence, static_cast<std::int32_t>(tile::kept(blockIdx.y)),
            (group - sequence * call_.queries.groups) * call_.row_tiles * rows_a_turn()};
  }
  static __device__ __forceinline__ std::int32_t rows_a_turn() {
    return ptx::threads_along_x() / 32 * kRowsAWarp;
  }
  /// Whether the block of threads has a tile of rows of this number, and the warp rows of it.
  __device__ __forceinline__ bool has_turn(std::int32_t turn) const {
    return turn < call_.row_tiles && place().first + turn * rows_a_turn() < call_.queries.tokens;
  }
  __device__ __forceinline__ bool has_rows(std::int32_t turn) const {
    return place().first + turn * rows_a_turn() + Base::first_row_of_warp() < call_.queries.tokens;
  }
  __device__ __forceinline__ bool has_block(std::int32_t number) const {
    return number * call_.key_block < call_.keys.tokens;
  }
  __device__ __forceinline__ KeyBlock block_at(std::int32_t number) const {
    const Place at = place();
    const std::int32_t size = call_.key_block,
                       first_slot = at.head / call_.group * call_.packed.blocks_per_head +
                                    at.sequence * call_.keys.groups;
    return {number, number * size, min(size, call_.keys.tokens - number * size), first_slot + number};
  }
  static __device__ __forceinline__ int own_warp() { return static_cast<int>(threadIdx.x / 32); }
  /// From where the warp's rows of Q would lie if nothing lay between those of warps.
  static __device__ __forceinline__ std::uint32_t query_buffer(std::int32_t turn) {
    return static_cast<std::uint32_t>((own_warp() + (turn & 1)) * Tiles::kRowsOut);
  }

  /// The warp's rows of a tile on their way, and their scales.
  __device__ __forceinline__ void load_rows(std::int32_t turn, float (&scales)[RowScales<S>::kCount]) {
    const Place at = place();
    const std::int32_t begin = at.first + turn * rows_a_turn(), count = call_.queries.tokens;
    const Queries q(call_, at.queries(call_), at.head);
    scales_of_rows<S>(q.first(), begin + Base::first_row_of_warp(), count, 0).read(scales);
    Base::load_q(q, Base::query_rows_of(q, begin, count), begin, count, query_buffer(turn));
  }

  /// The warp's rows of a tile against all key blocks. arrived(i): before number i, of all warps; fold(p,
  /// block): P V into the outputs.
  template <class Arrived, class Fold>
  __device__ __forceinline__ void attend_blocks(Rows& rows, std::int32_t turn, const Arrived& arrived,
                                                const Fold& fold) {
#pragma unroll 1
    for (std::int32_t i = 0; has_block(i); ++i) {
      arrived(i);
      if (!has_rows(turn)) continue;
      const KeyBlock block = block_at(i);
      // A third block goes as those before it: code of its own took longer (docs/cuda-measurements.md).
      if (block.keys > kFewTiles * 8 || i > 1)
        attend_block<kTiles>(rows, block, turn, fold);
      else
        attend_block<kFewTiles>(rows, block, turn, fold);
    }
  }
  template <int kKeyTiles, class Fold>
  __device__ __forceinline__ void attend_block(Rows& rows, const KeyBlock& block, std::int32_t turn,
                                               const Fold& fold) {
    const ReadPlaces places = Base::reads_.get(thread_);
    typename S::Acc acc[kKeyTiles][4];
    PWords<S, kKeyTiles> p;
    multiply_qk<S::kQk, Tiles::kQkRow>(acc, mma::Place<Tiles::kQkRow>(places.q + query_buffer(turn)),
                                       Base::address_of_k(block), mma::Place<Tiles::kQkRow>(places.k),
                                       start_of_sums<S>());
    weigh_block<Masses::of_quad, kTile.keys>(acc, p, rows, scheme_, call_, shared_.tiles.keys[block.number],
                                             block_constants<S>(call_, block), block, SeesAll{}, NoBias{},
                                             tile::opaque(block.keys == kKeyTiles * 8));
    fold(p, block);
  }

  __device__ __forceinline__ void end(Rows& rows, Outputs<S, kTile.head_dim / 8>& outputs,
                                      std::int32_t turn) {
    const Place at = place();
    auto* const staged = reinterpret_cast<StagedRow<kTile.head_dim>*>(
        shared_.tiles.q + own_warp() * Tiles::kOfWarp + (turn & 1) * Tiles::kRowsOfQ);
    const RowStore store(call_, at.queries(call_), at.head);
    __syncwarp();  // no lane reads the rows of Q any more, beside and over which these leave
    const auto ends = end_rows(scheme_, outputs, rows, shared_.channels, store, staged);
    __syncwarp();
    const std::int32_t first = at.first + turn * rows_a_turn() + Base::first_row_of_warp();
    store.template rows<kRowsAWarp, kWordsTogether<S>>(staged, first, call_.queries.tokens, call_.dim_v);
    store_ends<kRowsALane>(scheme_, rows, ends, store, first, 0, call_.queries.tokens);
  }
};

}  // namespace octet::cuda::mma
