// The ends of query rows: outputs, scales and LSE from what the key blocks left; part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/reduce.inl"
#include "cpu/rows.inl"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class RowEnds {
  using L = typename Isa::Lane;
  using I32 = typename L::I32;
  using Out = typename S::Out;
  using Channel = typename S::Channel;
  using State = typename S::State;
  using Row = typename S::Row;
  using F32 = typename L::F32;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows, kVector = kMemberBytes<L>;
  static constexpr std::int64_t kMostChannels = 256;
  /// Whether the scheme finds the codes of most rows from floats.
  static constexpr bool kHasRough = requires { typename S::Rough; };
  /// Whether outputs may be the sums of a row's only key block.
  static constexpr bool kHasOnly = requires(const S& s, typename S::PvAcc sums, const State& state) {
    s.only(sums, state);
  };
  /// Whether what all channels of a row share is made for a group's rows at once.
  static constexpr bool kCloses = requires(const S& s, const State& state) { s.closing(state); };

 public:
  /// channel: room for the factors of a call's channels.
  RowEnds(const RowsCall& call, const S& scheme, Channel* channel)
      : call_(call), scheme_(scheme), columns_(call.dim_v / kLanes), channel_(channel) {}

  /// Writes the call's results.
  void end(const RowStates<S, Isa>& states) const {
    for (std::int64_t c = 0; c < columns_; ++c) channel_[c] = scheme_.channel(channel_scales(c));
    if constexpr (kHasRough)
      end_roughly(states);
    else if constexpr (kCloses)
      for (std::int64_t g = 0; g * kRows < call_.rows; ++g) close_group(states, g);
    else
      for (std::int64_t r = 0; r < call_.rows; ++r) end_row(states, r);
    if (call_.lse) fill_lse(states);
  }

 private:
  ChannelScales<L> channel_scales(std::int64_t column) const {
    return {L::load(call_.channel + column * kLanes), L::load(call_.channel_exponent + column * kLanes)};
  }

  /// The sums of row r's only key block; null where there may be several.
  const std::byte* only_sums(const RowStates<S, Isa>& states, std::int64_t r) const {
    return states.only ? states.only + r * columns_ * kVector : nullptr;
  }

  /// Factors of the channels for end_roughly(); false: some channel has none.
  bool rough_channels(F32* channel) const {
    F32 sum{};
    for (std::int64_t c = 0; c < columns_; ++c) {
      channel[c] = scheme_.rough_channel(channel_scales(c));
      sum += channel[c] - channel[c];
    }
    const float none = reduced(sum, Plus{});
    return none == none;
  }

  /// A group's outputs as floats, and what they say of its rows' ends.
  struct RoughGroup {
    F32 number[kRows][kMostChannels / kLanes];
    float factor[kLanes], scale[kLanes];
    std::int32_t sure[kLanes];  ///< not 0: floats may decide the row
  };

  /// The largest lane of each row, none of which is negative. note: as bits, whose order theirs is, for the
  /// largest of floats depends on the order where one is NaN.
  static F32 largest_of_rows(const F32 (&rows)[kRows]) {
    I32 bits[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) bits[r] = L::bits(rows[r]);
    return L::from_bits(rows_reduced<kRows>(bits, Larger{}));
  }

  /// The rows as far as floats decide them, the others as ever. A group's numbers are made before the end of
  /// the group before it: its own end waits for all of them.
  void end_roughly(const RowStates<S, Isa>& states) const {
    F32 channel[kMostChannels / kLanes];
    const bool known = rough_channels(channel);
    RoughGroup rough[2];
    const std::int64_t groups = (call_.rows + kRows - 1) / kRows;
    for (std::int64_t g = 0; g <= groups && known; ++g) {
      if (g < groups) make_rough(states, g, channel, rough[g % 2]);
      if (g > 0) end_group(states, g - 1, rough[(g - 1) % 2]);
    }
    for (std::int64_t r = 0; r < call_.rows && !known; ++r) end_row(states, r);
  }

  void make_rough(const RowStates<S, Isa>& states, std::int64_t g, const F32* channel,
                  RoughGroup& rough) const {
    const RowGroup<S, Isa>& group = states.groups[g];
    const std::int64_t columns = columns_;
    const Out* out = states.out + g * kRows * columns;
    F32 most[kRows];
    for (std::int64_t r = 0; r < kRows; ++r, out += columns) {
      if (!(group.seen >> r & 1)) {
        most[r] = F32{};
        continue;
      }
      F32 largest{};
      const auto number = [&](std::int64_t c, F32 output) {
        rough.number[r][c] = output * channel[c];
        largest = L::max(magnitude(rough.number[r][c]), largest);
      };
      if (const std::byte* sums = only_sums(states, g * kRows + r)) {
        for (std::int64_t c = 0; c < columns; ++c) number(c, scheme_.rough(load<I32>(sums + kVector * c)));
      } else {
        const State state = group.state_at(r);
        for (std::int64_t c = 0; c < columns; ++c) number(c, scheme_.rough(out[c], state));
      }
      most[r] = largest;
    }
    using R = RowsLane<Isa>;
    const auto largest = first_lanes<typename R::F32>(largest_of_rows(most));
    const auto of = states.only ? S::RoughOf::sums : S::RoughOf::outputs;
    const auto rows = scheme_.template rough_endings<R>(group.states, of, largest);
    R::store(rough.factor, rows.factor);
    R::store(rough.scale, rows.scale);
    R::store(rough.sure, rows.sure);
  }

  void end_group(const RowStates<S, Isa>& states, std::int64_t g, const RoughGroup& rough) const {
    const std::int64_t begin = g * kRows, columns = columns_;
    const std::int64_t rows = call_.rows - begin < kRows ? call_.rows - begin : kRows;
    F32 off[kRows];
    for (std::int64_t r = rows; r < kRows; ++r) off[r] = F32{};
    for (std::int64_t r = 0; r < rows; ++r) {
      if (!rough.sure[r]) {
        off[r] = F32{};
        continue;
      }
      const float factor = rough.factor[r], scale = call_.scale[begin + r] = rough.scale[r];
      float* const values = call_.values ? call_.values + (begin + r) * call_.values_row : nullptr;
      std::int8_t* const codes = call_.values ? nullptr : call_.codes + (begin + r) * call_.dim_v;
      F32 farthest{};
      for (std::int64_t c = 0; c < columns; ++c) {
        const F32 x = rough.number[r][c] * factor;
        const I32 code = L::nearest_i32(x);
        const F32 number = L::to_f32(code);
        farthest = L::max(magnitude(x - number), farthest);
        if (values)
          L::store(values + c * kLanes, number * scale);
        else
          L::store(codes + c * kLanes, L::to_s8_i32(code));
      }
      off[r] = farthest;
    }
    float of_rows[kLanes];
    L::store(of_rows, largest_of_rows(off));
    for (std::int64_t r = 0; r < rows; ++r)
      if (!(rough.sure[r] && of_rows[r] < S::kRoughSure)) end_row(states, begin + r);
  }

  void close_group(const RowStates<S, Isa>& states, std::int64_t g) const {
    const RowGroup<S, Isa>& group = states.groups[g];
    alignas(64) float closings[kLanes];
    L::store(closings, scheme_.closing(group.state[0]));
    for (std::int64_t i = 0, r = g * kRows; i < kRows && r < call_.rows; ++i, ++r) {
      if (!(group.seen >> i & 1)) {
        end_empty(r);
        continue;
      }
      const F32 closing = L::broadcast(closings[i]);
      float* const values = call_.values + r * call_.values_row;
      const auto write = [&](std::int64_t c, F32 out) {
        L::store(values + c * kLanes, scheme_.finish(out, closing, channel_[c]));
      };
      if constexpr (kHasOnly) {
        if (const std::byte* sums = only_sums(states, r)) {
          for (std::int64_t c = 0; c < columns_; ++c)
            write(c, scheme_.only(load<I32>(sums + kVector * c), group.state[0]));
          continue;
        }
      }
      const Out* out = states.out + r * columns_;
      for (std::int64_t c = 0; c < columns_; ++c) write(c, out[c]);
    }
  }

  void end_row(const RowStates<S, Isa>& states, std::int64_t r) const {
    const std::int64_t lane = r % kRows;
    const RowGroup<S, Isa>& group = states.groups[r / kRows];
    const Out* out = states.out + r * columns_;
    if (!(group.seen >> lane & 1)) return end_empty(r);
    if constexpr (S::kRowLanes) {
      end_row(r, out, row_of<L>(group.state[0], lane), row_of<L>(group.row[0], lane));
    } else {
      const State state = group.state_at(lane);
      if constexpr (kHasOnly) {
        if (const std::byte* sums = only_sums(states, r)) {
          Out outputs[kMostChannels / kLanes];
          for (std::int64_t c = 0; c < columns_; ++c)
            outputs[c] = scheme_.only(load<I32>(sums + kVector * c), state);
          return end_row(r, outputs, state, group.row_at(lane));
        }
      }
      end_row(r, out, state, group.row_at(lane));
    }
  }

  void end_empty(std::int64_t r) const {
    for (std::int64_t c = 0; c < call_.dim_v; ++c) {
      if (call_.values)
        call_.values[r * call_.values_row + c] = 0;
      else
        call_.codes[r * call_.dim_v + c] = 0;
    }
    if constexpr (S::kOutput != Output::values) call_.scale[r] = 0;
  }

  void end_row(std::int64_t r, const Out* out, const State& state, const Row& row) const {
    const auto finished = [&](std::int64_t c) { return scheme_.finish(out[c], state, row, channel_[c]); };
    if constexpr (S::kOutput == Output::values) {
      for (std::int64_t c = 0; c < columns_; ++c)
        L::store(call_.values + r * call_.values_row + c * kLanes, finished(c));
    } else if constexpr (S::kOutput == Output::one_scale) {
      call_.scale[r] = scheme_.output_scale();
      for (std::int64_t c = 0; c < columns_; ++c) store_codes(r, c, finished(c));
    } else {
      typename S::Wide wide[kMostChannels / kLanes];
      typename S::Wide peak = wide[0] = finished(0);
      for (std::int64_t c = 1; c < columns_; ++c) peak = scheme_.larger(peak, wide[c] = finished(c));
      const typename S::Ending ending = scheme_.ending(state, row, peak);
      call_.scale[r] = scheme_.output_scale(ending);
      for (std::int64_t c = 0; c < columns_; ++c) store_codes(r, c, scheme_.output_code(wide[c], ending));
    }
  }

  void store_codes(std::int64_t r, std::int64_t column, I32 codes) const {
    if (call_.values)
      L::store(call_.values + r * call_.values_row + column * kLanes, L::to_f32(codes) * call_.scale[r]);
    else
      L::store(call_.codes + r * call_.dim_v + column * kLanes, L::to_s8_i32(codes));
  }

  void fill_lse(const RowStates<S, Isa>& states) const {
    for (std::int64_t begin = 0; begin < call_.rows; begin += kRows) {
      const RowGroup<S, Isa>& group = states.groups[begin / kRows];
      float of_rows[kLanes];
      if constexpr (S::kRowLanes) L::store(of_rows, scheme_.lse(group.state[0], group.row[0]));
      for (std::int64_t i = 0; i < kRows && begin + i < call_.rows; ++i) {
        float& lse = call_.lse[begin + i];
        if (!(group.seen >> i & 1))
          lse = kMinusInfinity;
        else if constexpr (S::kRowLanes)
          lse = of_rows[i];
        else
          lse = scheme_.lse(group.state_at(i), group.row_at(i));
      }
    }
  }

  const RowsCall& call_;
  const S& scheme_;
  const std::int64_t columns_;
  Channel* const channel_;
};

}  // namespace
}  // namespace octet::cpu
