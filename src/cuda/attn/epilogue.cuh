// The ends of rows: outputs in the caller's format, their scales, the LSE.
#pragma once
#include <cstdint>

#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"

namespace octet::cuda::attn {

/// Where the rows of one head of one sequence lie.
class RowStore {
 public:
  __device__ RowStore(const Call& call, const Sequence& sequence, std::int32_t head)
      : call_(call), batch_(sequence.batch), head_(head), begin_(sequence.begin) {}

  /// Sixteen rows of a warp from shared memory, token `first` and on; rows from `tokens` on are nobody's.
  template <int kDim>
  __device__ void rows(const float (*staged)[kDim], std::int32_t first, std::int32_t tokens,
                       std::int32_t dim_v) const {
    switch (call_.o.dtype) {
      case DType::f16:
        return rows<std::uint16_t>(staged, first, tokens, dim_v, [](float x) { return f16_from_f32(x); });
      case DType::bf16:
        return rows<std::uint16_t>(staged, first, tokens, dim_v, [](float x) { return bf16_from_f32(x); });
      case DType::s8:
        return rows<std::int8_t>(staged, first, tokens, dim_v,
                                 [](float x) { return static_cast<std::int8_t>(x); });
      default:
        return rows<float>(staged, first, tokens, dim_v, [](float x) { return x; });
    }
  }
  /// What a code is multiplied by on its way out: s8 keeps code and scale apart.
  __device__ float code_factor(float scale) const { return call_.o.dtype == DType::s8 ? 1.0f : scale; }
  __device__ void scale(std::int32_t token, float scale) const { row(call_.o_scale, token, scale); }
  /// lse: of the smoothed K; what smoothing took away comes back here.
  __device__ void lse(std::int32_t token, float lse) const {
    if (!call_.lse.data) return;
    double shift = 0;
    if (call_.q_anchor.data)
      shift = static_cast<const float*>(call_.q_anchor.data)[offset(call_.q_anchor, token)];
    row(call_.lse, token, static_cast<float>(lse + shift));
  }
  /// Of a row that saw no key.
  __device__ void empty_lse(std::int32_t token) const { row(call_.lse, token, kMinusInfinity); }

 private:
  __device__ std::int64_t offset(const DeviceTensor& x, std::int32_t token) const {
    return batch_ * x.stride[0] + head_ * x.stride[1] + (begin_ + token) * x.stride[2];
  }
  template <class T, int kDim, class As>
  __device__ void rows(const float (*staged)[kDim], std::int32_t first, std::int32_t tokens,
                       std::int32_t dim_v, const As& as) const {
    constexpr int kRows = 16;
    const std::int64_t step = call_.o.stride[3];
#pragma unroll 1
    for (int r = 0; r < kRows && first + r < tokens; ++r) {
      T* to = static_cast<T*>(call_.o.data) + offset(call_.o, first + r);
      for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x % 32); c < dim_v; c += 32)
        to[c * step] = as(staged[r][c]);
    }
  }
  __device__ void row(const DeviceTensor& x, std::int32_t token, float v) const {
    if (x.data) static_cast<float*>(x.data)[offset(x, token)] = v;
  }

  const Call& call_;
  std::int32_t batch_, head_, begin_;
};

/// V's scale of a channel where it was not folded into P or into the block's sums, and its exponent.
template <class S>
__device__ __forceinline__ typename S::Channel end_channel(const S& scheme, const HeadOperand& v,
                                                           std::int32_t channel) {
  const bool at_the_end = v.has_scales() && !v.scales_vary_by_token();
  return scheme.channel({at_the_end ? v.scale(0, channel) : 1.0f, v.exponent(channel)});
}

/// What the ends of a lane's two rows have in common; only rows of a scale of their own have anything.
template <class S, Output kOutput>
struct Ends {
  __device__ float scale(const S& scheme, int /*row*/) const {
    if constexpr (kOutput == Output::one_scale)
      return scheme.output_scale();
    else
      return 0;
  }
};
template <class S>
struct Ends<S, Output::row_scale> {
  typename S::Ending of[kRowsALane];
  __device__ float scale(const S& scheme, int row) const { return scheme.output_scale(of[row]); }
};

/// Outputs of the lane's rows into `staged`, sixteen rows of the warp, as numbers or as codes. channels:
/// constants of all channels, those beyond V's too, whose sums are zeros.
template <class S, int kTiles, int kDim>
__device__ __forceinline__ Ends<S, S::kOutput> end_rows(const S& scheme, const Outputs<S, kTiles>& outputs,
                                                        const LaneRow<S> (&rows)[kRowsALane],
                                                        const typename S::Channel* channels,
                                                        const RowStore& store, float (*staged)[kDim]) {
  Ends<S, S::kOutput> ends;
  const int lane = static_cast<int>(threadIdx.x % 32), column = lane % 4 * 2;
  if constexpr (S::kOutput == Output::row_scale) {
    // The row's largest output comes first, and each output twice: there is no room for all of them between.
    typename S::Wide peak[kRowsALane];
#pragma unroll 1
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const LaneRow<S>& row = rows[e >> 1];
        const auto wide =
            scheme.finish(outputs.at(i, e), row.state, row.row, channels[i * 8 + column + (e & 1)]);
        peak[e >> 1] = i == 0 && (e & 1) == 0 ? wide : scheme.larger(peak[e >> 1], wide);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      peak[r] = tile::over_quad(peak[r], [&](const auto& a, const auto& b) { return scheme.larger(a, b); });
      ends.of[r] = rows[r].saw() ? scheme.ending(rows[r].state, rows[r].row, peak[r]) : typename S::Ending{};
    }
#pragma unroll 1
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const LaneRow<S>& row = rows[e >> 1];
        const int channel = i * 8 + column + (e & 1);
        const auto wide = scheme.finish(outputs.at(i, e), row.state, row.row, channels[channel]);
        const std::int32_t code = scheme.output_code(wide, ends.of[e >> 1]);
        const float factor = store.code_factor(ends.scale(scheme, e >> 1));
        staged[lane / 4 + 8 * (e >> 1)][channel] = row.saw() ? static_cast<float>(code) * factor : 0;
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const LaneRow<S>& row = rows[e >> 1];
        const int channel = i * 8 + column + (e & 1);
        const auto out = scheme.finish(outputs.at(i, e), row.state, row.row, channels[channel]);
        float number = static_cast<float>(out);
        if constexpr (S::kOutput == Output::one_scale) number *= store.code_factor(scheme.output_scale());
        staged[lane / 4 + 8 * (e >> 1)][channel] = row.saw() ? number : 0;
      }
    }
  }
  return ends;
}

/// The LSE, and of codes the scales.
template <class S>
__device__ __forceinline__ void store_ends(const S& scheme, const LaneRow<S> (&rows)[kRowsALane],
                                           const Ends<S, S::kOutput>& ends, const RowStore& store,
                                           std::int32_t tokens) {
  if (threadIdx.x % 4 != 0) return;
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r) {
    if (rows[r].token >= tokens) continue;
    if (rows[r].saw())
      store.lse(rows[r].token, scheme.lse(rows[r].state, rows[r].row));
    else
      store.empty_lse(rows[r].token);
    store.scale(rows[r].token, rows[r].saw() ? ends.scale(scheme, r) : 0);
  }
}

}  // namespace octet::cuda::attn
