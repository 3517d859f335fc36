// The row kernels, compiled for AVX2.
#include "quant/row_kernels.inl"

namespace octet::quant {

const RowKernels& avx2_row_kernels() { return RowsIn<VectorLane<8, RowTag>>::kTable; }

}  // namespace octet::quant
