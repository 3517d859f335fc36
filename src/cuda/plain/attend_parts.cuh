// Attention of two to five key blocks from plain rows to outputs, of which a tile of rows has two or four
// warps, each for some of its keys. Where heads are few, one warp's way through all of them would be what the
// call takes. A block of threads computes some tiles of rows, several at a time, against keys that stay.
#pragma once
#include <cstdint>

#include "cuda/mma/attend.cuh"
#include "cuda/plain/operands.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/lane.cuh"

namespace octet::cuda::plain {

/// kIndex: of a tile of two or four parts that keeps keys.
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
  static constexpr int kParts = kTile.key_parts;
  /// Eights of a key block that are computed at once: of two parts all, as long as no outputs are there, and
  /// of a third block, for which registers hold these too, some; of four parts half. Of the ends of blocks,
  /// as that of 257 tokens, few.
  static constexpr int kTiles = kTile.computed / 8, kHalf = kTiles / 2, kSomeTiles = 4, kFewTiles = 2;
  using Outputs = attn::Outputs<S, kDim / 8>;
  using Part = attn::PartOfRows<S, kDim / 8>;
  using Staged = attn::StagedRow<kDim>;
  /// A tile's place in shared memory: codes of its rows, their scales, and a place of each warp's, in which
  /// it leaves what it has of eight rows, and from which another's outputs leave.
  static constexpr int kScales = Tiles::kRowsOfQ, kPlaces = kScales + mma::kRowsAWarp * sizeof(float),
                       kRowsOut = mma::kRowsAWarp / 2, kPlace = kRowsOut * sizeof(Staged);
  static_assert((kParts == 2 || kParts == 4) && kPlace >= sizeof(Part) && kPlace % alignof(Part) == 0 &&
                kPlaces + kParts * kPlace <= Tiles::kOfWarp && Tiles::kOfWarp % kDim == 0);

 public:
  __device__ AttentionByParts(const Call& call, const PlainSequences& plain, Shared& shared)
      : Base(call, plain, shared) {}

  __device__ __forceinline__ void run() {
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
    put_all();
    __syncthreads();
#pragma unroll 1
    for (std::int32_t turn = 0; has_turn(turn); ++turn) {
      // Warps that have no row have none of later turns.
      if (first_row(turn) >= call_.queries.tokens) break;
      if (turn > 0) {
        if (Threads::part() == kParts - 1) put_rows(turn);
        sync_tile();
      }
      attend_rows(turn);
      if (turn == 0 && call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
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
  static __device__ __forceinline__ std::int32_t row_tiles() { return ptx::threads_along_x() / kWarp; }
  static __device__ __forceinline__ std::int32_t rows_a_turn() { return row_tiles() * mma::kRowsAWarp; }
  __device__ __forceinline__ bool has_turn(std::int32_t turn) const { return turn < call_.row_tiles; }
  static __device__ __forceinline__ std::int32_t row_tile() {
    return static_cast<std::int32_t>(threadIdx.x / kWarp);
  }
  __device__ __forceinline__ std::int32_t first_row(std::int32_t turn) const {
    return at().first + turn * rows_a_turn() + row_tile() * mma::kRowsAWarp;
  }
  __device__ __forceinline__ std::byte* place_of_tile(std::int32_t tile) const {
    return shared_.tiles.q + tile * Tiles::kOfWarp;
  }
  __device__ __forceinline__ std::byte* place(int part) const {
    return place_of_tile(row_tile()) + kPlaces + part * kPlace;
  }
  static __device__ __forceinline__ float* scales_at(std::byte* place_of_tile) {
    return reinterpret_cast<float*>(place_of_tile + kScales);
  }
  /// Of the second one of two warps that merge, halves of rows change places: what a lane keeps lies first.
  static __device__ __forceinline__ int flipped_rows() { return Threads::part() % 2 * 8; }
  /// All warps of a tile; two of them. Barrier 0 is the block's.
  static __device__ __forceinline__ void sync_tile() { ptx::sync_threads(1 + row_tile(), kParts * kWarp); }
  static __device__ __forceinline__ void sync_two() {
    // note: by an instruction, so that no register keeps the number through the key blocks.
    const std::int32_t number = tile::of_warp(row_tile() * 2 + Threads::part() / 2);
    ptx::sync_threads(1 + mma::kMostWarps + number, 2 * kWarp);
  }

  /// K, V and the first tiles of rows. Sixteens of keys and then these tiles are dealt out to warps in turn.
  __device__ __forceinline__ void put_all() {
    const At at = this->at();
    const std::int32_t sixteens = (call_.keys.tokens + kRowsAtOnce - 1) / kRowsAtOnce;
    // note: warps are a power of two.
    const std::int32_t tile = (Base::warp() - sixteens) & (Base::warps() - 1);
    put_tile(tile, tile < row_tiles() ? at.first + tile * mma::kRowsAWarp : call_.queries.tokens,
             Base::Puts::keys_too);
  }
  /// The warp's tile of rows of a later turn.
  __device__ __forceinline__ void put_rows(std::int32_t turn) {
    put_tile(row_tile(), first_row(turn), Base::Puts::queries);
  }
  __device__ __forceinline__ void put_tile(std::int32_t tile, std::int32_t first, typename Base::Puts puts) {
    const At at = this->at();
    std::byte* const to = place_of_tile(tile);
    const float scale = Base::template put_operands<Base::Makers::some>(
        {at.sequence, at.head}, {first, ptx::shared_address(to)}, puts);
    if (first < call_.queries.tokens && TokenCodes::Parts::part() < TokenCodes::kSteps)
      scales_at(to)[TokenCodes::scaled_row()] = scale;
  }

  /// The tile of rows against the warp's keys; outputs of half of them by two of its warps.
  __device__ __forceinline__ void attend_rows(std::int32_t turn) {
    float scales[attn::RowScales<S>::kCount];
#pragma unroll
    for (int r = 0; r < attn::RowScales<S>::kCount; ++r)
      scales[r] = scales_at(place_of_tile(row_tile()))[attn::row_of_lane(r, flipped_rows())];
    Rows rows;
    attn::open_rows(rows, scheme_, scales, 0, flipped_rows());
    attn::forget_tokens(rows);
    rows[0].blocks_seen = rows[1].blocks_seen = 1;
    typename Outputs::Local local;
    Outputs outputs(shared_.sums(blockDim.x / kWarp, threadIdx.x / kWarp), local);
    if constexpr (kParts == 2)
      attend_blocks(rows, outputs);
    else
      attend_halves(rows, outputs);
    end(rows, outputs, turn);
  }

  /// A key block, and some of a third one at a time, which parts have in turn.
  __device__ __forceinline__ void attend_blocks(Rows& rows, Outputs& outputs) {
    attend_keys<kTiles>(rows, outputs, Threads::part(), 0);
    const std::int32_t left = call_.keys.tokens - kParts * call_.key_block;
    if (left > kFewTiles * 8) {
      constexpr std::int32_t kSome = kSomeTiles * 8;
#pragma unroll 1
      for (std::int32_t from = Threads::part() * kSome; from < left; from += kParts * kSome)
        attend_keys<kSomeTiles>(rows, outputs, kParts, from);
    } else if (left > 0 && Threads::part() == 0) {
      attend_keys<kFewTiles>(rows, outputs, kParts, 0);
    }
  }
  /// Halves of key blocks, which parts have in turn.
  __device__ __forceinline__ void attend_halves(Rows& rows, Outputs& outputs) {
    const bool are_halves = call_.key_block > kHalf * 8;
#pragma unroll 1
    for (std::int32_t i = Threads::part();; i += kParts) {
      const std::int32_t number = are_halves ? i / 2 : i, from = are_halves ? i % 2 * (kHalf * 8) : 0;
      const std::int32_t left = call_.keys.tokens - number * call_.key_block - from;
      if (left <= 0) return;
      if (left > kFewTiles * 8)
        attend_keys<kHalf>(rows, outputs, number, from);
      else
        attend_keys<kFewTiles>(rows, outputs, number, from);
    }
  }

  /// The keys of a block from its place `from` on, as many as there are tiles for.
  template <int kKeyTiles>
  __device__ __forceinline__ void attend_keys(Rows& rows, Outputs& outputs, std::int32_t number,
                                              std::int32_t from) {
    const std::int32_t first = number * call_.key_block, size = min(call_.key_block - from, kKeyTiles * 8);
    const attn::KeyBlock block{number, first, min(size, call_.keys.tokens - first - from), number};
    typename S::Acc acc[kKeyTiles][4];
    attn::PWords<S, kKeyTiles> p;
    using Place = mma::Place<Tiles::kQkRow>;
    // note: the place anew, by an instruction, so that no register keeps it from one text of this to the
    // next.
    const std::uint32_t own_rows = tile::of_warp(ptx::shared_address(place_of_tile(row_tile()))) +
                                   Place::of_rows(flipped_rows(), ptx::lane()).offset();
    const std::uint32_t k = ptx::shared_address(shared_.tiles.k[0]) +
                            static_cast<std::uint32_t>(number * Base::kBytesOfK + from * kDim);
    mma::multiply_qk<S::kQk, Tiles::kQkRow>(acc, Place(own_rows), k, Place::of_columns(ptx::lane()),
                                            attn::start_of_sums<S>());
    attn::weigh_block<attn::Masses::of_quad, kTile.keys>(
        acc, p, rows, scheme_, call_, shared_.tiles.keys[number] + from,
        attn::block_constants<S>(call_, block), block, attn::SeesAll{}, attn::NoBias{},
        tile::opaque(block.keys == kKeyTiles * 8));
    const auto by_keys = mma::Place<Tiles::kVRow>::of_rows(0, ptx::lane());
    const std::uint32_t v = ptx::shared_address(shared_.tiles.v[0]) +
                            static_cast<std::uint32_t>(number * Base::kBytesOfV + from * Tiles::kVRow);
    Base::fold_products(rows, outputs, block, [&](auto& pv, int channel) {
      mma::multiply_pv_by_keys<S::kP, S::kV, Tiles::kVRow>(pv, p.word, v, by_keys, channel);
    });
  }

  /// Each of two warps leaves the other one eight rows and has eight of both. Of four warps the second two
  /// then leave them the first two. Who leaves something the second time does it where it has read the first
  /// time, and so do outputs.
  __device__ __forceinline__ void end(Rows& rows, Outputs& outputs, std::int32_t turn) {
    const int part = Threads::part(), other = part ^ 1;
    reinterpret_cast<Part*>(place(part))->template put<1>(outputs, rows[1]);
    if constexpr (kParts == 2) {
      sync_tile();
      if (part == 0)
        end_with<attn::Own::before>(rows, outputs, place(other), turn);
      else
        end_with<attn::Own::after>(rows, outputs, place(other), turn);
    } else {
      sync_two();
      const auto keep = [&](int i, const auto& both) {
        const float first = both(0), second = both(1);
        outputs.in_registers()[i][0] = first, outputs.in_registers()[i][1] = second;
      };
      const auto& of_other = *reinterpret_cast<const Part*>(place(other));
      if (part % 2 == 0)
        attn::merge_part<attn::Own::before>(outputs, of_other, rows[0], keep);
      else
        attn::merge_part<attn::Own::after>(outputs, of_other, rows[0], keep);
      const bool ends = part < kParts / 2;
      if (!ends) reinterpret_cast<Part*>(place(other))->template put<0>(outputs, rows[0]);
      sync_tile();
      if (ends) end_with<attn::Own::before>(rows, outputs, place(other + kParts / 2), turn);
    }
  }
  /// Eight rows' ends, with those that another warp has left.
  template <attn::Own kOwn>
  __device__ __forceinline__ void end_with(Rows& rows, const Outputs& outputs, std::byte* left,
                                           std::int32_t turn) {
    const At at = this->at();
    const attn::Sequence queries{at.sequence, at.sequence, 0, call_.queries.tokens};
    const attn::RowStore store(call_, queries, at.head);
    auto* const staged = reinterpret_cast<Staged*>(left);
    attn::end_part<kOwn>(scheme_, outputs, *reinterpret_cast<const Part*>(left), rows[0], shared_.channels,
                         store, staged);
    __syncwarp();
    const std::int32_t first = first_row(turn);
    store.template rows<kRowsOut, attn::kWordsTogether<S>>(staged, first + flipped_rows(),
                                                           call_.queries.tokens, call_.dim_v);
    attn::store_ends<1>(scheme_, rows, attn::Ends<S>{}, store, first, flipped_rows(), call_.queries.tokens);
  }
};

/// Grid: [tiles of rows of all sequences, heads]; warps: [rows, parts of the keys].
template <template <class> class Scheme, int kIndex>
__global__ __launch_bounds__(
    warps_by_parts(mma::kTileTable[kIndex]) * kWarp,
    blocks_by_parts(mma::kTileTable[kIndex])) void attend_parts(const __grid_constant__ Call call,
                                                                const __grid_constant__ PlainSequences
                                                                    plain) {
  OCTET_DYNAMIC_SHARED(memory, 512);
  using Shared = mma::SharedPlan<Scheme<DeviceLane>, mma::kTileTable[kIndex]>;
  AttentionByParts<Scheme, kIndex>(call, plain, *reinterpret_cast<Shared*>(memory)).run();
}

}  // namespace octet::cuda::plain
