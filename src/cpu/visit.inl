// What the stages of a group of rows against one key block hand on to each other; part of attend.inl's nest.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/bias.inl"
#include "cpu/kernel.h"
#include "cpu/reduce.inl"
#include "cpu/rows.inl"
#include "cpu/tile.h"

namespace octet::cpu {
namespace {

/// The two products for one kind of operand: the elements of a (Q, P) and b (K, V), and the tiles.
struct Products {
  Element q, k, p, v;
  Multiplies multiply;
  std::int64_t few = 1;                   ///< rows that the products of few rows take at most
  MultiplyAndFold pv_and_fold = nullptr;  ///< null: there is none
  MultiplyWide pv_wide = nullptr;         ///< the same
  MultiplyWithLargest qk_with_largest = nullptr;
  Element few_k = k;                   ///< K as the products of few rows take it: they shift it themselves
  MultiplyBeside pv_beside = nullptr;  ///< of sums that stay as they are; there where pv_wide is
};

/// Whether a scheme has a form of its softmax in words with the bits of the wide form.
template <class S>
inline constexpr bool kIntegerInWords = requires(typename S::Row row, typename S::Block block) {
  S::fits_u16(row, block);
};

/// Whether tiles of Q K^T may end in a scheme's scores.
template <class S, class Isa>
inline constexpr bool kScoresOf = requires {
  requires S::kScaledSums && S::kRowLanes && Isa::kToScores != nullptr;
};

/// The set's description that a scheme's nest takes.
template <class Isa, class S>
struct IsaOfScheme {
  using Type = Isa;
};

/// Those that an operand of a scheme meets on an instruction set.
template <class Isa>
constexpr Products products_of(Operand operand) {
  if (operand == Operand::bf16) return Isa::kHalves;
  return is_float(operand) ? Isa::kFloats : Isa::kIntegers;
}

constexpr std::int64_t group_elements(Element e) {
  return e == Element::f32 ? 1 : e == Element::bf16 ? 2 : 4;
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// A key block that rows are held against.
template <class S>
struct OpenBlock {
  std::int64_t index = 0, begin = 0, end = 0;
  const std::byte* v = nullptr;  ///< V as products take it: of floats, without NaN and Inf
  typename S::Block constants{};

  std::int64_t keys() const { return end - begin; }
};

/// Which form the softmax of a group takes.
enum class Form : std::int32_t { wide, words };

struct NoInto {};
/// Where a group's sums go, where outputs are bins.
template <class S, class Isa>
struct IntoOfVisit {
  using Type = NoInto;
};
template <class S, class Isa>
requires kRowsTogether<S, Isa>
struct IntoOfVisit<S, Isa> {
  using Type = typename S::template IntoOf<RowsLane<Isa>>;
};

/// A group of rows against a key block, from its scores to its outputs.
template <class S, class Isa>
struct Visit {
  OpenBlock<S> block;
  std::int64_t group = 0, live = 0;  ///< its number, and its rows that are not padding
  std::int64_t set = 0;              ///< of scores and codes, where several are in use
  KeySpan keys[Isa::kRows];          ///< of the block, that a row sees: span()
  std::int64_t low = 0, high = 0;    ///< the block's keys that are computed: whole vectors
  std::int64_t last = 0;             ///< behind the last key that a row sees
  std::uint32_t seen = 0;            ///< bit r: row r sees a key
  std::uint32_t before = 0;          ///< bit r: it saw one in a block before, and has outputs
  bool whole = false;                ///< all rows but padding see all keys of the block, without a bias
  Form form = Form::wide;
  std::int64_t words_made = 0;  ///< keys from `low` whose words came with their products
  std::int64_t scored = 0;      ///< keys from `low`, which all rows see, whose sums are scores already
  std::int64_t compared = 0;    ///< keys from `low`, which all rows see, whose largest sums came with them
  alignas(64) std::byte largest[Isa::kRows * 4 * Isa::kLanes];  ///< those, one vector a row
  typename S::Step step[RowGroup<S, Isa>::kSets];
  [[no_unique_address]] typename IntoOfVisit<S, Isa>::Type into;

  /// Keys of the block that row r sees; first == last: none.
  KeySpan span(std::int64_t r) const { return whole ? KeySpan{0, block.keys()} : keys[r]; }
};

/// Whether the rows are so few that their products may wait for K and V.
template <class S, class Isa>
bool few_rows(const Visit<S, Isa>& visit) {
  return visit.live <= products_of<Isa>(S::kP).few;
}

/// Where the parts of a call's scratch are that a group of rows works in. [row][key] or [row][channel].
struct GroupMemory {
  std::byte *score, *words, *p, *sums;
  std::int64_t score_row, words_row, p_row, sums_row;  ///< bytes from a row to the next
  std::int64_t padded;                                 ///< keys of a row
};

/// What the stages share.
template <class S, class Isa>
struct NestContext {
  const RowsCall& call;
  const S& scheme;
  const GroupBias<Isa>& bias;
  const GroupMemory& memory;
};

/// Row r of a stage of so many keys begins: Isa::stay_awake() halfway through long ones.
template <class Isa>
void stay_awake(std::int64_t r, std::int64_t keys) {
  if constexpr (requires { Isa::stay_awake(); })
    if (r == Isa::kRows / 2 && keys >= Isa::kWakefulKeys) Isa::stay_awake();
}

/// Bytes of a code of P.
template <class S, class Isa>
inline constexpr std::int64_t kPBytesOf = 4 / group_elements(products_of<Isa>(S::kP).p);

/// Signed codes of P on the unsigned side of the product are stored 128 higher, and that is taken off again.
template <class S, class Isa>
inline constexpr bool kBiasesP = S::kP == Operand::s8&& Isa::kIntegers.p == Element::u8_bias;

template <class S, class Isa, class Code>
void store_code(std::byte* at, Code code) {
  constexpr Element kStored = products_of<Isa>(S::kP).p;
  if constexpr (kStored == Element::f32)
    store(at, code);
  else if constexpr (kStored == Element::bf16)
    Isa::store_halves(at, code);
  else if constexpr (kBiasesP<S, Isa>)
    Isa::store_codes(at, code + 128);
  else
    Isa::store_codes(at, code);
}

/// No weight for any of row r's keys.
template <class S, class Isa>
void clear_row(const GroupMemory& memory, std::int64_t r, std::int64_t low, std::int64_t high) {
  using L = typename Isa::Lane;
  using Code = std::conditional_t<is_float(S::kP), typename L::F32, typename L::I32>;
  for (std::int64_t at = low; at < high; at += Isa::kLanes)
    store_code<S, Isa>(memory.p + r * memory.p_row + kPBytesOf<S, Isa> * at, Code{});
}

/// The rows of a tile that see nothing, and those that are padding.
template <class S, class Isa>
void clear_unseen(const GroupMemory& memory, const Visit<S, Isa>& visit, std::int64_t low) {
  for (std::int64_t r = 0; r < visit.live; ++r)
    if (!(visit.seen >> r & 1)) clear_row<S, Isa>(memory, r, low, visit.high);
  for (std::int64_t r = visit.live; r < Isa::kRows && visit.live > products_of<Isa>(S::kP).few; ++r)
    clear_row<S, Isa>(memory, r, low, visit.high);
}

/// Keys of [low, high) as the forms in words take them: whole stores of codes. The arrays of keys go that
/// far.
template <class Isa>
KeySpan whole_stores(std::int64_t low, std::int64_t high) {
  constexpr std::int64_t kStore = 4 * Isa::kLanes;
  return {low / kStore * kStore, round_up(high, kStore)};
}

template <class L>
float lane_of(const typename L::F32& lanes, std::int64_t lane) {
  float x;
  __builtin_memcpy(&x, reinterpret_cast<const char*>(&lanes) + 4 * lane, 4);
  return x;
}

/// The scheme's absorb() for rows in lanes; only those that saw a key change.
template <class S, class Isa>
void absorb_lanes(const S& scheme, RowGroup<S, Isa>& group, const Visit<S, Isa>& visit,
                  typename Isa::Lane::F32 sums) {
  using L = typename Isa::Lane;
  if (visit.seen == (1u << Isa::kRows) - 1) {
    group.state[0] = scheme.absorb(group.state[0], visit.step[0], sums);
    return;
  }
  const typename S::State next = scheme.absorb(group.state[0], visit.step[0], sums);
  for (std::int64_t r = 0; r < visit.live; ++r)
    if (visit.seen >> r & 1) copy_lane<L>(group.state[0], next, r);
}

}  // namespace
}  // namespace octet::cpu
