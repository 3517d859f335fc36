// What a call is cut into: units of query rows, and ranges of keys where there are few of these.
#pragma once
#include <algorithm>
#include <cstdint>
#include <thread>

#include "call/problem.h"
#include "cpu/kernel.h"
#include "cpu/packed.h"

namespace octet::cpu {

/// How a sequence's rows are cut into units: equal shares, in whole groups of rows. The rows that one more
/// group ends (5 of 197 tokens, one of a window's 49) go with the unit before them: what a unit takes beside
/// its rows is more than theirs.
class RowShares {
 public:
  /// longest: rows of the longest sequence; sequences: times heads; channels: of a row.
  RowShares(std::int64_t longest, std::int64_t sequences, const Packing& packing, std::int64_t channels)
      : group_(packing.rows) {
    const UnitRows& unit = packing.unit;
    rows_ = share(longest, channels <= UnitRows::kNarrow ? unit.narrow : unit.many);
    static const std::int64_t processors = std::thread::hardware_concurrency();
    if (sequences * units(longest) < 2 * processors) rows_ = share(longest, unit.few);
  }
  /// Units of a sequence.
  std::int64_t units(std::int64_t tokens) const {
    return tokens <= 0 ? 0 : std::max<std::int64_t>(1, (tokens - group_ + rows_ - 1) / rows_);
  }
  struct Rows {
    std::int64_t begin, end;
  };
  /// Rows of the i-th; none where there are fewer units.
  Rows rows(std::int64_t i, std::int64_t tokens) const {
    const std::int64_t count = units(tokens);
    if (i >= count) return {0, 0};
    return {i * rows_, i == count - 1 ? tokens : (i + 1) * rows_};
  }

 private:
  std::int64_t share(std::int64_t longest, std::int64_t most) const {
    const std::int64_t shares = std::max<std::int64_t>(1, (longest - group_ + most - 1) / most);
    return std::clamp(round_up((longest + shares - 1) / shares, group_), group_, most);
  }

  std::int64_t group_, rows_ = 0;
};

/// Query tokens [begin, end) of `heads` heads that share K and V: a row for each, head after head.
struct Unit {
  std::int64_t sequence, head, heads, begin, end;

  std::int64_t tokens() const { return end - begin; }
  std::int64_t rows() const { return heads * tokens(); }
};

/// Keys of a sequence with few queries are cut into ranges of so many, or of one key block where that is
/// more, which are computed apart and merged: 32k keys of 8 heads give 128 threads work. Fewer keys would
/// make merging and packing Q show. Cuts are at multiples of the range from the sequence's first key,
/// whatever else a call holds.
inline constexpr std::int64_t kRangeKeys = 2048;
/// A sequence of more queries is not cut: its operands are read from memory less than once in so many
/// products.
inline constexpr std::int64_t kFewQueries = 16;

/// Where the states of ranges lie.
class RangeStates {
 public:
  RangeStates(const Nest& nest, const AttentionDesc& desc, std::int64_t dim_v) : heads_(desc.heads_q) {
    if (!nest.merge) return;
    const std::int64_t size = range_keys(desc.key_block);
    row_bytes_ = nest.state_bytes(std::min(desc.tokens_q, kFewQueries), dim_v);
    sequence_ranges_ = desc.sequences > 0 ? 0 : (desc.tokens_k + size - 1) / size;
    const std::int64_t ranges =
        desc.sequences > 0 ? desc.tokens_k / size + desc.sequences + 1 : desc.batch * sequence_ranges_;
    const bool cuts = desc.tokens_k > size && (desc.sequences > 0 || desc.tokens_q <= kFewQueries);
    bytes_ = cuts ? ranges * heads_ * row_bytes_ : 0;
  }

  static std::int64_t range_keys(std::int64_t key_block) {
    return std::max(key_block, kRangeKeys / key_block * key_block);
  }
  std::int64_t bytes() const { return bytes_; }
  /// From one range of a sequence to the next.
  std::int64_t stride() const { return heads_ * row_bytes_; }
  /// note: a unit of several heads takes the places of all of them, and needs no more than these have.
  std::int64_t offset(const call::Problem& problem, const Unit& unit, std::int64_t range) const {
    const std::int64_t before =
        problem.k.cu_seqlens
            ? problem.k.begin(unit.sequence) / range_keys(problem.desc.key_block) + unit.sequence
            : unit.sequence * sequence_ranges_;
    return (before + range) * stride() + unit.head * row_bytes_;
  }

 private:
  std::int64_t heads_, row_bytes_ = 0, sequence_ranges_ = 0, bytes_ = 0;
};

}  // namespace octet::cpu
