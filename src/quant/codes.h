// Rows of codes: written from scaled values, read back as numbers.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "octet/types.hpp"
#include "quant/rows.h"

namespace octet::quant {

/// Adding 1.5 * 2^23 leaves a float whose last place is 1, so the adder rounds to nearest even and the low
/// bits of the sum are the integer in two's complement. Exact for |x| < 2^22; vectorises with SSE2, std::rint
/// does not.
inline constexpr float kRoundToInteger = 12582912.0f;

/// The code nearest to value, in [-limit, limit]. Clamps the magnitude's bits, which order like the values
/// do: compilers vectorise integer selects, but not float ones, whose comparisons might trap.
OCTET_HD std::int32_t nearest_code(float value, float limit) {
  const std::uint32_t bits = bits_of(value);
  const std::int32_t size = as_signed(bits & kAbsMask), most = as_signed(bits_of(limit));
  const std::uint32_t clamped = as_unsigned(size < most ? size : most) | (bits & ~kAbsMask);
  return as_signed(bits_of(float_of(clamped) + kRoundToInteger)) - as_signed(bits_of(kRoundToInteger));
}

/// s8, s4, e4m3 and e5m2 are codes that need scales; f16, bf16, f32 and f64 are plain numbers.
bool has_scales(DType format);

/// s8 and s4 have no NaN and no Inf.
bool is_integer(DType format);

/// The largest code of a format: 127, 7, 448, 57344; 0 for plain formats.
float largest_code_of(DType format);

/// Writes channels [0, channels) of row (b, h, t) of `codes` (dim stride 1) from `values`, which are
/// multiplied by the reciprocal scale already. s8 and s4: clamped to +-127 and +-7, then rounded to nearest
/// even; every value must be a number. s4: two a byte, the last high nibble of an odd dim is 0. e4m3 and
/// e5m2: rounded to nearest even, finite values saturate. f16, bf16: rounded to nearest even, Inf beyond
/// their range.
void write_codes(const TensorView& codes, std::int64_t b, std::int64_t h, std::int64_t t, const float* values,
                 std::int64_t channels);

/// values[c] = code(b, h, t, c) as f32, for every format of write_codes.
void read_codes(const TensorView& codes, std::int64_t b, std::int64_t h, std::int64_t t, float* values);

}  // namespace octet::quant
