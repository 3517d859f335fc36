// From a group's absolute maximum to its scale.
#pragma once
#include "quant/quantize.h"

namespace octet::quant {

/// real = code * scale; code = round(real * rscale).
struct Scale {
  float scale = 0;
  float rscale = 0;
};

/// The scale of a group whose largest finite |x| is amax, at least `floor` (0: none).
/// nearest: scale = amax / largest_code and rscale = largest_code / amax, each one correctly rounded f32
/// division; where that scale is below 2^-126 or below the floor, scale is the larger of the two and
/// rscale = 1 / scale.
/// power_of_two: scale = 2^e, the smallest with 2^e >= amax / largest_code and e >= -126, found from
/// mantissas and exponents; rscale = 2^-e.
/// sixteenths: scale = 2^e * 16 / g rounded to f32, the same e and the largest g of 16...31 that it allows;
/// rscale = 2^-e * g / 16. A zero group has scale `floor`, and rscale 0 where that is 0.
Scale group_scale(float amax, float floor, ScaleRule rule, float largest_code);

/// The floor of scales whose reference (the largest scale of their block or head) is `largest`:
/// largest * 2^-octaves, but at least 2^-126; 0 where largest is 0 or octaves is 0.
float scale_floor(float largest, int octaves);

}  // namespace octet::quant
