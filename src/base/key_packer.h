// Packing of one call's K and V head by head, for who makes their codes head by head.
#pragma once
#include <cstdint>

namespace octet {

class KeyPacker {
 public:
  virtual ~KeyPacker() = default;

  /// Packs one head of one sequence, whose codes and scales are there; heads in any order and by any threads.
  virtual void pack(std::int64_t sequence, std::int64_t kv_head) const = 0;
};

}  // namespace octet
