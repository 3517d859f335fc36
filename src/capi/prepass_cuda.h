// The pre-pass of a call whose tensors lie in device memory.
#pragma once
#include <vector>

#include "capi/operands.h"
#include "capi/prepass.h"
#include "cuda/quant/quantize.h"

namespace octet::capi {

/// Operands of another's that become codes in the same launches, and scratch memory for all of them.
struct Others {
  std::vector<cuda::PlainOperand> operands;
  void* scratch = nullptr;  ///< null: the call's own
};

/// prepare() on args.stream: everything is queued there, nothing waits, and what the data hold is not looked
/// at.
Result<AttentionArgs> prepare_on_device(const Plan& plan, const CallLayout& call, const AttentionArgs& args,
                                        Operands which, Others others = {});

/// A whole call of plain operands in one launch. False where there is no such kernel, and then nothing is
/// done.
Result<bool> attend_plain_on_device(const Plan& plan, const AttentionArgs& args);

}  // namespace octet::capi
