// How full a call of few keys must be for Hopper's kernels to be faster there than those of mma.sync.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "cuda/attn/call.h"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

/// percent: of the rows of the tiles that all processors take in as many turns as the call has, by the tile's
/// head dim. More than 100: never.
struct LeastFill {
  Scheme scheme;
  std::int32_t percent[kTileCount];
};

/// Where both take as long, between shapes that were measured (H100, 8 to 64 x 6 heads, 197 to 512 keys;
/// results/device/cuda-tiles-few-keys.json). mma.sync multiplies e4m3 as halves there, and has little room
/// for outputs of 256 channels, most of all beside a V of 16 bits. Keys that share a scale (Form::uniform)
/// are its best case.
inline constexpr LeastFill kLeastFill[] = {
    {Scheme::int8, {90, 70, 75}},       {Scheme::int8_full, {70, 60, 75}}, {Scheme::int8_half, {85, 66, 50}},
    {Scheme::f16, {88, 75, 50}},        {Scheme::bf16, {88, 75, 50}},      {Scheme::fp8, {55, 40, 40}},
    {Scheme::fp8_hybrid, {55, 45, 40}}, {Scheme::int8_fp8, {65, 45, 45}},  {Scheme::int8_shift, {92, 75, 80}},
    {Scheme::int8_lut, {90, 70, 80}},   {Scheme::int4, {101, 85, 101}}};
inline constexpr LeastFill kLeastFillOfUniform = {Scheme::int8, {90, 90, 75}};

/// tile: index into kHeadDims.
constexpr std::int32_t least_fill(Scheme scheme, Form form, int tile) {
  constexpr std::int32_t kNever = 101;
  if (scheme == Scheme::int8 && form == Form::uniform) return kLeastFillOfUniform.percent[tile];
  const auto* of = std::ranges::find(kLeastFill, scheme, &LeastFill::scheme);
  return of == std::end(kLeastFill) ? kNever : of->percent[tile];
}

}  // namespace octet::cuda::wgmma
