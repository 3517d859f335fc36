// Attention of two or three key blocks from plain rows to outputs, of which a tile of rows has two warps: one
// computes it against every other key block, the other against the rest. Where heads are few, one warp's way
// through all of them would be what the call takes. A block of threads computes some tiles of rows, four at a
// time, against keys that stay.
#pragma once
#include <cstdint>

#include "cuda/mma/attend.cuh"
#include "cuda/plain/operands.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/lane.cuh"

namespace octet::cuda::plain {

/// kIndex: of a tile of two parts that keeps keys.
template <template <class> class Scheme, int kIndex>
using ByParts =
    Operands<Scheme, mma::kTileTable[kIndex], mma::Attention<Scheme<DeviceLane>, mma::kTileTable[kIndex]>>;

template <template <class> class Scheme, int kIndex>
class AttentionByParts : ByParts<Scheme, kIndex> {
  using Base = ByParts<Scheme, kIndex>;
  using Base::call_, Base::shared_, Base::scheme_;
  using typename Base::Rows;
  using typename Base::S;
  using typename Base::Shared;
  using typename Base::Threads;
  using typename Base::Tiles;
  static constexpr mma::Tile kTile = mma::kTileTable[kIndex];
  /// Eights of a key block that are computed at once: all, as long as no outputs are there; of a third one,
  /// for which registers hold these too, some, and of the end of 257 tokens few.
  static constexpr int kTiles = kTile.computed / 8, kSomeTiles = 4, kFewTiles = 2;
  using Outputs = attn::Outputs<S, kDim / 8>;
  using Part = attn::PartOfRows<S, kDim / 8>;
  using Staged = attn::StagedRow<kDim>;
  /// A tile's two places in shared memory. A warp has codes of its rows in the one, and over them what it
  /// leaves for the other warp; its outputs leave from the other's, where its rows of the next turn come.
  static constexpr int kPlace = Tiles::kOfWarp / kTile.key_parts,
                       kRowsOut = mma::kRowsAWarp / kTile.key_parts;
  static_assert(kTile.key_parts == 2 && kPlace >= sizeof(Part) && kPlace >= kRowsOut * sizeof(Staged) &&
                kPlace >= Tiles::kRowsOfQ && kPlace % kDim == 0);

 public:
  __device__ AttentionByParts(const Call& call, const PlainSequences& plain, Shared& shared)
      : Base(call, plain, shared) {}

  __device__ __forceinline__ void run() {
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
#pragma unroll 1
    for (std::int32_t turn = 0; has_turn(turn); ++turn) {
      const float scale = put(turn);
      attend_rows(scale, turn);
      // note: asked anew, so that no register keeps the answer.
      if (tile::kept(turn) == 0 && call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
    }
  }

 private:
  /// note: made anew where it is asked for, so that registers keep nothing of it through the key blocks.
  struct At {
    std::int32_t sequence, head, first;  ///< row of the block of threads
  };
  __device__ __forceinline__ At at() const {
    const auto group = static_cast<std::int32_t>(tile::kept(blockIdx.x));
    const std::int32_t sequence = group / call_.queries.groups;
    return {sequence, static_cast<std::int32_t>(tile::kept(blockIdx.y)),
            (group - sequence * call_.queries.groups) * call_.row_tiles * rows_a_turn()};
  }
  static __device__ __forceinline__ std::int32_t rows_a_turn() {
    return ptx::threads_along_x() / kWarp * mma::kRowsAWarp;
  }
  __device__ __forceinline__ bool has_turn(std::int32_t turn) const {
    return turn < call_.row_tiles && at().first + turn * rows_a_turn() < call_.queries.tokens;
  }
  static __device__ __forceinline__ std::int32_t row_tile() {
    return static_cast<std::int32_t>(threadIdx.x / kWarp);
  }
  /// The tile's place that a part's warp has rows in.
  __device__ __forceinline__ std::byte* place(int part, std::int32_t turn) const {
    return shared_.tiles.q + row_tile() * Tiles::kOfWarp + ((part + turn) & 1) * kPlace;
  }

  /// The operands of the warp's tile of rows, which both of its warps have codes of.
  __device__ __forceinline__ float put(std::int32_t turn) {
    const At at = this->at();
    const std::int32_t first = at.first + turn * rows_a_turn() + Base::first_row_of_warp();
    const float scale =
        Base::put_operands({at.sequence, at.head}, {first, ptx::shared_address(place(Threads::part(), turn))},
                           turn == 0 ? Base::Puts::keys_too : Base::Puts::queries);
    if (turn == 0)
      __syncthreads();
    else
      __syncwarp();
    return scale;
  }

  /// The tile of rows against the warp's key blocks; half of its outputs.
  __device__ __forceinline__ void attend_rows(float scale, std::int32_t turn) {
    const At at = this->at();
    if (at.first + turn * rows_a_turn() + Base::first_row_of_warp() >= call_.queries.tokens) return;
    float scales[attn::RowScales<S>::kCount];
    static_assert(attn::RowScales<S>::kCount == TokenCodes::kSteps, "a lane opens a row of each step");
#pragma unroll
    for (int step = 0; step < attn::RowScales<S>::kCount; ++step)
      scales[step] = __shfl_sync(tile::kAllLanes, scale, step ^ Threads::part(), TokenCodes::kLanesOfRow);
    Rows rows;
    attn::open_rows(rows, scheme_, scales, 0, Base::flipped_rows());
    attn::forget_tokens(rows);
    rows[0].blocks_seen = rows[1].blocks_seen = 1;
    typename Outputs::Local local;
    Outputs outputs(shared_.sums(blockDim.x / kWarp, threadIdx.x / kWarp), local);
    attend_keys<kTiles>(rows, outputs, turn, Threads::part(), 0);
    constexpr std::int32_t kThird = kTile.key_parts;
    const std::int32_t left = Threads::part() == 0 ? call_.keys.tokens - kThird * call_.key_block : 0;
    if (left > kFewTiles * 8) {
#pragma unroll 1
      for (std::int32_t from = 0; from < left; from += kSomeTiles * 8)
        attend_keys<kSomeTiles>(rows, outputs, turn, kThird, from);
    } else if (left > 0) {
      attend_keys<kFewTiles>(rows, outputs, turn, kThird, 0);
    }
    end(rows, outputs, turn);
  }

  /// The keys of a block from its place `from` on, as many as there are tiles for.
  template <int kKeyTiles>
  __device__ __forceinline__ void attend_keys(Rows& rows, Outputs& outputs, std::int32_t turn,
                                              std::int32_t number, std::int32_t from) {
    const std::int32_t first = number * call_.key_block, size = min(call_.key_block - from, kKeyTiles * 8);
    const attn::KeyBlock block{number, first, min(size, call_.keys.tokens - first - from), number};
    typename S::Acc acc[kKeyTiles][4];
    attn::PWords<S, kKeyTiles> p;
    using Place = mma::Place<Tiles::kQkRow>;
    // note: the place anew, by an instruction, so that no register keeps it from one text of this to the
    // next.
    const std::uint32_t own_rows = tile::of_warp(ptx::shared_address(place(Threads::part(), turn))) +
                                   Place::of_rows(Base::flipped_rows(), ptx::lane()).offset();
    const std::uint32_t k = ptx::shared_address(shared_.tiles.k[0]) +
                            static_cast<std::uint32_t>(number * Base::kBytesOfK + from * kDim);
    mma::multiply_qk<S::kQk, Tiles::kQkRow>(acc, Place(own_rows), k, Place::of_columns(ptx::lane()),
                                            attn::start_of_sums<S>());
    attn::weigh_block<attn::Masses::of_quad, kTile.keys>(
        acc, p, rows, scheme_, call_, shared_.tiles.keys[number] + from,
        attn::block_constants<S>(call_, block), block, attn::SeesAll{}, attn::NoBias{},
        tile::opaque(block.keys == kKeyTiles * 8));
    Base::fold(rows, outputs, p, block, mma::Place<Values::kRow>::of_rows(0, ptx::lane()),
               ptx::shared_address(shared_.tiles.v[0]) +
                   static_cast<std::uint32_t>(number * Base::kBytesOfV + from * Values::kRow));
  }

  /// Eight of the tile's rows by each of its warps, as mma's kernels of parts end them.
  __device__ __forceinline__ void end(Rows& rows, const Outputs& outputs, std::int32_t turn) {
    const At at = this->at();
    const int part = Threads::part();
    constexpr int kOfOther = 1, kBoth = kTile.key_parts * static_cast<int>(kWarp);
    __syncwarp();  // no lane reads the rows of Q any more
    reinterpret_cast<Part*>(place(part, turn))->template put<kOfOther>(outputs, rows[kOfOther]);
    ptx::sync_threads(1 + row_tile(), kBoth);
    const attn::Sequence queries{at.sequence, at.sequence, 0, call_.queries.tokens};
    const attn::RowStore store(call_, queries, at.head);
    std::byte* const of_other = place(part ^ 1, turn);
    const auto& other = *reinterpret_cast<const Part*>(of_other);
    auto* const staged = reinterpret_cast<Staged*>(of_other);
    if (part == 0)
      attn::end_part<attn::Own::before>(scheme_, outputs, other, rows[0], shared_.channels, store, staged);
    else
      attn::end_part<attn::Own::after>(scheme_, outputs, other, rows[0], shared_.channels, store, staged);
    __syncwarp();
    const std::int32_t first = at.first + turn * rows_a_turn() + Base::first_row_of_warp();
    store.template rows<kRowsOut, attn::kWordsTogether<S>>(staged, first + part * kRowsOut,
                                                           call_.queries.tokens, call_.dim_v);
    attn::store_ends<1>(scheme_, rows, attn::Ends<S>{}, store, first, Base::flipped_rows(),
                        call_.queries.tokens);
    __syncwarp();  // the next turn's rows may come
  }
};

/// All warps that may be, so many blocks of threads a processor.
inline constexpr int kThreadsOfParts = 2 * mma::kMostWarps * kWarp, kBlocksOfParts = 2;

/// Grid: [tiles of rows of all sequences, heads]; warps: [rows, parts of the keys].
template <template <class> class Scheme, int kIndex>
__global__ __launch_bounds__(kThreadsOfParts,
                             kBlocksOfParts) void attend_parts(const __grid_constant__ Call call,
                                                               const __grid_constant__ PlainSequences plain) {
  OCTET_DYNAMIC_SHARED(memory, 512);
  using Shared = mma::SharedPlan<Scheme<DeviceLane>, mma::kTileTable[kIndex]>;
  AttentionByParts<Scheme, kIndex>(call, plain, *reinterpret_cast<Shared*>(memory)).run();
}

}  // namespace octet::cuda::plain
