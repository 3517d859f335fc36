// The kernel of token_floors.cu.
#pragma once
#include <cstdint>

#include "cuda/quant/quantize.h"
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// Tokens that follow others of their head, with codes and scales of their own.
struct TokenFloors {
  RowReading rows;  ///< neither shifted, rotated nor equalised
  Coding coding;    ///< of tokens' scales
  ScaleFloors floors;
};

/// The floor of a token's scale: `largest` is that of its head before it, 0 before any.
__device__ inline float floor_after(const ScaleFloors& floors, float largest) {
  return fmaxf(quant::scale_floor(largest, floors.octaves), floors.first_floor);
}
/// The largest with a token of that scale, which below the first floor is none; one below its floor is no
/// larger than those before it.
__device__ inline float largest_with(const ScaleFloors& floors, float largest, float scale) {
  return scale >= floors.first_floor ? fmaxf(largest, scale) : largest;
}
/// The scale of a token that is given its floor: the quantiser's of a shared amax.
__device__ inline quant::Scale raised(const ScaleMaking& making, float floor) {
  return making.of(making.largest_code * floor, 0);
}

void launch_token_floors(const TokenFloors& floors, void* stream);

}  // namespace octet::cuda
