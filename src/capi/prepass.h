// The pre-pass: from a caller's arguments to those of a kernel.
#pragma once
#include "capi/operands.h"
#include "core/plan.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::capi {

/// Which operands a call makes: all of them, or those of one half of it. The others are in the workspace,
/// where the call before left them, or are not looked at.
enum class Operands { all, keys, queries };

/// Quantises or converts plain operands into the workspace, as the plan's layout says, and computes what the
/// LSE gets back for K's shift. `args` has been validated. Returns the arguments that a kernel runs with:
/// those of the caller, with q, k, v and q_anchor replaced. Never writes an input.
Result<AttentionArgs> prepare(const Plan& plan, const CallLayout& call, const AttentionArgs& args,
                              Operands which);

}  // namespace octet::capi
