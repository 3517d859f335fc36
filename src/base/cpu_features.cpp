#include "base/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace octet {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
/// Zeros where the processor has no such leaf.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}
bool bit(unsigned word, int number) { return (word >> number & 1u) != 0; }

}  // namespace

bool has_f16c() { return bit(cpuid(1, 0).ecx, 29); }
bool has_avx_vnni() { return bit(cpuid(7, 1).eax, 4); }
bool has_avx512_bf16() { return bit(cpuid(7, 1).eax, 5); }
bool has_avx512_fp16() { return bit(cpuid(7, 0).edx, 23); }

bool has_slow_bf16() { return __builtin_cpu_is("intel") != 0; }
bool asks_second_level() { return __builtin_cpu_is("intel") != 0; }

bool gains_by_asking() { return has_avx_vnni(); }

bool has_amx() {
  constexpr int kBf16 = 22, kTile = 24, kInt8 = 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of <asm/prctl.h>
  const unsigned edx = cpuid(7, 0).edx;
  return bit(edx, kTile) && bit(edx, kInt8) && bit(edx, kBf16) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace octet
