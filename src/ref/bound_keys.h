// What the error bound needs to know of the operands: norms of a query row, and of the set of keys that a row
// sees.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "call/problem.h"
#include "call/visibility.h"
#include "numerics/bound.h"

namespace octet::ref {

using namespace call;

/// One row of Q or K as stored: real norms, scales included. For a set of keys: the largest of each.
struct RowNorms {
  double step = 0;  ///< scale of one code
  double l1 = 0, l2 = 0;

  void include(const RowNorms& other);
};

/// A set of keys that some row sees.
struct KeySet {
  std::int64_t keys = 0, blocks = 0;
  std::int64_t widest_block = 0;  ///< keys of it in one key block, at most
  RowNorms k;
  double least_log2_v = kUnbounded,
         most_log2_v = -kUnbounded;  ///< of V's scales, where they vary along tokens
  double bias = 0;                   ///< largest |bias|
  std::vector<ChannelTerms> v;

  explicit KeySet(std::int64_t dim_v) : v(static_cast<std::size_t>(dim_v)) {}
  bool v_varies() const { return most_log2_v >= least_log2_v; }
  double log2_v() const { return v_varies() ? std::max(-least_log2_v, most_log2_v) : 0; }
  /// Largest V scale over the smallest.
  double v_ratio() const { return v_varies() ? std::exp2(most_log2_v - least_log2_v) : 1; }
  /// Adds a set of other key blocks.
  void include(const KeySet& other);
};

/// Reads K and V of one head: the numbers (plain v) and what became of them (quantised k, v).
class KeyReader {
 public:
  KeyReader(const Problem& plain, const Problem& quantised, std::int64_t sequence, std::int64_t kv_head);

  std::int64_t dim_v() const { return v_.dim(); }
  /// The keys of [begin, end), all of one key block; `bias` adds to or hides keys for one query.
  KeySet read(KeyRange keys, const HeadBias& bias, std::int64_t query) const;

 private:
  void read_key(std::int64_t token, KeySet& set) const;
  void read_value(std::int64_t token, KeySet& set) const;

  const HeadOperand k_, v_, plain_v_;
  mutable std::vector<float> row_, plain_row_;  ///< scratch: one reader a thread
};

/// Norms of row `token` of an operand; `row` is scratch.
RowNorms norms_of(const HeadOperand& x, std::int64_t token, std::vector<float>& row);

/// All key blocks of one head, summarised once, so that a row costs O(blocks) and not O(keys).
class KeyBlocks {
 public:
  KeyBlocks(const Problem& plain, const Problem& quantised, std::int64_t sequence, std::int64_t kv_head);
  const KeySet& block(std::int64_t i) const { return blocks_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<KeySet> blocks_;
};

/// The keys that successive rows of one query head see: a row's set grows out of the one before where it can.
class VisibleKeys {
 public:
  VisibleKeys(const Problem& plain, const Problem& quantised, const KeyBlocks& blocks, const Work& work);
  /// The set of query `token`; valid until the next call.
  const KeySet& of(std::int64_t token);

 private:
  void add(KeyRange range, std::int64_t token, KeySet& set) const;

  const Problem& problem_;
  const Work work_;
  const KeyBlocks& blocks_;
  const KeyReader reader_;
  const HeadBias bias_;
  KeyRange done_;  ///< whole blocks that `whole_` holds, in tokens
  KeySet whole_;
  KeyRange last_{-1, -1};
  KeySet visible_;
};

}  // namespace octet::ref
