// Which instructions there are, what a round of each counts, and whether this machine has them.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "probe/kernels.h"
#include "probe/probe.h"

namespace octet::probe {
namespace {

/// A feature bit of CPUID leaf 7.
enum class Register { eax, ebx, ecx, edx };
bool leaf7(unsigned subleaf, Register which, int bit) {
  unsigned r[4] = {};
  if (!__get_cpuid_count(7, subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  return (r[static_cast<int>(which)] >> bit & 1u) != 0;
}

// note: __builtin_cpu_supports also asks whether the system saves the registers; the bits beyond it are only
// looked at on top of a set that it knows.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }
bool has_avx_vnni() { return has_avx2() && leaf7(1, Register::eax, 4); }
bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool has_avx512_bf16() { return has_avx512() && leaf7(1, Register::eax, 5); }
bool has_avx512_fp16() { return has_avx512() && leaf7(0, Register::edx, 23); }

/// Linux gives a process the tiles when it asks for them.
bool has_amx_int8() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of <asm/prctl.h>
  return has_avx512() && leaf7(0, Register::edx, 24) && leaf7(0, Register::edx, 25) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// A multiply-add of one element counts two operations.
constexpr double kChains = 12, kAmxChains = 6;
constexpr double operations(double vector_bits, double element_bits) {
  return 2 * vector_bits / element_bits;
}

constexpr std::array<Instruction, 8> kInstructions{{
    {"tdpbusd", kAmxChains * 2 * 16 * 16 * 64, has_amx_int8, run_tdpbusd},
    {"vpdpbusd_zmm", kChains* operations(512, 8), has_avx512_vnni, run_vpdpbusd_zmm},
    {"vpdpbusd_ymm", kChains* operations(256, 8), has_avx_vnni, run_vpdpbusd_ymm},
    {"vpmaddwd_ymm", kChains* operations(256, 16), has_avx2, run_vpmaddwd_ymm},
    {"vdpbf16ps_zmm", kChains* operations(512, 16), has_avx512_bf16, run_vdpbf16ps_zmm},
    {"fma_f16_zmm", kChains* operations(512, 16), has_avx512_fp16, run_fma_f16_zmm},
    {"fma_f32_zmm", kChains* operations(512, 32), has_avx512, run_fma_f32_zmm},
    {"fma_f32_ymm", kChains* operations(256, 32), has_avx2, run_fma_f32_ymm},
}};

}  // namespace

std::span<const Instruction> instructions() { return kInstructions; }

}  // namespace octet::probe
