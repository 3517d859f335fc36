// The loop nest of the CPU backend: the contract of numerics/contract.h, kRows query rows at a time, keys in
// vector lanes. Included by one generated TU for each scheme and instruction set; everything in it is local
// to that TU, for its flags are its own.
//
// A key block is taken whole by one group of rows after another: Q K^T into a few KiB of scores, the softmax
// of each row in lanes, P V into as many sums, and their fold into the rows' outputs. The block's packed keys
// and values stay in L1 or L2 meanwhile.
//
// Isa: Lane, kLanes, kRows, kIntegers (a Products for integer operands), kFloats (one for floats, empty where
// there is none), kHalves (one for floats that bf16 holds), kToWords and kToScores (tiles of Q K^T that end
// in these, or null), store_codes() and store_halves() (P in bytes and in bf16, where products take them),
// kHas (the schemes that the set has nests of), kScoreGap (bytes between a row's scores and the next one's),
// begin() and end() (around what a nest computes).
#include <cstdint>
#include <type_traits>

#include "base/ask_for.h"
#include "cpu/bias.inl"
#include "cpu/ends.inl"
#include "cpu/fixed_rows.inl"
#include "cpu/integer_rows.inl"
#include "cpu/kernel.h"
#include "cpu/non_finite.inl"
#include "cpu/outputs.inl"
#include "cpu/parts.inl"
#include "cpu/rows.inl"
#include "cpu/stages.inl"
#include "cpu/tile.h"
#include "cpu/visit.inl"
#include "cpu/wanted.inl"
#include "cpu/wide.inl"

namespace octet::cpu {
namespace {

/// In place of a scheme's softmax in words.
struct NoWords {
  template <class Context>
  explicit NoWords(const Context&) {}
};

template <class S, class Isa>
class RowsNest {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using Out = typename S::Out;
  using Channel = typename S::Channel;
  using State = typename S::State;
  using Row = typename S::Row;
  using Outputs = RowOutputs<S, Isa>;
  using Group = RowGroup<S, Isa>;
  using ThisVisit = Visit<S, Isa>;

  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;
  static constexpr std::int64_t kVector = kMemberBytes<L>;
  static constexpr bool kRowLanes = S::kRowLanes;
  static constexpr Products kQk = products_of<Isa>(S::kQk), kPv = products_of<Isa>(S::kP);
  static_assert(kQk.few == kPv.few, "rows are few for both products or for none");
  static constexpr bool kPBias = kBiasesP<S, Isa>;
  static constexpr std::int64_t kPBytes = kPBytesOf<S, Isa>;

  static std::int64_t groups(std::int64_t rows) { return (rows + kRows - 1) / kRows; }

 public:
  /// Whether the scheme has a form of its softmax in words, which most key blocks fit: one that rounds, or
  /// one with the bits of the wide form.
  static constexpr bool kFixed = requires { typename S::FixedMantissa; };
  static constexpr bool kIntegerWords = kIntegerInWords<S>;
  static constexpr bool kHasWords = kFixed || kIntegerWords;
  /// Whether the keys of a row may be cut into ranges.
  static constexpr bool kMerges = RowParts<S, Isa>::kMerges;
  /// Whether Q K^T may end in scores.
  static constexpr bool kScores = kScoresOf<S, Isa>;
  /// Whether products may have stages of other groups of rows beside them.
  static constexpr bool kBeside = kIntegerWords && kPv.pv_beside != nullptr;

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

  /// The rows against the keys that they see, without their end. Compiled once for its two callers, as
  /// end_rows() is: there are as many of them as schemes.
  __attribute__((noinline)) void part() {
    open();
    const std::int64_t key_block = call_.prepare.key_block;
    const std::int64_t least = call_.seen_by_any.first, most = call_.seen_by_any.last;
    if (least / key_block == (most - 1) / key_block && !call_.parts.state) outputs_.expect_one_block();
    const KeySpan blocks{least / key_block, (most + key_block - 1) / key_block};
    const std::int64_t together = blocks_together(call_.rows, key_block);
    const std::int64_t visits = (blocks.last - blocks.first) * groups(call_.rows);
    Asked<false> to_read(call_.to_read, visits);
    Asked<true> to_write(call_.to_write, visits);
    if (together > 1) {
      for (std::int64_t b = blocks.first; b < blocks.last; b += together)
        visit_run({b, b + together < blocks.last ? b + together : blocks.last});
      return;
    }
    const auto each_visit = [&](const auto& visit) {
      for (std::int64_t b = blocks.first; b < blocks.last; ++b) {
        open_ = open_block(b);
        open_values(open_);
        for (std::int64_t g = 0; g < groups(call_.rows); ++g) {
          to_read.ask();
          to_write.ask();
          visit(g);
        }
      }
    };
    if constexpr (kBeside) {
      if (outputs_.takes_weights() && !bias_.any()) {
        Stages<RowsNest, ThisVisit, Words> stages(*this);
        each_visit([&](std::int64_t g) { stages.visit(open_, g); });
        stages.end();
        return;
      }
    }
    each_visit([&](std::int64_t g) { visit(open_, g); });
  }

  /// The end of rows whose keys were cut into parts: merged in the order of the keys.
  void merge() {
    for (std::int64_t p = 1; p < call_.parts.count; ++p)
      RowParts<S, Isa>::merge(call_, {groups_, outputs_.of_group(0)},
                              states_at(call_.parts.state + p * call_.parts.stride));
    end_rows();
  }

 private:
  using Words = std::conditional_t<kIntegerWords, IntegerRows<S, Isa>,
                                   std::conditional_t<kFixed, FixedRows<S, Isa>, NoWords>>;

  friend class Stages<RowsNest, ThisVisit, Words>;

  __attribute__((noinline)) void end_rows() const {
    RowEnds<S, Isa>(call_, scheme_, outputs_.channel()).end({groups_, outputs_.of_group(0), outputs_.only()});
  }

  /// Keys of a run, and its key blocks at most.
  static constexpr std::int64_t kRunKeys = 2048, kRunBlocks = 16;

  /// Key blocks that go together, stage by stage (visit_run).
  static std::int64_t blocks_together(std::int64_t rows, std::int64_t key_block) {
    if (rows > kPv.few || key_block == 0) return 1;
    const std::int64_t blocks = kRunKeys / key_block;
    return blocks < 1 ? 1 : blocks < kRunBlocks ? blocks : kRunBlocks;
  }

  struct Layout {
    std::int64_t groups, out, score, words, p, sums, bias, channel, non_finite, bytes;
  };

  /// Keys that a row's scores and codes have room for: whole stores of the forms in words.
  static std::int64_t padded(std::int64_t key_block) { return whole_stores<Isa>(0, key_block).last; }

  /// Bytes from one row's scores to the next.
  static std::int64_t score_row(std::int64_t n) { return 4 * n + Isa::kScoreGap; }

  static Layout layout(std::int64_t rows, std::int64_t key_block, std::int64_t dim_v) {
    const std::int64_t n = padded(key_block), sets = RowsNest::groups(rows),
                       blocks = blocks_together(rows, key_block);
    Layout at{};
    const auto take = [&](std::int64_t bytes) {
      const std::int64_t offset = at.bytes;
      at.bytes += round_up(bytes, 64);
      return offset;
    };
    at.groups = take(sets * static_cast<std::int64_t>(sizeof(Group)));
    at.out = take(sets * kRows * dim_v / kLanes * static_cast<std::int64_t>(sizeof(Out)));
    const std::int64_t together = kBeside && blocks == 1 ? 2 : blocks;
    at.score = take(together * kRows * score_row(n));
    at.words = take(kHasWords ? kRows * n * 2 : 0);
    at.p = take(together * kRows * n * kPBytes);
    at.sums = take(kRows * dim_v * 4);
    at.bias = take(GroupBias<Isa>::bytes(n));
    at.channel = take(dim_v / kLanes * static_cast<std::int64_t>(sizeof(Channel)));
    at.non_finite = take(NonFiniteValues<S, Isa>::bytes(n, dim_v));
    return at;
  }

  RowsNest(const RowsCall& call, const Layout& at)
      : call_(call),
        scheme_(S::prepare(call.prepare)),
        bias_(call.bias, call.scratch + at.bias, padded(call.prepare.key_block)),
        memory_(memory(call, at)),
        first_(memory_),
        wide_(NestContext<S, Isa>{call_, scheme_, bias_, memory_}),
        non_finite_(NestContext<S, Isa>{call_, scheme_, bias_, memory_}, call.scratch + at.non_finite),
        words_(NestContext<S, Isa>{call_, scheme_, bias_, memory_}),
        groups_(states().groups),
        outputs_(NestContext<S, Isa>{call_, scheme_, bias_, memory_}, states().out,
                 reinterpret_cast<Channel*>(call.scratch + at.channel)) {}

  static GroupMemory memory(const RowsCall& call, const Layout& at) {
    const std::int64_t n = padded(call.prepare.key_block);
    return {call.scratch + at.score,
            call.scratch + at.words,
            call.scratch + at.p,
            call.scratch + at.sums,
            score_row(n),
            2 * n,
            kPBytes * n,
            4 * call.dim_v,
            n};
  }

  RowStates<S, Isa> states() const {
    return states_at(call_.parts.state ? call_.parts.state : call_.scratch);
  }
  RowStates<S, Isa> states_at(std::byte* state) const {
    const Layout at = layout(call_.rows, 0, call_.dim_v);
    return {reinterpret_cast<Group*>(state + at.groups), reinterpret_cast<Out*>(state + at.out)};
  }

  // --- The life of a call.

  void open() {
    for (std::int64_t g = 0; g < groups(call_.rows); ++g) {
      Group& group = groups_[g];
      group.seen = 0;
      group.reach = 0;
      if constexpr (kRowLanes) {
        group.row[0] = scheme_.row(L::load(call_.q_scale + g * kRows));
        if constexpr (kFixed) {
          constexpr float kLargestCode = 127;
          const F32 reach =
              group.row[0].octaves * kLargestCode * L::to_f32(L::load(call_.q_size + g * kRows));
          group.reach = reduced(lanes_within<Isa>(0, kRows) ? reach : F32{}, Larger{});
        }
        group.state[0] = State{};
      } else if constexpr (kRowsTogether<S, Isa>) {
        using R = RowsLane<Isa>;
        group.together = scheme_.template rows<R>(R::load(call_.q_scale + g * kRows), kRows);
        group.states.clear();
      } else {
        for (std::int64_t r = 0; r < kRows; ++r) {
          group.row[r] = scheme_.row(call_.q_scale[g * kRows + r]);
          group.state[r] = State{};
        }
      }
    }
    outputs_.fill_channels(nullptr);
  }

  OpenBlock<S> open_block(std::int64_t index) const {
    const PackedHead& head = call_.head;
    const std::int64_t begin = index * call_.prepare.key_block, end = begin + call_.prepare.key_block;
    OpenBlock<S> block{index, begin, end < head.tokens ? end : head.tokens, nullptr, {}};
    if constexpr (requires { scheme_.block(1.0f, 1.0f); })
      block.constants = scheme_.block(head.block_k_scale[index], head.block_v_largest[index]);
    else
      block.constants = scheme_.block(head.block_k_scale[index]);
    return block;
  }

  /// What P V needs of a block. One at a time is open.
  void open_values(OpenBlock<S>& block) {
    block.v = non_finite_.without(block);
    if (call_.head.block_channel)
      outputs_.fill_channels(call_.head.block_channel + block.index * call_.dim_v);
  }

  /// One group of rows against a key block.
  void visit(const OpenBlock<S>& block, std::int64_t g) {
    ThisVisit visit;
    if (!begin(visit, block, g)) return;
    multiply_qk(visit);
    softmax(visit);
    multiply_pv(visit);
  }

  /// Few rows against the key blocks [first, last), each stage for all of them before the next begins: K and
  /// V come from memory, and the processor fetches a long run of lines ahead by itself, but finds each run
  /// anew. What lies between two runs of one key block each takes as long as the softmax.
  /// note: not inlined, for part() is the loop of many rows.
  __attribute__((noinline)) void visit_run(const KeySpan& blocks) {
    ThisVisit visits[kRunBlocks];
    std::int64_t count = 0;
    for (std::int64_t b = blocks.first; b < blocks.last; ++b) {
      use_set(count);
      if (!begin(visits[count], open_block(b), 0)) continue;
      if constexpr (kFixed) words_.fetch_constants(visits[count]);
      multiply_qk(visits[count++]);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (call_.ahead.near()) ask_for_values(visits[0].block, i);
      use_set(i);
      read_bias_again(visits[i]);
      softmax(visits[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      use_set(i);
      if constexpr (is_float(S::kV)) read_bias_again(visits[i]);
      open_values(visits[i].block);
      multiply_pv(visits[i]);
    }
  }

  /// A part of what P V of a run reads first, behind what the run before has asked for: memory rests during
  /// the softmaxes. note: 32 KiB of a run, where the first-level cache has 48.
  void ask_for_values(const OpenBlock<S>& first, std::int64_t part) const {
    constexpr std::int64_t kBytes = 2048;
    const std::int64_t begin = call_.ahead.first_level + part * kBytes;
    ask_for<Nearness::first_level>(non_finite_.packed(first), begin, begin + kBytes);
  }

  /// Whose scores and codes the stages work on: those of a run's i-th key block, or of a group's turn.
  void use_set(std::int64_t i) {
    memory_.score = first_.score + i * kRows * first_.score_row;
    memory_.p = first_.p + i * kRows * first_.p_row;
  }
  /// The bias of one key block is there at a time.
  void read_bias_again(ThisVisit& visit) {
    if (bias_.any()) find_keys(visit);
  }

  /// What the group's rows see of the block, and which form its softmax takes; false: nothing.
  bool begin(ThisVisit& visit, const OpenBlock<S>& block, std::int64_t g) {
    visit.block = block, visit.group = g, visit.form = Form::wide;
    visit.words_made = 0, visit.scored = 0, visit.compared = 0, visit.whole = false;
    visit.live = call_.rows - g * kRows < kRows ? call_.rows - g * kRows : kRows;
    const KeySpan& all = call_.seen_by_all;
    if (!bias_.any() && all.first <= block.begin && block.end <= all.last) {
      visit.low = 0, visit.high = round_up(block.keys(), kLanes), visit.last = block.keys();
      visit.seen = (1u << visit.live) - 1, visit.whole = true;
    } else if (!find_keys(visit)) {
      return false;
    }
    visit.before = groups_[g].seen;
    groups_[g].seen |= visit.seen;
    if constexpr (kHasWords) {
      if (words_.fits(groups_[g], visit)) visit.form = Form::words;
    }
    return true;
  }

  /// The same, row by row: with a bias or a mask.
  __attribute__((noinline)) bool find_keys(ThisVisit& visit) {
    const std::int64_t row = visit.group * kRows, begin = visit.block.begin, count = visit.block.keys();
    for (std::int64_t r = 0; r < visit.live; ++r) {
      const KeySpan seen =
          call_.first ? KeySpan{call_.first[row + r], call_.last[row + r]} : call_.seen_by_all;
      const std::int64_t first = seen.first - begin, last = seen.last - begin;
      visit.keys[r] = {first > 0 ? first : 0, last < count ? last : count};
    }
    bias_.read({row, visit.live, begin}, visit.keys);
    std::int64_t low = count, high = 0;
    visit.seen = 0;
    for (std::int64_t r = 0; r < visit.live; ++r) {
      KeySpan& keys = visit.keys[r];
      if (keys.first >= keys.last) {
        keys = {0, 0};
        continue;
      }
      visit.seen |= 1u << r;
      low = keys.first < low ? keys.first : low;
      high = keys.last > high ? keys.last : high;
    }
    if (visit.seen == 0) return false;
    visit.low = low / kLanes * kLanes, visit.high = round_up(high, kLanes), visit.last = high;
    if constexpr (kPBias)
      visit.low = 0, visit.high = round_up(count, kLanes), visit.last = count;  // V's codes are summed so
    for (std::int64_t r = 0; bias_.any() && r < visit.live; ++r)
      if (visit.seen >> r & 1) bias_.hide_outside(r, visit.keys[r], whole_stores<Isa>(visit.low, visit.high));
    return true;
  }

  const Multiplies& qk() const { return is_float(S::kQk) ? kQk.multiply : *call_.code_products; }
  const std::byte* k_at(std::int64_t key) const {
    return call_.head.k + key / kLanes * call_.dim_groups * kVector;
  }

  /// distances: made beside it; for rows that see all keys.
  void multiply_qk(ThisVisit& visit, [[maybe_unused]] const TileDistances* distances = nullptr) {
    if constexpr (kFixed && Isa::kToWords != nullptr) {
      if (visit.form == Form::words && !few_rows(visit) && !bias_.any()) multiply_qk_to_words(visit);
    }
    if constexpr (kIntegerWords && kQk.qk_with_largest != nullptr) {
      if (visit.form == Form::words && !few_rows(visit) && !bias_.any())
        multiply_qk_with_largest(visit, distances);
    }
    if constexpr (kScores) {
      if (visit.whole && !few_rows(visit)) multiply_qk_to_scores(visit);
    }
    const std::int64_t low = visit.low + visit.words_made + visit.scored + visit.compared;
    if (low >= visit.high) return;
    std::int32_t start[kRows];
    (few_rows(visit) ? qk().qk_few : qk().qk)(qk_tile(visit, low, start), (visit.high - low) / kLanes);
    if constexpr (requires { S::kSumsAreScores; })
      if (visit.whole) visit.scored = (visit.last - visit.low) / kLanes * kLanes;
  }

  /// Words of the softmax straight from the tiles, for so many keys as whole tiles hold.
  void multiply_qk_to_words(ThisVisit& visit) {
    visit.low = visit.low / Words::kChunk * Words::kChunk;
    std::int32_t start[kRows];
    alignas(64) float factor[kLanes];
    const TileWords words = words_.tile_words(groups_[visit.group], visit, factor);
    visit.words_made =
        kLanes * Isa::kToWords(qk_tile(visit, visit.low, start), words, (visit.high - visit.low) / kLanes);
  }

  /// Scores in place of sums, for so many keys as whole tiles of keys hold.
  void multiply_qk_to_scores(ThisVisit& visit) {
    std::int32_t start[kRows];
    alignas(64) float factor[kLanes];
    L::store(factor, groups_[visit.group].row[0].octaves);
    const TileScores scores{factor, call_.head.keys + visit.block.begin + visit.low};
    visit.scored =
        kLanes * Isa::kToScores(qk_tile(visit, visit.low, start), scores, (visit.last - visit.low) / kLanes);
  }

  /// Sums with the largest of each row beside them, for so many keys as whole tiles of keys hold that all
  /// rows see.
  void multiply_qk_with_largest(ThisVisit& visit, const TileDistances* distances) {
    std::int64_t first = visit.low, last = visit.last;
    for (std::int64_t r = 0; r < visit.live && !visit.whole; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      first = visit.keys[r].first > first ? visit.keys[r].first : first;
      last = visit.keys[r].last < last ? visit.keys[r].last : last;
    }
    if (first > visit.low) return;
    std::int32_t start[kRows];
    visit.compared = kLanes * kQk.qk_with_largest(qk_tile(visit, visit.low, start), visit.largest, distances,
                                                  (last - visit.low) / kLanes);
  }

  /// Scores to codes of P.
  void softmax(ThisVisit& visit) {
    Group& group = groups_[visit.group];
    if constexpr (kHasWords) {
      if (visit.form == Form::words && words_.softmax(group, visit)) return;
    }
    wide_.softmax(group, visit);
  }

  /// The tile of Q K^T for keys from `low`.
  Tile qk_tile(const ThisVisit& visit, std::int64_t low, std::int32_t (&start)[kRows]) const {
    const std::int64_t row = 4 * call_.dim_groups;
    const Element k = few_rows(visit) ? kQk.few_k : kQk.k;
    for (std::int64_t r = 0; r < kRows; ++r)
      start[r] = k == Element::u8_bias ? -128 * call_.q_sum[visit.group * kRows + r] : 0;
    return {call_.q + visit.group * kRows * row,
            row,
            k_at(visit.block.begin + low),
            kVector,
            call_.dim_groups * kVector,
            call_.dim_groups,
            start,
            memory_.score + 4 * low,
            memory_.score_row,
            visit.live,
            few_rows(visit) ? call_.ahead : Ahead{}};
  }

  /// P V into the rows' outputs.
  void multiply_pv(const ThisVisit& visit) {
    outputs_.multiply(visit);
    non_finite_.add(visit, outputs_.of_group(visit.group));
  }

  const RowsCall& call_;
  const S scheme_;
  GroupBias<Isa> bias_;
  GroupMemory memory_;
  const GroupMemory first_;  ///< of the first key block of a run
  const WideSoftmax<S, Isa> wide_;
  NonFiniteValues<S, Isa> non_finite_;
  Words words_;
  /// note: kept here, for visits copy it as vectors, which wait for members that were just written.
  OpenBlock<S> open_{};
  Group* const groups_;
  Outputs outputs_;
};

}  // namespace
}  // namespace octet::cpu
