// The contract of a scheme: what src/ref and every kernel ask of it, and all that they may know about it.
//
// A scheme is a small value type `S = Scheme<Lane>`, written once and layout-free in the verbs of a lane
// (lanes/scalar.h: one number; lanes/vector.h: several at once). Attention for one query row is this, and
// nothing else:
//
//   state = S::State{}, out[c] = S::Out{}
//   for each key block with a visible key:
//     acc[j]   = q . k_j                                          exact integers, or f32
//     view     = scheme.view(row, block, largest visible acc)     what a row and a key block share
//     score[j] = scheme.score(acc[j], view, key[j], bias[j])
//     step     = scheme.step(state, largest visible score, view)  P's reference, factors of old and new sums
//     w = scheme.weight(score[j], step);  p[j] = scheme.code(w);  sum += scheme.mass(w, p[j], key[j])
//                                                                 a hidden key: p = 0, no mass
//     scheme.fold(out[c], sum over j of p[j] v[j][c], step, fold channel[c])    in place
//     state    = scheme.absorb(state, step, sum)
//   o[c] = scheme.finish(out[c], state, row, channel[c]);  lse = scheme.lse(state, row)
//
// A scheme may round small weights by the places of their keys (numerics/ordered_rounding.h): then p[j] is
// scheme.code(w, the offset of j's place, key[j], the largest of V's scales that P carries in the block). A
// kernel to whose lanes that is a cost takes code(w): the scheme's bound holds for either.
//
// Where a row ends in codes with a scale of its own, finish() gives S::Wide, outputs before that scale, and
//
//   peak   = scheme.larger(...) of all of the row's wide[c]
//   ending = scheme.ending(state, row, peak)
//   o[c]   = scheme.output_code(wide[c], ending);  its scale = scheme.output_scale(ending)
//
// Where most of a row's codes follow from outputs as floats, a scheme may say how, for kernels that have
// them: it names a type Rough, and
//
//   factor[c] = scheme.rough_channel(scales of channel c);  NaN: no row of the call ends so
//   number[c] = scheme.rough(out[c], state) * factor[c]
//   rough     = scheme.rough_ending(state, largest |number[c]|)
//   o[c]      = number[c] * rough.factor to the nearest integer;  its scale = rough.scale
//
// if rough.sure and every product is closer than kRoughSure to its integer; else the row ends as above.
//
// A scheme may say fold() in two parts, rescale(out, step) and then add(out, sum, step, channel), of which
// the first leaves out as it is where keeps(step): kernels skip it where no row of a group needs it.
//
// A scheme whose Out is 64-bit sums in bins may name a type Into: then fold() is also
//
//   into = scheme.into(step)                 {bin, factor, opens, ...}
//   if (into.opens) scheme.make_room(out[c], into)
//   out[c].bin[into.bin] += (sum over j of p[j] v[j][c]) * into.factor
//
// where bins that are not in use may hold anything; and where no row of a group has outputs yet, bins are
// set, and nothing is made room for.
//
// A scheme may have only(): of a row that sees one key block alone, and where the fold channels are 1, out[c]
// is scheme.only(sum over j of p[j] v[j][c], state). rough() takes that sum too, and rough_endings(), which
// is rough_ending() of several rows, is told so.
//
// A scheme whose rows come in lanes may have closing(state), what finish() makes of the state for all
// channels: then o[c] = scheme.finish(out[c], closing, channel[c]) too.
//
// A scheme may have value(code): then v[j][c] is that of V's code, so that V enters the product rounded to
// another format. A scheme may have padding_mass(step): then sum gains it once for each key that the
// sequence's last block lacks (a published kernel that counts its padding). Keys hidden by a mask never
// count. bias(0) is Bias{}.
//
// A scheme may name a Merge, a type with merge(state, other) and merge_out(out, state, other out, other
// state): then a row's keys may be cut into ranges of whole key blocks, each computed by itself, and what two
// of them left is put together. A scheme without one (its P depends on the blocks before) is computed in one
// piece, or the ends of ranges' rows are put together by their LSEs, where outputs are numbers
// (cuda/ranges.h): other codes, within the same bound.
//
// A row that saw no key is not finished: its output is zero and its LSE -inf. The result of a block does not
// depend on keys that the row does not see, so a row alone equals the row in a batch.
//
// What a scheme states (kernels branch on these with `if constexpr`, never on which scheme it is):
//   kQk, kP, kV     Operand formats of the two products
//   kOutput         how a row ends: numbers, codes with one scale, or codes with a scale of the row's own
//   Acc, PvAcc      accumulators: I32, or F32 for float operands
//   Score, Sum, Out, State, Step, View, Row, Key, Block, Channel, Bias   its own types
//   kUsesRowPeak    whether view() needs the largest visible accumulator
//   kVInP           whether P carries V's scale where that varies along tokens and not along channels; if
//                   not, the key block's sums are multiplied by it. A scheme that does not state it does.
//   kRowLanes       whether rows come in lanes: below
//   kWeightError    where it is: how far a kernel's own weights may be off, relatively; then scores are sums
//                   times the scheme's `octaves` plus a bias, and weights powers of two of their distances
//   kScaledSums     where it is true: without a bias, score() is a sum times the product of the key's `scale`
//                   and the row's `octaves`, each rounded
//   kSumsAreScores  where it is there: without a bias, score() is the sum
//   kStart          where it is: what Q K^T starts from, so that accumulators are sums plus it
//   kMassTerms      where mass() gives integers: so many of them add up within 32 bits (unsigned ones, if
//                   masses are never negative)
//   kHiddenWeighsNothing  where it is true: the weight and the mass of the least score there is are 0
//   kHiddenScore    where it is there: a score below every other, whose weight and mass are 0
//   kMassIsCode     where it is there: mass() is the code
//   kAsksOptions    where it is there: weight() or mass() asks the options, and with_weights(body) calls
//                   body(what has weight(), code() and mass()), which ask nothing. Where fold() does too,
//                   with_fold(step, body) calls body(fold(out, sum) of that step). A scheme without it may
//                   have with_weights() for kernels whose loops are worth compiling once for each option
//   kLongRows       where it is true: what a row takes from a key block is long, and a kernel whose lanes
//                   share rows has it made once: passed() of View, Step, NearView and Ending is what scores,
//                   weights and codes need of them. near_view() and near_score() are the shorter view() and
//                   score() of rows that fits_u16(); sums go to a Window instead of an Out's bins, by
//                   enter(), and QuickEnds end most rows. lone() and the functions behind it are the same of
//                   rows that have one or two key blocks, as Terms whose outputs' sums nobody adds before the
//                   end
//   blind_step()    where it is: step() that also takes the largest score of a row that sees no key of a
//                   block, -inf; its weights are then 0, and neither its state nor its outputs change in
//                   a way that shows
//   lazy_step()     where it is: step() that rescales seldom, for lanes of one value (numerics/unbiased.h)
//   kAddsAsTheyAre  where it is there: a key block's sums have the factor 1, and kernels fold them at once
//   block()         takes K's scale or, where V's scales have a reference in each block, also V's largest
//
// What lanes are, with a lane of several values:
//   keys            Acc, Bias, Key, Score, weights, codes (I32, or F32 for a float P) and masses: score(),
//                   weight(), code(), mass(), key(), bias() and value() are of kWidth keys at once
//   channels        PvAcc, Out, Channel, Wide and what finish() gives: fold(), channel(), finish(), larger()
//                   and output_code() are of kWidth channels at once; ending() takes the lanes of a peak
//   rows            if kRowLanes: Row, View, State and Step hold one row a lane, and row(), view(), step(),
//                   absorb(), closing() and lse() are of kWidth rows at once. Before score(), weight(),
//                   fold() and finish() a kernel copies one row's members into all lanes.
//   plain numbers   Block, Ending and the scheme itself. If not kRowLanes, also Row, View, State, Step and
//                   the peaks that view() and step() take: all functions of rows are of one row.
//   Sum             what absorb() takes: the sum of a block's masses, for each lane's row or for the one row
// If not kRowLanes, a scheme may have RowsOf<R>, constants of R::kWidth rows that rows() makes together, as
// they make their views, and StatesOf<R>, the states of so many rows, of which steps() makes steps. Members
// of Key, and of Row, View, State, Step and Channel where they are lanes, are lanes of four bytes a value: a
// kernel may keep such a struct as arrays, one a member, and read lanes from anywhere in them.
//
// Constants are made by the functions prepare/row/key/block/channel from scales with correctly rounded
// operations and the shared polynomials only, so that host and device agree to the bit.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "octet/types.hpp"

namespace octet {

/// Scores are in octaves (base 2): exp(s) = 2^(s log2 e).
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;
/// The LSE of an empty row, and a bias that hides a key.
inline constexpr float kMinusInfinity = -__builtin_huge_valf();
/// What a lower bias counts as in schemes of floats, in octaves: masks are made of f32's lowest number, which
/// overflows in octaves, and a key block that sees nothing else would have no finite maximum.
inline constexpr float kLeastBias = -0x1p100f;

/// Format of an operand as it meets the product. Every float format is decoded to f32, exactly.
enum class Operand : std::int32_t {
  s8,
  u8,
  f32,
  bf16,  ///< floats whose numbers bf16 holds: a kernel may multiply them as such
  f16,   ///< floats whose numbers f16 holds (e4m3's too): the same
  e4m3,  ///< floats whose numbers e4m3 holds, of forms for units that multiply these (numerics/native_e4m3.h)
};
constexpr bool is_float(Operand o) { return o != Operand::s8 && o != Operand::u8; }
/// Of an element, as kernels hold it that multiply numbers of the format as such.
constexpr int bytes_of(Operand o) {
  if (o == Operand::f32) return 4;
  return o == Operand::bf16 || o == Operand::f16 ? 2 : 1;
}

/// How a row of the output ends.
enum class Output : std::int32_t { values, one_scale, row_scale };

/// What the constants of keys and key blocks are made of, for who makes scales and may make these beside them
/// (ScaledOperands::kConstants). Without a name of its own a scheme's are the first.
enum class Constants : std::int32_t {
  of_all_scales,   ///< key(), block()
  of_own_scales,   ///< Block is empty; Key is K's scale, and ValueWords of V's where P carries that
  scale_of_block,  ///< Key is empty; Block is the scale of the block's keys
};

/// What prepare() sees of a call. Scales are of the whole tensor, and only where the recipe's granularity is
/// the tensor; else 0.
struct Prepare {
  float softmax_scale = 1;
  std::int32_t head_dim = 0;
  std::int32_t key_block = 128;
  std::int64_t tokens_k = 0;
  float q_scale = 0, k_scale = 0, v_scale = 0;
  SchemeOptions options;
  const float* table =
      nullptr;  ///< filled by the caller with table_entries() numbers where a scheme has a table
};

/// Scales of a key a lane, as its operands store them; 1 where a granularity has none along tokens.
template <class L>
struct KeyScales {
  typename L::F32 k = L::broadcast(1);
  typename L::F32 v = L::broadcast(1);  ///< V's, where it varies along tokens and not along channels
};

/// V's scale of a channel a lane, where it varies along channels (times the tensor's or the head's, where it
/// has that), and 2^exponent.
template <class L>
struct ChannelScales {
  typename L::F32 v = L::broadcast(1);
  typename L::I32 exponent{};
};

/// kVInP of a scheme, or its default.
template <class S>
constexpr bool carries_v() {
  if constexpr (requires { S::kVInP; })
    return S::kVInP;
  else
    return true;
}

}  // namespace octet
