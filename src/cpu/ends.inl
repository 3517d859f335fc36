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
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Out = typename S::Out;
  using Channel = typename S::Channel;
  using State = typename S::State;
  using Row = typename S::Row;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;

 public:
  /// Whether channels end in lanes, or one by one.
  static constexpr bool kInLanes = requires(const S s, Out out, State state, Row row, Channel channel) {
    s.finish(out, state, row, channel);
  };
  /// Factors of channels that a call of so many needs.
  static constexpr std::int64_t channels(std::int64_t dim_v) { return kInLanes ? dim_v / kLanes : dim_v; }

  /// channel: room for the factors of a call's channels.
  RowEnds(const RowsCall& call, const S& scheme, Channel* channel)
      : call_(call), scheme_(scheme), channel_(channel) {}

  /// Writes the call's results.
  void end(const RowStates<S, Isa>& states) const {
    fill_channels();
    for (std::int64_t r = 0; r < call_.rows; ++r) close(states, r);
  }

 private:
  /// The factors of the end of a row, where its channels end one by one.
  void fill_channels() const {
    if constexpr (!kInLanes) {
      using Scales = ChannelScales<typename L::Scalar>;
      for (std::int64_t c = 0; c < call_.dim_v; ++c)
        channel_[c] = scheme_.channel(Scales{call_.channel[c], call_.channel_exponent[c]});
    }
  }

  void close(const RowStates<S, Isa>& states, std::int64_t r) const {
    const std::int64_t g = r / kRows, lane = r % kRows, columns = call_.dim_v / kLanes;
    const RowGroup<S, Isa>& group = states.groups[g];
    if (!(group.seen >> lane & 1)) return close_empty(r);
    const Out* out = states.out + r * columns;
    State state;
    Row row;
    if constexpr (S::kRowLanes) {
      state = row_of<L>(group.state[0], lane), row = row_of<L>(group.row[0], lane);
      call_.lse[r] = scheme_.lse(state, row)[0];
    } else {
      state = group.state[lane], row = group.row[lane];
      call_.lse[r] = scheme_.lse(state, row);
    }
    if constexpr (kInLanes) {
      for (std::int64_t c = 0; c < columns; ++c) finish_lanes(r, c, out[c], state, row);
      if constexpr (S::kOutput == Output::one_scale) call_.scale[r] = scheme_.output_scale();
    } else {
      finish_codes(r, out, state, row);
    }
  }

  void close_empty(std::int64_t r) const {
    for (std::int64_t c = 0; c < call_.dim_v; ++c) {
      if constexpr (S::kOutput == Output::values)
        call_.values[r * call_.dim_v + c] = 0;
      else
        call_.codes[r * call_.dim_v + c] = 0;
    }
    if constexpr (S::kOutput != Output::values) call_.scale[r] = 0;
    call_.lse[r] = kMinusInfinity;
  }

  void finish_lanes(std::int64_t r, std::int64_t c, const Out& out, const State& state,
                    const Row& row) const {
    const ChannelScales<L> scales{
        load<F32>(reinterpret_cast<const std::byte*>(call_.channel + c * kLanes)),
        load<I32>(reinterpret_cast<const std::byte*>(call_.channel_exponent + c * kLanes))};
    const Channel channel = scheme_.channel(scales);
    const auto value = scheme_.finish(out, state, row, channel);
    const std::int64_t at = r * call_.dim_v + c * kLanes;
    if constexpr (S::kOutput == Output::values) {
      store(reinterpret_cast<std::byte*>(call_.values + at), value);
    } else {
      for (std::int64_t i = 0; i < kLanes; ++i) call_.codes[at + i] = static_cast<std::int8_t>(value[i]);
    }
  }

  /// The end of a row that is computed one channel at a time.
  void finish_codes(std::int64_t r, const Out* out, const State& state, const Row& row) const {
    const auto finished = [&](std::int64_t c) {
      return scheme_.finish(S::one_of(out[c / kLanes], static_cast<int>(c % kLanes)), state, row,
                            channel_[c]);
    };
    std::int8_t* codes = call_.codes + r * call_.dim_v;
    if constexpr (S::kOutput == Output::row_scale) {
      constexpr std::int64_t kMostChannels = 256;
      typename S::Wide wide[kMostChannels], peak{};
      for (std::int64_t c = 0; c < call_.dim_v; ++c) {
        wide[c] = finished(c);
        const typename S::Wide size = wide[c] < 0 ? -wide[c] : wide[c];
        peak = size > peak ? size : peak;
      }
      const auto ending = scheme_.ending(state, row, peak);
      for (std::int64_t c = 0; c < call_.dim_v; ++c)
        codes[c] = static_cast<std::int8_t>(scheme_.output_code(wide[c], ending));
      call_.scale[r] = scheme_.output_scale(ending);
    } else {
      for (std::int64_t c = 0; c < call_.dim_v; ++c) codes[c] = static_cast<std::int8_t>(finished(c));
      call_.scale[r] = scheme_.output_scale();
    }
  }

  const RowsCall& call_;
  const S& scheme_;
  Channel* const channel_;
};

}  // namespace
}  // namespace octet::cpu
