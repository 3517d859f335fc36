// P V and the fold of its sums into the rows' outputs; part of attend.inl's nest.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/rows.inl"
#include "cpu/tile.h"
#include "cpu/visit.inl"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class RowOutputs {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using PvAcc = typename S::PvAcc;
  using Out = typename S::Out;
  using Channel = typename S::Channel;
  using Step = typename S::Step;
  using ThisVisit = Visit<S, Isa>;

  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;
  static constexpr std::int64_t kVector = kMemberBytes<L>;
  static constexpr bool kRowLanes = S::kRowLanes;
  static constexpr Products kPv = products_of<Isa>(S::kP);
  static constexpr bool kPBias = kBiasesP<S, Isa>;
  static constexpr std::int64_t kPBytes = kPBytesOf<S, Isa>;
  /// Whether outputs are bins of 64-bit sums that a block's sums are added to.
  static constexpr bool kWideFold = requires { typename S::Into; };
  /// Whether tiles fold their sums where these are, with one rounding of the last product and the addition;
  /// the other folds do so too, for a row to have the same bits whatever rows it is among.
  static constexpr bool kTilesFold = kPv.pv_and_fold != nullptr && requires { S::kPlainFold; };
  /// Whether outputs may be the sums of a row's only key block.
  static constexpr bool kHasOnly = requires(const S& s, PvAcc sums, const typename S::State& state) {
    s.only(sums, state);
  };

 public:
  /// out: [row][vector of channels]; channel: room for the factors of a call's channels.
  RowOutputs(const NestContext<S, Isa>& nest, Out* out, Channel* channel)
      : call_(nest.call), scheme_(nest.scheme), memory_(nest.memory), out_(out), channel_(channel) {}

  /// Outputs of a group's first row and those after it.
  Out* of_group(std::int64_t group) const { return out_ + group * kRows * call_.dim_v / kLanes; }
  /// RowStates::only.
  const std::byte* only() const { return only_; }
  /// Factors of a fold in lanes, then of the end.
  Channel* channel() const { return channel_; }

  /// All rows see keys of one block alone: where the scheme takes its sums, these are kept in the place of
  /// outputs.
  void expect_one_block() {
    if constexpr (kHasOnly)
      if (!call_.head.block_channel) only_ = reinterpret_cast<std::byte*>(out_);
  }

  /// The factors of a fold; v: V's scales there, or null for 1.
  void fill_channels(const float* v) {
    for (std::int64_t c = 0; c < call_.dim_v / kLanes; ++c) {
      ChannelScales<L> scales;
      if (v) scales.v = load<F32>(reinterpret_cast<const std::byte*>(v + c * kLanes));
      channel_[c] = scheme_.channel(scales);
    }
  }

  /// Whether products may have weights of other rows beside them.
  bool takes_weights() const {
    return kPv.pv_beside != nullptr && call_.dim_v / kLanes % TileWeights::kColumns == 0;
  }
  /// P V into the rows' outputs.
  void multiply(const ThisVisit& visit) { multiply_beside(visit, nullptr); }
  /// The same with weights of other rows beside it, where not null; returns how many chunks of each row are
  /// done.
  std::int64_t multiply_beside(const ThisVisit& visit, const TileWeights* weights) {
    constexpr std::int64_t kGroup = group_elements(kPv.v);
    static constexpr std::int32_t kZeros[kRows] = {};
    const std::int64_t row = 4 * call_.dim_v;  // bytes of V's groups of one step
    Tile tile{memory_.p + visit.low * kPBytes,
              memory_.p_row,
              visit.block.v + visit.low / kGroup * row,
              row,
              kVector,
              (round_up(visit.last, kGroup) - visit.low) / kGroup,
              kZeros,
              memory_.sums,
              memory_.sums_row,
              visit.live,
              few_rows(visit) ? call_.ahead : Ahead{}};
    const std::int64_t columns = call_.dim_v / kLanes;
    if constexpr (kHasOnly) {
      static_assert(!kPBias, "sums are taken as they are");
      if (only_) {
        tile.out = only_ + 4 * visit.group * kRows * call_.dim_v, tile.out_row = 4 * call_.dim_v;
        std::int64_t done = 0;
        if constexpr (kPv.pv_beside != nullptr)
          if (!few_rows(visit)) done = kPv.pv_beside(tile, weights, columns);
        tile.b += done * kVector, tile.out += done * kVector;
        if (done < columns) (few_rows(visit) ? pv().pv_few : pv().pv)(tile, columns - done);
        return weights ? weights->beside(tile.steps) : 0;
      }
    }
    if constexpr (kWideFold) make_room(visit);
    const std::int64_t done = few_rows(visit) ? 0 : multiply_and_fold(visit, tile, weights);
    if (done < columns) {
      tile.b += done * kVector;
      (few_rows(visit) ? pv().pv_few : pv().pv)(tile, columns - done);
      fold(visit, done);
    }
    return weights ? weights->beside(tile.steps) : 0;
  }

 private:
  static F32 number(const PvAcc& sums) {
    if constexpr (is_float(S::kP))
      return sums;
    else
      return L::to_f32(sums);
  }

  const Multiplies& pv() const { return is_float(S::kP) ? kPv.multiply : *call_.code_products; }

  /// Folds so many columns as whole tiles hold where their sums are; returns how many.
  std::int64_t multiply_and_fold(const ThisVisit& visit, const Tile& tile,
                                 [[maybe_unused]] const TileWeights* weights) {
    if constexpr (kTilesFold) {
      if (call_.head.block_channel) return 0;
      if (visit.before && (visit.seen & ~visit.before)) return 0;  // some rows have no outputs yet
      alignas(64) float decay[kLanes], factor[kLanes];
      L::store(decay, visit.step[0].decay);
      L::store(factor, visit.step[0].factor);
      constexpr std::uint32_t kAll = (1u << kRows) - 1;
      for (std::int64_t r = 0; r < kRows && visit.seen != kAll; ++r)
        if (!(visit.seen >> r & 1)) decay[r] = 1, factor[r] = 0;
      Out* const out = of_group(visit.group);
      const TileFold fold{visit.before ? decay : nullptr, factor, reinterpret_cast<std::byte*>(out),
                          4 * call_.dim_v};
      return kPv.pv_and_fold(tile, fold, call_.dim_v / kLanes);
    } else if constexpr (kWideFold && kPv.pv_wide != nullptr) {
      std::byte* bin[kRows];
      return kPv.pv_wide(tile, wide(visit, bin), weights, call_.dim_v / kLanes);
    } else {
      return 0;
    }
  }

  /// The numbers that a visit's sums go to. bin: room for the rows' ones.
  TileWide wide(const ThisVisit& visit, std::byte* (&bin)[kRows]) const {
    Out* out = of_group(visit.group);
    for (std::int64_t r = 0; r < kRows; ++r, out += call_.dim_v / kLanes)
      bin[r] = reinterpret_cast<std::byte*>(&out->bin[visit.into.bin[r]]);
    return {visit.before ? TileWide::What::add : TileWide::What::set, visit.into.factor, bin, sizeof(Out)};
  }

  /// Prepares the outputs of rows for sums of the block, unless all of them are set.
  void make_room(const ThisVisit& visit) {
    const std::int64_t columns = call_.dim_v / kLanes;
    if (!visit.before) return;
    for (std::uint32_t opens = visit.into.opens; opens != 0; opens &= opens - 1) {
      const std::int64_t r = std::countr_zero(opens);
      const typename S::Into into{visit.into.bin[r], 0, true, visit.into.moved[r], visit.into.used[r]};
      Out* out = of_group(visit.group) + r * columns;
      for (std::int64_t c = 0; c < columns; ++c) scheme_.make_room(out[c], into);
    }
  }

  /// The sums of P V of columns from `first` into the rows' outputs.
  void fold(const ThisVisit& visit, std::int64_t first) {
    const std::int64_t columns = call_.dim_v / kLanes;
    for (std::int64_t r = 0; r < visit.live; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      Out* out = of_group(visit.group) + r * columns;
      const std::byte* sums = memory_.sums + r * memory_.sums_row;
      [[maybe_unused]] Step step;
      if constexpr (kRowLanes)
        step = row_of<L>(visit.step[0], r);
      else if constexpr (!kWideFold)
        step = visit.step[r];
      [[maybe_unused]] const bool fresh = !(visit.before >> r & 1);
      for (std::int64_t c = first; c < columns; ++c) {
        PvAcc pv = load<PvAcc>(sums + (c - first) * kVector);
        if constexpr (kPBias)
          pv -= 128 * load<I32>(reinterpret_cast<const std::byte*>(
                          call_.head.block_v_sum + visit.block.index * call_.dim_v + c * kLanes));
        if constexpr (kWideFold) {
          auto& bin = out[c].bin[visit.into.bin[r]];
          const auto term = L::mul_wide(pv, static_cast<std::int32_t>(visit.into.factor[r]));
          bin = visit.before ? L::add_i64(bin, term) : term;
        } else if (fresh) {
          Out nothing{};
          out[c] = scheme_.fold(nothing, pv, step, channel_[c]);
        } else if (kTilesFold && !call_.head.block_channel) {
          if constexpr (kTilesFold) out[c] = simd::multiply_add(out[c], step.decay, number(pv) * step.factor);
        } else {
          scheme_.fold(out[c], pv, step, channel_[c]);
        }
      }
    }
  }

  const RowsCall& call_;
  const S& scheme_;
  const GroupMemory& memory_;
  Out* const out_;
  Channel* const channel_;
  std::byte* only_ = nullptr;
};

}  // namespace
}  // namespace octet::cpu
