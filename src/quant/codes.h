// Rows of codes: written from scaled values, read back as numbers.
#pragma once
#include <cstdint>

#include "octet/types.hpp"

namespace octet::quant {

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
