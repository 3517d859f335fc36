// The loop nest of the CPU backend: the contract of numerics/contract.h, kRows query rows at a time, keys in
// vector lanes. Included by one generated TU for each scheme and instruction set; everything in it is local
// to that TU, for its flags are its own.
//
// A key block is taken whole by one group of rows after another: Q K^T into a few KiB of scores, the softmax
// of each row in lanes, P V into as many sums, and their fold into the rows' outputs. The block's packed keys
// and values stay in L1 or L2 meanwhile.
//
// Isa: Lane, kLanes, kRows, kIntegers (a Products for integer operands), kFloats (one for floats, empty where
// there is none), kHalves (one for floats that bf16 holds), store_codes() and store_halves() (P in bytes and
// in bf16, where products take them), kHas (the schemes that the set has nests of), begin() and end() (around
// what a nest computes).
#include <cstdint>
#include <type_traits>

#include "cpu/bias.inl"
#include "cpu/ends.inl"
#include "cpu/fixed.inl"
#include "cpu/integer_words.inl"
#include "cpu/kernel.h"
#include "cpu/parts.inl"
#include "cpu/rows.inl"
#include "cpu/tile.h"

namespace octet::cpu {
namespace {

/// The two products for one kind of operand: the elements of a (Q, P) and b (K, V), and the tiles.
struct Products {
  Element q, k, p, v;
  Multiply qk, pv, qk_row, pv_row;
};

/// Those that an operand of a scheme meets on an instruction set.
template <class Isa>
constexpr Products products_of(Operand operand) {
  if (operand == Operand::bf16) return Isa::kHalves;
  return operand == Operand::f32 ? Isa::kFloats : Isa::kIntegers;
}

constexpr std::int64_t group_elements(Element e) {
  return e == Element::f32 ? 1 : e == Element::bf16 ? 2 : 4;
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

template <class S, class Isa>
class RowsNest {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = typename S::Acc;
  using Score = typename S::Score;
  using PvAcc = typename S::PvAcc;
  using Out = typename S::Out;
  using Key = typename S::Key;
  using Channel = typename S::Channel;
  using Step = typename S::Step;
  using View = typename S::View;
  using State = typename S::State;
  using Row = typename S::Row;
  using Group = RowGroup<S, Isa>;

  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;
  static constexpr std::int64_t kVector = kMemberBytes<L>;
  static constexpr bool kRowLanes = S::kRowLanes;
  static constexpr Products kQk = products_of<Isa>(S::kQk), kPv = products_of<Isa>(S::kP);
  /// Signed codes of P on the unsigned side of the product are stored 128 higher, and that is taken off
  /// again.
  static constexpr bool kPBias = S::kP == Operand::s8 && kPv.p == Element::u8_bias;
  static constexpr std::int64_t kPBytes = 4 / group_elements(kPv.p);
  static constexpr std::int64_t kRowSets = Group::kSets;

  static std::int64_t groups(std::int64_t rows) { return (rows + kRows - 1) / kRows; }

 public:
  /// Whether the scheme has a form of its softmax in words, which most key blocks fit: one that rounds, or
  /// one with the bits of the wide form.
  static constexpr bool kFixed = requires { typename S::FixedMantissa; };
  static constexpr bool kIntegerWords = requires(Row row, typename S::Block block) {
    S::fits_u16(row, block);
  };
  static constexpr bool kWords = kFixed || kIntegerWords;
  /// Whether the weights of rows without a bias are the instruction set's own, within what the scheme allows.
  static constexpr bool kApproximates = requires {
    S::kWeightError;
    typename Isa::Approximate;
  };
  /// Whether the keys of a row may be cut into ranges.
  static constexpr bool kMerges = RowParts<S, Isa>::kMerges;

  static std::int64_t scratch_bytes(std::int64_t rows, std::int64_t key_block, std::int64_t dim_v) {
    return layout(rows, key_block, dim_v).bytes;
  }

  /// Bytes of the state of one range of keys, which part() leaves: the beginning of the layout.
  static std::int64_t state_bytes(std::int64_t rows, std::int64_t dim_v) {
    return layout(rows, 0, dim_v).score;
  }

  explicit RowsNest(const RowsCall& call)
      : RowsNest(call, layout(call.rows, call.prepare.key_block, call.dim_v)) {}
  void run() {
    part();
    end_rows();
  }

  /// The rows against the keys that they see, without their end.
  void part() {
    open();
    const std::int64_t block = call_.prepare.key_block, tokens = call_.head.tokens;
    std::int64_t least = tokens, most = 0;
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      least = call_.first[r] < least ? call_.first[r] : least;
      most = call_.last[r] > most ? call_.last[r] : most;
    }
    for (std::int64_t b = least / block; b * block < most; ++b) {
      const std::int64_t begin = b * block, end = begin + block < tokens ? begin + block : tokens;
      open_block(b, begin, end);
      for (std::int64_t g = 0; g < groups(call_.rows); ++g) visit(g);
    }
  }

  /// The end of rows whose keys were cut into parts: merged in the order of the keys.
  void merge() {
    for (std::int64_t p = 1; p < call_.parts.count; ++p)
      RowParts<S, Isa>::merge(call_, {groups_, out_}, states_at(call_.parts.state + p * call_.parts.stride));
    end_rows();
  }

 private:
  void end_rows() const { RowEnds<S, Isa>(call_, scheme_, channel_).end({groups_, out_}); }

  struct Layout {
    std::int64_t groups, out, score, words, p, sums, bias, level, channel, bytes;
  };

  /// Keys that a row's scores and codes have room for: whole stores of the 16-bit form.
  static std::int64_t padded(std::int64_t key_block) { return round_up(key_block, 4 * kLanes); }

  static Layout layout(std::int64_t rows, std::int64_t key_block, std::int64_t dim_v) {
    const std::int64_t n = padded(key_block), sets = RowsNest::groups(rows);
    Layout at{};
    const auto take = [&](std::int64_t bytes) {
      const std::int64_t offset = at.bytes;
      at.bytes += round_up(bytes, 64);
      return offset;
    };
    at.groups = take(sets * static_cast<std::int64_t>(sizeof(Group)));
    at.out = take(sets * kRows * dim_v / kLanes * static_cast<std::int64_t>(sizeof(Out)));
    at.score = take(kRows * n * 4);
    at.words = take(kWords ? kRows * n * 2 : 0);
    at.p = take(kRows * n * kPBytes);
    at.sums = take(kRows * dim_v * 4);
    at.bias = take(GroupBias<Isa>::bytes(n));
    at.level = take(kFixed ? n * 4 : 0);
    at.channel = take(dim_v / kLanes * static_cast<std::int64_t>(sizeof(Channel)));
    return at;
  }

  RowsNest(const RowsCall& call, const Layout& at)
      : call_(call),
        scheme_(S::prepare(call.prepare)),
        bias_(call.bias, call.scratch + at.bias, padded(call.prepare.key_block)) {
    const RowStates<S, Isa> states = states_at(call.parts.state ? call.parts.state : call.scratch);
    groups_ = states.groups, out_ = states.out;
    score_ = call.scratch + at.score;
    p_ = call.scratch + at.p;
    sums_ = call.scratch + at.sums;
    words_ = call.scratch + at.words;
    row_level_ = reinterpret_cast<float*>(call.scratch + at.level);
    channel_ = reinterpret_cast<Channel*>(call.scratch + at.channel);
    padded_ = padded(call.prepare.key_block);
    score_row_ = 4 * padded_;
    p_row_ = kPBytes * padded_;
    sums_row_ = 4 * call.dim_v;
  }

  RowStates<S, Isa> states_at(std::byte* state) const {
    const Layout at = layout(call_.rows, 0, call_.dim_v);
    return {reinterpret_cast<Group*>(state + at.groups), reinterpret_cast<Out*>(state + at.out)};
  }

  template <class T>
  static T lowest() {
    if constexpr (__is_same(T, F32))
      return L::broadcast(kMinusInfinity);
    else
      return T{} - 2147483647 - 1;
  }

  /// A number a lane, of whatever type the lanes have.
  template <class V>
  using Element1 = std::conditional_t<std::is_same_v<V, F32>, float, std::int32_t>;

  template <class V>
  static Element1<V> largest(V lanes) {
    return reduced(lanes, Larger{});
  }
  template <class V>
  static Element1<V> total(V lanes) {
    return reduced(lanes, Plus{});
  }

  // --- The life of a call.

  void open() {
    for (std::int64_t g = 0; g < groups(call_.rows); ++g) {
      Group& group = groups_[g];
      group.seen = 0;
      group.reach = 0;
      if constexpr (kRowLanes) {
        float scale[kLanes] = {};
        for (std::int64_t r = 0; r < kRows; ++r) scale[r] = call_.q_scale[g * kRows + r];
        F32 lanes;
        __builtin_memcpy(&lanes, scale, sizeof lanes);
        group.row[0] = scheme_.row(lanes);
        if constexpr (kFixed) {
          for (std::int64_t r = 0; r < kRows; ++r) {
            constexpr float kLargestCode = 127;
            const float reach = lane_of(group.row[0].octaves, r) * kLargestCode *
                                static_cast<float>(call_.q_size[g * kRows + r]);
            group.reach = reach > group.reach ? reach : group.reach;
          }
        }
        group.state[0] = State{};
      } else {
        for (std::int64_t r = 0; r < kRows; ++r) {
          group.row[r] = scheme_.row(call_.q_scale[g * kRows + r]);
          group.state[r] = State{};
        }
      }
    }
    const std::int64_t outs = groups(call_.rows) * kRows * (call_.dim_v / kLanes);
    for (std::int64_t i = 0; i < outs; ++i) out_[i] = Out{};
    fill_channels(nullptr);
  }

  /// The factors of a fold; v: V's scales there, or null for 1.
  void fill_channels(const float* v) {
    for (std::int64_t c = 0; c < call_.dim_v / kLanes; ++c) {
      ChannelScales<L> scales;
      if (v) scales.v = load<F32>(reinterpret_cast<const std::byte*>(v + c * kLanes));
      channel_[c] = scheme_.channel(scales);
    }
  }

  void open_block(std::int64_t index, std::int64_t begin, std::int64_t end) {
    index_ = index, begin_ = begin, end_ = end;
    const PackedHead& head = call_.head;
    if constexpr (requires { scheme_.block(1.0f, 1.0f); })
      block_ = scheme_.block(head.block_k_scale[index], head.block_v_largest[index]);
    else
      block_ = scheme_.block(head.block_k_scale[index]);
    if (head.block_channel) fill_channels(head.block_channel + index * call_.dim_v);
  }

  /// One group of rows against the open key block.
  void visit(std::int64_t g) {
    std::int64_t first[kRows], last[kRows], low = end_ - begin_, high = 0, live = call_.rows - g * kRows;
    live = live < kRows ? live : kRows;
    KeySpan keys[kRows];
    for (std::int64_t r = 0; r < live; ++r) {
      keys[r] = {call_.first[g * kRows + r] - begin_, call_.last[g * kRows + r] - begin_};
      keys[r].first = keys[r].first > 0 ? keys[r].first : 0;
      keys[r].last = keys[r].last < end_ - begin_ ? keys[r].last : end_ - begin_;
    }
    bias_.read({g * kRows, live, begin_}, keys);
    for (std::int64_t r = 0; r < live; ++r) {
      first[r] = last[r] = 0;
      if (keys[r].first >= keys[r].last) continue;
      first[r] = keys[r].first, last[r] = keys[r].last;
      low = first[r] < low ? first[r] : low;
      high = last[r] > high ? last[r] : high;
    }
    if (low >= high) return;
    low = low / kLanes * kLanes, high = round_up(high, kLanes);
    if constexpr (kPBias)
      low = 0, high = round_up(end_ - begin_, kLanes);  // the sum of V's codes is the block's
    for (std::int64_t r = 0; bias_.any() && r < live; ++r)
      if (first[r] < last[r]) bias_.hide_outside(r, {first[r], last[r]}, whole_stores(low, high));

    Group& group = groups_[g];
    const bool in_words = fits_words(group, live);
    words_made_ = 0;
    if constexpr (kFixed && Isa::kToWords != nullptr) {
      if (in_words && live > 1 && !bias_.any()) {
        low = low / FixedSoftmax<S, Isa>::kChunk * FixedSoftmax<S, Isa>::kChunk;
        words_made_ = multiply_qk_to_words(g, low, high);
      }
    }
    if (low + words_made_ < high) multiply_qk(g, low + words_made_, high, live == 1);
    std::uint32_t seen = 0;
    if (in_words) {
      if constexpr (kIntegerWords)
        seen = integer_softmax_in_words(group, first, last, low, high, live);
      else
        seen = softmax_in_words(group, first, last, low, high, live);
    } else
      seen = softmax(group, first, last, low, high, live);
    multiply_pv(low, high, live == 1);
    fold(g, seen, live);
    group.seen |= seen;
  }

  /// The tile of Q K^T for keys from `low`.
  Tile qk_tile(std::int64_t g, std::int64_t low, std::int32_t (&start)[kRows]) const {
    const std::int64_t row = 4 * call_.dim_groups, column = call_.dim_groups * kVector;
    for (std::int64_t r = 0; r < kRows; ++r)
      start[r] = kQk.k == Element::u8_bias ? -128 * call_.q_sum[g * kRows + r] : 0;
    return {call_.q + g * kRows * row,
            row,
            call_.head.k + (begin_ + low) / kLanes * column,
            kVector,
            column,
            call_.dim_groups,
            start,
            score_ + 4 * low,
            score_row_};
  }

  void multiply_qk(std::int64_t g, std::int64_t low, std::int64_t high, bool one_row) {
    std::int32_t start[kRows];
    (one_row ? kQk.qk_row : kQk.qk)(qk_tile(g, low, start), (high - low) / kLanes);
  }

  /// Words of the softmax straight from the tiles, for so many keys from `low` as whole tiles hold; returns
  /// how many.
  std::int64_t multiply_qk_to_words(std::int64_t g, std::int64_t low, std::int64_t high) {
    std::int32_t start[kRows];
    float factor[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) factor[r] = word_factor(groups_[g], r);
    const TileWords words{factor, word_scales(low), level(0, low, low), words_, 2 * padded_};
    return kLanes * Isa::kToWords(qk_tile(g, low, start), words, (high - low) / kLanes);
  }

  /// Units of a word in a unit of row r's sums, K's scale in it where the block's keys share one; else the
  /// scales are word_scales().
  float word_factor(const Group& group, std::int64_t r) const {
    const float one_k = call_.head.fixed.blocks[index_].k_one_scale;
    return lane_of(group.row[0].octaves, r) * fixed16::kUnits * (one_k > 0 ? one_k : 1.0f);
  }
  const float* word_scales(std::int64_t at) const {
    return call_.head.fixed.blocks[index_].k_one_scale > 0 ? nullptr : call_.head.keys + begin_ + at;
  }

  void multiply_pv(std::int64_t low, std::int64_t high, bool one_row) {
    constexpr std::int64_t kGroup = group_elements(kPv.v);
    static constexpr std::int32_t kZeros[kRows] = {};
    const std::int64_t row = 4 * call_.dim_v;  // bytes of V's groups of one step
    const Tile tile{p_ + low * kPBytes,
                    p_row_,
                    call_.head.v + (begin_ + low) / kGroup * row,
                    row,
                    kVector,
                    (high - low) / kGroup,
                    kZeros,
                    sums_,
                    sums_row_};
    (one_row ? kPv.pv_row : kPv.pv)(tile, call_.dim_v / kLanes);
  }

  /// Keys of [low, high) as the 16-bit form takes them: whole stores of codes. The arrays of keys go that
  /// far.
  static KeySpan whole_stores(std::int64_t low, std::int64_t high) {
    return {low / (4 * kLanes) * (4 * kLanes), padded(high)};
  }

  RowKeys<Isa> keys_of(std::int64_t r, std::int64_t first, std::int64_t last) const {
    return bias_.keys(r, {first, last});
  }

  /// Whether every score of the group in this block lies in the range of the 16-bit form.
  bool fits_words(const Group& group, std::int64_t live) const {
    if constexpr (kFixed) {
      const FixedBlock& block = call_.head.fixed.blocks[index_];
      const float limit = bias_.any() ? fixed16::kBiasedReach : fixed16::kReach;
      return block.k_largest > 0 && group.reach * block.k_largest < limit && bias_.ordinary();
    } else if constexpr (kIntegerWords) {
      bool fits = call_.head.fixed.blocks[index_].k_largest > 0 && bias_.ordinary();
      for (std::int64_t r = 0; r < live; ++r) fits = fits && S::fits_u16(group.row[r], block_);
      return fits;
    } else {
      return false;
    }
  }

  /// softmax() of `integer` in words.
  std::uint32_t integer_softmax_in_words(Group& group, const std::int64_t* first, const std::int64_t* last,
                                         std::int64_t low, std::int64_t high, std::int64_t live) {
    std::uint32_t seen = 0;
    if constexpr (kIntegerWords) {
      using Form = IntegerWords<S, Isa>;
      // Runs are counted from the block's start: the order of its words is fixed.
      const std::int64_t begin = low / Form::kChunk * Form::kChunk;
      // With a bias, a key that the row does not see is as far as a word goes: the row sees all.
      const std::int64_t count = (bias_.any() ? whole_stores(low, high).last : high) - begin;
      const std::byte* level = call_.head.fixed.level + 4 * begin_ + 2 * begin;
      const std::uint16_t* mass = call_.head.fixed.mass + begin_ + begin;
      const auto words = [&](std::int64_t r) { return words_ + r * 2 * padded_; };
      View views[kRows];
      std::int64_t sums[kRows];
      std::int32_t nearest[kRows], bias[kRows] = {};
      const auto from = [&](std::int64_t r) { return bias_.any() ? 0 : first[r] - begin; };
      const auto to = [&](std::int64_t r) { return bias_.any() ? count : last[r] - begin; };
      const auto visible = [&](std::int64_t r) {
        return [&, r](std::int64_t at) {
          return WordRange<Isa>::in_range(first[r] - begin, last[r] - begin, at);
        };
      };
      // Each stage takes all rows before the next begins: a row's own stages wait for each other's stores.
      for (std::int64_t r = 0; r < live; ++r) {
        if (first[r] == last[r]) continue;
        seen |= 1u << r;
        views[r] =
            scheme_.view(group.row[r], block_, largest_sum(r, keys_of(r, first[r], last[r]), low, high));
      }
      for (std::int64_t r = 0; r < live; ++r) {
        if (!(seen >> r & 1)) continue;
        const std::byte* sums_of_row = score_ + r * score_row_ + 4 * begin;
        if (bias_.any()) {
          bias[r] = scheme_.bias(L::broadcast(bias_.largest(r)))[0];
          Form::distances(sums_of_row, views[r], level, count, words(r),
                          Form::below(scheme_, bias_.row(r) + begin, bias[r]));
        } else {
          Form::distances(sums_of_row, views[r], level, count, words(r), Form::unbiased);
        }
      }
      for (std::int64_t r = 0; r < live; ++r) {
        if (!(seen >> r & 1)) continue;
        nearest[r] = Form::nearest(words(r), from(r), to(r), count, visible(r));
        if (nearest[r] > Form::kMostNearest) return softmax(group, first, last, low, high, live);
      }
      for (std::int64_t r = 0; r < live; ++r) {
        if (!(seen >> r & 1)) {
          clear_row(r, begin, high);
          continue;
        }
        step_[r] = scheme_.step(group.state[r], bias[r] - nearest[r], views[r]);
        sums[r] = Form::weigh(words(r), step_[r].origin - bias[r], mass, from(r), to(r), count, visible(r),
                              p_ + r * p_row_ + kPBytes * begin, kPBytes);
      }
      for (std::int64_t r = 0; r < live; ++r)
        if (seen >> r & 1) group.state[r] = scheme_.absorb(group.state[r], step_[r], sums[r]);
      for (std::int64_t r = live; r < kRows && live > 1; ++r) clear_row(r, begin, high);
    }
    return seen;
  }

  /// softmax() in the 16-bit form.
  std::uint32_t softmax_in_words(Group& group, const std::int64_t* first, const std::int64_t* last,
                                 std::int64_t low, std::int64_t high, std::int64_t live) {
    std::uint32_t seen = 0;
    if constexpr (kFixed) {
      using Fixed = FixedSoftmax<S, Isa>;
      const FixedBlock& block = call_.head.fixed.blocks[index_];
      // Runs are counted from the block's start: the order of its words is fixed.
      const std::int64_t begin = low / Fixed::kChunk * Fixed::kChunk, count = high - begin;
      const std::uint16_t* mass = call_.head.fixed.mass + begin_ + begin;
      // Each stage takes all rows before the next begins: a row's own stages wait for each other's stores.
      const auto visible = [&](std::int64_t r) {
        return [&, r](std::int64_t at) {
          return WordRange<Isa>::in_range(first[r] - begin, last[r] - begin, at);
        };
      };
      // With a bias, a key that the row does not see has the least word, whose weight is 0: the row sees all.
      const std::int64_t end = bias_.any() ? whole_stores(low, high).last : high;
      const auto from = [&](std::int64_t r) { return bias_.any() ? 0 : first[r] - begin; };
      const auto to = [&](std::int64_t r) { return bias_.any() ? end - begin : last[r] - begin; };
      const auto words = [&](std::int64_t r) { return words_ + r * 2 * padded_; };
      for (std::int64_t r = 0; r < live; ++r) {
        if (first[r] == last[r]) continue;
        seen |= 1u << r;
        const std::int64_t at = begin + words_made_;
        if (at < end)
          Fixed::score(score_ + r * score_row_ + 4 * at, word_scales(at), word_factor(group, r),
                       level(r, at, end), end - at, words(r) + 2 * words_made_);
      }
      std::int32_t peak[kRows] = {};
      alignas(64) float peaks[kLanes] = {}, sums[kLanes] = {};
      for (std::int64_t r = 0; r < live; ++r) {
        if (!(seen >> r & 1)) continue;
        peak[r] = Fixed::largest(words(r), from(r), to(r), count, visible(r));
        peaks[r] = static_cast<float>(peak[r]) * (1 / fixed16::kUnits) + block.reference;
        if (bias_.any()) peaks[r] += bias_.largest(r) * kLog2E;
      }
      for (std::int64_t r = 0; r < live; ++r) {
        if (seen >> r & 1)
          sums[r] = block.mass_unit * Fixed::weigh(words(r), peak[r], mass, from(r), to(r), count, visible(r),
                                                   p_ + r * p_row_ + kPBytes * begin, kPBytes);
        else
          clear_row(r, begin, high);
      }
      for (std::int64_t r = live; r < kRows && live > 1; ++r) clear_row(r, begin, high);
      Score peak_lanes;
      F32 sum_lanes;
      __builtin_memcpy(&peak_lanes, peaks, sizeof peak_lanes);
      __builtin_memcpy(&sum_lanes, sums, sizeof sum_lanes);
      const Step step = scheme_.step(group.state[0], peak_lanes, scheme_.view(group.row[0], block_, Acc{}));
      for (std::int64_t r = 0; r < live; ++r) step_[r] = row_of<L>(step, r);
      absorb(group, step, sum_lanes, seen, live);
    }
    return seen;
  }

  /// Levels of a row's keys: the block's, and where there is a bias how far the key's lies below the row's
  /// largest, which bounds the words whatever is added to the scores.
  const float* level(std::int64_t r, std::int64_t begin, std::int64_t high) {
    const float* level = reinterpret_cast<const float*>(call_.head.fixed.level) + begin_ + begin;
    if (!bias_.any()) return level;
    bias_.add_below_largest(r, {begin, high}, kLog2E * fixed16::kUnits, level, row_level_);
    return row_level_;
  }

  static float lane_of(const F32& lanes, std::int64_t lane) {
    float x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(&lanes) + 4 * lane, 4);
    return x;
  }

  /// absorb() for rows in lanes; only those that saw a key change.
  void absorb(Group& group, const Step& step, F32 sums, std::uint32_t seen, std::int64_t live) const {
    const State next = scheme_.absorb(group.state[0], step, sums);
    if (seen == (1u << kRows) - 1) {
      group.state[0] = next;
      return;
    }
    for (std::int64_t r = 0; r < live; ++r)
      if (seen >> r & 1) copy_lane<L>(group.state[0], next, r);
  }

  /// Scores to codes of P, for the group's rows; returns the rows that saw a key.
  std::uint32_t softmax(Group& group, const std::int64_t* first, const std::int64_t* last, std::int64_t low,
                        std::int64_t high, std::int64_t live) {
    std::uint32_t seen = 0;
    View views[kRowSets];
    Step steps[kRowSets];
    alignas(64) Element1<Score> peak[kLanes] = {};
    if constexpr (kRowLanes) views[0] = scheme_.view(group.row[0], block_, Acc{});
    for (std::int64_t r = 0; r < live; ++r) {
      if (first[r] == last[r]) continue;
      seen |= 1u << r;
      const RowKeys<Isa> keys = keys_of(r, first[r], last[r]);
      if constexpr (kRowLanes) {
        peak[r] = score_row(r, row_of<L>(views[0], r), keys, low, high);
      } else {
        Element1<Acc> row_peak{};
        if constexpr (S::kUsesRowPeak) row_peak = largest_sum(r, keys, low, high);
        views[r] = scheme_.view(group.row[r], block_, row_peak);
        peak[r] = score_row(r, views[r], keys, low, high);
        steps[r] = scheme_.step(group.state[r], peak[r], views[r]);
      }
    }
    if constexpr (kRowLanes) {
      Score lanes;
      __builtin_memcpy(&lanes, peak, sizeof lanes);
      steps[0] = scheme_.step(group.state[0], lanes, views[0]);
    }
    alignas(64) float mass[kLanes] = {};
    for (std::int64_t r = 0; r < live; ++r) {
      if (first[r] == last[r]) {
        clear_row(r, low, high);
        continue;
      }
      const RowKeys<Isa> keys = keys_of(r, first[r], last[r]);
      if constexpr (kRowLanes) {
        mass[r] = weigh_row(r, step_[r] = row_of<L>(steps[0], r), keys, low, high);
      } else {
        step_[r] = steps[r];
        const auto sum = weigh_row(r, steps[r], keys, low, high) + padding(steps[r]);
        group.state[r] = scheme_.absorb(group.state[r], steps[r], sum);
      }
    }
    for (std::int64_t r = live; r < kRows && live > 1; ++r) clear_row(r, low, high);
    if constexpr (kRowLanes) {
      F32 lanes;
      __builtin_memcpy(&lanes, mass, sizeof lanes);
      absorb(group, steps[0], lanes, seen, live);
    }
    return seen;
  }

  /// The mass of the keys that the sequence's last block lacks, for a scheme that counts them.
  auto padding(const Step& step) const {
    const auto missing = static_cast<std::int32_t>(call_.prepare.key_block - (end_ - begin_));
    if constexpr (requires { scheme_.padding_mass(step); })
      return scheme_.padding_mass(step) * missing;
    else
      return 0;
  }

  /// Calls plain(at) for the vectors of keys in [low, high) that a row sees wholly, masked(at) for others;
  /// for all of them where its bias hides any key.
  template <class Plain, class Masked>
  static void for_keys(const RowKeys<Isa>& keys, std::int64_t low, std::int64_t high, const Plain& plain,
                       const Masked& masked) {
    std::int64_t full = round_up(keys.span.first, kLanes), past = keys.span.last / kLanes * kLanes;
    if (keys.hides || past <= full) full = past = high;
    std::int64_t at = low;
    for (; at < full; at += kLanes) masked(at);
    for (; at < past; at += kLanes) plain(at);
    for (; at < high; at += kLanes) masked(at);
  }

  Element1<Acc> largest_sum(std::int64_t r, const RowKeys<Isa>& keys, std::int64_t low,
                            std::int64_t high) const {
    const std::byte* row = score_ + r * score_row_;
    Acc most = lowest<Acc>();
    for_keys(
        keys, low, high,
        [&](std::int64_t at) {
          const Acc acc = load<Acc>(row + 4 * at);
          most = acc > most ? acc : most;
        },
        [&](std::int64_t at) {
          const Acc acc = load<Acc>(row + 4 * at);
          most = (keys.visible(at) & (acc > most)) ? acc : most;
        });
    return largest(most);
  }

  /// Replaces the row's sums by scores; returns the largest visible one.
  Element1<Score> score_row(std::int64_t r, const View& view, const RowKeys<Isa>& keys, std::int64_t low,
                            std::int64_t high) {
    if constexpr (kApproximates)
      if (!keys.bias) return Isa::Approximate::largest(sums_of(r, keys, low, high)) * scheme_.octaves;
    std::byte* row = score_ + r * score_row_;
    const auto no_bias = scheme_.bias(F32{});
    Score most = lowest<Score>();
    for_keys(
        keys, low, high,
        [&](std::int64_t at) {
          const auto bias = keys.bias ? scheme_.bias(keys.bias_at(at)) : no_bias;
          const Score score = scheme_.score(load<Acc>(row + 4 * at), view, key(at), bias);
          most = score > most ? score : most;
          store(row + 4 * at, score);
        },
        [&](std::int64_t at) {
          const I32 mask = keys.visible(at);
          const F32 bias = mask ? keys.bias_at(at) : F32{};
          const Score score = scheme_.score(load<Acc>(row + 4 * at), view, key(at), scheme_.bias(bias));
          most = (mask & (score > most)) ? score : most;
          store(row + 4 * at, score);
        });
    return largest(most);
  }

  /// A row's sums for Isa::Approximate.
  auto sums_of(std::int64_t r, const RowKeys<Isa>& keys, std::int64_t low, std::int64_t high) const {
    return typename Isa::Approximate::Row{reinterpret_cast<const float*>(score_ + r * score_row_), keys.span,
                                          low, high};
  }

  /// Replaces the row's scores by codes of P; returns the mass that the row sum gains.
  auto weigh_row(std::int64_t r, const Step& step, const RowKeys<Isa>& keys, std::int64_t low,
                 std::int64_t high) {
    using Weight = decltype(scheme_.weight(Score{}, step));
    using Mass = decltype(scheme_.mass(Weight{}, scheme_.code(Weight{}), Key{}));
    const std::byte* row = score_ + r * score_row_;
    std::byte* p = p_ + r * p_row_;
    if constexpr (kApproximates) {
      static_assert(Isa::Approximate::kError <= S::kWeightError,
                    "the error bound counts what the scheme says");
      if (!keys.bias)
        return Isa::Approximate::weigh(sums_of(r, keys, low, high), scheme_.octaves, step.origin[0], p);
    }
    constexpr bool kWide = __is_same(typename S::Sum, std::int64_t);
    MassSum<Mass, kWide> sum;
    for_keys(
        keys, low, high,
        [&](std::int64_t at) {
          const auto weight = scheme_.weight(load<Score>(row + 4 * at), step);
          const auto code = scheme_.code(weight);
          sum.add(scheme_.mass(weight, code, key(at)));
          store_code(p + kPBytes * at, code);
        },
        [&](std::int64_t at) {
          const I32 mask = keys.visible(at);
          Score score = load<Score>(row + 4 * at);
          // A hidden key may score above the largest visible one, and a table has no entry for that.
          if constexpr (std::is_same_v<Score, F32>) score = mask ? score : lowest<Score>();
          const auto weight = scheme_.weight(score, step);
          const auto code = scheme_.code(weight);
          const Mass mass = scheme_.mass(weight, code, key(at));
          sum.add(mask ? mass : Mass{});
          store_code(p + kPBytes * at, mask ? code : decltype(code){});
        });
    return sum.total();
  }

  /// Lanes of mass; 32-bit integers whose sum may not fit are widened.
  template <class Mass, bool kWide>
  struct MassSum {
    Mass lanes{};
    void add(Mass mass) { lanes += mass; }
    auto total() const { return RowsNest::total(lanes); }
  };
  template <class Mass>
  struct MassSum<Mass, true> {
    typename L::I64 lanes{};
    void add(Mass mass) { lanes += L::widen(mass); }
    std::int64_t total() const {
      std::int64_t part[kLanes], sum = 0;
      __builtin_memcpy(part, &lanes, sizeof part);
      for (std::int64_t x : part) sum += x;
      return sum;
    }
  };

  template <class Code>
  static void store_code(std::byte* at, Code code) {
    if constexpr (kPv.p == Element::f32)
      store(at, code);
    else if constexpr (kPv.p == Element::bf16)
      Isa::store_halves(at, code);
    else if constexpr (kPBias)
      Isa::store_codes(at, code + 128);
    else
      Isa::store_codes(at, code);
  }

  void clear_row(std::int64_t r, std::int64_t low, std::int64_t high) {
    using Code = std::conditional_t<is_float(S::kP), F32, I32>;
    for (std::int64_t at = low; at < high; at += kLanes) store_code(p_ + r * p_row_ + kPBytes * at, Code{});
  }

  Key key(std::int64_t at) const {
    return lanes_at<L, Key>(call_.head.keys, call_.head.key_stride, begin_ + at);
  }

  /// The block's P V into the rows' outputs.
  void fold(std::int64_t g, std::uint32_t seen, std::int64_t live) {
    const std::int64_t columns = call_.dim_v / kLanes;
    for (std::int64_t r = 0; r < live; ++r) {
      if (!(seen >> r & 1)) continue;
      Out* out = out_ + (g * kRows + r) * columns;
      const std::byte* sums = sums_ + r * sums_row_;
      for (std::int64_t c = 0; c < columns; ++c) {
        PvAcc pv = load<PvAcc>(sums + c * kVector);
        if constexpr (kPBias)
          pv -= 128 * load<I32>(reinterpret_cast<const std::byte*>(call_.head.block_v_sum +
                                                                   index_ * call_.dim_v + c * kLanes));
        scheme_.fold(out[c], pv, step_[r], channel_[c]);
      }
    }
  }

  const RowsCall& call_;
  const S scheme_;
  Group* groups_;
  Out* out_;
  std::byte *score_, *p_, *sums_;
  std::byte* words_;
  GroupBias<Isa> bias_;
  float* row_level_;
  Channel* channel_;             ///< factors of a fold in lanes, then of the end
  std::int64_t words_made_ = 0;  ///< keys of the group whose words came with their products
  std::int64_t padded_, score_row_, p_row_, sums_row_;
  std::int64_t index_ = 0, begin_ = 0, end_ = 0;
  typename S::Block block_{};
  Step step_[kRows];
};

}  // namespace
}  // namespace octet::cpu
