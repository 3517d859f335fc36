// Threads: a caller's parallel_for, or octet's own.
#pragma once
#include <cstdint>
#include <type_traits>

#include "octet/types.hpp"

namespace octet {

/// Runs body(i) for i in [0, count) through the caller's parallel_for or, without one, on octet's own threads
/// (base/pool.h). The first exception of a body is thrown again here, on the calling thread, once all others
/// have stopped.
void run_parallel(const ParallelFor& parallel_for, std::int64_t count, void (*body)(void*, std::int64_t),
                  void* context);

/// Threads that such a call uses at most. How many a caller's parallel_for has nobody knows: no more than
/// processors is assumed.
std::int64_t threads_of(const ParallelFor& parallel_for, std::int64_t count);

/// Whether these are all busy to its end, or nearly, where the items are alike.
bool fills_threads(const ParallelFor& parallel_for, std::int64_t count);

template <class Body>
void for_each_parallel(const ParallelFor& parallel_for, std::int64_t count, Body&& body) {
  run_parallel(
      parallel_for, count,
      [](void* context, std::int64_t i) { (*static_cast<std::remove_reference_t<Body>*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace octet
