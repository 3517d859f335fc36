// Rounding of P's small weights by the place of their key: in place of half a code, eight keys in a row have
// eight thresholds, 1/16 to 15/16 of a code. Like keys none of whose weights is half a code (the hundred
// tokens of a ruled line, beside a separator that a head looks at) then keep their mass together, where
// nearest rounding loses all of it, and what their V has in common with it. For keys that are not alike
// thresholds are noise: weights of a code or more are rounded to nearest, and so are keys whose V is far
// smaller than the block's largest, whose loss is smaller than the noise. Measured: docs/numerics/int8.md.
#pragma once

namespace octet {

/// Keys of a period of thresholds; a key's place is its number in the key block modulo this.
inline constexpr int kPlaces = 8;
/// Keys with less than 1 / kOrderedRange of the block's largest V scale are rounded to nearest.
inline constexpr float kOrderedRange = 16.0f;

/// What is added to a weight below 1 before it is rounded to nearest, in units of 1 / kOffsetUnits of a code.
/// The place's bits in reversed order, so that any few keys in a row have thresholds far apart.
constexpr int rounding_offset(int place) {
  return ((place & 1) << 6) + ((place & 2) << 4) + ((place & 4) << 2) - 56;
}
inline constexpr float kOffsetUnits = 128.0f;

/// The threshold that comes of it, of a code.
constexpr double rounding_threshold(int place) { return 0.5 - rounding_offset(place) / double{kOffsetUnits}; }

/// rounding_offset() of keys that begin with place 0, of a code: as many as a vector has.
template <int kKeys>
struct RoundingOffsets {
  alignas(64) float of[kKeys];

  constexpr RoundingOffsets() : of() {
    for (int i = 0; i < kKeys; ++i) of[i] = static_cast<float>(rounding_offset(i % kPlaces)) / kOffsetUnits;
  }
};

}  // namespace octet
