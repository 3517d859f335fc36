// Memory that is read soon.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet {

/// Brings bytes [begin, end) at `at` into the second-level cache: arithmetic on what is nearer leaves memory
/// idle, and what only reads waits for it.
OCTET_HOST void ask_for(const void* at, std::int64_t begin, std::int64_t end) {
  constexpr int kToRead = 0, kSecondLevel = 2, kLine = 64;
  for (std::int64_t i = begin; i < end; i += kLine)
    __builtin_prefetch(static_cast<const char*>(at) + i, kToRead, kSecondLevel);
}

}  // namespace octet
