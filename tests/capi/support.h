// What the tests of the C interface share: tensors that own their memory, and a problem with everything set.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "octet/octet.hpp"

namespace octet::testing {

/// f32 [batch, head, token, dim], contiguous.
struct Tensor {
  std::array<std::int64_t, 4> shape;
  std::vector<float> data;

  explicit Tensor(const std::array<std::int64_t, 4>& s, float value = 0)
      : shape(s), data(static_cast<std::size_t>(s[0] * s[1] * s[2] * s[3]), value) {}
  static Tensor normal(const std::array<std::int64_t, 4>& s, std::uint64_t seed);
  TensorView view() const { return view_bhsd(data.data(), DType::f32, shape); }
};

/// A call of the C interface with every tensor set: [2, 4 or 2 heads, tokens, 64], V of 32 channels, with the
/// LSE.
struct Call {
  Tensor q, k, v, o, lse;
  octet_attention_desc desc{};
  octet_attention_args args{};
  octet_plan* plan = nullptr;
  Workspace workspace;
  std::vector<std::int32_t> cu_q, cu_k;

  explicit Call(octet_scheme scheme = OCTET_SCHEME_INT8, std::int64_t tokens_q = 7,
                std::int64_t tokens_k = 9);
  Call(const Call&) = delete;
  ~Call() { octet_plan_destroy(plan); }

  /// The same memory as packed sequences: both batch entries' tokens behind each other.
  void pack(std::vector<std::int32_t> offsets_q, std::vector<std::int32_t> offsets_k);

  octet_status plan_it();

 private:
  void aim(const TensorView& q_view, const TensorView& k_view, const TensorView& v_view,
           const TensorView& o_view, const TensorView& lse_view);
};

/// An operand quantised as a plan would.
struct Codes {
  octet_quantized_tensor tensor{};
  std::array<std::vector<std::uint64_t>, 4> memory;  // 8-byte units: aligned for every dtype

  Codes(const octet_plan* plan, octet_operand which, const Tensor& x);
};

}  // namespace octet::testing
