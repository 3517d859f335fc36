// What quantize() and dequantize() demand of their arguments.
#pragma once
#include "quant/quantize.h"

namespace octet::quant {

Status check_quantize(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                      const QuantizedTensor& out);

Status check_dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out);

}  // namespace octet::quant
