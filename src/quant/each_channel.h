// A loop over channels that the compiler takes in vectors, for it does so with loops of known length.
#pragma once
#include <cstdint>

namespace octet::quant {

/// body(c) of every channel.
template <class Body>
void each_channel(std::int64_t channels, const Body& body) {
  constexpr std::int64_t kTogether = 16;
  std::int64_t c = 0;
  for (; c + kTogether <= channels; c += kTogether)
    for (std::int64_t i = 0; i < kTogether; ++i) body(c + i);
  for (; c < channels; ++c) body(c);
}

}  // namespace octet::quant
