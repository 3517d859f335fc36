// The a-priori error bound of a call.
#include "base/try.h"
#include "capi/guard.h"
#include "capi/plan_handle.h"
#include "capi/prepass.h"
#include "octet/abi.hpp"
#include "ref/reference.h"

using namespace octet;

extern "C" octet_status octet_error_bound(const octet_plan* plan, const octet_attention_args* args,
                                          const octet_tensor* bound) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("args", args));
    OCTET_TRY(capi::not_null("bound", bound));
    const AttentionDesc& d = plan->plan.desc;
    if (d.device != Device::cpu) {
      return refused("device", name_of(d.device), "a bound is computed on the CPU",
                     "plan the same problem with device cpu and pass tensors in its memory");
    }
    if (takes_codes(d)) {
      return refused("input", name_of(d.input), "a bound needs the numbers that the codes stand for",
                     "plan with plain q, k and v");
    }
    const AttentionArgs call = abi::from_c(*args);
    OCTET_TRY(validate_args(plan->plan, call, Outputs::none));
    const TensorView out = abi::from_c(*bound);
    OCTET_TRY(validate_output("bound", out, DType::f32, Device::cpu,
                              {d.batch, d.heads_q, d.tokens_q, d.head_dim_v}));
    if (d.tokens_q == 0) return {};
    const Result<AttentionArgs> ready = capi::prepare(plan->plan, plan->call, call, capi::Operands::all);
    if (!ready.ok()) return ready.status();
    return ref::error_bound(d, call, ready.value(), out);
  });
}
