// The distributions that every accuracy figure of the docs is stated on: q [queries, dim], k and v [keys,
// dim] of one head. N is a standard normal number drawn anew at each place; sizes of outliers and the like
// are in the comments.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string_view>
#include <vector>

#include "tests/attention/harness.h"

namespace octet::testing {

/// Normal and uniform numbers from an engine's bits, the same with every library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  double unit() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  double normal() {
    if (spare_) {
      spare_ = false;
      return next_;
    }
    const double r = std::sqrt(-2 * std::log(unit())), angle = 2 * std::numbers::pi * unit();
    spare_ = true, next_ = r * std::sin(angle);
    return r * std::cos(angle);
  }

 private:
  std::mt19937_64 bits_;
  bool spare_ = false;
  double next_ = 0;
};

/// Row-major matrix under construction.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> at;

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), at(static_cast<std::size_t>(r * c)) {}
  template <class F>
  void each(F&& f) {  // f(value, row, column)
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) f(at[static_cast<std::size_t>(r * columns + c)], r, c);
    }
  }
  static Matrix normal(Random& random, std::int64_t r, std::int64_t c);
  /// Every row times its own e^(size N).
  void scale_rows(Random& random, double size);
  void scale_columns(Random& random, double size);
  /// size N in every channel, the same for all tokens.
  void shift_columns(Random& random, double size);
  /// FlashAttention-3's: + 10 N with probability 0.001.
  void add_outliers(Random& random);
  void scale(double factor);
  /// Takes each row's part along u away and puts `size` of it there.
  void set_along(const Matrix& u, double size);
  void set_row(std::int64_t r, const Matrix& u, double size);
  std::vector<float> floats() const { return {at.begin(), at.end()}; }
};

/// A unit vector, all directions alike.
Matrix direction(Random& random, std::int64_t dim);

/// One head's inputs. `kind` is normal, sharp (scores four times as spread), outlier (FlashAttention-3's),
/// biasK (a constant in every channel of K), sink (key 0 scores 8 nats for every query, its V is small),
/// mixed, vtoken and vchannel (V's norms over more than two decades), uniform, tiny, huge, needle (one key
/// scores 12.5 nats, all others about 0).
Inputs distribution(std::string_view kind, std::uint64_t seed, std::int64_t queries, std::int64_t keys,
                    std::int64_t dim);

}  // namespace octet::testing
