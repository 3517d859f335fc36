// The row kernels in lanes. A translation unit of an instruction set includes this and fills its table with
// RowsIn<its lane>; see lanes/vector.h for why the lane's tag keeps the units apart.
#include "lanes/exchange.h"
#include "lanes/vector.h"
#include "numerics/formats.h"
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
  /// body(lane, vectors, c): several vectors of channels beside each other.
  template <class Body>
  static OCTET_HOST void each_column(std::int64_t channels, const Body& body) {
    constexpr int kVectors = 4;
    std::int64_t c = 0;
    for (; c + kVectors * kWidth <= channels; c += kVectors * kWidth) body(L{}, Vectors<kVectors>{}, c);
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
    OCTET_HOST std::uint32_t bits() const {
      return as_unsigned(ScalarLane::max_i32(single, simd::largest_lane(lanes)));
    }
  };

  // --- read

  /// to[r] = step(lane, x, c) of each number.
  template <class Source, class Step>
  static OCTET_HOST void convert_with(const Rows& x, const RowSpace& out, std::uint32_t* largest,
                                      const Step& step) {
    for (std::int64_t r = 0; r < x.count; ++r) {
      const auto* from = static_cast<const typename Source::Stored*>(x.data) + r * x.stride;
      float* to = out.data + r * out.stride;
      Peak peak;
      each(x.channels, [&](auto lane, std::int64_t c) {
        using Lane = decltype(lane);
        const typename Lane::F32 v = step(lane, Source::template load<Lane>(from + c), c);
        Lane::store(to + c, v);
        peak.see(lane, v);
      });
      largest[r] = peak.bits();
    }
  }

  /// (x - shift) * factor, where these are given.
  template <class Source>
  static void convert(const Rows& x, const RowSteps& steps, const RowSpace& out, std::uint32_t* largest) {
    const float *shift = steps.shift, *factor = steps.factor;
    if (shift)
      convert_with<Source>(x, out, largest, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        v = Lane::sub(v, Lane::load(shift + c));
        return factor ? Lane::mul(v, Lane::load(factor + c)) : v;
      });
    else if (factor)
      convert_with<Source>(x, out, largest, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        return Lane::mul(v, Lane::load(factor + c));
      });
    else
      convert_with<Source>(x, out, largest, [](auto, auto v, std::int64_t) { return v; });
  }

  /// One row on its way through the butterfly; from may be to.
  struct Turn {
    const float* from;
    const float* shift;  ///< null: none
    const float* factor;
    float* to;
    std::int64_t channels, block;  ///< channels: a multiple of the block, which is a power of two
  };

  /// Shift, factor and the butterfly's stages within kCount vectors from channel c on.
  template <int kCount>
  static OCTET_HOST void rotate_vectors(const Turn& t, std::int64_t c, Peak& peak) {
    typename L::F32 x[kCount];
    for (int i = 0; i < kCount; ++i) x[i] = L::load(t.from + c + i * kWidth);
    if (t.shift)
      for (int i = 0; i < kCount; ++i) x[i] = x[i] - L::load(t.shift + c + i * kWidth);
    for (int i = 0; i < kCount; ++i) x[i] = simd::butterflies(x[i] * L::load(t.factor + c + i * kWidth));
    for (int stride = 1; stride < kCount; stride *= 2)
      for (int i = 0; i < kCount; ++i) {
        if (i & stride) continue;
        const typename L::F32 a = x[i], b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
    for (int i = 0; i < kCount; ++i) {
      L::store(t.to + c + i * kWidth, x[i]);
      peak.see(L{}, x[i]);
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

  template <int kCount>
  static std::uint32_t rotate_by(const Turn& t) {
    Peak first, last;
    for (std::int64_t c = 0; c < t.channels; c += kCount * kWidth) rotate_vectors<kCount>(t, c, first);
    if (t.block == kCount * kWidth) return first.bits();
    rotate_in_memory<L>(t.to, t.channels, t.block, kCount * kWidth, last);
    return last.bits();
  }

  static std::uint32_t rotate_short(const Turn& t) {
    Peak peak;
    for (std::int64_t c = 0; c < t.channels; ++c) {
      t.to[c] = (t.shift ? t.from[c] - t.shift[c] : t.from[c]) * t.factor[c];
      if (t.block == 1) peak.see(ScalarLane{}, t.to[c]);
    }
    rotate_in_memory<ScalarLane>(t.to, t.channels, t.block, 1, peak);
    return peak.bits();
  }

  static std::uint32_t rotate(const Turn& t) {
    switch (t.block / kWidth) {
      case 0:
        return rotate_short(t);
      case 1:
        return rotate_by<1>(t);
      case 2:
        return rotate_by<2>(t);
      case 4:
        return rotate_by<4>(t);
      default:
        return rotate_by<kMostVectors>(t);
    }
  }

  static void read(const Rows& x, const RowSteps& steps, const RowSpace& out, std::uint32_t* largest) {
    // Rows that the butterfly cannot read where they are become floats first, padded with zeros.
    const bool rotates = steps.hadamard > 0, padded = x.channels < out.channels;
    const bool direct = rotates && !padded && x.dtype == DType::f32;
    const RowSteps before = !rotates ? steps : padded ? RowSteps{steps.shift, nullptr, 0} : RowSteps{};
    if (!direct && x.dtype == DType::f16)
      convert<FromF16>(x, before, out, largest);
    else if (!direct && x.dtype == DType::bf16)
      convert<FromBf16>(x, before, out, largest);
    else if (!direct)
      convert<FromF32>(x, before, out, largest);
    if (!rotates) return;

    for (std::int64_t r = 0; r < x.count; ++r) {
      float* to = out.data + r * out.stride;
      for (std::int64_t c = x.channels; c < out.channels; ++c) to[c] = 0;
      const float* from = direct ? static_cast<const float*>(x.data) + r * x.stride : to;
      largest[r] =
          rotate({from, padded ? nullptr : steps.shift, steps.factor, to, out.channels, steps.hadamard});
    }
  }

  // --- Statistics of channels

  static std::uint32_t channel_largest(const FloatRows& x, std::uint32_t* largest) {
    Peak all;
    each_column(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
      using Lane = decltype(lane);
      constexpr int kVectors = decltype(vectors)::kVectors;
      typename Lane::I32 most[kVectors];
      auto* at = reinterpret_cast<std::int32_t*>(largest) + begin;
      for (int i = 0; i < kVectors; ++i) most[i] = Lane::load(at + i * Lane::kWidth);
      for (std::int64_t r = 0; r < x.count; ++r)
        for (int i = 0; i < kVectors; ++i) {
          const typename Lane::F32 v = Lane::load(x.row(r) + begin + i * Lane::kWidth);
          const typename Lane::I32 bits = size_bits<Lane>(v);
          all.see(lane, v);
          most[i] = Lane::max_i32(most[i], Lane::select_i32(Lane::less_i32(bits, kInf), bits, 0));
        }
      for (int i = 0; i < kVectors; ++i) Lane::store(at + i * Lane::kWidth, most[i]);
    });
    return all.bits();
  }

  /// sum[c] += term(lane, x, c), row after row.
  template <class Term>
  static OCTET_HOST void add_terms(const FloatRows& x, float* sum, const Term& term) {
    each_column(x.channels, [&](auto lane, auto vectors, std::int64_t begin) {
      using Lane = decltype(lane);
      constexpr int kVectors = decltype(vectors)::kVectors;
      typename Lane::F32 s[kVectors];
      for (int i = 0; i < kVectors; ++i) s[i] = Lane::load(sum + begin + i * Lane::kWidth);
      for (std::int64_t r = 0; r < x.count; ++r)
        for (int i = 0; i < kVectors; ++i) {
          const std::int64_t c = begin + i * Lane::kWidth;
          s[i] = s[i] + term(lane, Lane::load(x.row(r) + c), c);
        }
      for (int i = 0; i < kVectors; ++i) Lane::store(sum + begin + i * Lane::kWidth, s[i]);
    });
  }

  static void add(const FloatRows& x, float factor, float* sum) {
    add_terms(x, sum, [&](auto lane, auto v, std::int64_t) {
      using Lane = decltype(lane);
      return finite<Lane>(v, Lane::broadcast(0.0f)) * factor;
    });
  }

  static void add_squares(const FloatRows& x, const float* factor, float* sum) {
    add_terms(x, sum, [&](auto lane, auto v, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::F32 y = Lane::mul(finite<Lane>(v, Lane::broadcast(0.0f)), Lane::load(factor + c));
      return y * y;
    });
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

  template <class Lane, class Scale>
  static OCTET_HOST void encode(const float* from, Scale rscale, std::int8_t* to) {
    const typename Lane::F32 x = Lane::mul(Lane::load(from), rscale);
    Lane::store(to, Lane::to_s8_i32(Lane::nearest_i32(Lane::min(Lane::max(x, -127.0f), 127.0f))));
  }

  /// rscale(lane, row, c).
  template <class Scale>
  static OCTET_HOST void encode_rows(const FloatRows& x, const Scale& rscale, std::int8_t* out,
                                     std::int64_t out_stride) {
    using Wide = VectorLane<32, RowTag>;  // 4 registers of AVX2: one of bytes
    for (std::int64_t r = 0; r < x.count; ++r) {
      const float* from = x.row(r);
      std::int8_t* to = out + r * out_stride;
      std::int64_t c = 0;
      for (; c + Wide::kWidth <= x.channels; c += Wide::kWidth)
        encode<Wide>(from + c, rscale(Wide{}, r, c), to + c);
      for (; c + kWidth <= x.channels; c += kWidth) encode<L>(from + c, rscale(L{}, r, c), to + c);
      for (; c < x.channels; ++c) encode<ScalarLane>(from + c, rscale(ScalarLane{}, r, c), to + c);
    }
  }

  static void codes(const FloatRows& x, const float* rscale, std::int8_t* out, std::int64_t out_stride) {
    encode_rows(
        x, [&](auto, std::int64_t r, std::int64_t) { return rscale[r]; }, out, out_stride);
  }
  static void codes_by_channel(const FloatRows& x, const float* rscale, std::int8_t* out,
                               std::int64_t out_stride) {
    encode_rows(
        x, [&](auto lane, std::int64_t, std::int64_t c) { return decltype(lane)::load(rscale + c); }, out,
        out_stride);
  }

  static constexpr RowKernels kTable{read,  channel_largest, add, add_squares, nearest_scales,
                                     codes, codes_by_channel};
};

}  // namespace
}  // namespace octet::quant
