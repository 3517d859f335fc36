// Waiting without giving up the processor, for the few microseconds that waking a thread would take.
#pragma once
#include <chrono>

namespace octet {

/// Tells the processor that this is a spin loop: its other hardware thread gets the execution units.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Whether happened() came true within `limit`.
template <class Happened>
bool spin_until(Happened&& happened, std::chrono::nanoseconds limit) {
  constexpr int kPausesPerLook = 8;  // reading the clock costs about as much as these
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (happened()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace octet
