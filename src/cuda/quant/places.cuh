// Where the rows of a tensor lie, as threads find out: rows are numbered (batch, head, token), and groups of
// tokens have slots in scratch memory that need no look at cu_seqlens on the host.
#pragma once
#include <array>
#include <cstdint>

#include "base/divider.h"
#include "base/hd.h"
#include "base/sequences.h"
#include "octet/types.hpp"

namespace octet::cuda {

/// The sequence that token t of a packed tensor belongs to: the largest s with cu_seqlens[s] <= t, which
/// holds it unless it is empty or the last.
__device__ inline std::int32_t sequence_of(const Sequences& sequences, std::int32_t t) {
  std::int32_t low = 0, high = static_cast<std::int32_t>(sequences.count);
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (sequences.cu_seqlens[middle] <= t ? low : high) = middle;
  }
  return low;
}

/// One row, and the sequence that it belongs to.
struct Place {
  std::int32_t b = 0, h = 0, t = 0;           ///< t: in the tensor
  std::int32_t s = 0, begin = 0, length = 0;  ///< the sequence; no token of its own: length 0
  bool exists = false;

  __device__ std::int32_t in_sequence() const { return t - begin; }
};

/// The rows of a tensor, in their order.
struct RowOrder {
  Sequences sequences;
  Divider tokens, heads;
  std::uint32_t rows = 0;

  RowOrder() = default;
  RowOrder(const TensorView& x, const Sequences& of)
      : sequences(of),
        tokens(x.shape[2]),
        heads(x.shape[1]),
        rows(static_cast<std::uint32_t>(x.shape[0] * x.shape[1] * x.shape[2])) {}

  __device__ Place at(std::uint32_t row) const {
    Place p;
    if (row >= rows) return p;
    const std::uint32_t unit = tokens.quotient(row), b = heads.quotient(unit);
    p.b = static_cast<std::int32_t>(b);
    p.h = static_cast<std::int32_t>(unit - b * heads.divisor);
    p.t = static_cast<std::int32_t>(row - unit * tokens.divisor);
    p.exists = true;
    p.s = sequences.cu_seqlens ? sequence_of(sequences, p.t) : p.b;
    enter(p);
    return p;
  }

  /// The row after p.
  __device__ void step(Place& p, std::uint32_t row) const {
    p.exists = row < rows;
    if (!p.exists) return;
    if (++p.t == static_cast<std::int32_t>(tokens.divisor)) {
      p.t = 0, p.s = 0;
      if (++p.h == static_cast<std::int32_t>(heads.divisor)) p.h = 0, ++p.b;
    } else if (p.t < p.begin + p.length) {
      return;
    }
    if (sequences.cu_seqlens) {
      while (p.s + 1 < sequences.count && sequences.cu_seqlens[p.s + 1] <= p.t) ++p.s;
    } else {
      p.s = p.b;
    }
    enter(p);
  }

 private:
  __device__ void enter(Place& p) const {
    p.begin = static_cast<std::int32_t>(sequences.begin(p.s));
    p.length = static_cast<std::int32_t>(sequences.length(p.s));
    if (p.t >= p.begin + p.length) p.exists = false;
  }
};

/// Groups of `tokens` tokens of each sequence, or each sequence's as one (tokens 0), and a slot of scratch
/// for each. In a packed tensor sequence s has its slots from floor(cu_seqlens[s] / tokens) + s on: enough
/// for its ceil(length / tokens) before the next one's, whatever the lengths, and no sum over sequences is
/// needed.
struct Groups {
  std::int64_t tokens = 0;
  std::int64_t per_head = 1;  ///< slots
  std::int64_t units = 1;     ///< batch entries times heads
  bool is_one = false;        ///< all share slot 0
  Divider by_tokens, by_per_head;

  Groups() = default;
  /// packed_sequences: 0 for dense tensors. Groups longer than all tokens are the sequences.
  Groups(const std::array<std::int64_t, 4>& shape, std::int64_t packed_sequences, std::int64_t group_tokens)
      : tokens(group_tokens < shape[2] ? group_tokens : shape[2]),
        per_head(Sequences::groups(shape[2], tokens, packed_sequences)),
        units(shape[0] * shape[1]),
        by_tokens(tokens > 0 ? tokens : 1),
        by_per_head(per_head) {}

  static Groups all_in_one() {
    Groups one;
    one.is_one = true;
    return one;
  }

  OCTET_HD std::int64_t slots() const { return units * per_head; }

  /// The first slot of a sequence within its head's.
  __device__ std::int64_t first(const Sequences& sequences, std::int32_t s) const {
    if (!sequences.cu_seqlens) return 0;
    if (tokens == 0) return s;
    return by_tokens.quotient(static_cast<std::uint32_t>(sequences.begin(s))) + s;
  }
  __device__ std::int64_t slot(const Sequences& sequences, std::int32_t heads, const Place& p) const {
    if (is_one) return 0;
    const std::int64_t group =
        tokens == 0 ? 0 : by_tokens.quotient(static_cast<std::uint32_t>(p.in_sequence()));
    return (std::int64_t{p.b} * heads + p.h) * per_head + first(sequences, p.s) + group;
  }
};

/// The order in which kernels go through the groups of a tensor.
enum class GroupOrder : std::int32_t {
  heads_outside,  ///< that of slots
  heads_inside,   ///< the heads of some tokens lie beside each other
};

/// Slots in an order.
struct GroupWalk {
  Groups groups;
  Divider units;
  std::uint32_t count = 0;  ///< of slots
  GroupOrder order = GroupOrder::heads_outside;

  GroupWalk() = default;
  /// In the order of x's memory.
  GroupWalk(const Groups& of, const TensorView& x)
      : groups(of),
        units(of.units),
        count(static_cast<std::uint32_t>(of.slots())),
        order(x.shape[1] > 1 && x.stride[1] < x.stride[2] ? GroupOrder::heads_inside
                                                          : GroupOrder::heads_outside) {}

  /// number < count
  __device__ std::uint32_t slot(std::uint32_t number) const {
    if (order == GroupOrder::heads_outside) return number;
    const std::uint32_t local = units.quotient(number), unit = number - local * units.divisor;
    return unit * static_cast<std::uint32_t>(groups.per_head) + local;
  }
};

/// A group of tokens: [begin, begin + length) of batch entry b and head h.
struct TokenGroup {
  std::int32_t b = 0, h = 0, s = 0;
  std::int32_t index = 0;              ///< in its sequence
  std::int32_t begin = 0, length = 0;  ///< length 0: none has this slot, or the sequence is empty
  std::int32_t sequence_length = 0;
};

__device__ inline TokenGroup group_at(const Groups& groups, const Sequences& sequences, const Divider& heads,
                                      std::uint32_t slot) {
  const std::uint32_t unit = groups.by_per_head.quotient(slot);
  auto local = static_cast<std::int32_t>(slot - unit * groups.by_per_head.divisor);
  TokenGroup g;
  g.b = static_cast<std::int32_t>(unit) / heads;
  g.h = static_cast<std::int32_t>(unit) - g.b * heads;
  g.s = g.b;
  if (sequences.cu_seqlens) {  // the largest s whose first slot is at most this one
    std::int32_t low = 0, high = static_cast<std::int32_t>(sequences.count);
    while (high - low > 1) {
      const std::int32_t middle = (low + high) / 2;
      (groups.first(sequences, middle) <= local ? low : high) = middle;
    }
    g.s = low;
    local -= static_cast<std::int32_t>(groups.first(sequences, low));
  }
  g.index = local;
  const auto first = static_cast<std::int32_t>(sequences.begin(g.s));
  g.sequence_length = static_cast<std::int32_t>(sequences.length(g.s));
  const std::int64_t before = groups.tokens * local, left = g.sequence_length - before;
  if (left <= 0) return g;
  g.begin = first + static_cast<std::int32_t>(before);
  g.length = static_cast<std::int32_t>(groups.tokens == 0 || left < groups.tokens ? left : groups.tokens);
  return g;
}

}  // namespace octet::cuda
