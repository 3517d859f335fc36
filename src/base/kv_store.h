// What a backend keeps of K and V from one call to the next: codes and constants in the layout that its
// kernels read.
#pragma once
#include <cstdint>

#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// Keys and values of dense sequences of one length, in a backend's own layout. Who calls counts the tokens
/// and has validated everything; one thread at a time may change it.
class KvStore {
 public:
  virtual ~KvStore() = default;

  virtual std::int64_t bytes() const = 0;

  /// Keys begin, begin + 1, ... from k and v of [batch, kv head, token, dim] in the scheme's formats. What
  /// lies before is not changed, but for what a key block shares (the largest of its V scales).
  virtual void append(const QuantizedTensor& k, const QuantizedTensor& v, std::int64_t begin,
                      const ParallelFor& parallel_for) = 0;

  /// Forgets keys [to, from), the last ones.
  virtual void truncate(std::int64_t from, std::int64_t to) = 0;

  /// Bytes of args.workspace that attend() needs for a problem of up to desc.tokens_k keys.
  virtual std::int64_t workspace_bytes(const AttentionDesc& desc) const = 0;

  /// o and lse of args.q, in the scheme's format, against the first desc.tokens_k keys; args.k and args.v are
  /// not looked at.
  virtual void attend(const AttentionDesc& desc, const AttentionArgs& args) const = 0;
};

}  // namespace octet
