// Merging attention over disjoint sets of keys.
#include <cmath>
#include <limits>

#include "base/try.h"
#include "capi/guard.h"
#include "core/plan.h"
#include "octet/abi.hpp"
#include "octet/dtype.hpp"

namespace {

using namespace octet;

std::int64_t row_offset(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t) {
  return b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
}

struct States {
  TensorView o1, lse1, o2, lse2, o, lse;
};

/// Shares of the two states in the merged row: e^(lse_i - lse).
struct Shares {
  double first, second, lse;
};

Shares shares_of(double lse1, double lse2) {
  constexpr double kEmpty = -std::numeric_limits<double>::infinity();
  if (lse1 == kEmpty && lse2 == kEmpty) return {0, 0, kEmpty};
  if (lse2 == kEmpty) return {1, 0, lse1};
  if (lse1 == kEmpty) return {0, 1, lse2};
  const double peak = lse1 > lse2 ? lse1 : lse2;
  const double a = std::exp(lse1 - peak), b = std::exp(lse2 - peak);
  return {a / (a + b), b / (a + b), peak + std::log(a + b)};
}

void merge_row(const States& s, std::int64_t b, std::int64_t h, std::int64_t t) {
  const auto at = [&](const TensorView& x) { return static_cast<float*>(x.data) + row_offset(x, b, h, t); };
  const Shares share = shares_of(double{*at(s.lse1)}, double{*at(s.lse2)});
  const float *o1 = at(s.o1), *o2 = at(s.o2);
  float* o = at(s.o);
  for (std::int64_t c = 0; c < s.o.shape[3]; ++c) {
    // note: a share of 0 must drop the other state's values even where they are NaN.
    const double first = share.first == 0 ? 0 : share.first * double{o1[c * s.o1.stride[3]]};
    const double second = share.second == 0 ? 0 : share.second * double{o2[c * s.o2.stride[3]]};
    o[c * s.o.stride[3]] = static_cast<float>(first + second);
  }
  *at(s.lse) = static_cast<float>(share.lse);
}

Status check(const char* argument, const TensorView& x, const std::array<std::int64_t, 4>& shape) {
  if (x.shape != shape) {
    return broken(std::string(argument) + ".shape", shape_text(x.shape),
                  "the states' is " + shape_text(shape), "pass states of one shape");
  }
  return validate_tensor(argument, x, DType::f32, Device::cpu);
}

}  // namespace

extern "C" octet_status octet_merge_states(const octet_tensor* o1, const octet_tensor* lse1,
                                           const octet_tensor* o2, const octet_tensor* lse2,
                                           const octet_tensor* o, const octet_tensor* lse) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("o1", o1));
    OCTET_TRY(capi::not_null("lse1", lse1));
    OCTET_TRY(capi::not_null("o2", o2));
    OCTET_TRY(capi::not_null("lse2", lse2));
    OCTET_TRY(capi::not_null("o", o));
    OCTET_TRY(capi::not_null("lse", lse));
    const States s{abi::from_c(*o1),   abi::from_c(*lse1), abi::from_c(*o2),
                   abi::from_c(*lse2), abi::from_c(*o),    abi::from_c(*lse)};
    const auto [b, h, t, d] = s.o.shape;
    OCTET_TRY(check("o1", s.o1, s.o.shape));
    OCTET_TRY(check("o2", s.o2, s.o.shape));
    OCTET_TRY(check("lse1", s.lse1, {b, h, t, 1}));
    OCTET_TRY(check("lse2", s.lse2, {b, h, t, 1}));
    OCTET_TRY(validate_output("o", s.o, DType::f32, Device::cpu, s.o.shape));
    OCTET_TRY(validate_output("lse", s.lse, DType::f32, Device::cpu, {b, h, t, 1}));
    if (d == 0) return {};
    for (std::int64_t i = 0; i < b; ++i)
      for (std::int64_t j = 0; j < h; ++j)
        for (std::int64_t k = 0; k < t; ++k) merge_row(s, i, j, k);
    return {};
  });
}
