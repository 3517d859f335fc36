// The ends of rows whose codes have a scale of their own (Output::row_scale): it comes from the row's largest
// output, and so after all of them.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/own_rows.cuh"
#include "cuda/attn/row_store.cuh"
#include "cuda/tile/quad.cuh"
#include "numerics/contract.h"

namespace octet::cuda::attn {

/// Rows that end in codes with a scale of their own, sixteen of a warp.
template <LongRows S, int kTiles, int kDim>
class ScaledRows {
 public:
  __device__ __forceinline__ ScaledRows(const S& scheme, Outputs<S, kTiles>& outputs,
                                        const LaneRow<S> (&rows)[kRowsALane],
                                        const typename S::Channel* channels, const RowStore& store,
                                        StagedRow<kDim>* staged)
      : scheme_(scheme),
        outputs_(outputs),
        rows_(rows),
        own_(rows[0].own),
        channels_(channels),
        store_(store),
        staged_(staged) {
    std::int32_t seen[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) seen[r] = rows[r].blocks_seen;
    saw_ = of_own_row(seen) > 0;
  }

  /// The scale of the lane's own row.
  __device__ __forceinline__ float end() {
    const bool closes = __any_sync(tile::kAllLanes, !own_.window.alone());
    if (closes) [[unlikely]]
      outputs_.close(rows_);
    float scale = 0;
    if (end_quickly(closes, scale)) [[likely]]
      return scale;
    if (!closes) outputs_.close(rows_);
    return end_exactly();
  }

 private:
  using Quick = typename S::QuickEnds;

  /// body(tile, row, the row's two sums, their channels' constants), in a loop that is not unrolled: code
  /// that runs once takes longer to fetch than to run.
  template <class Body>
  __device__ __forceinline__ void each_pair(const Body& body) {
#pragma unroll 1
    for (int i = 0; i < kTiles; ++i) {
      typename S::Channel channel[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) channel[c] = channels_[i * 8 + column() + c];
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) body(i, r, outputs_.sums(i, r), channel);
    }
  }

  /// Whether 31 bits of all of the warp's outputs decided their codes.
  __device__ __forceinline__ bool end_quickly(bool closed, float& own_scale) {
    const bool in_window = !closed && S::Window::is_lower(own_.window.contents());
    const auto sums_of = in_window ? S::SumsOf::window : S::SumsOf::total;
    std::int32_t largest_exponent = Quick::exponent(channels_[column()]);
    std::uint32_t sizes[kRowsALane] = {}, peak[kRowsALane] = {};
    each_pair([&](int, int r, const auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (r == 0) largest_exponent = max(largest_exponent, Quick::exponent(channel[c]));
        sizes[r] |= Quick::size(sums.of[c]);
      }
    });
    largest_exponent = tile::over_quad(largest_exponent, tile::Larger{});
    const std::uint32_t own_down =
        Quick::down(over_quad_of_own(sizes, [](std::uint32_t a, std::uint32_t b) { return a | b; }));
    std::uint32_t down[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) down[r] = from_row(own_down, r);
    each_pair([&](int, int r, auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::int32_t output =
            Quick::output(sums.of[c], down[r], Quick::factor(channel[c], largest_exponent));
        peak[r] = max(peak[r], static_cast<std::uint32_t>(abs(output)));
      }
    });
    const std::uint32_t own_peak = over_quad_of_own(peak, tile::Larger{});
    typename Quick::Row own{};  // of a row that saw nothing: all its codes are 0
    own.sure = true;
    if (saw_) own = scheme_.quick_row(own_peak, own_.state, own_down, largest_exponent, sums_of);
    if (!__all_sync(tile::kAllLanes, own.sure)) return false;
    own_scale = saw_ ? S::output_scale(own.scale_exponent) : 0;
    typename Quick::Row of[kRowsALane];
    float factor[kRowsALane];
    std::uint32_t least[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      of[r] = own.passed([&](const auto& word) { return from_row(word, r); });
      factor[r] = from_row(store_.code_factor(own_scale), r);
      least[r] = 2 * of[r].margin;
    }
    each_pair([&](int i, int r, const auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::int32_t output =
            Quick::output(sums.of[c], down[r], Quick::factor(channel[c], largest_exponent));
        const auto code = Quick::code(output, of[r]);
        least[r] = min(least[r], code.above);
        put(i, r, c, code.code, factor[r]);
      }
    });
    bool decided = true;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) decided = decided && least[r] >= 2 * of[r].margin;
    return __all_sync(tile::kAllLanes, decided);
  }

  /// Outputs before their scale take the place of their sums, and the row's largest comes from all of them.
  __device__ __forceinline__ float end_exactly() {
    constexpr std::uint32_t kSign = 1u << 31;  // of a mantissa, which has 31 bits
    typename S::Wide peak[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) peak[r] = scheme_.finish(0, channels_[column()]);
    each_pair([&](int, int r, auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const typename S::Wide wide = scheme_.finish(sums.of[c], channel[c]);
        peak[r] = scheme_.larger(peak[r], wide);
        const std::uint32_t word = as_unsigned(wide.mantissa) | (as_unsigned(wide.sign) & kSign);
        sums.of[c] = static_cast<std::int64_t>(std::uint64_t{as_unsigned(wide.exponent)} << 32 | word);
      }
    });
    const auto largest =
        over_quad_of_own(peak, [&](const auto& a, const auto& b) { return scheme_.larger(a, b); });
    typename S::Ending own{};
    if (saw_) own = scheme_.ending(own_.state, own_.row, largest);
    const float own_scale = scheme_.output_scale(own);
    typename S::Ending of[kRowsALane];
    float factor[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      of[r] = own.passed([&](const auto& word) { return from_row(word, r); });
      factor[r] = from_row(store_.code_factor(own_scale), r);
    }
    each_pair([&](int i, int r, const auto& sums, const auto&) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const auto sum = static_cast<std::uint64_t>(sums.of[c]);
        const auto word = static_cast<std::uint32_t>(sum);
        const typename S::Wide wide{as_signed(word & ~kSign),
                                    as_signed(static_cast<std::uint32_t>(sum >> 32)), as_signed(word) >> 31};
        put(i, r, c, scheme_.output_code(wide, of[r]), factor[r]);
      }
    });
    return own_scale;
  }

  __device__ __forceinline__ void put(int tile, int r, int c, std::int32_t code, float factor) const {
    staged_[static_cast<int>(threadIdx.x % 32) / 4 + 8 * r].number[tile * 8 + column() + c] =
        static_cast<float>(code) * factor;
  }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  const S& scheme_;
  Outputs<S, kTiles>& outputs_;
  const LaneRow<S> (&rows_)[kRowsALane];
  const OwnRow<S>& own_;
  const typename S::Channel* channels_;
  const RowStore& store_;
  StagedRow<kDim>* staged_;
  bool saw_;
};

}  // namespace octet::cuda::attn
