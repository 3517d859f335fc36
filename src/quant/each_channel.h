// Loops over channels that the compiler takes in vectors, for it does so with loops of known length.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet::quant {

inline constexpr std::int64_t kChannelsTogether = 16;

/// body(c) of every channel.
template <class Body>
OCTET_HOST void each_channel(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + kChannelsTogether <= channels; c += kChannelsTogether)
    for (std::int64_t i = 0; i < kChannelsTogether; ++i) body(c + i);
  for (; c < channels; ++c) body(c);
}

/// The largest number(c) of all channels, and of `least`.
template <class Number>
OCTET_HOST std::int32_t largest_of_channels(std::int64_t channels, std::int32_t least, const Number& number) {
  std::int32_t most[kChannelsTogether];
  for (std::int32_t& x : most) x = least;
  const auto larger = [](std::int32_t a, std::int32_t b) { return a > b ? a : b; };
  std::int64_t c = 0;
  for (; c + kChannelsTogether <= channels; c += kChannelsTogether)
    for (std::int64_t i = 0; i < kChannelsTogether; ++i) most[i] = larger(most[i], number(c + i));
  for (; c < channels; ++c) most[0] = larger(most[0], number(c));
  std::int32_t largest = most[0];
  for (std::int64_t i = 1; i < kChannelsTogether; ++i) largest = larger(largest, most[i]);
  return largest;
}

}  // namespace octet::quant
