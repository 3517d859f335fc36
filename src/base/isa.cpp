#include "base/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/env.h"

namespace octet {
namespace {

constexpr std::string_view kNames[kIsas] = {"amx_int8", "avx512_fp16", "avx512_vnni", "avx_vnni", "avx2"};
constexpr std::string_view kScalar = "scalar";

bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 4));
}

/// clang 14's __builtin_cpu_supports does not know it by name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & (1u << 29));
}

bool has_avx512_fp16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & (1u << 23));
}

/// Linux gives a process the tiles when it asks for them.
bool has_amx_int8() {
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of <asm/prctl.h>
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & kTile) && (edx & kInt8) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// __builtin_cpu_supports asks the operating system too: a set whose registers it does not save is not there.
bool has(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::amx_int8:
      return has(Isa::avx512_fp16) && has_amx_int8();
    case Isa::avx512_fp16:
      return has(Isa::avx512_vnni) && __builtin_cpu_supports("avx512vbmi") && has_avx512_fp16();
    case Isa::avx512_vnni:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::avx_vnni:
      return avx2 && has_avx_vnni();
    default:
      return avx2;
  }
}

/// A set that has no code of its own for a scheme leaves it to those that it includes.
bool includes(std::string_view set, Isa isa) {
  if (set == name_of(isa)) return true;
  const bool with_fp16 = set == name_of(Isa::avx512_fp16), with_amx = set == name_of(Isa::amx_int8);
  return isa == Isa::avx512_vnni ? with_fp16 || with_amx : isa == Isa::avx512_fp16 && with_amx;
}

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::string refusal(Isa isa) {
  const std::string forced = env::isa();
  if (!forced.empty() && !includes(forced, isa)) {
    bool known = forced == kScalar;
    std::string names(kScalar);
    for (std::string_view name : kNames) {
      known |= forced == name;
      names += ", " + std::string(name);
    }
    if (!known)
      return "OCTET_ISA is " + forced + "; it must be one of " + names + "; unset it to let octet choose";
    return "OCTET_ISA is " + forced;
  }
  static const bool there[kIsas] = {has(Isa::amx_int8), has(Isa::avx512_fp16), has(Isa::avx512_vnni),
                                    has(Isa::avx_vnni), has(Isa::avx2)};
  return there[static_cast<int>(isa)] ? "" : "this CPU has no " + std::string(name_of(isa));
}

}  // namespace octet
