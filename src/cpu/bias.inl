// The bias of a group's rows in one key block: read in lanes into f32, -inf for a hidden key, with what the
// softmax asks of a row before it looks at single keys; part of attend.inl's nest.
//
// A row is read once for each key block, whoever else reads the same numbers: a broadcast bias costs a pass
// of its own in every head and batch entry, which is two loads and a store beside the products of 8 or 16
// keys.
#pragma once
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/reduce.inl"
#include "lanes/native.h"
#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::cpu {
namespace {

/// Which lanes are those of keys [first, last), counted from the first lane's.
template <class Isa>
typename Isa::Lane::I32 lanes_within(std::int64_t first, std::int64_t last) {
  typename Isa::Lane::I32 index{};
  for (int i = 0; i < Isa::kLanes; ++i) index[i] = i;
  return (index >= static_cast<std::int32_t>(first)) & (index < static_cast<std::int32_t>(last));
}

/// The keys of a block that one row sees, and what is added to their scores.
template <class Isa>
struct RowKeys {
  using L = typename Isa::Lane;
  KeySpan span;
  const float* bias;  ///< [key of the block], -inf for each that is hidden; null: only `span` hides keys
  bool hides;         ///< whether the bias hides a key of `span`

  typename L::F32 bias_at(std::int64_t at) const { return bias ? L::load(bias + at) : typename L::F32{}; }
  /// Of keys [at, at + kLanes).
  typename L::I32 visible(std::int64_t at) const {
    return bias ? L::load(bias + at) != L::broadcast(kMinusInfinity)
                : lanes_within<Isa>(span.first - at, span.last - at);
  }
};

/// Stored elements of each type as a vector of f32.
template <class L>
struct BiasF32 {
  using Stored = float;
  static typename L::F32 lanes(const Stored* at) { return L::load(at); }
};
template <class L>
struct BiasF16 {
  using Stored = std::uint16_t;
  static typename L::F32 lanes(const Stored* at) { return simd::from_f16(L::load(at)); }
};
template <class L>
struct BiasBf16 {
  using Stored = std::uint16_t;
  static typename L::F32 lanes(const Stored* at) { return L::from_bits(L::widen_u16(L::load(at)) << 16); }
};
/// 0 or -inf.
template <class L>
struct BiasMask {
  using Stored = std::uint8_t;
  static typename L::F32 lanes(const Stored* at) {
    constexpr std::int32_t kMinusInfinityBits = -0x800000;
    return L::from_bits((simd::widened_bytes(L::load(at)) == 0) & kMinusInfinityBits);
  }
};

/// Rows [row, row + count) of a call in the key block that begins at key `block`.
struct GroupRows {
  std::int64_t row, count, block;
};

template <class Isa>
class GroupBias {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;
  /// Largest |bias| of an ordinary() row, counted in what it adds to a score: f32 holds it to 2^-9 octave.
  static constexpr float kMostOrdinary = 1 << 14;

 public:
  /// Memory for key blocks of `padded` keys, a multiple of a vector.
  static std::int64_t bytes(std::int64_t padded) { return kRows * padded * 4; }

  GroupBias(const BiasRows& rows, std::byte* memory, std::int64_t padded)
      : rows_(rows), memory_(reinterpret_cast<float*>(memory)), padded_(padded) {}

  bool any() const { return rows_.data != nullptr; }

  /// Reads the bias of a group's rows for their keys of the block, keys[r]; these become the keys from the
  /// vector of the first that the row sees to that of the last, none where it sees none.
  void read(const GroupRows& rows, KeySpan* keys) {
    hides_ = 0, ordinary_ = true;
    if (!any()) return;
    switch (rows_.type) {
      case DType::f32:
        return read_rows<BiasF32<L>>(rows, keys);
      case DType::f16:
        return read_rows<BiasF16<L>>(rows, keys);
      case DType::bf16:
        return read_rows<BiasBf16<L>>(rows, keys);
      default:
        return read_rows<BiasMask<L>>(rows, keys);
    }
  }

  /// Hides row r's keys of [low, high), whole vectors, that lie outside `keys`.
  void hide_outside(std::int64_t r, const KeySpan& keys, const KeySpan& all) {
    float* to = memory_of(r);
    for (std::int64_t at = all.first; at < keys.first; at += kLanes) hide_vector(to, keys, at);
    for (std::int64_t at = keys.last / kLanes * kLanes; at < all.last; at += kLanes)
      hide_vector(to, keys, at);
  }

  /// Row r's keys of the block; `span`: as read() left it.
  RowKeys<Isa> keys(std::int64_t r, const KeySpan& span) const {
    return {span, any() ? row(r) : nullptr, (hides_ >> r & 1) != 0};
  }
  /// Whether the largest bias that each of the group's rows sees is neither so large nor so small that
  /// nothing but it matters, and none is NaN.
  bool ordinary() const { return ordinary_; }
  /// The largest that row r sees.
  float largest(std::int64_t r) const { return largest_[r]; }

  const float* row(std::int64_t r) const { return memory_ + r * padded_; }

  /// factor (bias - the row's largest) of row r's keys from first + i on, as a function of i: -inf for a
  /// hidden key.
  auto below_largest(std::int64_t r, std::int64_t first, float factor) const {
    return [from = row(r) + first, largest = largest_[r], factor](std::int64_t i) {
      return (L::load(from + i) - largest) * factor;
    };
  }

 private:
  struct Seen {
    float largest;    ///< visible bias
    bool hides, nan;  ///< any
  };

  float* memory_of(std::int64_t r) { return memory_ + r * padded_; }

  template <class Source>
  void read_rows(const GroupRows& rows, KeySpan* keys) {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      if (keys[r].first >= keys[r].last) continue;
      const auto* stored = static_cast<const typename Source::Stored*>(rows_.data) + rows_.row[rows.row + r] +
                           (rows.block + keys[r].first) * rows_.key_stride;
      const Seen seen = read_row<Source>(stored, r, keys[r]);
      largest_[r] = seen.largest;
      ordinary_ = ordinary_ && !seen.nan && (seen.largest == kMinusInfinity || is_ordinary(seen.largest));
      if (seen.largest == kMinusInfinity && !seen.nan) {
        keys[r] = {0, 0};
      } else if (seen.hides) {
        hides_ |= 1u << r;
        keys[r] = narrowed(r, keys[r]);
      }
    }
  }
  static bool is_ordinary(float bias) { return bias >= -kMostOrdinary && bias <= kMostOrdinary; }

  template <class Source>
  Seen read_row(const typename Source::Stored* stored, std::int64_t r, const KeySpan& keys) {
    const std::int64_t count = keys.last - keys.first, stride = rows_.key_stride;
    float* to = memory_of(r) + keys.first;
    F32 largest = L::broadcast(kMinusInfinity), least{};
    I32 nan{};
    const auto see = [&](F32 bias) {
      largest = L::max(bias, largest), least = L::min(bias, least);  // the second where the first is NaN
      nan |= bias != bias;
      return bias;
    };
    if (stride == 1 && count >= kLanes) {
      std::int64_t j = 0;
      for (; j + kLanes <= count; j += kLanes) L::store(to + j, see(Source::lanes(stored + j)));
      // The last vector takes some keys a second time: nothing is read past the row.
      if (j < count) L::store(to + count - kLanes, see(Source::lanes(stored + count - kLanes)));
    } else {
      for (std::int64_t j = 0; j < count; j += kLanes) {
        const std::int64_t some = count - j < kLanes ? count - j : kLanes;
        typename Source::Stored together[kLanes];
        float values[kLanes];
        for (std::int64_t i = 0; i < kLanes; ++i) together[i] = stored[(j + (i < some ? i : 0)) * stride];
        L::store(values, see(Source::lanes(together)));
        __builtin_memcpy(to + j, values, static_cast<std::size_t>(4 * some));
      }
    }
    return {reduced(largest, Larger{}), simd::any(least == L::broadcast(kMinusInfinity)), simd::any(nan)};
  }

  /// A row that sees some key: keys from the vector of its first to that of its last.
  KeySpan narrowed(std::int64_t r, KeySpan keys) const {
    const float* bias = row(r);
    const auto sees = [&](std::int64_t at) {
      return simd::any(L::load(bias + at) != L::broadcast(kMinusInfinity));
    };
    while (keys.first + kLanes <= keys.last && !sees(keys.first)) keys.first += kLanes;
    while (keys.last - kLanes >= keys.first && !sees(keys.last - kLanes)) keys.last -= kLanes;
    return keys;
  }

  static void hide_vector(float* to, const KeySpan& keys, std::int64_t at) {
    const I32 within = lanes_within<Isa>(keys.first - at, keys.last - at);
    L::store(to + at, within ? L::load(to + at) : L::broadcast(kMinusInfinity));
  }

  const BiasRows& rows_;
  float* const memory_;
  const std::int64_t padded_;
  float largest_[kRows];
  std::uint32_t hides_ = 0;  ///< bit r
  bool ordinary_ = true;
};

}  // namespace
}  // namespace octet::cpu
