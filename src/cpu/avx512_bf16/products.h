// The register tiles of AVX-512 with BF16: pairs of bf16 to f32 sums.
#pragma once
#include "cpu/tile.h"

namespace octet::cpu::avx512 {

// vdpbf16ps adds the second product of a pair, then the first, rounding each sum; what is below 2^-126, of
// operands and of sums, counts as 0.
void multiply_bf16(const Tile& tile, std::int64_t columns);
std::int64_t multiply_bf16_and_fold(const Tile& tile, const TileFold& fold, std::int64_t columns);
void multiply_few_qk_bf16(const Tile& tile, std::int64_t columns);
void multiply_few_pv_bf16(const Tile& tile, std::int64_t columns);

}  // namespace octet::cpu::avx512
