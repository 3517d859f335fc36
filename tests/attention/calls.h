// Whole calls through the public interface, on tensors whose gaps and margins hold NaN: what the grid of
// features and the metamorphic properties share.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "octet/octet.hpp"
#include "tests/attention/distributions.h"

namespace octet::testing {

/// Where the tokens of a tensor lie in memory.
enum class Layout { bhsd, bshd, gapped };

/// A tensor of numbers with its memory. Margins before and after, and the gaps of a gapped layout, are NaN:
/// whoever reads them gets it into the output, whoever writes them is caught by intact().
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d, Layout layout = Layout::bhsd);

  float& at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    return memory_[static_cast<std::size_t>(offset(b, h, t, c))];
  }
  float at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) const {
    return memory_[static_cast<std::size_t>(offset(b, h, t, c))];
  }
  template <class F>
  void each(F&& f) {  // f(value, b, h, t, c)
    for (std::int64_t b = 0; b < shape_[0]; ++b)
      for (std::int64_t h = 0; h < shape_[1]; ++h)
        for (std::int64_t t = 0; t < shape_[2]; ++t)
          for (std::int64_t c = 0; c < shape_[3]; ++c) f(at(b, h, t, c), b, h, t, c);
  }
  void fill_normal(Random& random);
  TensorView view() const {
    return {const_cast<float*>(memory_.data()) + kMargin, DType::f32, Device::cpu, shape_, stride_};
  }
  std::int64_t size(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }

  /// Whether everything outside the tensor's elements is still NaN.
  bool intact() const;

  /// All of it, with margins and gaps; the first element lies behind kMargin numbers.
  std::vector<float>& memory() { return memory_; }
  static constexpr std::int64_t kMargin = 16;

 private:
  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) const {
    return kMargin + b * stride_[0] + h * stride_[1] + t * stride_[2] + c * stride_[3];
  }
  std::array<std::int64_t, 4> shape_{}, stride_{};
  std::vector<float> memory_;
};

/// One call: its inputs and everything that attention() is told. Copy it and change fields.
struct Call {
  Tensor q, k, v;
  AttentionOptions options;
  Tensor bias;                           ///< additive; no elements: none
  std::vector<std::uint8_t> mask;        ///< boolean [m, n]; empty: none
  TensorView any_bias{};                 ///< boolean or additive, of any type and layout, by its dtype
  std::vector<std::int32_t> cu_q, cu_k;  ///< varlen; empty: dense
  Layout output_layout = Layout::bhsd;
  DType storage = DType::f32;  ///< of q, k, v and o in memory, to which their numbers are rounded: f16, bf16
};

struct Output {
  Status status;
  Tensor o, lse;
};

/// Self-attention on N(0, 1) numbers, softmax_scale 1 / sqrt(d).
Call normal_call(std::int64_t b, std::int64_t heads, std::int64_t m, std::int64_t n, std::int64_t d,
                 std::uint64_t seed = 1);

/// The problem and the data of a call with a scheme, without a workspace; `work` fills o and lse.
Output with_problem(const Call& call, Scheme scheme,
                    const std::function<Status(const AttentionDesc&, const AttentionArgs&)>& work);

/// Runs a call with a scheme: plan, workspace, pre-pass, kernel.
Output run(const Call& call, Scheme scheme);

/// What the error of each element of o is at most, as `o`.
Output error_bound(const Call& call, Scheme scheme);

/// Relative RMSE of an output against another; 1e9 where either holds NaN.
double relative_error(const Tensor& o, const Tensor& exact);

/// Largest absolute difference; -inf equals -inf; 1e9 where there is NaN.
double largest_difference(const Tensor& a, const Tensor& b);

/// Largest absolute value among those that are finite.
double largest_size(const Tensor& x);

bool same_bits(const Tensor& a, const Tensor& b);

/// Every scheme that this build computes, `exact` left out.
std::vector<Scheme> schemes();

/// Relative RMSE of O and absolute error of the LSE that N(0, 1) inputs of a few dozen keys and more stay
/// below: from the scheme's formats (rounding of Q and K times the spread of scores, of P, of V), not from a
/// bound.
struct Tolerance {
  double o, lse;
};

Tolerance tolerance(Scheme scheme);

/// Keys among which equal weights keep their codes: P of `ivit` and `ibert` has 7 and 8 bits for the whole
/// row.
std::int64_t many_keys(Scheme scheme);

}  // namespace octet::testing
