// A unit of the quantiser's work: one sequence of one head. No unit looks at another, except through the one
// scale of Granularity::tensor.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/packed_codes.h"
#include "base/sequences.h"
#include "quant/quantize.h"
#include "quant/rotate.h"
#include "quant/rows.h"
#include "quant/transform.h"

namespace octet::quant {

/// What quantize() was asked for.
struct Job {
  const TensorView& x;
  const Sequences& sequences;
  const OperandRecipe& recipe;
  const QuantizedTensor& out;
  const Rotation& rotation;

  std::int64_t heads() const { return x.shape[1]; }
  std::int64_t units() const { return sequences.count * heads(); }
};

struct Unit {
  /// note: not an aggregate, which gcc 12 fills with zeros first.
  Unit(const Job& job, std::int64_t of_sequence, const TokenRange& range)
      : sequence(of_sequence), codes(job.out.codes), rows(job.x, range, job.recipe, job.rotation) {}

  std::int64_t sequence;
  TensorView codes;    ///< where its own go
  PackedCodes packed;  ///< or, where these have data, are packed
  RowReader rows;
};

template <class T>
T* element(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t) {
  return static_cast<T*>(x.data) + row_offset(x, b, h, t);
}

/// body(first, count) for tokens [begin, end), as many at once as `step` and the reader take.
template <class Body>
void for_tokens(const RowReader& rows, std::int64_t begin, std::int64_t end, std::int64_t step, Body&& body) {
  step = std::min(step, rows.capacity());
  for (std::int64_t t = begin; t < end; t += step) body(t, std::min(step, end - t));
}

}  // namespace octet::quant
