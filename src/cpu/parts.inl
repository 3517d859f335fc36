// What ranges of a row's keys left, put together; part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/rows.inl"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class RowParts {
  using L = typename Isa::Lane;
  using Out = typename S::Out;
  using State = typename S::State;
  using Group = RowGroup<S, Isa>;

 public:
  /// Whether the keys of a row may be cut into ranges.
  static constexpr bool kMerges = requires { typename S::Merge; };

  /// Takes the states of another range into those of the ranges before it.
  static void merge(const RowsCall& call, const RowStates<S, Isa>& into, const RowStates<S, Isa>& other) {
    const std::int64_t columns = call.dim_v / Isa::kLanes;
    for (std::int64_t r = 0; r < call.rows; ++r) {
      const std::int64_t g = r / Isa::kRows, lane = r % Isa::kRows;
      if (other.groups[g].seen >> lane & 1)
        merge_row(into.groups[g], into.out + r * columns, other.groups[g], other.out + r * columns, lane,
                  columns);
    }
  }

 private:
  static void merge_row(Group& group, Out* out, const Group& other, const Out* other_out, std::int64_t lane,
                        std::int64_t columns) {
    if constexpr (kMerges) {
      State state = state_of(group, lane);
      const State other_state = state_of(other, lane);
      const bool first = !(group.seen >> lane & 1);
      for (std::int64_t c = 0; c < columns; ++c) {
        if (first)
          out[c] = other_out[c];
        else
          S::Merge::merge_out(out[c], state, other_out[c], other_state);
      }
      state = first ? other_state : S::Merge::merge(state, other_state);
      if constexpr (S::kRowLanes)
        copy_lane<L>(group.state[0], state, lane);
      else
        group.put_state(lane, state);
      group.seen |= 1u << lane;
    }
  }

  /// A row's state: in all lanes, where rows come in lanes.
  static State state_of(const Group& group, std::int64_t lane) {
    if constexpr (S::kRowLanes)
      return row_of<L>(group.state[0], lane);
    else
      return group.state_at(lane);
  }
};

}  // namespace
}  // namespace octet::cpu
