// The environment variables that octet reads, and the only place that reads them.
#pragma once
#include <string>

namespace octet::env {

/// OCTET_THREADS: threads that work on one call, the caller among them; 0 where it is unset or no number from
/// 1 to 4096.
int threads();

/// OCTET_ISA: the instruction set that the CPU backend is held to; empty where unset.
std::string isa();

}  // namespace octet::env
