// The ends of rows: outputs as numbers or codes, their scales, the LSE.
#pragma once
#include <cstdint>

#include "cuda/attn/key_parts.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/row_store.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scaled_rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// Where V's scale of a channel is, if it was not folded into P or into the block's sums, and its exponent;
/// null: the scale is 1, the exponent 0.
struct EndScalesAt {
  const float* scale = nullptr;
  const std::int32_t* exponent = nullptr;

  __device__ __forceinline__ EndScalesAt() {}
  __device__ __forceinline__ EndScalesAt(const HeadOperand& v, std::int32_t channel) {
    if (v.has_scales() && !v.scales_vary_by_token()) scale = tile::kept(v.scale_at(0, channel));
    if (v.has_exponents()) exponent = tile::kept(v.exponent_at(channel));
  }
  __device__ __forceinline__ ChannelScales<DeviceLane> read() const {
    return {scale ? *scale : 1.0f, exponent ? *exponent : 0};
  }
};

__device__ __forceinline__ ChannelScales<DeviceLane> end_scales(const HeadOperand& v, std::int32_t channel) {
  return EndScalesAt(v, channel).read();
}

/// What the ends of a lane's rows have in common.
template <class S>
struct Ends {
  __device__ float scale(const S& scheme) const {
    if constexpr (S::kOutput == Output::one_scale)
      return scheme.output_scale();
    else
      return 0;
  }
};
/// Of the lane's own row where rows have scales of their own.
template <class S>
requires(S::kOutput == Output::row_scale) struct Ends<S> {
  float own_scale;
  __device__ float scale(const S&) const { return own_scale; }
};

/// An output as a number or a code, 0 of rows that saw no key.
template <class S>
__device__ __forceinline__ float end_of(const S& scheme, typename S::Out out, const LaneRow<S>& row,
                                        const typename S::Channel& channel, const RowStore& store) {
  float number = static_cast<float>(scheme.finish(out, row.state, row.row, channel));
  if constexpr (S::kOutput == Output::one_scale) number *= store.code_factor(scheme.output_scale());
  return row.saw() ? number : 0;
}

/// Constants of a lane's channels of kTiles tiles, read before any output is written, which might lie in
/// their place for all that the compiler knows.
template <class S, int kTiles>
struct LaneChannels {
  typename S::Channel of[kTiles][2];
  __device__ __forceinline__ LaneChannels(const typename S::Channel* channels, int first_tile) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int c = 0; c < 2; ++c) of[i][c] = channels[channel(first_tile + i) + c];
  }
  static __device__ __forceinline__ int channel(int tile) {
    return tile * 8 + static_cast<int>(threadIdx.x % 4) * 2;
  }
};

/// Outputs of the lane's rows, of kTiles tiles of channels from first_tile on. channels: constants of all
/// channels, those beyond V's too, whose sums are zeros.
template <class S, class RowOutputs, int kTiles>
__device__ __forceinline__ void ends_of(const S& scheme, const RowOutputs& outputs,
                                        const LaneRow<S> (&rows)[kRowsALane],
                                        const typename S::Channel* channels, const RowStore& store,
                                        int first_tile, float (&ends)[kTiles][4]) {
  const LaneChannels<S, kTiles> own(channels, first_tile);
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      ends[i][e] = end_of(scheme, outputs.at(first_tile + i, e), rows[e >> 1], own.of[i][e & 1], store);
}
/// What ends_of() made into `staged`, sixteen rows of the warp.
template <int kTiles, int kDim, class Format>
__device__ __forceinline__ void put_ends(const float (&ends)[kTiles][4], int first_tile,
                                         StagedRow<kDim, Format>* staged) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      staged[lane / 4 + 8 * r].put((first_tile + i) * 8 + lane % 4 * 2, ends[i][2 * r], ends[i][2 * r + 1]);
}

/// Outputs of the lane's rows into `staged`, as numbers or as codes.
template <class S, class RowOutputs, int kDim>
__device__ __forceinline__ Ends<S> end_rows(const S& scheme, RowOutputs& outputs,
                                            const LaneRow<S> (&rows)[kRowsALane],
                                            const typename S::Channel* channels, const RowStore& store,
                                            StagedRow<kDim>* staged) {
  constexpr int kTiles = kDim / 8, kSome = kTiles < 8 ? kTiles : 8;
  if constexpr (S::kOutput == Output::row_scale) {
    return {ScaledRows<S, kTiles, kDim>(scheme, outputs, rows, channels, store, staged).end()};
  } else {
#pragma unroll
    for (int first = 0; first < kTiles; first += kSome) {
      float ends[kSome][4];
      ends_of(scheme, outputs, rows, channels, store, first, ends);
      put_ends(ends, first, staged);
    }
    return {};
  }
}

/// Which keys the warp has had that ends a row: those before the other one's.
enum class Own : std::int32_t { before, after };

/// The state of the lane's first row, whose keys were cut in two parts, becomes that of both, and its outputs
/// are given to each(tile, both), where both(c) is the merged one of channel c of the lane's two. A part that
/// saw no key has the sums 0 and a maximum below all others, so that it adds nothing to one that did.
template <Own kOwn, class S, int kTiles, class Each>
__device__ __forceinline__ void merge_part(const Outputs<S, kTiles>& outputs,
                                           const PartOfRows<S, kTiles>& other, LaneRow<S>& row,
                                           const Each& each) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  typename PartOfRows<S, kTiles>::Four outs[kTiles / 2];
#pragma unroll
  for (int i = 0; i < kTiles / 2; ++i) outs[i] = other.out[i][lane];
  const StateOfRow<S> own{row.state, row.blocks_seen}, of_other = other.row[lane / 4];
  __syncwarp();  // something else may come where they were
  const StateOfRow<S>&before = kOwn == Own::before ? own : of_other,
        &after = kOwn == Own::before ? of_other : own;
  row.state = S::Merge::merge(before.state, after.state);
  row.blocks_seen = own.blocks_seen + of_other.blocks_seen;
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
    each(i, [&](int c) {
      const auto x = outputs.at(i, c), y = outs[i / 2].of[i % 2 * 2 + c];
      auto both = kOwn == Own::before ? x : y;
      S::Merge::merge_out(both, before.state, kOwn == Own::before ? y : x, after.state);
      return both;
    });
}

/// Outputs of the lane's first row, whose keys were cut in two parts, into `staged`, eight rows of the warp,
/// which may be where the other part is.
template <Own kOwn, class S, int kTiles, int kDim>
__device__ __forceinline__ void end_part(const S& scheme, const Outputs<S, kTiles>& outputs,
                                         const PartOfRows<S, kTiles>& other, LaneRow<S>& row,
                                         const typename S::Channel* channels, const RowStore& store,
                                         StagedRow<kDim>* staged) {
  const LaneChannels<S, kTiles> own_channels(channels, 0);
  merge_part<kOwn>(outputs, other, row, [&](int i, const auto& both) {
    const auto end = [&](int c) { return end_of(scheme, both(c), row, own_channels.of[i][c], store); };
    staged[threadIdx.x % 32 / 4].put(own_channels.channel(i), end(0), end(1));
  });
}

/// The LSE, and of codes the scales, of the first kRows of a lane's rows. first, flipped: the warp's first
/// row (row_of_lane()), of `count` in the sequence.
template <int kRows, class S>
__device__ __forceinline__ void store_ends(const S& scheme, const LaneRow<S> (&rows)[kRowsALane],
                                           const Ends<S>& ends, const RowStore& store, std::int32_t first,
                                           int flipped, std::int32_t count) {
  if (!store.wants_ends()) return;
  const auto store_end = [&](std::int32_t number, const LaneRow<S>& row, const auto& of_row) {
    if (number >= count) return;
    if (store.wants_lse()) {
      if (row.saw())
        store.lse(number, scheme.lse(of_row.state, of_row.row));
      else
        store.empty_lse(number);
    }
    store.scale(number, row.saw() ? ends.scale(scheme) : 0);
  };
  const int of_quad = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t number = first + row_of_lane(r, flipped);
    if constexpr (LongRows<S>) {
      if (of_quad == r) store_end(number, rows[r], rows[0].own);
    } else {
      if (of_quad == 0) store_end(number, rows[r], rows[r]);
    }
  }
}

}  // namespace octet::cuda::attn
