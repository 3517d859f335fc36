// The pre-pass of a call whose tensors lie in device memory.
#pragma once
#include "capi/operands.h"
#include "capi/prepass.h"

namespace octet::capi {

/// prepare() on args.stream: everything is queued there, nothing waits, and what the data hold is not looked
/// at.
Result<AttentionArgs> prepare_on_device(const Plan& plan, const CallLayout& call, const AttentionArgs& args,
                                        Operands which);

}  // namespace octet::capi
