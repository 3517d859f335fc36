#include "capi/kept_keys.h"

#include <cstddef>
#include <utility>

#include "base/try.h"
#include "capi/prepass.h"
#include "core/schemes.h"

namespace octet::capi {

bool KeptProblem::has_token_scales_of_v() const {
  return scheme_info(desc().scheme).v_set != 0 && desc().recipe.v == Granularity::token;
}

AttentionArgs KeptKeys::for_kernel(const Call& call, AttentionArgs ready) {
  if (call.plan.kernel_bytes > 0)
    ready.workspace = static_cast<std::byte*>(call.args.workspace) + call.plan.kernel_offset;
  return ready;
}

Status KeptKeys::attend(const Call& call) const {
  AttentionArgs args = call.args;
  args.k.mean = anchor();
  Result<AttentionArgs> ready = prepare(call.plan, call.layout, args, Operands::queries);
  OCTET_TRY(ready.status());
  return attend_codes(call.plan.desc, for_kernel(call, ready.take()));
}

Status KeptKeys::step(const TensorView& k, const TensorView& v, std::int64_t begin, const Call& call) {
  const Workers workers{call.args.parallel_for, call.args.stream};
  OCTET_TRY(append(k, v, begin, workers));
  Status status = attend(call);
  if (!status.ok()) OCTET_TRY(truncate(begin + k.shape[2], begin, workers));
  return status;
}

}  // namespace octet::capi
