// Which key each slot of a dim-major V holds. The accumulator of an 8-bit Q.K product hands a thread the keys
// in an order that is not the one its P operand wants; the sum over keys does not care, so V is stored in the
// accumulator's order once instead of shuffling P in every tile.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet::quant {

/// Keys a group; groups keep their order, only the keys inside one are permuted.
inline constexpr std::int64_t kKeyGroup = 16;

/// The key that slot `slot` holds: within 16, slot 4r + 2q + p holds key 8q + 2r + p (p, q in {0, 1}, r in
/// 0..3). Source: FlashAttention-3's FP8 layout; the order follows from the fragments of
/// mma.m16n8k32 and wgmma (PTX ISA).
OCTET_HD constexpr std::int64_t key_of_slot(std::int64_t slot) {
  const std::int64_t i = slot & 15;
  const std::int64_t r = i >> 2, q = (i >> 1) & 1, p = i & 1;
  return (slot & ~std::int64_t{15}) + 8 * q + 2 * r + p;
}

/// The slot that holds key `key`: the inverse of key_of_slot.
OCTET_HD constexpr std::int64_t slot_of_key(std::int64_t key) {
  const std::int64_t i = key & 15;
  const std::int64_t q = i >> 3, r = (i >> 1) & 3, p = i & 1;
  return (key & ~std::int64_t{15}) + 4 * r + 2 * q + p;
}

}  // namespace octet::quant
