// K and V of a cache where the calls against it are computed: how tokens become codes that later ones never
// change, and where these stay.
#pragma once
#include <cstdint>
#include <memory>

#include "capi/operands.h"
#include "core/plan.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::capi {

/// P carries V's token scales: a token is given at least 2^-20 of the largest scale that its head has had so
/// far, or a zero token would lose its softmax mass. In a whole tensor the reference is the largest of the
/// token's key block instead, which later tokens may raise.
inline constexpr int kFloorOctaves = 20;
/// The same before any token has had a scale: the least that P carries (numerics/scaled.h).
inline constexpr float kFirstFloor = 0x1p-96f;

/// Who does the work of a change: the caller's threads, or a stream.
struct Workers {
  ParallelFor parallel_for;
  void* stream = nullptr;
};

/// Who calls counts the tokens and has validated everything; one thread at a time may change it.
class KeptKeys {
 public:
  virtual ~KeptKeys() = default;

  /// Of memory, when all tokens are there.
  virtual std::int64_t bytes() const = 0;
  /// What K is shifted by, f32 [batch, kv head, 1, dim]; data null: not smoothed.
  virtual TensorView anchor() const = 0;

  /// Tokens begin, begin + 1, ... of plain k and v, [batch, kv head, token, dim]. Changes nothing where it
  /// fails.
  virtual Status append(const TensorView& k, const TensorView& v, std::int64_t begin,
                        const Workers& workers) = 0;
  /// Forgets tokens [to, from), the last ones.
  virtual Status truncate(std::int64_t from, std::int64_t to, const Workers& workers) = 0;

  /// A call against them: the plan's desc.tokens_k counts the keys that there are, args.q is as the caller
  /// has it.
  struct Call {
    Plan plan;
    CallLayout layout;
    AttentionArgs args;
  };
  /// Bytes of the kernel's own workspace for a problem of up to desc.tokens_k keys.
  virtual std::int64_t workspace_bytes(const AttentionDesc& desc) const = 0;
  Status attend(const Call& call) const;
  /// append() and then attend(), whose call counts the new tokens too, by the call's workers. Changes nothing
  /// where one of them fails.
  virtual Status step(const TensorView& k, const TensorView& v, std::int64_t begin, const Call& call);

 protected:
  /// attend() of a call whose q, q_anchor and workspace are the kernel's.
  virtual Status attend_codes(const AttentionDesc& desc, const AttentionArgs& args) const = 0;
  static AttentionArgs for_kernel(const Call& call, AttentionArgs ready);
};

/// What keys are kept for. plan: its tokens_k is the capacity. k, v: recipes, with what is fixed for good.
/// given_anchor: for Smooth::anchor; data null: the first token that is appended.
struct KeptProblem {
  const Plan& plan;
  quant::OperandRecipe k, v;
  TensorView given_anchor;

  const AttentionDesc& desc() const { return plan.desc; }
  bool is_anchored() const { return desc().recipe.smooth == Smooth::anchor; }
  /// Whether V's tokens have scales, which P carries.
  bool has_token_scales_of_v() const;
};

/// Quantised on the caller's threads, kept by the backend in its own layout (base/kv_store.h).
Result<std::unique_ptr<KeptKeys>> keep_on_host(const KeptProblem& problem);
/// In the memory of the device that is current, made and packed on streams.
Result<std::unique_ptr<KeptKeys>> keep_on_device(const KeptProblem& problem);

}  // namespace octet::capi
