// Features of this x86 processor that clang 14's __builtin_cpu_supports does not know by name. Those of
// AVX-512 mean something only where __builtin_cpu_supports has found AVX-512, whose registers the system must
// save.
#pragma once

namespace octet {

bool has_f16c();
bool has_avx_vnni();
bool has_avx512_bf16();
bool has_avx512_fp16();
/// Whether two products of bf16 take longer than two fused multiply-adds of f32: Intel's processors up to
/// Emerald Rapids at least, on which bf16 so multiplied was half as fast as f32 (docs/cpu-measurements.md).
bool has_slow_bf16();
/// Whether long runs of lines are read faster when they are asked for some KiB ahead: on Zen 5 they are; on
/// Zen 4, which finds such runs by itself, up to half slower (docs/cpu-measurements.md). AVX-VNNI tells them
/// apart.
bool gains_by_asking();
/// Whether what is asked for far ahead had better go to the second-level cache: Intel's, whose first-level
/// one has 16 lines on their way; on Zen 5 into the first-level one is faster (docs/cpu-measurements.md).
bool asks_second_level();
/// AMX's tiles and their products of 8 bits and of bf16, which all processors with the one have had. note:
/// the first call asks Linux to let the process use them.
bool has_amx();

}  // namespace octet
