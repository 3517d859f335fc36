// The terms of the error bound, one function a scheme. Each is derived in docs/numerics/error-bounds.md.
#pragma once
#include "numerics/bound.h"
#include "ref/bound_keys.h"
#include "ref/bound_qflash.h"
#include "ref/bound_survey.h"

namespace octet::ref {

/// One row as its scheme's terms see it.
struct RowContext {
  const Problem& plain;
  const Problem& quantised;
  const RowNorms& q;
  const KeySet& keys;
  std::int64_t dim = 0;  ///< channels of Q's and K's codes, padding included

  const AttentionDesc& desc() const { return quantised.desc; }
  double softmax_scale() const { return quantised.desc.softmax_scale; }
};

/// What I-ViT's calibration makes of one call.
struct IVitUnits {
  double score_code = 0;  ///< nats of one code of a score
  double one = 0;         ///< the exponential of 0
};

/// The terms of every row of one call.
class Terms {
 public:
  Terms(const Problem& plain, const Problem& quantised);
  /// A row that sees keys. Where a scheme has no bound, the terms give the trivial one.
  RowTerms of(const RowNorms& q, const KeySet& keys) const;

 private:
  RowTerms of_scheme(const RowContext& row) const;

  const Problem &plain_, &quantised_;
  const std::int64_t dim_;
  QFlashSurvey qflash_;            ///< of scheme qflash
  ExponentialSurvey exponential_;  ///< of integer, ivit, ibert and fqvit
  IVitUnits ivit_;                 ///< of ivit
};

/// Error of a number of type `given` stored in `format` with a scale of its own where the format has one.
FormatError format_error(DType format, DType given);

}  // namespace octet::ref
