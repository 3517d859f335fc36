// Which instructions there are, what a round of each counts, and whether this machine has them.
#include <array>

#include "base/cpu_features.h"
#include "probe/kernels.h"
#include "probe/probe.h"

namespace octet::probe {
namespace {

// note: __builtin_cpu_supports also asks whether the system saves the registers; the bits beyond it are only
// looked at on top of a set that it knows.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }
bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool has_ymm_vnni() { return has_avx2() && has_avx_vnni(); }
bool has_zmm_bf16() { return has_avx512() && has_avx512_bf16(); }
bool has_zmm_fp16() { return has_avx512() && has_avx512_fp16(); }
bool has_tiles() { return has_avx512() && has_amx(); }

// A multiply-add of one element counts two operations.
constexpr double kChains = 12, kAmxChains = 6;
constexpr double operations(double vector_bits, double element_bits) {
  return 2 * vector_bits / element_bits;
}

constexpr std::array<Instruction, 9> kInstructions{{
    {"tdpbusd", kAmxChains * 2 * 16 * 16 * 64, has_tiles, run_tdpbusd},
    {"tdpbf16ps", kAmxChains * 2 * 16 * 16 * 32, has_tiles, run_tdpbf16ps},
    {"vpdpbusd_zmm", kChains* operations(512, 8), has_avx512_vnni, run_vpdpbusd_zmm},
    {"vpdpbusd_ymm", kChains* operations(256, 8), has_ymm_vnni, run_vpdpbusd_ymm},
    {"vpmaddwd_ymm", kChains* operations(256, 16), has_avx2, run_vpmaddwd_ymm},
    {"vdpbf16ps_zmm", kChains* operations(512, 16), has_zmm_bf16, run_vdpbf16ps_zmm},
    {"fma_f16_zmm", kChains* operations(512, 16), has_zmm_fp16, run_fma_f16_zmm},
    {"fma_f32_zmm", kChains* operations(512, 32), has_avx512, run_fma_f32_zmm},
    {"fma_f32_ymm", kChains* operations(256, 32), has_avx2, run_fma_f32_ymm},
}};

}  // namespace

std::span<const Instruction> instructions() { return kInstructions; }

}  // namespace octet::probe
