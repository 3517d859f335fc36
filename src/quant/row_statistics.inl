// What is known of rows before they become codes: largest sizes, sums and sums of squares; a part of
// row_kernels.inl.
#pragma once
#include "base/ask_for.h"
#include "quant/row_lanes.inl"

namespace octet::quant {
namespace {

template <class L>
struct RowStatistics {
  using Peak = quant::Peak<L>;
  using Peaks = quant::Peaks<L>;
  static constexpr std::int64_t kWidth = L::kWidth;

  /// A row's channels are kCount vectors, whose factors stay in registers.
  template <class Source, int kCount, bool kMultiplies>
  static OCTET_HOST std::uint32_t row_largest_of(const Rows& x, const float* factor, std::uint32_t* largest) {
    typename L::F32 factors[kCount];
    for (int i = 0; kMultiplies && i < kCount; ++i) factors[i] = L::load(factor + i * kWidth);
    return peaks_of_rows<L>(x.count, largest,
                            [&](std::int64_t first, std::int64_t count, PeaksTogether<L>& peaks) {
                              for (std::int64_t r = 0; r < count; ++r) {
                                Peak peak;
                                const auto* row = stored<Source>(x, first + r);
                                ask_for_half<Source>(x, first + r, Half::first);
                                for (int i = 0; i < kCount; ++i) {
                                  typename L::F32 v = Source::template load<L>(row + i * kWidth);
                                  if constexpr (kMultiplies) v = v * factors[i];
                                  peak.see(L{}, v);
                                }
                                peaks.see(r, peak);
                              }
                            });
  }

  template <class Source, bool kMultiplies>
  static std::uint32_t row_largest_from(const Rows& x, const float* factor, std::uint32_t* largest) {
    if constexpr (!simd::kIsPair<typename L::F32>) {
      if (x.channels == 2 * kWidth) return row_largest_of<Source, 2, kMultiplies>(x, factor, largest);
      if (x.channels == 4 * kWidth) return row_largest_of<Source, 4, kMultiplies>(x, factor, largest);
      if (x.channels == 8 * kWidth) return row_largest_of<Source, 8, kMultiplies>(x, factor, largest);
    }
    Peaks peaks{largest};
    for (std::int64_t r = 0; r < x.count; ++r) {
      Peak peak;
      const auto* row = stored<Source>(x, r);
      ask_for_half<Source>(x, r, Half::first);
      each_column<L>(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
        using Lane = decltype(lane);
        for (int i = 0; i < decltype(vectors)::kVectors; ++i) {
          const std::int64_t c = begin + i * Lane::kWidth;
          typename Lane::F32 v = Source::template load<Lane>(row + c);
          if constexpr (kMultiplies) v = Lane::mul(v, Lane::load(factor + c));
          peak.see(lane, v);
        }
      });
      peaks.see(r, peak);
    }
    return peaks.all.bits();
  }
  static std::uint32_t row_largest(const Rows& x, const float* factor, std::uint32_t* largest) {
    std::uint32_t most = 0;
    from_any(x.dtype, [&](auto source) {
      using Source = decltype(source);
      most = factor ? row_largest_from<Source, true>(x, factor, largest)
                    : row_largest_from<Source, false>(x, nullptr, largest);
    });
    return most;
  }

  // NaN and Inf are rare, and looking for them costs as much as the statistics: each is taken of all elements
  // first, and anew where it comes out neither.

  template <class Lane, int kVectors>
  static OCTET_HOST std::uint32_t largest_of(const typename Lane::I32 (&x)[kVectors]) {
    typename Lane::I32 all = x[0];
    for (int i = 1; i < kVectors; ++i) all = Lane::max_i32(all, x[i]);
    if constexpr (Lane::kWidth == 1)
      return as_unsigned(all);
    else
      return as_unsigned(simd::largest_lane(all));
  }

  static std::uint32_t channel_largest(const FloatRows& x, std::uint32_t* largest) {
    std::uint32_t all = 0;
    each_column<L>(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
      using Lane = decltype(lane);
      constexpr int kVectors = decltype(vectors)::kVectors;
      auto* at = reinterpret_cast<std::int32_t*>(largest) + begin;
      typename Lane::I32 most[kVectors];
      const auto over_rows = [&](const auto& counted) {
        for (int i = 0; i < kVectors; ++i) most[i] = Lane::load(at + i * Lane::kWidth);
        for (std::int64_t r = 0; r < x.count; ++r)
          for (int i = 0; i < kVectors; ++i)
            most[i] = Lane::max_i32(
                most[i], counted(size_bits<Lane>(Lane::load(x.row(r) + begin + i * Lane::kWidth))));
      };
      over_rows([](auto bits) { return bits; });
      const std::uint32_t here = largest_of<Lane>(most);
      if (here >= static_cast<std::uint32_t>(kInfinity))
        over_rows([](auto bits) { return Lane::select_i32(Lane::less_i32(bits, kInfinity), bits, 0); });
      for (int i = 0; i < kVectors; ++i) Lane::store(at + i * Lane::kWidth, most[i]);
      all = all > here ? all : here;
    });
    return all;
  }

  /// sum[c] += term(lane, x, c), row after row.
  template <class Source, class Term>
  static OCTET_HOST void add_terms(const Rows& x, float* sum, const Term& term) {
    each_column<L>(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
      using Lane = decltype(lane);
      constexpr int kVectors = decltype(vectors)::kVectors;
      typename Lane::F32 s[kVectors];
      const auto over_rows = [&](const auto& counted) {
        for (int i = 0; i < kVectors; ++i) s[i] = Lane::load(sum + begin + i * Lane::kWidth);
        const auto* row = stored<Source>(x);
        for (std::int64_t r = 0; r < x.count; ++r, row += x.stride)
          for (int i = 0; i < kVectors; ++i) {
            const std::int64_t c = begin + i * Lane::kWidth;
            s[i] = s[i] + term(lane, counted(Source::template load<Lane>(row + c)), c);
          }
      };
      over_rows([](auto v) { return v; });
      typename Lane::I32 bits[kVectors];
      for (int i = 0; i < kVectors; ++i) bits[i] = size_bits<Lane>(s[i]);
      if (largest_of<Lane>(bits) >= static_cast<std::uint32_t>(kInfinity))
        over_rows([](auto v) { return finite<Lane>(v, Lane::broadcast(0.0f)); });
      for (int i = 0; i < kVectors; ++i) Lane::store(sum + begin + i * Lane::kWidth, s[i]);
    });
  }

  static void add(const Rows& x, float factor, float* sum) {
    from_any(x.dtype, [&](auto source) {
      add_terms<decltype(source)>(x, sum, [&](auto, auto v, std::int64_t) { return v * factor; });
    });
  }

  static void add_squares(const FloatRows& x, const float* factor, float* sum) {
    add_terms<FromF32>(x, sum, [&](auto lane, auto v, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::F32 y = Lane::mul(v, Lane::load(factor + c));
      return y * y;
    });
  }

  template <class Source>
  static void add_squares_of(const Rows& x, float* sum, std::int32_t* least, std::int32_t* most) {
    each_column<L, 3>(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
      using Lane = decltype(lane);
      constexpr int kVectors = decltype(vectors)::kVectors;
      typename Lane::F32 s[kVectors];
      typename Lane::I32 low[kVectors], high[kVectors];
      for (int i = 0; i < kVectors; ++i) {
        const std::int64_t c = begin + i * Lane::kWidth;
        s[i] = Lane::load(sum + c), low[i] = Lane::load(least + c), high[i] = Lane::load(most + c);
      }
      const auto* row = stored<Source>(x) + begin;
      for (std::int64_t r = 0; r < x.count; ++r, row += x.stride)
        for (int i = 0; i < kVectors; ++i) {
          const typename Lane::F32 v = Source::template load<Lane>(row + i * Lane::kWidth), square = v * v;
          s[i] = s[i] + square;
          low[i] = Lane::min_i32(low[i], Lane::bits(square));
          high[i] = Lane::max_i32(high[i], Lane::bits(square));
        }
      for (int i = 0; i < kVectors; ++i) {
        const std::int64_t c = begin + i * Lane::kWidth;
        Lane::store(sum + c, s[i]), Lane::store(least + c, low[i]), Lane::store(most + c, high[i]);
      }
    });
  }

  static void add_plain_squares(const Rows& x, float* sum, std::int32_t* least, std::int32_t* most) {
    from_any(x.dtype, [&](auto source) { add_squares_of<decltype(source)>(x, sum, least, most); });
  }
};

}  // namespace
}  // namespace octet::quant
