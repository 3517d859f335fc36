// Comparing a lane of many values with ScalarLane, bit for bit. Included by the translation units that are
// compiled for one instruction set: no gtest here and no containers, whose inline functions another unit
// could pick up.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "lanes/scalar.h"
#include "lanes/vector.h"
#include "tests/lanes/vector_units.h"

namespace octet::lane_check {

namespace {

/// splitmix64's finaliser (Steele, Lea and Flood 2014) of a counter.
struct Random {
  std::uint64_t state = 20240817;

  std::uint64_t word() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(word() >> 33) % n; }
};

// Numbers of each type: an edge one time in four, else any magnitude.

inline void draw(Random& random, float& x) {
  constexpr std::uint32_t kEdges[] = {0,          0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                                      0x3f800000, 0xbf800000, 0x3f000000, 0x3fc00000, 0x40200000, 0x4b000000,
                                      0x4affffff, 0x4b7fffff, 0xcb000001, 0x4effffff, 0x4f000000, 0xcf000000,
                                      0xcf000001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                      0xffc00000, 0x7f800001, 0xc2fc0000, 0xc2fc0001, 0x43000000, 0x437f0000,
                                      0x437f8000, 0x42fe8000, 0xc3008000, 0x47800000, 0x477ff000, 0x43e00000};
  constexpr std::uint32_t kCount = sizeof kEdges / sizeof kEdges[0];
  const std::uint32_t kind = random.below(4), any = static_cast<std::uint32_t>(random.word());
  const std::uint32_t near_one = (any & 0x807fffffu) | ((127u - 20u + random.below(40)) << kF32MantissaBits);
  x = float_of(kind == 0 ? kEdges[random.below(kCount)] : kind == 1 ? any : near_one);
}
inline void draw(Random& random, std::uint32_t& x) {
  constexpr std::uint32_t kEdges[] = {0,  1,   2,     31,    32,         33,         63,
                                      64, 255, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff};
  constexpr std::uint32_t kCount = sizeof kEdges / sizeof kEdges[0];
  const std::uint32_t any = static_cast<std::uint32_t>(random.word()) >> random.below(32);
  x = random.below(4) == 0 ? kEdges[random.below(kCount)] : any;
}
inline void draw(Random& random, std::int32_t& x) {
  std::uint32_t bits = 0;
  draw(random, bits);
  x = as_signed(random.below(2) == 0 ? bits : 0u - bits);
}
inline void draw(Random& random, std::uint16_t& x) {
  std::uint32_t bits = 0;
  draw(random, bits);
  x = static_cast<std::uint16_t>(bits);
}
inline void draw(Random& random, std::int64_t& x) {
  const std::uint64_t any = random.word() >> random.below(64);
  x = static_cast<std::int64_t>(random.below(2) == 0 ? any : 0 - any);
}

template <class T>
bool same(T a, T b) {
  return a == b;
}
template <>
bool same(float a, float b) {
  return bits_of(a) == bits_of(b) || (a != a && b != b);
}

inline double printable(float x) { return static_cast<double>(x); }
template <class T>
double printable(T x) {
  return static_cast<double>(x);
}

template <class Out>
void compare(Report& report, const char* what, const Out* vector, const Out* scalar, int count) {
  for (int i = 0; i < count; ++i) {
    ++report.compared;
    if (same(vector[i], scalar[i])) continue;
    if (report.different++ == 0) {
      std::snprintf(report.first, sizeof report.first, "%s, lane %d of %d: %.17g in lanes, %.17g alone", what,
                    i, count, printable(vector[i]), printable(scalar[i]));
    }
  }
}

/// One value of each type in every lane.
template <class T, int kLanes>
struct Values {
  T of[kLanes];

  void fill(Random& random) {
    for (T& x : of) draw(random, x);
  }
};

}  // namespace
}  // namespace octet::lane_check
