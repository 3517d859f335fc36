// What tests of whole attention calls share: random inputs, quantisation by a scheme's recipe, a run on the
// reference backend, float64 attention of the same inputs, and the error between them. Below the public
// interface on purpose: nothing is validated here.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/schemes.h"

namespace octet::testing {

/// Elements of every operand, independent of each other. u4: uniform on (-4, 4), QFlash's benchmark; normal:
/// N(0, 1).
enum class Data { u4, normal };

/// One call: the problem, and what its inputs are. Copy it and change fields.
struct Case {
  AttentionDesc desc;
  Data data = Data::u4;
  float scale = 1;  ///< multiplies every element
  std::uint64_t seed = 1;
  std::vector<float> bias;  ///< [heads_q, tokens_q, tokens_k], -inf hides; empty: none
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k;
  void (*tamper)(AttentionArgs& quantised) = nullptr;  ///< plants a fault behind the quantiser
};

/// Self-attention of `scheme` with its default recipe and softmax_scale 1 / sqrt(dim).
Case self_attention(Scheme scheme, std::int64_t heads, std::int64_t tokens, std::int64_t dim);

/// The error of an output against the exact one; add() pools several.
struct Error {
  double signal = 0, noise = 0;  ///< sums of squares

  void add(const Error& other) { signal += other.signal, noise += other.noise; }
  /// 20 log10(||exact|| / ||o - exact||).
  double sqnr_db() const { return 10 * std::log10(signal / noise); }
  double relative_rmse() const { return std::sqrt(noise / signal); }
};

/// Outputs of a run, [batch, heads_q, tokens_q, dim_v] and [batch, heads_q, tokens_q].
struct Outcome {
  std::vector<float> o, lse;
  std::vector<float> bound;  ///< a-priori, on |o - exact|
  std::vector<double> exact;
  std::vector<float> exact_lse;

  Error error() const;
  double sqnr_db() const { return error().sqnr_db(); }
};

/// A contiguous view of memory that the caller holds.
inline TensorView view_of(void* data, DType dtype, std::int64_t b, std::int64_t h, std::int64_t t,
                          std::int64_t d) {
  return {data, dtype, Device::cpu, {b, h, t, d}, {h * t * d, t * d, d, 1}};
}

/// Inputs of a case as numbers: q, k, v in f32.
struct Inputs {
  std::vector<float> q, k, v;
};

Inputs random_inputs(const Case& c);

/// Where codes of a format end.
float largest_code(DType format);

/// Runs the case on the reference backend and in float64. The inputs come from the seed, or are given.
/// note: the LSE of a recipe that smooths K lacks q . mean(K), which the pre-pass of the C interface adds.
Outcome run(const Case& c, const Inputs& in);
Outcome run(const Case& c);

/// Errors of `seeds` runs of a case with seeds 1, 2, ..., pooled.
Error pooled(Case c, int seeds);

}  // namespace octet::testing
