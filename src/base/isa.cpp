#include "base/isa.h"

#include "base/cpu_features.h"
#include "base/env.h"

namespace octet {
namespace {

constexpr std::string_view kNames[kIsas] = {"amx_int8",    "avx512_fp16", "avx512_bf16",
                                            "avx512_vnni", "avx_vnni",    "avx2"};
constexpr std::string_view kScalar = "scalar";

/// __builtin_cpu_supports asks the operating system too: a set whose registers it does not save is not there.
bool has(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::amx_int8:
      return has(Isa::avx512_fp16) && has_avx512_bf16() && has_amx();
    case Isa::avx512_fp16:
      return has(Isa::avx512_vnni) && __builtin_cpu_supports("avx512vbmi") && has_avx512_fp16();
    case Isa::avx512_bf16:
      return has(Isa::avx512_vnni) && has_avx512_bf16();
    case Isa::avx512_vnni:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    case Isa::avx_vnni:
      return avx2 && has_avx_vnni();
    default:
      return avx2;
  }
}

/// A set that has no code of its own for a scheme leaves it to those that it includes: each set of AVX-512
/// those that come after it.
bool includes(std::string_view set, Isa isa) {
  if (set == name_of(isa)) return true;
  for (int i = 0; isa <= Isa::avx512_vnni && i < static_cast<int>(isa); ++i)
    if (set == kNames[i]) return true;
  return false;
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
  static const bool there[kIsas] = {has(Isa::amx_int8),    has(Isa::avx512_fp16), has(Isa::avx512_bf16),
                                    has(Isa::avx512_vnni), has(Isa::avx_vnni),    has(Isa::avx2)};
  return there[static_cast<int>(isa)] ? "" : "this CPU has no " + std::string(name_of(isa));
}

bool prefers_bf16() { return !has_slow_bf16() || env::isa() == name_of(Isa::avx512_bf16); }

}  // namespace octet
