#include "cpu/isa.h"

#include "cpu/nests.h"

namespace octet::cpu {

const Nest* nest_of(Isa isa, Scheme scheme) {
  switch (isa) {
    case Isa::amx_int8:
      return amx_int8_nest(scheme);
    case Isa::avx512_fp16:
      return avx512_fp16_nest(scheme);
    case Isa::avx512_bf16:
      return avx512_bf16_nest(scheme);
    case Isa::avx512_vnni:
      return avx512_vnni_nest(scheme);
    case Isa::avx_vnni:
      return avx_vnni_nest(scheme);
    default:
      return avx2_nest(scheme);
  }
}

}  // namespace octet::cpu
