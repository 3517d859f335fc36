// The error of quantised attention, bounded before it is run: one theorem for all schemes, in terms that each
// scheme states (ref/bound_terms.h). Statement and proof: docs/numerics/error-bounds.md.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/ordered_rounding.h"

namespace octet {

/// Unit roundoffs: the largest relative error of one rounding to nearest.
inline constexpr double kUnitF64 = 0x1p-53;
inline constexpr double kUnitF32 = 0x1p-24;
inline constexpr double kUnitF16 = 0x1p-11;
inline constexpr double kUnitBf16 = 0x1p-8;
inline constexpr double kUnitE4m3 = 0x1p-4;
inline constexpr double kUnitE5m2 = 0x1p-3;

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// gamma_n: the largest relative error of n roundings in a row, n u / (1 - n u).
/// Source: Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1.
inline double gamma(double roundings, double unit = kUnitF32) {
  const double x = roundings * unit;
  return x < 1 ? x / (1 - x) : kUnbounded;
}

/// The largest relative error of a sum of products of e4m3 that a matrix unit makes, of the sum of their
/// sizes: it takes 32 products and what was summed before, or 16 at a time, and cuts each off 13 bits below
/// the largest, and the sum again. Measured on Hopper (docs/numerics/fp8.md).
inline double e4m3_unit_error(double products) {
  constexpr double kOnce = 32, kCuts = 36;  // of so many products: two times 16, what was before and the sum
  return std::ceil(products / kOnce) * kCuts * 0x1p-13;
}

/// |x - x^| <= relative |x^| + absolute * (the scale of x^): how far a stored number is from the real one.
struct FormatError {
  double relative = 0, absolute = 0;
};

/// Sum over the keys of |p - w|, over the sum of the weights w, where rounding w to p moves each but the
/// largest, which is `unit` or more, by at most min(half_step, w): h / (unit + h) with h = (keys - 1)
/// half_step. Blocks with a largest weight of their own are taken one by one: a ratio of sums is at most the
/// largest of the ratios.
inline double lost_mass(double keys, double half_step, double unit) {
  const double moved = std::max(keys - 1, 0.0) * half_step;
  return moved / (unit + moved);
}

/// lost_mass() of codes that keys' places round where they are below 1 (numerics/ordered_rounding.h), `keys`
/// of a key block of `block`: a place of threshold t loses t at most, or wins 1 - t, from a weight of t; the
/// worst choice of keys is found by Dinkelbach's iteration.
inline double ordered_lost_mass(double keys, double block, double unit) {
  const double a_place = std::ceil(block / kPlaces);
  for (double ratio = 0;;) {
    struct Place {
      double gain, moved, mass;
    } place[kPlaces];
    for (int i = 0; i < kPlaces; ++i) {
      const double threshold = rounding_threshold(i);
      const double moved = std::max(threshold, 1 - threshold);
      place[i] = {moved - ratio * threshold, moved, threshold};
    }
    std::sort(place, place + kPlaces, [](const Place& a, const Place& b) { return a.gain > b.gain; });
    double left = std::max(keys - 1, 0.0), moved = 0, mass = 0;
    for (const Place& some : place) {
      const double count = std::min(left, a_place);
      moved += count * some.moved, mass += count * some.mass, left -= count;
    }
    const double next = moved / (unit + mass);
    if (next <= ratio) return ratio;
    ratio = next;
  }
}

/// The terms of one row: everything that does not depend on the channel.
struct RowTerms {
  double score = 0;     ///< E: every weight is off by a factor in e^(x +- E), with one x for the whole row
  double distance = 0;  ///< relative error of the distances to the row's largest score, at most
  double keys = 1;      ///< that the row sees
  double moved = 0;     ///< sum of |w' - w| over that of w, where both sums use w': the mass that moves
  double p_loss = 0;  ///< sum of |p - w| over that of w, where P V uses p and the row sum w: mass won or lost
  double sums = 0;    ///< relative error of the products, sums and quotient after P
  FormatError v;      ///< of V's numbers
  double out_relative = 0, out_absolute = 0;      ///< of the output's format
  double out_step = 0;                            ///< of its codes, relative to the row's largest output
  double out_largest = kUnbounded;                ///< from here on the output overflows
  double least = -kUnbounded, most = kUnbounded;  ///< the output lies in here whatever happens before it
};

/// What the keys that a row sees hold in one channel of V.
struct ChannelTerms {
  double least = kUnbounded, most = -kUnbounded;  ///< of the plain V
  double magnitude = 0;                           ///< largest |v^|, v^ the stored number
  double step = 0;                                ///< largest scale, 2^exponent included
  double p_magnitude = 0;  ///< largest over key blocks of (largest scale in it) * (largest |code| in it)
};

/// How far one output can be from the exact one before it is written in its format.
inline double error_before_output(const RowTerms& row, const ChannelTerms& v) {
  const double range = v.most - v.least;
  const double share = std::tanh(row.score / 2) + row.distance * std::log(row.keys) + row.moved;
  const double v_error = row.v.relative * v.magnitude + row.v.absolute * v.step;
  const double sum_error = row.sums * (1 + row.p_loss) * v.magnitude;
  return std::min(share, 1.0) * range + v_error + row.p_loss * v.p_magnitude + sum_error;
}

/// The largest |output| before it is written.
inline double largest_output(const RowTerms& row, const ChannelTerms& v) {
  return (v.magnitude + row.p_loss * v.p_magnitude) * (1 + row.sums);
}

/// The bound on |o - exact| of one output element; +inf where nothing holds, 0 for a row without keys.
/// row_largest: the largest of largest_output() over the row's channels.
inline double error_bound(const RowTerms& row, const ChannelTerms& v, double row_largest) {
  if (v.least > v.most) return 0;
  const double largest = largest_output(row, v);
  double bound = error_before_output(row, v) + row.out_relative * largest + row.out_absolute +
                 row.out_step * row_largest;
  if (!(largest < row.out_largest) || bound != bound) bound = kUnbounded;
  return std::min(bound, std::max(v.most - row.least, row.most - v.least));
}

}  // namespace octet
