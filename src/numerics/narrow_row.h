// Rows of f32 as the floats below it, in lanes, and back: the bits of formats.h.
#pragma once
#include <cstdint>

#include "numerics/formats.h"
#include "octet/types.hpp"

namespace octet {

/// Rows of f32, `stride` elements from one to the next.
struct NumberRows {
  const float* data;
  std::int64_t stride, count, channels;
};

/// Writes rows of f32 to `out`, from a row to the next `out_stride` elements, as f16, bf16, e4m3 or e5m2;
/// other dtypes are not written. Compiled once for each instruction set.
using NarrowRows = void (*)(const NumberRows& x, DType to, void* out, std::int64_t out_stride);

/// Writes codes[0...count), one element after another, to `out` as f32: f16, bf16, e4m3 or e5m2; false: codes
/// of any other dtype, of which nothing is written. A signalling NaN of f16 becomes a quiet one. Compiled
/// once for each instruction set.
using WideRow = bool (*)(const void* codes, std::int64_t count, DType from, float* out);

/// How numbers become stored elements, a lane of them or one.
struct AsBf16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HD auto of(typename Lane::F32 x) {
    return Lane::upper_u16(bf16_above(x));
  }
};
struct AsF16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HD auto of(typename Lane::F32 x) {
    if constexpr (requires { Lane::f16_codes(x); })
      return Lane::f16_codes(Lane::select(x != x, float_of(plain_nan_bits(x)), x));
    else
      return Lane::to_u16_i32(as_signed(f16_code_from_f32(x)));
  }
};
struct AsE4m3 {
  using Stored = std::uint8_t;
  template <class Lane>
  static OCTET_HD auto of(typename Lane::F32 x) {
    return Lane::to_u8_i32(as_signed(e4m3_code_from_f32(x)));
  }
};
struct AsE5m2 {
  using Stored = std::uint8_t;
  template <class Lane>
  static OCTET_HD auto of(typename Lane::F32 x) {
    return Lane::to_u8_i32(as_signed(e5m2_code_from_f32(x)));
  }
};

/// L: the lane of one register. Elements that fill no vector are written one by one.
template <class L>
struct RowsNarrowed {
  /// Two registers of numbers are one of half as wide elements.
  using Both = typename L::template OfWidth<2 * L::kWidth>;

  template <class As>
  static OCTET_HOST void write(const float* x, std::int64_t count, typename As::Stored* to) {
    const auto put = [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      Lane::store(to + c, As::template of<Lane>(Lane::load(x + c)));
    };
    std::int64_t c = 0;
    for (; c + Both::kWidth <= count; c += Both::kWidth) put(Both{}, c);
    if (c + L::kWidth <= count) put(L{}, c), c += L::kWidth;
    for (; c < count; ++c) put(typename L::Scalar{}, c);
  }
  template <class As>
  static OCTET_HOST void write(NumberRows x, void* out, std::int64_t out_stride) {
    auto* to = static_cast<typename As::Stored*>(out);
    if (x.stride == x.channels && out_stride == x.channels) x.channels *= x.count, x.count = 1;
    for (std::int64_t r = 0; r < x.count; ++r)
      write<As>(x.data + r * x.stride, x.channels, to + r * out_stride);
  }

  static void run(const NumberRows& x, DType to, void* out, std::int64_t out_stride) {
    switch (to) {
      case DType::f16:
        return write<AsF16>(x, out, out_stride);
      case DType::bf16:
        return write<AsBf16>(x, out, out_stride);
      case DType::e4m3:
        return write<AsE4m3>(x, out, out_stride);
      case DType::e5m2:
        return write<AsE5m2>(x, out, out_stride);
      default:
        return;
    }
  }
};

}  // namespace octet
