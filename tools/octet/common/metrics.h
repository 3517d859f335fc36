// Errors of an output against the exact one, pooled over everything that was added.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

namespace octet::tool {

/// Sums from which every figure follows; merge() pools heads, batches and seeds.
struct ErrorSums {
  double error_squares = 0, exact_squares = 0, value_squares = 0, products = 0;
  double error_size = 0, exact_size = 0;
  double largest_error = 0;
  double largest_bound = 0, largest_ratio = 0;  ///< of bounds added with add_bound
  long count = 0;
  bool non_finite = false;  ///< a value that is not a number although the exact one is

  void add(double value, double exact) {
    const double error = value - exact;
    non_finite |= !std::isfinite(value) && std::isfinite(exact);
    error_squares += error * error;
    exact_squares += exact * exact;
    value_squares += value * value;
    products += value * exact;
    error_size += std::fabs(error);
    exact_size += std::fabs(exact);
    largest_error = std::max(largest_error, std::fabs(error));
    ++count;
  }
  /// The a-priori bound of an element that was added, and how much of it the error uses.
  void add_bound(double value, double exact, double bound) {
    largest_bound = std::max(largest_bound, bound);
    if (bound > 0) largest_ratio = std::max(largest_ratio, std::fabs(value - exact) / bound);
  }
  void merge(const ErrorSums& other) {
    error_squares += other.error_squares, exact_squares += other.exact_squares,
        value_squares += other.value_squares;
    products += other.products, error_size += other.error_size, exact_size += other.exact_size;
    largest_error = std::max(largest_error, other.largest_error);
    largest_bound = std::max(largest_bound, other.largest_bound);
    largest_ratio = std::max(largest_ratio, other.largest_ratio);
    count += other.count;
    non_finite |= other.non_finite;
  }

  /// sqrt(sum of squared errors / sum of squared exact values); NaN where nothing was added or all is zero.
  double relative_rmse() const { return std::sqrt(error_squares / exact_squares); }
  double rmse() const { return std::sqrt(error_squares / static_cast<double>(count)); }
  double relative_l1() const { return error_size / exact_size; }
  double max_abs_error() const { return largest_error; }
  /// Signal to quantisation noise, dB; +inf where there is no error.
  double sqnr_db() const { return 10 * std::log10(exact_squares / error_squares); }
  double cosine() const { return products / std::sqrt(value_squares * exact_squares); }
};

}  // namespace octet::tool
