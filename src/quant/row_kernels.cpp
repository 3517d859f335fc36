// The row kernels of the baseline instruction set, and the choice.
#include "quant/row_kernels.inl"
#include "base/isa.h"

namespace octet::quant {

const RowKernels& baseline_row_kernels() { return RowsIn<VectorLane<8, RowTag>>::kTable; }

namespace {

const RowKernels& fastest_row_kernels() {
  for (Isa isa : {Isa::amx_int8, Isa::avx512_fp16, Isa::avx512_vnni})
    if (refusal(isa).empty()) return avx512_row_kernels();
  if (refusal(Isa::avx_vnni).empty() || refusal(Isa::avx2).empty()) return avx2_row_kernels();
  return baseline_row_kernels();
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& fastest = fastest_row_kernels();
  return fastest;
}

}  // namespace octet::quant
