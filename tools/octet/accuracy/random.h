// Random numbers by counter: the i-th 64 bits of a stream are a hash of the stream's key and i.
#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace octet::tool {

/// A permutation of 64 bits in which every input bit moves about half of the output's: xor-shifts and odd
/// multipliers. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (SplitMix64).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  /// One stream for every tuple of numbers.
  explicit Random(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key) key_ = mix(key_ + kStep + part);
  }

  std::uint64_t bits() { return mix(key_ + kStep * ++counter_); }
  /// In (0, 1), on a grid of 2^-53.
  double unit() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  /// N(0, 1): two numbers from two uniform ones (Box and Muller), the second kept for the next call.
  double normal() {
    if (kept_) {
      kept_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(unit())), angle = 2 * std::numbers::pi * unit();
    spare_ = radius * std::sin(angle);
    kept_ = true;
    return radius * std::cos(angle);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd: visits every state
  std::uint64_t key_ = 0, counter_ = 0;
  double spare_ = 0;
  bool kept_ = false;
};

}  // namespace octet::tool
