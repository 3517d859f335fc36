// Rows of f32 as the floats below it, in lanes, and back: the bits of formats.h.
#pragma once
#include <cstdint>

#include "numerics/formats.h"
#include "octet/types.hpp"

namespace octet {

/// Writes x[0...count) to `out`, one element after another, as f16, bf16, e4m3 or e5m2; other dtypes are not
/// written. Compiled once for each instruction set.
using NarrowRow = void (*)(const float* x, std::int64_t count, DType to, void* out);

/// Writes codes[0...count), one element after another, to `out` as f32: f16, bf16, e4m3 or e5m2; false: codes
/// of any other dtype, of which nothing is written. A signalling NaN of f16 becomes a quiet one. Compiled
/// once for each instruction set.
using WideRow = bool (*)(const void* codes, std::int64_t count, DType from, float* out);

/// How 32 bits of a lane become a stored element.
struct AsHalf {
  using Stored = std::uint16_t;
  template <class Lane, class U32>
  static OCTET_HD auto of(U32 code) {
    return Lane::to_u16_i32(as_signed(code));
  }
};
struct AsByte {
  using Stored = std::uint8_t;
  template <class Lane, class U32>
  static OCTET_HD auto of(U32 code) {
    return Lane::to_u8_i32(as_signed(code));
  }
};

/// L: the lane of one register. Elements that fill no vector are written one by one.
template <class L>
struct RowsNarrowed {
  template <class As, class Code>
  static OCTET_HOST void write(const float* x, std::int64_t count, void* out, const Code& code) {
    auto* to = static_cast<typename As::Stored*>(out);
    const auto put = [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      Lane::store(to + c, As::template of<Lane>(code(Lane::load(x + c))));
    };
    std::int64_t c = 0;
    for (; c + L::kWidth <= count; c += L::kWidth) put(L{}, c);
    for (; c < count; ++c) put(typename L::Scalar{}, c);
  }

  static void run(const float* x, std::int64_t count, DType to, void* out) {
    switch (to) {
      case DType::f16:
        return write<AsHalf>(x, count, out, [](auto v) { return f16_code_from_f32(v); });
      case DType::bf16:
        return write<AsHalf>(x, count, out, [](auto v) { return bf16_code_from_f32(v); });
      case DType::e4m3:
        return write<AsByte>(x, count, out, [](auto v) { return e4m3_code_from_f32(v); });
      case DType::e5m2:
        return write<AsByte>(x, count, out, [](auto v) { return e5m2_code_from_f32(v); });
      default:
        return;
    }
  }
};

}  // namespace octet
