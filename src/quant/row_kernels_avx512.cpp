// The row kernels, compiled for AVX-512.
#include "quant/row_kernels.inl"

namespace octet::quant {

const RowKernels& avx512_row_kernels() { return RowsIn<VectorLane<16, RowTag>>::kTable; }

}  // namespace octet::quant
