#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/kv_store.h"
#include "base/try.h"
#include "capi/kept_keys.h"
#include "quant/scales.h"
#include "quant/smooth.h"

namespace octet::capi {
namespace {

/// Tokens in the scheme's format, with the memory that they are in.
struct Tokens {
  QuantizedTensor tensor;
  std::array<std::vector<std::uint64_t>, 3> memory;  // of 8 bytes: aligned for every format

  explicit Tokens(const TensorView& x, const quant::OperandRecipe& recipe)
      : tensor(quant::layout(x.shape, recipe, 0)) {
    TensorView* const parts[] = {&tensor.codes, &tensor.scales, &tensor.mean};
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (parts[i]->shape == std::array<std::int64_t, 4>{}) continue;
      memory[i].resize(static_cast<std::size_t>(span_bytes(*parts[i]) / 8 + 1));
      parts[i]->data = memory[i].data();
    }
  }
};

/// One token of one head.
TensorView token_of(TensorView x, std::int64_t b, std::int64_t h, std::int64_t t) {
  const std::int64_t offset = b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
  x.data = static_cast<std::byte*>(x.data) + (x.dtype == DType::s4 ? offset / 2 : offset * bytes_of(x.dtype));
  x.shape = {1, 1, 1, x.shape[3]};
  return x;
}

class OnHost final : public KeptKeys {
 public:
  explicit OnHost(const KeptProblem& problem)
      : k_(problem.k), v_(problem.v), capacity_(problem.desc().tokens_k) {
    const AttentionDesc& d = problem.desc();
    if (problem.is_anchored()) take_anchor(d, problem.given_anchor);
    if (problem.has_token_scales_of_v())
      v_largest_.resize(static_cast<std::size_t>(d.batch * d.heads_kv * capacity_));
    store_ = problem.plan.make_store(d, quant::layout({d.batch, d.heads_kv, capacity_, d.head_dim}, k_, 0),
                                     quant::layout({d.batch, d.heads_kv, capacity_, d.head_dim_v}, v_, 0));
  }

  std::int64_t bytes() const override {
    return store_->bytes() + static_cast<std::int64_t>((anchors_.size() + v_largest_.size()) * sizeof(float));
  }
  TensorView anchor() const override { return k_.anchor; }

  Status append(const TensorView& k, const TensorView& v, std::int64_t begin,
                const Workers& workers) override {
    const std::int64_t tokens = k.shape[2];
    const Sequences sequences{k.shape[0], tokens, nullptr};
    quant::OperandRecipe k_recipe = k_;
    const bool needs_anchor = first_key_is_anchor_ && begin == 0;
    if (needs_anchor) k_recipe.anchor = {};
    Tokens new_k(k, k_recipe), new_v(v, v_);
    OCTET_TRY(quant::quantize(k, sequences, k_recipe, new_k.tensor, workers.parallel_for));
    OCTET_TRY(quant::quantize(v, sequences, v_, new_v.tensor, workers.parallel_for));
    std::vector<float> v_largest;
    if (!v_largest_.empty()) OCTET_TRY(floor_scales(v, begin, new_v.tensor, v_largest));

    // Nothing fails from here on.
    if (needs_anchor)
      std::copy_n(static_cast<const float*>(new_k.tensor.mean.data), anchors_.size(), anchors_.data());
    for (std::size_t i = 0; i < v_largest.size(); ++i) {
      const auto head = static_cast<std::int64_t>(i) / tokens, token = static_cast<std::int64_t>(i) % tokens;
      v_largest_[static_cast<std::size_t>(head * capacity_ + begin + token)] = v_largest[i];
    }
    store_->append(new_k.tensor, new_v.tensor, begin, workers.parallel_for);
    return {};
  }

  Status truncate(std::int64_t from, std::int64_t to, const Workers&) override {
    store_->truncate(from, to);
    return {};
  }

  std::int64_t workspace_bytes(const AttentionDesc& desc) const override {
    return store_->workspace_bytes(desc);
  }

 private:
  Status attend_codes(const AttentionDesc& desc, const AttentionArgs& args) const override {
    store_->attend(desc, args);
    return {};
  }

  /// Of a given anchor, or room for the first key.
  void take_anchor(const AttentionDesc& d, const TensorView& given) {
    anchors_.resize(static_cast<std::size_t>(d.batch * d.heads_kv * d.head_dim));
    k_.anchor.data = anchors_.data();
    k_.anchor.shape = {d.batch, d.heads_kv, 1, d.head_dim};
    k_.anchor.stride = {d.heads_kv * d.head_dim, d.head_dim, d.head_dim, 1};
    first_key_is_anchor_ = !given.data;
    if (!given.data) return;
    for (std::int64_t i = 0; i < d.batch * d.heads_kv; ++i)
      quant::anchor_shift(given, {i / d.heads_kv, i % d.heads_kv, 0, 1}, given,
                          &anchors_[static_cast<std::size_t>(i * d.head_dim)]);
  }

  /// Gives every token of V the floor of its scale; v_largest: of the cache from `begin` on, [batch * kv
  /// head][tokens].
  Status floor_scales(const TensorView& x, std::int64_t begin, QuantizedTensor& v,
                      std::vector<float>& v_largest) const {
    const std::int64_t heads = x.shape[1], tokens = x.shape[2];
    v_largest.resize(static_cast<std::size_t>(x.shape[0] * heads * tokens));
    for (std::int64_t i = 0; i < x.shape[0] * heads; ++i) {
      float largest = begin > 0 ? v_largest_[static_cast<std::size_t>(i * capacity_ + begin - 1)] : 0.0f;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const TensorView one = token_of(v.scales, i / heads, i % heads, t);
        float& scale = *static_cast<float*>(one.data);
        const float floor =
            std::max(largest > 0 ? quant::scale_floor(largest, kFloorOctaves) : kFirstFloor, kFirstFloor);
        if (scale < floor) {
          quant::OperandRecipe recipe = v_;
          recipe.shared_amax = recipe.largest_code * floor;
          QuantizedTensor again = v;
          again.codes = token_of(v.codes, i / heads, i % heads, t), again.scales = one;
          OCTET_TRY(
              quant::quantize(token_of(x, i / heads, i % heads, t), {1, 1, nullptr}, recipe, again, {}));
        } else {
          largest = std::max(largest, scale);
        }
        v_largest[static_cast<std::size_t>(i * tokens + t)] = largest;
      }
    }
    return {};
  }

  quant::OperandRecipe k_, v_;  ///< k_.anchor lies in anchors_
  std::int64_t capacity_;
  std::vector<float> anchors_;  ///< what K is shifted by
  bool first_key_is_anchor_ = false;
  std::vector<float> v_largest_;  ///< [batch, kv head, token]: the largest scale of V up to there
  std::unique_ptr<KvStore> store_;
};

}  // namespace

Result<std::unique_ptr<KeptKeys>> keep_on_host(const KeptProblem& problem) {
  return std::unique_ptr<KeptKeys>(std::make_unique<OnHost>(problem));
}

}  // namespace octet::capi
