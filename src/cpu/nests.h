// The tables that cmake/instances.cmake generates: which nest computes a scheme on an instruction set.
#pragma once
#include "cpu/kernel.h"

namespace octet::cpu {

const Nest* amx_int8_nest(Scheme scheme);
const Nest* avx512_fp16_nest(Scheme scheme);
const Nest* avx512_bf16_nest(Scheme scheme);
const Nest* avx512_vnni_nest(Scheme scheme);
const Nest* avx_vnni_nest(Scheme scheme);
const Nest* avx2_nest(Scheme scheme);

}  // namespace octet::cpu
