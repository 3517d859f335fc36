// OCTET_TRY(expr): leave the function with the Status of `expr` if it failed.
#pragma once
#include "octet/status.hpp"

#define OCTET_TRY(expr)                                                                    \
  do {                                                                                     \
    if (::octet::Status octet_status_ = (expr); !octet_status_.ok()) return octet_status_; \
  } while (false)
