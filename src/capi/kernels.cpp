// The list of kernels, fastest first.
#include <array>

#include "base/isa.h"
#include "core/registry.h"
#include "cpu/cpu.h"
#include "cpu/store.h"
#include "cuda/cuda.h"
#include "ref/reference.h"
#include "ref/schemes.h"

namespace octet {
namespace {

std::string reference_refusal(const AttentionDesc& desc) {
  if (!ref::attend_of(desc.scheme)) return "this build has no reference of the scheme";
  return ref::refusal(desc);
}

/// The CPU backend on one instruction set.
template <cpu::Isa isa>
struct Simd {
  static std::string refusal(const AttentionDesc& desc) { return cpu::refusal(isa, desc); }
  static std::int64_t workspace_bytes(const AttentionDesc& desc) { return cpu::workspace_bytes(isa, desc); }
  static Status run(const AttentionDesc& desc, const AttentionArgs& args) {
    return cpu::attend(isa, desc, args);
  }
  static Status pack(const AttentionDesc& desc, const AttentionArgs& args) {
    cpu::pack(isa, desc, args);
    return {};
  }
  static std::unique_ptr<KeyPacker> make_packer(const AttentionDesc& desc, const AttentionArgs& args) {
    return cpu::make_packer(isa, desc, args);
  }
  static std::unique_ptr<KvStore> make_store(const AttentionDesc& desc, const QuantizedTensor& k,
                                             const QuantizedTensor& v) {
    return cpu::make_store(isa, desc, k, v);
  }
  static Status run_packed(const AttentionDesc& desc, const AttentionArgs& args) {
    cpu::attend_packed(isa, desc, args);
    return {};
  }
};

template <cpu::Isa isa>
Kernel simd() {
  using K = Simd<isa>;
  return {cpu::name_of(isa), K::refusal,    K::run,         K::workspace_bytes, Device::cpu,
          K::pack,           K::run_packed, K::make_packer, K::make_store};
}

Kernel cuda_mma() {
  Kernel k{"mma", cuda::refusal, cuda::attend, cuda::workspace_bytes, Device::cuda};
  k.pack = cuda::pack, k.run_packed = cuda::attend_packed, k.family = cuda::family_of;
  return k;
}

std::array<Kernel, 8> list_of(const Kernel& first, const Kernel& second) {
  return {{
      cuda_mma(),
      simd<cpu::Isa::amx_int8>(),
      simd<cpu::Isa::avx512_fp16>(),
      first,
      second,
      simd<cpu::Isa::avx_vnni>(),
      simd<cpu::Isa::avx2>(),
      {"reference", reference_refusal, ref::attend},
  }};
}

}  // namespace

std::span<const Kernel> kernels() {
  constexpr auto kBf16 = simd<cpu::Isa::avx512_bf16>, kVnni = simd<cpu::Isa::avx512_vnni>;
  static const auto bf16_first = list_of(kBf16(), kVnni()), vnni_first = list_of(kVnni(), kBf16());
  return prefers_bf16() ? bf16_first : vnni_first;
}

}  // namespace octet
