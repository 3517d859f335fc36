// Packing for vectors of 8 words.
#include "cpu/pack_kernels.inl"

namespace octet::cpu {

const PackKernels& pack_kernels_8() { return PackIn<8>::kTable; }

}  // namespace octet::cpu
