// What the error bound needs to know of QFlash's integer exponential: measured over its whole domain, once a
// call, because its errors depend on the scales and jump where its integers run out.
#pragma once
#include <cstdint>

#include "call/problem.h"
#include "numerics/bound.h"

namespace octet::ref {

using namespace call;

/// E(x) / R0 against 2^(D x) for every distance x that can occur.
struct QFlashSurvey {
  bool sound = false;        ///< no weight is negative, the largest code has not wrapped, far keys weigh 0
  double reach = 0;          ///< |scores| up to here are covered
  double low = 0, high = 0;  ///< log(E / R0) - log(2^(D x)), down to an eighth
  double code_step = 0;      ///< largest error of a P code beside such a factor, codes
  double decay_step = 0;     ///< the same of a decay, relative to 1
  double unit = 0;           ///< the code of the largest key
  double release = 0;        ///< relative error of the multiplier 2^30 / R0
  double octaves = 0;        ///< D

  static QFlashSurvey of(const Problem& problem);
};

}  // namespace octet::ref
