// Rows as a nest carries them: what a group of rows keeps across key blocks, and lane structs in memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet::cpu {
namespace {

/// Lanes for the rows of a group.
template <class Isa>
using RowsLane = typename Isa::Lane::template OfWidth<(Isa::kRows <= 8 ? 8 : 16)>;

/// Whether the constants and states of a group's rows are made together: RowsOf and StatesOf a scheme whose
/// rows are plain numbers.
template <class S, class Isa>
inline constexpr bool kRowsTogether = requires {
  typename S::template RowsOf<RowsLane<Isa>>;
  typename S::template StatesOf<RowsLane<Isa>>;
};

/// Constants and states of a group's rows: one row a lane for the whole group, or one row each.
template <class S, class Isa>
struct RowsOfGroup {
  using Row = typename S::Row;
  using State = typename S::State;
  static constexpr std::int64_t kSets = S::kRowLanes ? 1 : Isa::kRows;
  Row row[kSets];
  State state[kSets];

  const Row& row_at(std::int64_t r) const { return row[r]; }
  const State& state_at(std::int64_t r) const { return state[r]; }
  void put_state(std::int64_t r, const State& of_row) { state[r] = of_row; }
};
template <class S, class Isa>
requires kRowsTogether<S, Isa>
struct RowsOfGroup<S, Isa> {
  using Row = typename S::Row;
  using State = typename S::State;
  static constexpr std::int64_t kSets = Isa::kRows;
  typename S::template RowsOf<RowsLane<Isa>> together;
  typename S::template StatesOf<RowsLane<Isa>> states;

  Row row_at(std::int64_t r) const { return together.at(r); }
  State state_at(std::int64_t r) const { return states.at(r); }
  void put_state(std::int64_t r, const State& of_row) { states.put(r, of_row); }
};

/// A group of rows across key blocks.
template <class S, class Isa>
struct RowGroup : RowsOfGroup<S, Isa> {
  std::uint32_t seen;  ///< bit r: row r saw a key
  float reach;         ///< largest |score| of a row, in octaves, where K's scale is 1
};

/// Where the groups of a call's rows are, and their outputs: [row][vector of channels].
template <class S, class Isa>
struct RowStates {
  RowGroup<S, Isa>* groups;
  typename S::Out* out;
  /// Where all rows see one key block: its sums [row][channel] in place of outputs; else null.
  const std::byte* only = nullptr;
};

// --- Structs whose members are lanes L of 4-byte numbers, in memory.

template <class L>
inline constexpr std::int64_t kMemberBytes = 4 * L::kWidth;

template <class L, class T>
constexpr std::int64_t members() {
  if constexpr (__is_empty(T))
    return 0;
  else
    return static_cast<std::int64_t>(sizeof(T)) / kMemberBytes<L>;
}

/// Lanes of consecutive keys or channels, from arrays of the members.
template <class L, class T>
T lanes_at(const float* arrays, std::int64_t stride, std::int64_t at) {
  constexpr std::int64_t kBytes = kMemberBytes<L>;
  T lanes{};
  for (std::int64_t m = 0; m < members<L, T>(); ++m)
    __builtin_memcpy(reinterpret_cast<char*>(&lanes) + m * kBytes, arrays + m * stride + at, kBytes);
  return lanes;
}

/// One lane's row in every lane.
template <class L, class T>
T row_of(const T& rows, std::int64_t lane) {
  constexpr std::int64_t kBytes = kMemberBytes<L>;
  T all{};
  for (std::int64_t m = 0; m < members<L, T>(); ++m) {
    float member;
    __builtin_memcpy(&member, reinterpret_cast<const char*>(&rows) + m * kBytes + 4 * lane, 4);
    const typename L::F32 vector = L::broadcast(member);
    __builtin_memcpy(reinterpret_cast<char*>(&all) + m * kBytes, &vector, kBytes);
  }
  return all;
}

/// Takes lane `lane` of `from` over into `to`.
template <class L, class T>
void copy_lane(T& to, const T& from, std::int64_t lane) {
  constexpr std::int64_t kBytes = kMemberBytes<L>;
  for (std::int64_t m = 0; m < members<L, T>(); ++m)
    __builtin_memcpy(reinterpret_cast<char*>(&to) + m * kBytes + 4 * lane,
                     reinterpret_cast<const char*>(&from) + m * kBytes + 4 * lane, 4);
}

template <class V>
V load(const std::byte* at) {
  V lanes;
  __builtin_memcpy(&lanes, at, sizeof lanes);
  return lanes;
}
template <class V>
void store(std::byte* at, V lanes) {
  __builtin_memcpy(at, &lanes, sizeof lanes);
}

}  // namespace
}  // namespace octet::cpu
