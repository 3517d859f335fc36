// The x86 instruction sets that octet has code for, and which of them this process may use.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

/// Fastest first. Each includes what comes with it on every CPU that has it:
enum class Isa : std::int32_t {
  amx_int8 = 0,  ///< avx512_fp16's, avx512_bf16's and AMX's tiles: Sapphire Rapids and later
  avx512_fp16,   ///< avx512_vnni's, VBMI and FP16: the same
  avx512_bf16,   ///< avx512_vnni's and BF16: Cooper Lake, Zen 4, Sapphire Rapids and later
  avx512_vnni,   ///< AVX-512 F, BW, CD, DQ, VL and VNNI: Cascade Lake, Zen 4 and later
  avx_vnni,      ///< AVX2, FMA, F16C and 256-bit VNNI: Alder Lake, Zen 5 and later
  avx2,          ///< AVX2, FMA and F16C: Haswell, Zen and later
};
inline constexpr int kIsas = 6;

std::string_view name_of(Isa isa);

/// Why this process may not use it: the CPU or its system lacks it, or OCTET_ISA names another. Empty: it
/// may. note: the first call asks Linux to let the process use AMX's tiles, where the CPU has them.
std::string refusal(Isa isa);

/// Whether avx512_bf16 comes before avx512_vnni where nobody names a kernel: it does unless the CPU
/// multiplies f32 faster and OCTET_ISA does not name it.
bool prefers_bf16();

}  // namespace octet
