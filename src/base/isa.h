// The x86 instruction sets that octet has code for, and which of them this process may use.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

/// Fastest first. Each includes what comes with it on every CPU that has it:
enum class Isa : std::int32_t {
  amx_int8 = 0,  ///< avx512_fp16's and AMX's tiles of 8 bits: Sapphire Rapids and later
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

/// Why sets after it are faster on this CPU, though it has this one. Empty: they are not, or OCTET_ISA names
/// this one.
std::string why_slow(Isa isa);

}  // namespace octet
