// Running a plan, at once or in two halves.
#include "base/try.h"
#include "capi/guard.h"
#include "capi/plan_handle.h"
#include "capi/prepass.h"
#include "capi/prepass_cuda.h"
#include "octet/abi.hpp"

using namespace octet;

namespace {

/// Checks the call, makes the operands that `which` says, and runs `part` of the kernel; none where it is
/// null.
octet_status call(const octet_plan* plan, const octet_attention_args* args, capi::Operands which,
                  Run Plan::*part) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("args", args));
    const AttentionArgs given = abi::from_c(*args);
    OCTET_TRY(validate_args(plan->plan, given, Outputs::attention));
    if (plan->plan.desc.tokens_q == 0) return {};
    if (which == capi::Operands::all && plan->plan.desc.device == Device::cuda) {
      const Result<bool> attended = capi::attend_plain_on_device(plan->plan, given);
      if (!attended.ok()) return attended.status();
      if (attended.value()) return {};
    }
    const bool by_head = which != capi::Operands::queries && capi::packs_by_head(plan->plan);
    if (by_head && which == capi::Operands::all) {
      const Result<bool> attended = capi::attend_by_head(plan->plan, given);
      if (!attended.ok()) return attended.status();
      if (attended.value()) return {};
    }
    if (by_head) OCTET_TRY(capi::pack_by_head(plan->plan, given));
    if (by_head && which == capi::Operands::keys) return {};
    Result<AttentionArgs> ready =
        capi::prepare(plan->plan, plan->call, given, by_head ? capi::Operands::queries : which);
    if (!ready.ok()) return ready.status();
    if (plan->plan.kernel_bytes > 0)
      ready.value().workspace = static_cast<std::byte*>(given.workspace) + plan->plan.kernel_offset;
    const Run run = plan->plan.*(by_head ? &Plan::run_packed : part);
    return run ? run(plan->plan.desc, ready.value()) : Status{};
  });
}

}  // namespace

extern "C" octet_status octet_attend(const octet_plan* plan, const octet_attention_args* args) {
  return call(plan, args, capi::Operands::all, &Plan::run);
}

extern "C" octet_status octet_pack(const octet_plan* plan, const octet_attention_args* args) {
  return call(plan, args, capi::Operands::keys, &Plan::pack);
}

extern "C" octet_status octet_attend_packed(const octet_plan* plan, const octet_attention_args* args) {
  return call(plan, args, capi::Operands::queries, &Plan::run_packed);
}
