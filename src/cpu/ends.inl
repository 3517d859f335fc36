// The ends of query rows: outputs, scales and LSE from what the key blocks left; part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/kernel.h"
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
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;

 public:
  /// channel: room for the factors of a call's channels.
  RowEnds(const RowsCall& call, const S& scheme, Channel* channel)
      : call_(call), scheme_(scheme), columns_(call.dim_v / kLanes), channel_(channel) {}

  /// Writes the call's results.
  void end(const RowStates<S, Isa>& states) const {
    for (std::int64_t c = 0; c < columns_; ++c) {
      const ChannelScales<L> scales{L::load(call_.channel + c * kLanes),
                                    L::load(call_.channel_exponent + c * kLanes)};
      channel_[c] = scheme_.channel(scales);
    }
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      const std::int64_t lane = r % kRows;
      const RowGroup<S, Isa>& group = states.groups[r / kRows];
      const Out* out = states.out + r * columns_;
      if (!(group.seen >> lane & 1))
        end_empty(r);
      else if constexpr (S::kRowLanes)
        end_row(r, out, row_of<L>(group.state[0], lane), row_of<L>(group.row[0], lane));
      else
        end_row(r, out, group.state[lane], group.row[lane]);
    }
    if (call_.lse) fill_lse(states);
  }

 private:
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
      constexpr std::int64_t kMostChannels = 256;
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
          lse = scheme_.lse(group.state[i], group.row[i]);
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
