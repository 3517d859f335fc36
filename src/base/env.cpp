#include "base/env.h"

#include <cstdlib>

namespace octet::env {

int threads() {
  constexpr long kMost = 4096;  // beyond any machine: a slip of the hand
  const char* text = std::getenv("OCTET_THREADS");
  if (!text) return 0;
  char* end = nullptr;
  const long wanted = std::strtol(text, &end, 10);
  return *end == '\0' && wanted >= 1 && wanted <= kMost ? static_cast<int>(wanted) : 0;
}

std::string isa() {
  const char* text = std::getenv("OCTET_ISA");
  return text ? text : "";
}

}  // namespace octet::env
