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

/// Whether K and V of a call are made and packed by pack_by_head(): they come as plain numbers, heads have
/// nothing to do with each other, and the codes of one stay in the cache from one step to the other.
bool packs_by_head(const Plan& plan);

/// What prepare() with Operands::keys and then the kernel's pack() do, a head at a time: Operands::queries
/// and the kernel's second half may follow.
Status pack_by_head(const Plan& plan, const AttentionArgs& args);

/// What pack_by_head(), prepare() with Operands::queries and the kernel's second half do, where
/// packs_by_head(), head by head: its keys are in the cache when its queries come. False where that gains
/// nothing or cannot be, and then nothing is done. With an error, some heads have outputs.
Result<bool> attend_by_head(const Plan& plan, const AttentionArgs& args);

}  // namespace octet::capi
