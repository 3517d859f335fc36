// Packing for vectors of 16 words.
#include "cpu/pack_kernels.inl"

namespace octet::cpu {

const PackKernels& pack_kernels_16() { return PackIn<16>::kTable; }

}  // namespace octet::cpu
