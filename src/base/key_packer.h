// Packing of one call's K and V head by head, for who makes their codes head by head.
#pragma once
#include <cstdint>

#include "base/packed_codes.h"

namespace octet {

/// The codes of one head of one sequence that are not where their tensors have them.
struct HeadCodes {
  std::int64_t k_shift = 0, v_shift = 0;  ///< rows: so many elements further on
  std::int64_t packed = 0;  ///< tokens from the first one on that are packed already, zeros behind them too
};

class KeyPacker {
 public:
  virtual ~KeyPacker() = default;

  /// Where who makes the codes of a head may pack them himself; data null: nowhere.
  struct Packed {
    PackedCodes k, v;
  };
  virtual Packed packed(std::int64_t sequence, std::int64_t kv_head) const = 0;

  /// Packs one head of one sequence, whose codes and scales are there; heads in any order and by any threads.
  virtual void pack(std::int64_t sequence, std::int64_t kv_head, const HeadCodes& codes) const = 0;
};

}  // namespace octet
