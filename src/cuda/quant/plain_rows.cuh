// The kernels of plain_rows.cu.
#pragma once
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// Whether measure_plain() has a kernel for these rows and groups.
bool takes_plain(const MeasuredRows& operand);
/// launch_measure() of one operand.
void launch_measure_plain(const MeasuredRows& operand, void* stream);

/// Whether launch_encode_plain() has a kernel for these rows and codes.
bool takes_plain(const RowReading& rows, const Coding& coding);
/// launch_encode() for them.
void launch_encode_plain(const RowReading& rows, const Coding& coding, void* stream);

}  // namespace octet::cuda
