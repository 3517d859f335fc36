// octet's own threads, which calls without a parallel_for of the caller's run on.
#pragma once
#include <cstdint>

namespace octet::pool {

/// Runs body(context, i) once for each i in [0, count), on the calling thread and on those of the pool that
/// are idle; returns when all are done. body must not throw.
///
/// One call uses as many threads as OCTET_THREADS says or, where that is unset, as the calling thread's
/// affinity mask has processors; helpers run under that mask too. The pool starts its threads when a call
/// first wants them. Items are claimed one by one, so a helper that is late or never gets a processor takes
/// none, and the caller waits for the items that others have claimed, not for threads. With one thread, one
/// item, or inside a body of another call, everything runs on the calling thread. Any thread may call; a
/// child of fork() gets a pool of its own; the threads end at exit or when the library is unloaded, and calls
/// after that run inline.
///
/// Throws std::bad_alloc before the first item, where memory for the call (under 1 KiB) is short; a system
/// that gives no more threads is no error.
void run(std::int64_t count, void (*body)(void* context, std::int64_t i) noexcept, void* context);

/// Threads that a call from here of that many items uses at most, the calling one among them.
std::int64_t threads(std::int64_t count);

}  // namespace octet::pool
