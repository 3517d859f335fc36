// What the softmaxes in words of a group of rows share: where a row's words are, and which of them it sees;
// part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/visit.inl"

namespace octet::cpu {
namespace {

/// Which words of a run of keys that begins at `at` lie in keys [first, last).
template <class Isa>
struct WordRange {
  static auto in_range(std::int64_t first, std::int64_t last, std::int64_t at) {
    constexpr std::int64_t kRun = 2 * Isa::kLanes;
    const auto key = Isa::keys_of_words();
    const auto clamp = [](std::int64_t x) {
      return static_cast<std::int16_t>(x < -1 ? -1 : x > kRun ? kRun : x);
    };
    return (key >= clamp(first - at)) & (key < clamp(last - at));
  }
};

template <class S, class Isa>
class WordRows {
  using ThisVisit = Visit<S, Isa>;

 public:
  static constexpr std::int64_t kRun = 2 * Isa::kLanes;  ///< keys of a vector of words
  static constexpr std::int64_t kChunk = 2 * kRun;       ///< keys whose codes are stored together

 protected:
  explicit WordRows(const NestContext<S, Isa>& nest)
      : call_(nest.call), scheme_(nest.scheme), bias_(nest.bias), memory_(nest.memory) {}

  /// Runs are counted from the block's start: the order of its words is fixed.
  static std::int64_t first_key(const ThisVisit& visit) { return visit.low / kChunk * kChunk; }
  /// With a bias, a key that the row does not see has a word of weight 0: the row sees all, to the end of
  /// what is stored at once.
  std::int64_t end_key(const ThisVisit& visit) const {
    return bias_.any() ? whole_stores<Isa>(visit.low, visit.high).last : visit.high;
  }
  std::int64_t count(const ThisVisit& visit) const { return end_key(visit) - first_key(visit); }
  /// Row r's words, and codes, from first_key().
  std::byte* words(std::int64_t r) const { return memory_.words + r * memory_.words_row; }
  std::byte* codes(const ThisVisit& visit, std::int64_t r) const {
    return memory_.p + r * memory_.p_row + kPBytesOf<S, Isa> * first_key(visit);
  }
  /// Keys that row r sees, from first_key(). Keys behind the block's last one have words of weight 0 too: who
  /// sees the last one sees all to the end of its run.
  KeySpan seen(const ThisVisit& visit, std::int64_t r) const {
    const KeySpan keys = visit.span(r);
    const std::int64_t first = keys.first - first_key(visit), all = round_up(count(visit), kRun);
    if (bias_.any()) return {0, all};
    const std::int64_t last = keys.last;
    return {first, last == visit.block.keys() ? all : last - first_key(visit)};
  }
  /// Which words of the run at a key are in there.
  static auto visible(const KeySpan& seen) {
    return [seen](std::int64_t at) { return WordRange<Isa>::in_range(seen.first, seen.last, at); };
  }

  const RowsCall& call_;
  const S& scheme_;
  const GroupBias<Isa>& bias_;
  const GroupMemory& memory_;
};

}  // namespace
}  // namespace octet::cpu
