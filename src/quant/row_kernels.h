// What the quantiser does to rows of numbers, as one table of functions an instruction set. All give the same
// bits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/hd.h"
#include "numerics/narrow_row.h"
#include "octet/types.hpp"
#include "quant/rows.h"

namespace octet::quant {

/// `count` rows of f32, f16 or bf16, `stride` elements apart, the channels of each one after the other.
struct Rows {
  const void* data;
  DType dtype;
  std::int64_t stride, count, channels;
  const void* next =
      nullptr;  ///< as many rows likewise, which are read later: asked for meanwhile; null: none

  OCTET_HOST const void* row(std::int64_t r) const {
    return static_cast<const std::byte*>(data) + r * stride * bytes_of_number(dtype);
  }
};

/// The same of floats.
struct FloatRows {
  const float* data;
  std::int64_t stride, count, channels;
  const float* next = nullptr;

  OCTET_HOST const float* row(std::int64_t r) const { return data + r * stride; }
  OCTET_HOST operator Rows() const { return {data, DType::f32, stride, count, channels, next}; }
};

/// Where rows of floats are written.
struct RowSpace {
  float* data;
  std::int64_t stride, channels;
};

/// What is done to each element on its way to codes; docs/numerics/quantisation.md has the order.
struct RowSteps {
  const float* shift = nullptr;   ///< [channel]: taken off; null: nothing is
  const float* factor = nullptr;  ///< [channel]: multiplied by; null: 1
  std::int64_t hadamard = 0;      ///< channels of a block of the butterfly that follows; 0: none
};

/// s8 codes as RowKernels::codes() gives them, packed as base/packed_codes.h says. Rows are a multiple of
/// `tokens`, channels too.
struct PackedCodesKernels {
  std::int64_t tokens = 0;  ///< of a column; 0: the set has no such functions
  void (*columns)(const Rows& x, const float* factor, const float* rscale, std::uint32_t flip,
                  std::byte* out) = nullptr;
  void (*quads)(const Rows& x, const float* factor, const float* rscale, std::byte* out) = nullptr;
};

struct RowKernels {
  /// Rows as floats.
  void (*floats)(const Rows& x, const RowSpace& out);
  /// Rows with the steps done to them; with a butterfly, out may have more channels, which are zeros before
  /// it. largest[row]: the largest |x| of the results as bits, which order like the values do; at least those
  /// of Inf where one is Inf or NaN. Null where nobody asks. Returns the largest of all. x may be out's
  /// memory.
  std::uint32_t (*read)(const Rows& x, const RowSteps& steps, const RowSpace& out, std::uint32_t* largest);
  /// The same of x * factor[c] (null: of x), which is not written.
  std::uint32_t (*row_largest)(const Rows& x, const float* factor, std::uint32_t* largest);
  /// largest[c] = max(largest[c], bits of the finite |x|). Returns the largest bits of all, finite or not.
  std::uint32_t (*channel_largest)(const FloatRows& x, std::uint32_t* largest);
  /// sum[c] += x * factor, row after row; NaN and Inf count as zero.
  void (*add)(const Rows& x, float factor, float* sum);
  /// sum[c] += (x * factor[c])^2, likewise.
  void (*add_squares)(const FloatRows& x, const float* factor, float* sum);
  /// sum[c] += x^2, row after row, whatever x is; least[c] and most[c]: of the squares' bits as signed
  /// numbers, and of what was there.
  void (*add_plain_squares)(const Rows& x, float* sum, std::int32_t* least, std::int32_t* most);
  /// mean_of_scaled() of each sum (mean.h), in its place.
  void (*means)(float* sum, float divisor, std::int64_t channels);
  /// What add_plain_squares() gave, once, as the two passes of equalise.h would give it: sum[c] times 2^-2k
  /// and amax[c] = 2^k, the power of two in the largest |x|. False, and nothing changed, where that cannot
  /// be: a sum is not finite, or a square is none, or tiny.
  bool (*scale_squares)(float* sum, const std::int32_t* least, const std::int32_t* most, float* amax,
                        std::int64_t channels);
  /// channel_exponent() of each channel from the sum of its scaled squares and its amax.
  void (*exponents)(const float* sum, const float* amax, std::int64_t channels, std::int32_t* exponent);
  /// group_scale() of each amax by ScaleRule::nearest.
  void (*nearest_scales)(const float* amax, std::int64_t count, float floor, float largest_code, float* scale,
                         float* rscale);
  /// The same by ScaleRule::sixteenths; false where it cannot: not every such scale is a normal number.
  bool (*sixteenth_scales)(const float* amax, std::int64_t count, float floor, float largest_code,
                           float* scale, float* rscale);
  /// s8 codes: x * factor[c] (null: x) * rscale[row], rounded to nearest even; all of them within +-127.5 and
  /// none NaN.
  void (*codes)(const Rows& x, const float* factor, const float* rscale, std::int8_t* out,
                std::int64_t out_stride);
  /// x * rscale[c], which may be any number, clamped to +-127.
  void (*codes_by_channel)(const FloatRows& x, const float* rscale, std::int8_t* out,
                           std::int64_t out_stride);
  PackedCodesKernels packed;
  NarrowRows narrow;  ///< rows of the float formats
};

/// Those of the fastest instruction set that this process may use.
const RowKernels& row_kernels();

/// Of one instruction set each; call those of a set that the CPU has.
const RowKernels& baseline_row_kernels();
const RowKernels& avx2_row_kernels();
const RowKernels& avx512_row_kernels();

}  // namespace octet::quant
