// The reference's own list of what computes each scheme.
#pragma once
#include "call/problem.h"

namespace octet::ref {

using namespace call;

/// Computes o and lse of a whole call.
using Attend = void (*)(const Problem& problem);

void attend_exact(const Problem& problem);

/// One entry a scheme of cmake/instances.cmake, generated into the build tree.
Attend attend_of(Scheme scheme);

}  // namespace octet::ref
