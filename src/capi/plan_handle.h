// What an octet_plan is.
#pragma once
#include <string>

#include "capi/operands.h"
#include "core/plan.h"
#include "octet/octet.h"

struct octet_plan {
  octet::Plan plan;
  octet::capi::CallLayout call;
  std::string explanation;
};
