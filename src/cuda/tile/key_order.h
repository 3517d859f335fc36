// Which key each slot of the summed axis of P V holds. The accumulators of Q K^T come two keys a lane and
// eight keys a tile, while an 8-bit operand A of mma.sync wants four slots a lane: instead of moving codes
// between lanes, the keys of V are stored in the order in which the codes of P lie.
#pragma once
#include "base/hd.h"

namespace octet::cuda::tile {

/// The key (within its group) of a slot, of one byte: groups of 32, slot 16 h + 4 t + 2 j + c holds key
/// 16 h + 8 j + 2 t + c. (Of two bytes slots are keys.)
OCTET_HD constexpr int key_of_slot(int slot) {
  const int c = slot & 1, j = slot >> 1 & 1, t = slot >> 2 & 3, rest = slot & ~15;
  return rest + 8 * j + 2 * t + c;
}

/// The slot of a key, of one byte.
OCTET_HD constexpr int slot_of_key(int key) {
  const int c = key & 1, t = key >> 1 & 3, j = key >> 3 & 1, rest = key & ~15;
  return rest + 4 * t + 2 * j + c;
}

}  // namespace octet::cuda::tile
