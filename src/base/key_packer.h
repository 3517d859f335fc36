// Packing of one call's K and V head by head, and attention on them, for who makes codes head by head.
#pragma once
#include <cstdint>

#include "base/packed_codes.h"

namespace octet {

/// The codes of one head of one sequence that are not where their tensors have them.
struct HeadCodes {
  std::int64_t k_shift = 0, v_shift = 0;  ///< rows: so many elements further on
  std::int64_t packed = 0;  ///< tokens from the first one on that are packed already, zeros behind them too
};

/// A head of one sequence, and the head of dense tensors in whose place it is packed.
struct PackedHeadIndex {
  std::int64_t sequence, kv_head, place;
};

class KeyPacker {
 public:
  virtual ~KeyPacker() = default;

  /// Where who makes the codes of a head may pack them himself; data null: nowhere.
  struct Packed {
    PackedCodes k, v;
  };
  virtual Packed packed(const PackedHeadIndex& head) const = 0;

  /// Packs one head of one sequence, whose codes and scales are there; heads in any order and by any threads.
  virtual void pack(const PackedHeadIndex& head, const HeadCodes& codes) const = 0;

  /// Prepares attend(), which needs the codes of Q where the call has them; false: heads cannot be attended
  /// one by one, for the keys of some are cut.
  virtual bool begin_attending() = 0;

  /// The queries of the heads that share a head that is packed; heads in any order and by any threads.
  virtual void attend(const PackedHeadIndex& head) const = 0;
};

}  // namespace octet
