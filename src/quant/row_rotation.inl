// Rows through the butterfly of Hadamard: shifted, multiplied by signs and rotated, with the largest size of
// each; a part of row_kernels.inl.
#pragma once
#include "base/ask_for.h"
#include "quant/row_lanes.inl"

namespace octet::quant {
namespace {

template <class L>
struct RowRotation {
  using Peak = quant::Peak<L>;
  using PeaksTogether = quant::PeaksTogether<L>;
  static constexpr std::int64_t kWidth = L::kWidth;
  static constexpr int kMostVectors = 8;  // of a butterfly in registers: half of those that AVX2 has

  /// Rows on their way through the butterfly; from may be to.
  template <class Source>
  struct Turn {
    const typename Source::Stored* from;
    std::int64_t from_stride;
    const float* shift;  ///< null: none
    const float* factor;
    float* to;
    std::int64_t to_stride, count;
    std::int64_t channels, block;          ///< channels: a multiple of the block, which is a power of two
    const void* next;                      ///< asked for meanwhile; null: nothing is
    std::int64_t next_stride, next_bytes;  ///< from a row to the next, of a row

    OCTET_HOST void ask_for_next(std::int64_t row) const {
      if (next) ask_for(static_cast<const char*>(next) + row * next_stride, 0, next_bytes);
    }
  };

  /// What kCount vectors of channels are shifted and multiplied by.
  template <int kCount, bool kShifts>
  struct Steps {
    typename L::F32 shift[kCount], factor[kCount];

    template <class Source>
    OCTET_HOST Steps(const Turn<Source>& t, std::int64_t c) {
      for (int i = 0; i < kCount; ++i) {
        if constexpr (kShifts) shift[i] = L::load(t.shift + c + i * kWidth);
        factor[i] = L::load(t.factor + c + i * kWidth);
      }
    }
  };

  /// Shift, factor and the butterfly's stages within kCount vectors from channel c on, of kRows rows beside
  /// each other.
  template <int kCount, bool kShifts, int kRows, class Source>
  static OCTET_HOST void rotate_vectors(const Turn<Source>& t, std::int64_t row, std::int64_t c,
                                        const Steps<kCount, kShifts>& steps, Peak (&peak)[kRows]) {
    constexpr int kAll = kRows * kCount;
    // In variables of their own, which no store to `to` might change.
    const std::int64_t from_stride = t.from_stride, to_stride = t.to_stride;
    const auto* from = t.from + row * from_stride + c;
    float* to = t.to + row * to_stride + c;
    typename L::F32 x[kAll];
    for (int i = 0; i < kAll; ++i)
      x[i] = Source::template load<L>(from + i / kCount * from_stride + i % kCount * kWidth);
    if constexpr (kShifts)
      for (int i = 0; i < kAll; ++i) x[i] = x[i] - steps.shift[i % kCount];
    for (int i = 0; i < kAll; ++i) x[i] = x[i] * steps.factor[i % kCount];
    simd::butterflies(x);
    for (int stride = 1; stride < kCount; stride *= 2)
      for (int i = 0; i < kAll; ++i) {
        if (i & stride) continue;
        const typename L::F32 a = x[i], b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
#pragma GCC unroll 8
    for (int i = 0; i < kAll; ++i) {
      L::store(to + i / kCount * to_stride + i % kCount * kWidth, x[i]);
      peak[i / kCount].see(L{}, x[i]);
    }
  }

  /// The stages with strides from `stride` on, in memory; lanes of one value where a block fills no vector.
  template <class Lane>
  static OCTET_HOST void rotate_in_memory(float* row, std::int64_t channels, std::int64_t block,
                                          std::int64_t stride, Peak& peak) {
    for (; stride < block; stride *= 2)
      for (std::int64_t base = 0; base < channels; base += 2 * stride)
        for (std::int64_t c = base; c < base + stride; c += Lane::kWidth) {
          const typename Lane::F32 a = Lane::load(row + c), b = Lane::load(row + c + stride);
          const typename Lane::F32 sum = a + b, difference = a - b;
          Lane::store(row + c, sum);
          Lane::store(row + c + stride, difference);
          if (2 * stride == block) peak.see(Lane{}, sum), peak.see(Lane{}, difference);
        }
  }

  /// Rows that are a block each, from `row` on; returns the first that was left.
  template <int kCount, bool kShifts, int kRows, class Source>
  static OCTET_HOST std::int64_t rotate_blocks(const Turn<Source>& t, const Steps<kCount, kShifts>& steps,
                                               std::int64_t row, PeaksTogether& peaks) {
    for (; row + kRows <= t.count; row += kRows) {
      Peak peak[kRows];
      for (int r = 0; r < kRows; ++r) t.ask_for_next(row + r);
      rotate_vectors<kCount, kShifts, kRows>(t, row, 0, steps, peak);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) peaks.see(row + r, peak[r]);
    }
    return row;
  }

  template <int kCount, bool kShifts, class Source>
  static OCTET_HOST void rotate_rows(const Turn<Source>& t, PeaksTogether& peaks) {
    if (kWidth == 16 && t.channels == kCount * kWidth && t.block == t.channels) {
      const Steps<kCount, kShifts> steps(t, 0);  // stay in registers, of which there are 32
      const std::int64_t left = rotate_blocks<kCount, kShifts, kMostVectors / kCount>(t, steps, 0, peaks);
      rotate_blocks<kCount, kShifts, 1>(t, steps, left, peaks);
      return;
    }
    const bool whole = t.block == kCount * kWidth;
    for (std::int64_t r = 0; r < t.count; ++r) {
      t.ask_for_next(r);
      Peak first[1], last;
      for (std::int64_t c = 0; c < t.channels; c += kCount * kWidth)
        rotate_vectors<kCount, kShifts, 1>(t, r, c, {t, c}, first);
      if (!whole) rotate_in_memory<L>(t.to + r * t.to_stride, t.channels, t.block, kCount * kWidth, last);
      peaks.see(r, whole ? first[0] : last);
    }
  }

  template <int kCount, class Source>
  static void rotate_by(const Turn<Source>& t, PeaksTogether& peaks) {
    return t.shift ? rotate_rows<kCount, true>(t, peaks) : rotate_rows<kCount, false>(t, peaks);
  }

  template <class Source>
  static void rotate_short(const Turn<Source>& t, PeaksTogether& peaks) {
    for (std::int64_t r = 0; r < t.count; ++r) {
      Peak peak;
      const auto* from = t.from + r * t.from_stride;
      float* to = t.to + r * t.to_stride;
      for (std::int64_t c = 0; c < t.channels; ++c) {
        const float x = Source::template load<ScalarLane>(from + c);
        to[c] = (t.shift ? x - t.shift[c] : x) * t.factor[c];
        if (t.block == 1) peak.see(ScalarLane{}, to[c]);
      }
      rotate_in_memory<ScalarLane>(to, t.channels, t.block, 1, peak);
      peaks.see(r, peak);
    }
  }

  template <class Source>
  static void rotate(const Turn<Source>& t, PeaksTogether& peaks) {
    switch (t.block / kWidth) {
      case 0:
        return rotate_short(t, peaks);
      case 1:
        return rotate_by<1>(t, peaks);
      case 2:
        return rotate_by<2>(t, peaks);
      case 4:
        return rotate_by<4>(t, peaks);
      default:
        return rotate_by<kMostVectors>(t, peaks);
    }
  }

  template <class Source>
  static void rotate_from(const Rows& x, const float* shift, const RowSteps& steps, const RowSpace& out,
                          PeaksTogether& peaks) {
    const std::int64_t element = sizeof(typename Source::Stored);
    rotate<Source>({stored<Source>(x), x.stride, shift, steps.factor, out.data, out.stride, x.count,
                    out.channels, steps.hadamard, x.next, x.stride * element, x.channels * element},
                   peaks);
  }
};

}  // namespace
}  // namespace octet::quant
