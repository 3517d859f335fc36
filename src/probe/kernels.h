// The probes of each instruction set: a round is 12 of it, or 6 of AMX's.
#pragma once
#include <cstdint>

namespace octet::probe {

void run_vpmaddwd_ymm(std::int64_t rounds);
void run_fma_f32_ymm(std::int64_t rounds);
void run_vpdpbusd_ymm(std::int64_t rounds);
void run_fma_f32_zmm(std::int64_t rounds);
void run_vpdpbusd_zmm(std::int64_t rounds);
void run_vdpbf16ps_zmm(std::int64_t rounds);
void run_fma_f16_zmm(std::int64_t rounds);
void run_tdpbusd(std::int64_t rounds);
void run_tdpbf16ps(std::int64_t rounds);

}  // namespace octet::probe
