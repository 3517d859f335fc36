// Attention of a short sequence from plain rows to outputs: a block of threads makes codes of all keys and
// f16 of V, and computes some tiles of rows, of which each warp makes codes of its own. What the quantiser,
// packing and attention do in launches of their own, without the ways between them through memory.
#pragma once
#include <cstdint>

#include "cuda/mma/attend_in_turn.cuh"
#include "cuda/plain/operands.cuh"

namespace octet::cuda::plain {

/// kIndex: of a tile that keeps keys.
template <template <class> class Scheme, int kIndex>
using InTurn =
    Operands<Scheme, mma::kTileTable[kIndex], mma::RowsInTurn<Scheme<DeviceLane>, mma::kTileTable[kIndex]>>;

template <template <class> class Scheme, int kIndex>
class Attention : InTurn<Scheme, kIndex> {
  using Base = InTurn<Scheme, kIndex>;
  using Base::call_, Base::shared_, Base::scheme_;
  using typename Base::Rows;
  using typename Base::S;
  using typename Base::Shared;

 public:
  __device__ Attention(const Call& call, const PlainSequences& plain, Shared& shared)
      : Base(call, plain, shared) {}

  __device__ __forceinline__ void run() {
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
#pragma unroll 1
    for (std::int32_t turn = 0; Base::has_turn(turn); ++turn) {
      const float scale = put(turn);
      attend_rows(scale, turn);
      if (turn == 0 && call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
    }
  }

 private:
  /// The operands of a tile of rows, of which each warp has its own. note: what this knows is made anew for
  /// each tile, so that registers keep nothing of it through the key blocks.
  __device__ __forceinline__ float put(std::int32_t turn) {
    const typename Base::Place at = Base::place();
    const std::int32_t first = at.first + turn * Base::rows_a_turn() + Base::first_row_of_warp();
    const std::uint32_t to = ptx::shared_address(shared_.tiles.q) + Base::query_buffer(turn) +
                             static_cast<std::uint32_t>(Base::first_row_of_warp() * kDim);
    const float scale = Base::template put_operands<Base::Makers::all>(
        {at.sequence, at.head}, {first, to}, turn == 0 ? Base::Puts::keys_too : Base::Puts::queries);
    if (turn == 0)
      __syncthreads();
    else
      __syncwarp();
    return scale;
  }

  /// The warp's rows of a tile, and their outputs.
  __device__ __forceinline__ void attend_rows(float scale, std::int32_t turn) {
    float scales[attn::RowScales<S>::kCount];
    static_assert(attn::RowScales<S>::kCount == TokenCodes::kSteps, "a lane opens a row of each step");
#pragma unroll
    for (std::uint32_t step = 0; step < TokenCodes::kSteps; ++step)
      scales[step] = __shfl_sync(tile::kAllLanes, scale, static_cast<int>(step), TokenCodes::kLanesOfRow);
    Rows rows;
    attn::open_rows(rows, scheme_, scales, 0, 0);
    attn::forget_tokens(rows);
    rows[0].blocks_seen = rows[1].blocks_seen = 1;
    typename attn::Outputs<S, kDim / 8>::Local local;
    attn::Outputs<S, kDim / 8> outputs(shared_.sums(blockDim.x / kWarp, threadIdx.x / kWarp), local);
    Base::attend_blocks(
        rows, turn, [](std::int32_t) {},
        [&](const auto& p, const attn::KeyBlock& block) { this->fold_values(rows, outputs, p, block); });
    if (Base::has_rows(turn)) Base::end(rows, outputs, turn);
  }
};

/// A block of threads that keeps keys leaves room for so many on a processor, by what mma's kernels take.
inline constexpr int kThreads = mma::kMostWarps * kWarp, kBlocksOfProcessor = 3;

/// Grid: [tiles of rows of all sequences, heads].
template <template <class> class Scheme, int kIndex>
__global__ __launch_bounds__(kThreads,
                             kBlocksOfProcessor) void attend(const __grid_constant__ Call call,
                                                             const __grid_constant__ PlainSequences plain) {
  OCTET_DYNAMIC_SHARED(memory, 512);
  using Shared = mma::SharedPlan<Scheme<DeviceLane>, mma::kTileTable[kIndex]>;
  Attention<Scheme, kIndex>(call, plain, *reinterpret_cast<Shared*>(memory)).run();
}

}  // namespace octet::cuda::plain
