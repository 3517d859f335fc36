// The kernels of one_pass.cu (prototype).
#pragma once
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

std::int64_t one_pass_words(const std::array<std::int64_t, 4>& shape, int statistics);
bool takes_one_pass(const RowReading& rows, const Coding& coding);
void launch_one_pass(const RowReading& rows, const Coding& coding, std::uint32_t* words, void* stream);

}  // namespace octet::cuda
