// The row kernels in lanes. A translation unit of an instruction set includes this and fills its table with
// RowsIn<its lane>; see lanes/vector.h for why the lane's tag keeps the units apart.
#include "lanes/exchange.h"
#include "lanes/vector.h"
#include "numerics/formats.h"
#include "quant/packed_rows.inl"
#include "quant/row_kernels.h"

namespace octet::quant {
namespace {

struct RowTag {};

/// How a stored element becomes a number.
struct FromF32 {
  using Stored = float;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    return Lane::load(at);
  }
};
struct FromF16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    if constexpr (simd::kConvertsF16 && Lane::kWidth > 1)
      return simd::from_f16(Lane::load(at));
    else
      return f32_from_f16_code(as_unsigned(Lane::widen_u16(Lane::load(at))));
  }
};
struct FromBf16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    return float_of(as_unsigned(Lane::widen_u16(Lane::load(at))) << 16);
  }
};

/// Vectors that a function holds in registers beside each other: enough to hide an addition's latency.
template <int kCount>
struct Vectors {
  static constexpr int kVectors = kCount;
};

/// L: the lane of one register. Channels that fill no vector are computed one by one.
template <class L>
struct RowsIn {
  static constexpr std::int64_t kWidth = L::kWidth;
  static constexpr std::int32_t kAbs = 0x7fffffff;
  static constexpr std::int32_t kInf = 0x7f800000;
  static constexpr int kMostVectors = 8;  // of a butterfly in registers: half of those that AVX2 has

  /// body(lane, c) for every channel, several at once.
  template <class Body>
  static OCTET_HOST void each(std::int64_t channels, const Body& body) {
    std::int64_t c = 0;
    for (; c + kWidth <= channels; c += kWidth) body(L{}, c);
    for (; c < channels; ++c) body(ScalarLane{}, c);
  }
  /// body(lane, vectors, c): several vectors of channels beside each other, of kLive registers each.
  template <int kLive = 1, class Body>
  static OCTET_HOST void each_column(std::int64_t channels, const Body& body) {
    constexpr int kRegisters = kWidth == 16 ? 32 : 16;
    std::int64_t c = 0;
    if constexpr (!simd::kIsPair<typename L::F32> && 8 * kLive < kRegisters)
      for (; c + 8 * kWidth <= channels; c += 8 * kWidth) body(L{}, Vectors<8>{}, c);
    for (; c + 4 * kWidth <= channels; c += 4 * kWidth) body(L{}, Vectors<4>{}, c);
    for (; c + 2 * kWidth <= channels; c += 2 * kWidth) body(L{}, Vectors<2>{}, c);
    for (; c + kWidth <= channels; c += kWidth) body(L{}, Vectors<1>{}, c);
    for (; c < channels; ++c) body(ScalarLane{}, Vectors<1>{}, c);
  }

  template <class Lane>
  static OCTET_HOST auto size_bits(typename Lane::F32 x) {
    return Lane::bits(x) & kAbs;
  }
  /// x, or 0 where it is NaN or Inf.
  template <class Lane>
  static OCTET_HOST auto finite(typename Lane::F32 x, typename Lane::F32 otherwise) {
    return Lane::select(Lane::less_i32(size_bits<Lane>(x), kInf), x, otherwise);
  }

  /// The largest |x| that it was shown.
  struct Peak {
    typename L::I32 lanes{};
    std::int32_t single = 0;

    OCTET_HOST void see(L, typename L::F32 x) { lanes = L::max_i32(lanes, size_bits<L>(x)); }
    OCTET_HOST void see(ScalarLane, float x) {
      single = ScalarLane::max_i32(single, size_bits<ScalarLane>(x));
    }
    OCTET_HOST void see(const Peak& other) {
      lanes = L::max_i32(lanes, other.lanes);
      single = ScalarLane::max_i32(single, other.single);
    }
    OCTET_HOST std::uint32_t bits() const {
      return as_unsigned(ScalarLane::max_i32(single, simd::largest_lane(lanes)));
    }
  };

  /// The peaks of rows, of which all are wanted or only the largest.
  struct Peaks {
    std::uint32_t* largest;  ///< [row], or null
    Peak all{};

    OCTET_HOST void see(std::int64_t row, const Peak& peak) {
      if (largest) largest[row] = peak.bits();
      all.see(peak);
    }
  };

  /// The same of up to kRows rows, the largest lanes of as many of which as a register has lanes are found
  /// together. note: 6 % of the butterfly's time on Zen 4. Rows that are only looked at take a fifth longer
  /// so.
  struct PeaksTogether {
    static constexpr std::int64_t kRows = 16;
    static constexpr bool kTogether = !simd::kIsPair<typename L::I32>;
    static_assert(!kTogether || kRows % kWidth == 0);

    Peaks peaks;
    typename L::I32 waiting[kTogether ? kRows : 1];

    OCTET_HOST explicit PeaksTogether(std::uint32_t* largest) : peaks{largest} {}

    OCTET_HOST void see(std::int64_t row, const Peak& peak) {
      if (!kTogether || !peaks.largest) return peaks.see(row, peak);
      waiting[row] = peak.single == 0 ? peak.lanes : L::max_i32(peak.lanes, peak.single);
    }
    /// After the last of `count` rows.
    OCTET_HOST void end([[maybe_unused]] std::int64_t count) {
      if constexpr (kTogether) {
        if (!peaks.largest) return;
        for (std::int64_t i = count; i < kRows; ++i) waiting[i] = typename L::I32{};
        for (std::int64_t r = 0; r < count; r += kWidth) {
          auto& rows = *reinterpret_cast<typename L::I32(*)[kWidth]>(waiting + r);
          const typename L::I32 found = simd::largest_lanes(rows);
          const std::int64_t here = count - r;
          if (here >= kWidth)
            L::store(reinterpret_cast<std::int32_t*>(peaks.largest) + r, found);
          else
            __builtin_memcpy(peaks.largest + r, &found, static_cast<std::size_t>(4 * here));
          peaks.all.see(Peak{found});
        }
      }
    }
  };

  /// body(source): of rows of that type.
  template <class Body>
  static OCTET_HOST void from_any(DType dtype, const Body& body) {
    if (dtype == DType::f16)
      body(FromF16{});
    else if (dtype == DType::bf16)
      body(FromBf16{});
    else
      body(FromF32{});
  }
  template <class Source>
  static OCTET_HOST const typename Source::Stored* stored(const Rows& x) {
    return static_cast<const typename Source::Stored*>(x.data);
  }

  // --- read

  /// to[r] = step(lane, x, c) of each number.
  template <class Source, class Step>
  static OCTET_HOST void convert_with(const Rows& x, const RowSpace& out, Peaks& peaks, const Step& step) {
    for (std::int64_t r = 0; r < x.count; ++r) {
      const auto* from = stored<Source>(x) + r * x.stride;
      float* to = out.data + r * out.stride;
      if (x.next)
        ask_for(static_cast<const typename Source::Stored*>(x.next) + r * x.stride, 0,
                x.channels * std::int64_t{sizeof *from});
      Peak peak;
      each(x.channels, [&](auto lane, std::int64_t c) {
        using Lane = decltype(lane);
        const typename Lane::F32 v = step(lane, Source::template load<Lane>(from + c), c);
        Lane::store(to + c, v);
        peak.see(lane, v);
      });
      peaks.see(r, peak);
    }
  }

  /// (x - shift) * factor, where these are given.
  template <class Source>
  static void convert(const Rows& x, const RowSteps& steps, const RowSpace& out, Peaks& peaks) {
    const float *shift = steps.shift, *factor = steps.factor;
    if (shift)
      convert_with<Source>(x, out, peaks, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        v = Lane::sub(v, Lane::load(shift + c));
        return factor ? Lane::mul(v, Lane::load(factor + c)) : v;
      });
    else if (factor)
      convert_with<Source>(x, out, peaks, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        return Lane::mul(v, Lane::load(factor + c));
      });
    else
      convert_with<Source>(x, out, peaks, [](auto, auto v, std::int64_t) { return v; });
  }

  template <class Source>
  static void floats_from(const Rows& x, const RowSpace& out) {
    const auto* from = stored<Source>(x);
    float* to = out.data;
    const bool is_one = x.stride == x.channels && out.stride == x.channels;  // row after row
    const std::int64_t count = is_one ? 1 : x.count, channels = is_one ? x.count * x.channels : x.channels;
    for (std::int64_t r = 0; r < count; ++r, from += x.stride, to += out.stride)
      each_column(channels, [&](auto lane, auto vectors, std::int64_t begin) {
        using Lane = decltype(lane);
        for (int i = 0; i < decltype(vectors)::kVectors; ++i) {
          const std::int64_t c = begin + i * Lane::kWidth;
          Lane::store(to + c, Source::template load<Lane>(from + c));
        }
      });
  }
  static void floats(const Rows& x, const RowSpace& out) {
    from_any(x.dtype, [&](auto source) { floats_from<decltype(source)>(x, out); });
  }

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

  static void convert(const Rows& x, const RowSteps& steps, const RowSpace& out, Peaks& peaks) {
    from_any(x.dtype, [&](auto source) { convert<decltype(source)>(x, steps, out, peaks); });
  }

  template <class Source>
  static void rotate_from(const Rows& x, const float* shift, const RowSteps& steps, const RowSpace& out,
                          PeaksTogether& peaks) {
    const std::int64_t element = sizeof(typename Source::Stored);
    rotate<Source>({stored<Source>(x), x.stride, shift, steps.factor, out.data, out.stride, x.count,
                    out.channels, steps.hadamard, x.next, x.stride * element, x.channels * element},
                   peaks);
  }

  /// Rows of fewer channels than the butterfly's become floats first, shifted and padded with zeros.
  static void read_rotated(const Rows& x, const RowSteps& steps, const RowSpace& out, PeaksTogether& peaks) {
    if (x.channels == out.channels)
      return from_any(x.dtype,
                      [&](auto source) { rotate_from<decltype(source)>(x, steps.shift, steps, out, peaks); });
    Peaks none{nullptr};
    convert(x, {steps.shift, nullptr, 0}, out, none);
    for (std::int64_t r = 0; r < x.count; ++r)
      for (std::int64_t c = x.channels; c < out.channels; ++c) out.data[r * out.stride + c] = 0;
    rotate_from<FromF32>({out.data, DType::f32, out.stride, x.count, out.channels}, nullptr, steps, out,
                         peaks);
  }

  static std::uint32_t read(const Rows& x, const RowSteps& steps, const RowSpace& out,
                            std::uint32_t* largest) {
    if (steps.hadamard == 0) {
      Peaks peaks{largest};
      convert(x, steps, out, peaks);
      return peaks.all.bits();
    }
    PeaksTogether together(largest);
    // Stay in the first-level cache from one pass over them to the next.
    constexpr std::int64_t kRows = PeaksTogether::kRows;
    const std::int64_t row_bytes = x.stride * bytes_of_number(x.dtype);
    for (std::int64_t r = 0; r < x.count; r += kRows) {
      Rows some = x;
      some.data = x.row(r);
      if (x.next) some.next = static_cast<const char*>(x.next) + r * row_bytes;
      some.count = x.count - r < kRows ? x.count - r : kRows;
      together.peaks.largest = largest ? largest + r : nullptr;
      read_rotated(some, steps, {out.data + r * out.stride, out.stride, out.channels}, together);
      together.end(some.count);
    }
    return together.peaks.all.bits();
  }

  /// A row's channels are kCount vectors, whose factors stay in registers.
  template <int kCount, bool kMultiplies>
  static OCTET_HOST void row_largest_of(const FloatRows& x, const float* factor, Peaks& peaks) {
    typename L::F32 factors[kCount];
    for (int i = 0; kMultiplies && i < kCount; ++i) factors[i] = L::load(factor + i * kWidth);
    for (std::int64_t r = 0; r < x.count; ++r) {
      Peak peak;
      const float* row = x.row(r);
      if (x.next) ask_for(x.next + r * x.stride, 0, 2 * x.channels);  // one half, codes() the other
      for (int i = 0; i < kCount; ++i) {
        typename L::F32 v = L::load(row + i * kWidth);
        if constexpr (kMultiplies) v = v * factors[i];
        peak.see(L{}, v);
      }
      peaks.see(r, peak);
    }
  }

  template <bool kMultiplies>
  static OCTET_HOST void row_largest(const FloatRows& x, const float* factor, Peaks& peaks) {
    if constexpr (!simd::kIsPair<typename L::F32>) {
      if (x.channels == 2 * kWidth) return row_largest_of<2, kMultiplies>(x, factor, peaks);
      if (x.channels == 4 * kWidth) return row_largest_of<4, kMultiplies>(x, factor, peaks);
      if (x.channels == 8 * kWidth) return row_largest_of<8, kMultiplies>(x, factor, peaks);
    }
    for (std::int64_t r = 0; r < x.count; ++r) {
      Peak peak;
      const float* row = x.row(r);
      if (x.next) ask_for(x.next + r * x.stride, 0, 2 * x.channels);
      each_column(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
        using Lane = decltype(lane);
        for (int i = 0; i < decltype(vectors)::kVectors; ++i) {
          const std::int64_t c = begin + i * Lane::kWidth;
          typename Lane::F32 v = Lane::load(row + c);
          if constexpr (kMultiplies) v = Lane::mul(v, Lane::load(factor + c));
          peak.see(lane, v);
        }
      });
      peaks.see(r, peak);
    }
  }
  static std::uint32_t row_largest(const FloatRows& x, const float* factor, std::uint32_t* largest) {
    Peaks peaks{largest};
    if (factor)
      row_largest<true>(x, factor, peaks);
    else
      row_largest<false>(x, nullptr, peaks);
    return peaks.all.bits();
  }

  // --- Statistics of channels

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
    each_column(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
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
      if (here >= static_cast<std::uint32_t>(kInf))
        over_rows([](auto bits) { return Lane::select_i32(Lane::less_i32(bits, kInf), bits, 0); });
      for (int i = 0; i < kVectors; ++i) Lane::store(at + i * Lane::kWidth, most[i]);
      all = all > here ? all : here;
    });
    return all;
  }

  /// sum[c] += term(lane, x, c), row after row.
  template <class Source, class Term>
  static OCTET_HOST void add_terms(const Rows& x, float* sum, const Term& term) {
    each_column(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
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
      if (largest_of<Lane>(bits) >= static_cast<std::uint32_t>(kInf))
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
    each_column<3>(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
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

  // --- Scales and codes

  static void nearest_scales(const float* amax, std::int64_t count, float floor, float largest_code,
                             float* scale, float* rscale) {
    constexpr float kLeast = 0x1p-126f;
    const float smallest = floor > kLeast ? floor : kLeast;
    const float zero_rscale = floor > 0 ? 1 / floor : 0.0f;
    each(count, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::F32 a = Lane::load(amax + c);
      const typename Lane::F32 s = Lane::div(a, largest_code), r = Lane::div(largest_code, a);
      const auto small = Lane::less(s, smallest), some = Lane::less(0.0f, a);
      Lane::store(scale + c, Lane::select(some, Lane::select(small, smallest, s), floor));
      Lane::store(rscale + c, Lane::select(some, Lane::select(small, 1 / smallest, r), zero_rscale));
    });
  }

  /// M g <= R with 24 bits of amax in M, and R / 16 those of the largest code, doubled where its mantissa is
  /// the smaller one: 29 bits. g is found bit by bit, from 16.
  static bool sixteenth_scales(const float* amax, std::int64_t count, float floor, float largest_code,
                               float* scale, float* rscale) {
    // So that scales, exponents and their reciprocals are normal numbers.
    constexpr float kLeastAmax = 0x1p-100f, kLeastCode = 2, kMostCode = 0x1p16f;
    if (!(largest_code >= kLeastCode && largest_code <= kMostCode)) return false;
    constexpr std::int32_t kMantissa = (1 << kF32MantissaBits) - 1, kTop = 1 << kF32MantissaBits;
    const std::int32_t code_bits = ScalarLane::bits(largest_code);
    const std::int32_t code_mantissa = (code_bits & kMantissa) | kTop,
                       code_exponent = code_bits >> kF32MantissaBits;
    const float zero_rscale = floor > 0 ? 1 / floor : 0.0f;
    std::int32_t tiny = 0;
    each(count, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      using I32 = typename Lane::I32;
      const typename Lane::F32 a = Lane::load(amax + c);
      const auto some = Lane::less(0.0f, a), small = Lane::less(a, kLeastAmax);
      const I32 bits = Lane::bits(a), mantissa = (bits & kMantissa) | kTop;
      const auto carries = Lane::less_i32(code_mantissa, mantissa);
      const I32 room = Lane::select_i32(carries, 32 * code_mantissa, 16 * code_mantissa);
      I32 g = Lane::add_i32(16, 0), product = Lane::shl_i32(mantissa, 4);
      for (std::int32_t bit = 8; bit != 0; bit /= 2) {
        const I32 more = Lane::add_i32(product, Lane::mul_i32(mantissa, bit));
        const auto fits = Lane::less_i32(more, Lane::add_i32(room, 1));
        product = Lane::select_i32(fits, more, product);
        g = Lane::select_i32(fits, Lane::add_i32(g, bit), g);
      }
      const I32 exponent =
          Lane::add_i32(Lane::sub_i32(Lane::sra_i32(bits, kF32MantissaBits), code_exponent - kF32Bias),
                        Lane::select_i32(carries, 1, 0));
      const typename Lane::F32 power = Lane::from_bits(Lane::shl_i32(exponent, kF32MantissaBits)),
                               g_f32 = Lane::to_f32(g);
      const typename Lane::F32 s = Lane::mul(power, Lane::div(16.0f, g_f32)),
                               r = Lane::div(Lane::mul(g_f32, 0.0625f), power);
      const typename Lane::F32 least = Lane::broadcast(floor);
      const auto below = Lane::less(s, floor);
      Lane::store(scale + c, Lane::select(some, Lane::select(below, least, s), least));
      Lane::store(rscale + c, Lane::select(some, Lane::select(below, zero_rscale, r), zero_rscale));
      const I32 bad = Lane::select_i32(some, Lane::select_i32(small, 1, 0), 0);
      if constexpr (Lane::kWidth == 1)
        tiny |= bad;
      else
        tiny |= simd::largest_lane(bad);
    });
    return tiny == 0;
  }

  /// Four registers: one of bytes.
  using Wide = VectorLane<32 < 4 * kWidth ? 4 * kWidth : 32, RowTag>;

  /// scaled(lane, x, row, c): what the code is nearest to, within +-127.5.
  template <class Scaled>
  static OCTET_HOST void encode_rows(const FloatRows& x, const Scaled& scaled, std::int8_t* out,
                                     std::int64_t out_stride) {
    const std::int64_t channels = x.channels, rows = x.count;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = x.row(r);
      std::int8_t* to = out + r * out_stride;
      if (x.next) ask_for(x.next + r * x.stride, 2 * channels, 4 * channels);
      const auto put = [&](auto lane, std::int64_t c) {
        using Lane = decltype(lane);
        Lane::store(to + c, Lane::to_s8_i32(Lane::nearest_i32(scaled(lane, Lane::load(from + c), r, c))));
      };
      std::int64_t c = 0;
      for (; c + Wide::kWidth <= channels; c += Wide::kWidth) put(Wide{}, c);
      for (; c + kWidth <= channels; c += kWidth) put(L{}, c);
      for (; c < channels; ++c) put(ScalarLane{}, c);
    }
  }

  /// Codes of rows of kCount wide vectors, whose factors stay in registers.
  template <int kCount, bool kMultiplies>
  static OCTET_HOST void codes_of(const FloatRows& x, const float* factor, const float* rscale,
                                  std::int8_t* out, std::int64_t out_stride) {
    typename Wide::F32 factors[kCount];
    for (int i = 0; kMultiplies && i < kCount; ++i) factors[i] = Wide::load(factor + i * Wide::kWidth);
    const std::int64_t rows = x.count, channels = kCount * Wide::kWidth;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = x.row(r);
      const float by = rscale[r];
      if (x.next) ask_for(x.next + r * x.stride, 2 * channels, 4 * channels);
      for (int i = 0; i < kCount; ++i) {
        typename Wide::F32 v = Wide::load(from + i * Wide::kWidth);
        if constexpr (kMultiplies) v = Wide::mul(v, factors[i]);
        Wide::store(out + r * out_stride + i * Wide::kWidth,
                    Wide::to_s8_i32(Wide::nearest_i32(Wide::mul(v, by))));
      }
    }
  }

  static void codes(const FloatRows& x, const float* factor, const float* rscale, std::int8_t* out,
                    std::int64_t out_stride) {
    if (kWidth == 16 && x.channels == Wide::kWidth)
      return factor ? codes_of<1, true>(x, factor, rscale, out, out_stride)
                    : codes_of<1, false>(x, factor, rscale, out, out_stride);
    if (kWidth == 16 && x.channels == 2 * Wide::kWidth)
      return factor ? codes_of<2, true>(x, factor, rscale, out, out_stride)
                    : codes_of<2, false>(x, factor, rscale, out, out_stride);
    if (factor)
      encode_rows(
          x,
          [&](auto lane, auto v, std::int64_t r, std::int64_t c) {
            using Lane = decltype(lane);
            return Lane::mul(Lane::mul(v, Lane::load(factor + c)), rscale[r]);
          },
          out, out_stride);
    else
      encode_rows(
          x, [&](auto, auto v, std::int64_t r, std::int64_t) { return v * rscale[r]; }, out, out_stride);
  }
  static void codes_by_channel(const FloatRows& x, const float* rscale, std::int8_t* out,
                               std::int64_t out_stride) {
    encode_rows(
        x,
        [&](auto lane, auto v, std::int64_t, std::int64_t c) {
          using Lane = decltype(lane);
          return Lane::min(Lane::max(Lane::mul(v, Lane::load(rscale + c)), -127.0f), 127.0f);
        },
        out, out_stride);
  }

  static constexpr RowKernels kTable{floats,
                                     read,
                                     row_largest,
                                     channel_largest,
                                     add,
                                     add_squares,
                                     add_plain_squares,
                                     nearest_scales,
                                     sixteenth_scales,
                                     codes,
                                     codes_by_channel,
                                     PackedRows<L>::table(),
                                     RowsNarrowed<L>::run};
};

}  // namespace
}  // namespace octet::quant
