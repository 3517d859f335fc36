// Packing of one call's K and V head by head, for who makes their codes head by head.
#pragma once
#include <cstdint>

namespace octet {

/// Where a head's codes are that are not where their tensors have them: elements further on.
struct CodeShift {
  std::int64_t k = 0, v = 0;
};

class KeyPacker {
 public:
  virtual ~KeyPacker() = default;

  /// Packs one head of one sequence, whose codes and scales are there; heads in any order and by any threads.
  virtual void pack(std::int64_t sequence, std::int64_t kv_head, const CodeShift& shift) const = 0;
};

}  // namespace octet
