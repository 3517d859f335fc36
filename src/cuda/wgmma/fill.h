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

/// Where both take as long for rows of two key blocks and more, between shapes that were measured (H100, 48
/// to 384 heads of 197 to 512 keys; docs/cuda-measurements.md). mma.sync multiplies e4m3 as halves there, and
/// has little room for outputs of 256 channels, most of all beside a V of 16 bits. Keys that share a scale
/// (Form::uniform) are its best case.
inline constexpr LeastFill kLeastFill[] = {
    {Scheme::int8, {90, 70, 45}},       {Scheme::int8_full, {70, 60, 50}}, {Scheme::int8_half, {85, 66, 40}},
    {Scheme::f16, {88, 75, 35}},        {Scheme::bf16, {88, 75, 35}},      {Scheme::fp8, {55, 40, 30}},
    {Scheme::fp8_hybrid, {55, 45, 32}}, {Scheme::int8_fp8, {65, 45, 35}},  {Scheme::int8_shift, {92, 75, 50}},
    {Scheme::int8_lut, {90, 70, 50}},   {Scheme::int4, {101, 85, 101}}};
inline constexpr LeastFill kLeastFillOfUniform = {Scheme::int8, {90, 90, 45}};

/// tile: index into kHeadDims. key_blocks: of a row. One alone leaves little to hide a tile's begin and end
/// behind, least where there are few channels.
constexpr std::int32_t least_fill(Scheme scheme, Form form, int tile, std::int64_t key_blocks) {
  constexpr std::int32_t kNever = 101;
  const bool is_lone = key_blocks < 2;
  if (is_lone && kHeadDims[tile] <= 64) return kNever;
  const auto* of = std::ranges::find(kLeastFill, scheme, &LeastFill::scheme);
  if (scheme == Scheme::int8 && form == Form::uniform) of = &kLeastFillOfUniform;
  if (of == std::end(kLeastFill)) return kNever;
  return is_lone ? of->percent[tile] * 3 / 2 : of->percent[tile];
}

}  // namespace octet::cuda::wgmma
