// Scheme `integer`: its arithmetic over whole domains, the model's cases bit for bit, and independence of
// order and split.
#include "numerics/integer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/bits.h"
#include "lanes/scalar.h"
#include "numerics/integer_keys.h"
#include "numerics/integer_window.h"
#include "ref/reference.h"
#include "ref/schemes.h"

namespace octet {
namespace {

using S = IntegerScheme<ScalarLane>;
using Order = call::Schedule::Order;

/// One head in the scheme's formats, and room for its result. K's scales are per key block, V's per token.
struct Head {
  std::int64_t m = 0, n = 0, d = 0, dv = 0, block = 128;
  float softmax_scale = 1;
  std::vector<std::int8_t> q, k, v;
  std::vector<float> q_scale, k_scale, v_scale, bias;
  std::vector<std::int32_t> channel_exponent;
  Mask mask = Mask::none;
};

struct Result {
  std::vector<std::int8_t> codes;
  std::vector<float> scale, lse;
  bool operator==(const Result&) const = default;
};

TensorView view(const void* data, DType type, std::int64_t tokens, std::int64_t dim) {
  return {
      const_cast<void*>(data), type, Device::cpu, {1, 1, tokens, dim}, {tokens * dim, tokens * dim, dim, 1}};
}

QuantizedTensor operand(const std::vector<std::int8_t>& codes, const std::vector<float>& scales,
                        std::int64_t tokens, std::int64_t dim, std::int64_t tokens_per_scale) {
  QuantizedTensor x;
  x.codes = view(codes.data(), DType::s8, tokens, dim);
  x.scales = view(scales.data(), DType::f32, static_cast<std::int64_t>(scales.size()), 1);
  x.tokens_per_scale = tokens_per_scale;
  return x;
}

Result attend(const Head& h, Order order = Order::forward) {
  AttentionDesc desc;
  desc.scheme = Scheme::integer, desc.output = DType::s8, desc.mask = h.mask;
  desc.tokens_q = h.m, desc.tokens_k = h.n, desc.head_dim = h.d, desc.head_dim_v = h.dv;
  desc.softmax_scale = h.softmax_scale, desc.key_block = h.block, desc.wants_lse = true;
  desc.recipe.k = Granularity::block;
  AttentionArgs args;
  args.q = operand(h.q, h.q_scale, h.m, h.d, 1);
  args.k = operand(h.k, h.k_scale, h.n, h.d, h.block);
  args.v = operand(h.v, h.v_scale, h.n, h.dv, 1);
  if (!h.channel_exponent.empty()) {
    args.v.channel_exponent = view(h.channel_exponent.data(), DType::s32, 1, h.dv);
  }
  if (!h.bias.empty()) {
    desc.bias = AttentionDesc::Bias::additive;
    args.bias = view(h.bias.data(), DType::f32, h.m, h.n);
  }
  Result r;
  r.codes.resize(static_cast<std::size_t>(h.m * h.dv));
  r.scale.resize(static_cast<std::size_t>(h.m)), r.lse.resize(static_cast<std::size_t>(h.m));
  args.o = view(r.codes.data(), DType::s8, h.m, h.dv);
  args.o_scale = view(r.scale.data(), DType::f32, h.m, 1);
  args.lse = view(r.lse.data(), DType::f32, h.m, 1);
  ref::attend_of(Scheme::integer)(call::Problem(desc, args, {order}));
  return r;
}

/// Random codes; K's scale doubles from block to block and V's tokens differ by up to eight octaves.
Head random_head(std::int64_t m, std::int64_t n, std::int64_t d, std::int64_t block, float scale,
                 std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto below = [&](std::uint64_t count) { return static_cast<int>(bits() % count); };
  Head h;
  h.m = m, h.n = n, h.d = h.dv = d, h.block = block;
  h.softmax_scale = scale;
  for (auto [codes, tokens] : {std::pair{&h.q, m}, {&h.k, n}, {&h.v, n}}) {
    for (std::int64_t i = 0; i < tokens * d; ++i)
      codes->push_back(static_cast<std::int8_t>(below(255) - 127));
  }
  for (std::int64_t i = 0; i < m; ++i) h.q_scale.push_back(0.01f * static_cast<float>(1 + below(100)));
  for (std::int64_t i = 0; i < n; i += block) h.k_scale.push_back(0.013f * static_cast<float>(1 << below(3)));
  for (std::int64_t i = 0; i < n; ++i) {
    h.v_scale.push_back(std::ldexp(16.0f / static_cast<float>(16 + below(16)), -below(8)));
  }
  return h;
}

/// Attention of the coded operands in double: what the core itself should give.
struct Exact {
  std::vector<double> o, lse;
};

Exact exact(const Head& h) {
  Exact e;
  std::vector<double> score(static_cast<std::size_t>(h.n));
  for (std::int64_t i = 0; i < h.m; ++i) {
    const std::int64_t end = h.mask == Mask::causal ? i + 1 + h.n - h.m : h.n;
    double peak = -INFINITY, sum = 0;
    for (std::int64_t j = 0; j < end; ++j) {
      std::int32_t acc = 0;
      for (std::int64_t c = 0; c < h.d; ++c) acc += h.q[i * h.d + c] * h.k[j * h.d + c];
      score[j] = static_cast<double>(acc) * h.q_scale[i] * h.k_scale[j / h.block] * h.softmax_scale;
      if (!h.bias.empty()) score[j] += static_cast<double>(h.bias[i * h.n + j]);
      peak = std::max(peak, score[j]);
    }
    std::vector<double> row(static_cast<std::size_t>(h.dv));
    for (std::int64_t j = 0; j < end; ++j) {
      const double p = std::exp(score[j] - peak);
      sum += p;
      for (std::int64_t c = 0; c < h.dv; ++c) row[c] += p * h.v[j * h.dv + c] * h.v_scale[j];
    }
    for (std::int64_t c = 0; c < h.dv; ++c) {
      e.o.push_back(std::ldexp(row[c] / sum, h.channel_exponent.empty() ? 0 : h.channel_exponent[c]));
    }
    e.lse.push_back(peak + std::log(sum));
  }
  return e;
}

double sqnr_db(const Head& h, const Result& r, const Exact& e) {
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < h.m * h.dv; ++i) {
    const double o = static_cast<double>(r.codes[i]) * r.scale[i / h.dv];
    signal += e.o[i] * e.o[i], noise += (o - e.o[i]) * (o - e.o[i]);
  }
  return 10 * std::log10(signal / noise);
}

// --- The exponential.

TEST(IntegerExponential, IsWithinItsBoundMonotoneAndNeverWrapsOnEveryArgument) {
  std::uint16_t before = 32767;
  for (std::int32_t z = 0; z <= 65535; ++z) {
    const std::uint16_t w = S::exp2_u16(static_cast<std::uint16_t>(z));
    const double want = 32768 * std::exp2(-z / 1024.0);
    ASSERT_LE(std::fabs(w - want), 0.0031 * want + 0.5) << z;
    ASSERT_LE(w, before) << z;
    ASSERT_EQ(S::exp2_lifted(static_cast<std::uint32_t>(z) + S::kExp2Lift), w) << z;
    if (z >= 16 * 1024) {
      ASSERT_EQ(w, 0) << z;
    }
    before = w;
  }
  EXPECT_EQ(S::exp2_u16(0), 32767);
}

TEST(IntegerExponential, WeightOfEveryDistanceAndEveryReferenceOffsetIsTheExponentialAndItsCodeFitsAByte) {
  const S scheme{};
  for (std::int32_t offset = 0; offset < 64; ++offset) {
    const S::Step step{.origin = 1000 + offset, .fold = 0, .out = {}, .sum = {}};
    for (std::int32_t z = 0; z <= 65535; ++z) {
      const std::uint16_t w = scheme.weight(1000 - z, step);
      ASSERT_EQ(w, S::exp2_u16(static_cast<std::uint16_t>(std::min(z + offset, 65535))));
      const std::int32_t code = scheme.code(w);
      ASSERT_EQ(code, (255 * w + (1 << 14)) >> 15);
      ASSERT_LE(code, 255);
    }
  }
  EXPECT_EQ(scheme.code(32767), 255);
  const S::Step step{.origin = 0, .fold = 0, .out = {}, .sum = {}};
  EXPECT_EQ(scheme.weight(-2 * S::kFar, step), 0) << "a key as far as can be leaks";
}

// --- Distances.

/// The distance in 16-bit lanes as a kernel computes it: saturated, one high multiplication and one addition.
std::uint16_t distance_u16(std::int32_t below_peak, const S::View& v, const S::Key& key) {
  using L = ScalarLane;
  const std::int32_t limit = 65535 >> v.left;
  const std::int32_t r = std::min(below_peak, v.left ? limit : below_peak);
  const std::uint16_t r16 =
      v.left && below_peak > limit ? 65535 : L::to_u16_i32(((r + v.half) >> v.right) << v.left);
  return L::adds_u16(L::mulhi_u16(r16, static_cast<std::uint16_t>(v.multiplier >> 16)),
                     static_cast<std::uint16_t>(key.distance));
}

TEST(IntegerDistance, SixteenBitLanesGiveTheWeightsOfUnboundedArithmetic) {
  // note: without a bias the nearest key is at most 8 octaves from the largest accumulator's, so what
  // saturates (from 32 octaves on) has weight 0 anyway.
  std::mt19937_64 bits(5);
  const S scheme = S::prepare({});
  for (int trial = 0; trial < 200000; ++trial) {
    const float q =
        std::ldexp(1 + static_cast<float>(bits() % 1000) / 1000, static_cast<int>(bits() % 48) - 36);
    const S::Block block = scheme.block(1 + static_cast<float>(bits() % 100) / 100, 1);
    const std::int32_t peak = static_cast<std::int32_t>(bits() % 4129024);
    const S::View v = scheme.view(scheme.row(q), block, peak);
    const S::Key near = scheme.key({1, std::ldexp(1.0f, -static_cast<int>(bits() % 9))}, block);
    const S::Key key = scheme.key({1, std::ldexp(16.0f / 31, -static_cast<int>(bits() % 8))}, block);
    const std::int32_t below = static_cast<std::int32_t>(bits() % 8258048) >> (bits() % 23);
    const std::int32_t nearest =
        std::min(near.distance, static_cast<std::int32_t>(distance_u16(below, v, key)));
    const std::int32_t score = scheme.score(peak - below, v, key, 0);
    ASSERT_EQ(std::max(scheme.score(peak, v, near, 0), score), -nearest);
    const S::Step step{.origin = -nearest + 63, .fold = 0, .out = {}, .sum = {}};
    const std::int32_t narrow = distance_u16(below, v, key) - nearest + 63;
    ASSERT_EQ(scheme.weight(score, step), S::exp2_u16(static_cast<std::uint16_t>(std::min(narrow, 65535))))
        << "accumulator " << below << " below the largest, scale " << q;
  }
}

TEST(IntegerDistance, IsTheScoresDifferenceAtEveryScale) {
  const S scheme = S::prepare({});
  for (int e = -100; e < 60; ++e) {
    for (const float mantissa : {1.0f, 1.37f, 1.999f}) {
      const float q = std::ldexp(mantissa, e);
      const S::Block block = scheme.block(0.75f, 1);
      for (const std::int32_t below : {0, 1, 2, 3, 100, 12345, 4129024, 8258048}) {
        const std::int32_t peak = 4129024;
        const S::View v = scheme.view(scheme.row(q), block, peak);
        const double octave = static_cast<double>(q) * 0.75 * kLog2E * 1024;
        const double want = below * octave;
        const double got = -scheme.score(peak - below, v, {0, 16}, 0);
        if (want < S::kFar / 2) {
          ASSERT_NEAR(got, want, 1.5 + want * 0x1p-15) << q << " " << below;
        } else {  // saturated: 2^18 octaves or more
          ASSERT_GE(got, (S::kFar / 2) * (1 - 0x1p-15)) << q << " " << below;
          ASSERT_LE(got, S::kFar);
        }
        const double position = std::min(peak * octave, 0x1p40);
        ASSERT_NEAR(static_cast<double>(v.position), position, 0.5 + position * 0x1p-22) << q;
      }
    }
  }
}

// --- Constants and arithmetic.

TEST(IntegerArithmetic, SplitsEveryKindOfFloatExactly) {
  for (const float x : {0.0f, 1.0f, 0.1f, 0x1p-149f, 0x1.5p-130f, 0x1p-126f, 0x1.fffffep127f, 3.4e-41f}) {
    const integer::Scaled s = integer::split(x);
    EXPECT_EQ(std::ldexp(static_cast<double>(s.mantissa), s.exponent), static_cast<double>(x));
    EXPECT_TRUE(x == 0 ? s.mantissa == 0 : s.mantissa >= 1 << 23 && s.mantissa < 1 << 24) << x;
  }
}

TEST(IntegerArithmetic, RoundsShiftsAndLogarithms) {
  for (const std::int64_t x : {-5LL, -4LL, -3LL, 0LL, 1LL, 6LL, 123456789012345LL, -(1LL << 61)}) {
    for (int n = -1; n < 64; ++n) {
      if (n < 0 && std::abs(x) > 1LL << 60) continue;
      EXPECT_EQ(integer::shift_round(x, n),
                static_cast<std::int64_t>(std::floor(std::ldexp(static_cast<long double>(x), -n) + 0.5L)))
          << x << " >> " << n;
    }
  }
  std::mt19937_64 bits(1);
  for (int i = 0; i < 100000; ++i) {
    const std::int64_t x = static_cast<std::int64_t>((bits() >> 1) >> (bits() % 62)) | 1;
    ASSERT_NEAR(static_cast<double>(integer::log2_q24(x)) / (1 << 24), std::log2(static_cast<double>(x)),
                0x1p-22)
        << x;
    const integer::Scaled s = integer::normalised(x, 3, 31);
    ASSERT_TRUE(s.mantissa >= 1 << 30 && s.mantissa < 1LL << 31);
    ASSERT_NEAR(std::ldexp(static_cast<double>(s.mantissa), s.exponent - 3) / static_cast<double>(x), 1,
                0x1p-31);
  }
  EXPECT_EQ(integer::normalised((1LL << 40) - 1, 0, 31).mantissa, 1LL << 30) << "a carry stays below 2^31";
}

TEST(IntegerKey, MultiplierAndDistanceAreExactOnTheGrid) {
  const S scheme = S::prepare({});
  for (int e : {-126, -60, -1, 0, 40}) {
    for (int largest = 16; largest < 32; ++largest) {
      const S::Block block = scheme.block(1, std::ldexp(16.0f / static_cast<float>(largest), e));
      ASSERT_EQ(block.v_exponent, e) << "16 / " << largest;
      for (int octaves = 0; octaves <= 8; ++octaves) {
        for (int g = 16; g < 32 && (octaves < 8 || g <= largest); ++g) {
          if (e - octaves < -125) continue;
          const float v = std::ldexp(16.0f / static_cast<float>(g), e - octaves);
          const S::Key key = scheme.key({1, v}, block);
          ASSERT_TRUE(integer::on_grid(v));
          ASSERT_EQ(key.multiplier, g << octaves);
          ASSERT_EQ(key.distance, std::lround(1024 * (octaves + std::log2(g / 16.0))));
        }
      }
    }
  }
  for (const float off : {0.97f, -1.0f, INFINITY, NAN}) EXPECT_FALSE(integer::on_grid(off)) << off;
  EXPECT_EQ(scheme.key({1, 0}, scheme.block(1, 0)).multiplier, 16) << "a block of zeros";
}

// --- Bins and ranges.

TEST(IntegerRange, TheLargestSumsOfTwoToTheTwentyKeysFit) {
  // The largest mass (weight 32767, multiplier 7936) and the largest product (255 * 127) of every key, at the
  // largest shift and fold: 15 and 3922. In double, to see that nothing wrapped.
  for (const std::int64_t block : {1, 128, 65536}) {
    const std::int64_t blocks = (1 << 20) / block;
    const S scheme{};
    S::State state;
    S::Out out;
    S::Step step{.origin = 0,
                 .fold = 3922,
                 .out = integer::place(integer::kNoBin, 15),
                 .sum = integer::place(integer::kNoBin, 15)};
    for (std::int64_t i = 0; i < blocks; ++i) {
      scheme.fold(out, static_cast<std::int32_t>(-255 * 127 * block), step, {});
      state = scheme.absorb(state, step, block * 32767 * integer::kVLargest);
      step.out.moved = step.sum.moved = 0;
    }
    EXPECT_NEAR(static_cast<double>(out.total()) / (-255.0 * 127 * 3922 * 0x1p35), 1, 1e-12);
    EXPECT_NEAR(
        static_cast<double>(state.sum.total()) / (32767.0 * integer::kVLargest * 3922 / 4096 * 0x1p35), 1,
        1e-9);
  }
}

TEST(IntegerRange, ExtremeCodesAtHeadDimension256GiveTheirExactAnswer) {
  for (const int sign : {1, -1}) {
    Head h;
    h.m = 2, h.n = 3000, h.d = 256, h.dv = 8;
    h.softmax_scale = 1;
    h.q.assign(512, 127), h.k.assign(3000 * 256, static_cast<std::int8_t>(sign * 127));
    h.v.assign(3000 * 8, static_cast<std::int8_t>(-sign * 127));
    h.q_scale = {1e-3f, 1e3f}, h.k_scale.assign(24, 1), h.v_scale.assign(3000, 1);
    for (int c = 0; c < 8; ++c)
      std::fill_n(h.k.begin() + 256 * (40 * c + 1), 256, static_cast<std::int8_t>(-sign * 127));
    const Result r = attend(h);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(r.codes[i], -sign * 127);
      EXPECT_NEAR(r.scale[i / 8], 1, 0.003);
    }
  }
}

TEST(IntegerBins, RoomIsMadeForWhatIsAddedWhateverTheUnusedBinsHold) {
  std::mt19937_64 bits(31);
  const S scheme{};
  for (int trial = 0; trial < 3000; ++trial) {
    S::State state;
    S::Out folded, kept;
    for (std::int64_t& bin : kept.bin) bin = static_cast<std::int64_t>(bits());
    for (int block = 0; block < 12; ++block) {
      S::View view{};
      view.position = (static_cast<std::int64_t>(bits() % 100) - 50) << 10;
      const S::Step step = scheme.step(state, 0, view);
      const std::int32_t pv = static_cast<std::int32_t>(bits() % (1 << 26)) - (1 << 25);
      scheme.fold(folded, pv, step, {});
      const S::Into into = scheme.into(step);
      if (block == 0) {
        kept.bin[into.bin] = std::int64_t{pv} * into.factor;
      } else {
        if (into.opens) scheme.make_room(kept, into);
        kept.bin[into.bin] += std::int64_t{pv} * into.factor;
      }
      state = scheme.absorb(state, step, 1 << 20);
      if (block == 0) {
        ASSERT_EQ(scheme.only(pv, state).bin[0], folded.bin[0]);
      }
      for (int i = 0; i < integer::kBins; ++i) {
        const bool used = i < integer::kBins - state.out_unused;
        ASSERT_EQ(used ? kept.bin[i] : 0, folded.bin[i]) << "trial " << trial << ", block " << block;
      }
      ASSERT_EQ(kept.total(state.out_unused), folded.total());
    }
    S::Out other;
    S::State other_state = state, merged_state = state;
    other.bin[0] = 12345;
    for (int i = 1; i < integer::kBins; ++i) other.bin[i] = static_cast<std::int64_t>(bits());
    other_state.out_unused = integer::kBins - 1;
    S::merge_out(folded, S::State(state), other, other_state);
    S::merge_out(kept, state, other, other_state);
    merged_state = S::merge(state, other_state);
    ASSERT_EQ(kept.total(merged_state.out_unused), folded.total(merged_state.out_unused));
  }
}

// Terms in the order in which a row's key blocks come: octaves about one of them, now and then far away.
TEST(IntegerBins, AWindowAndTheOthersAddUpToTheTotal) {
  using integer::Window;
  std::mt19937_64 bits(31);
  int alone = 0, mixed_up = 0, with_upper = 0;
  constexpr int kTrials = 100000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int terms = 1 + static_cast<int>(bits() % 64),
              spread = 1 + static_cast<int>(bits() % (trial % 3 ? 6 : 40));
    const std::int32_t middle = static_cast<std::int32_t>(bits() % 200) - 100;
    const std::int32_t above = bits() % 4 == 0 ? 0 : Window::octaves_above(terms);
    integer::Bins<ScalarLane> bins;
    std::int32_t top = integer::kNoBin;
    Window row;
    std::int64_t window = 0, others[Window::kOthers];
    for (std::int64_t& other : others) other = static_cast<std::int64_t>(bits());
    for (int i = 0; i < terms && !row.mixed_up(); ++i) {
      const std::int32_t octave = middle + static_cast<std::int32_t>(bits() % static_cast<unsigned>(spread));
      const std::int32_t fold = integer::Folds{}.of[bits() % 16];
      const std::int32_t pv = (static_cast<std::int32_t>(bits() % 8290561) - 4145280) >> (bits() % 22);
      const integer::Place place = integer::place(top, octave);
      top = place.top;
      bins.move_down(place.moved);
      bins.add(place.slot, (std::int64_t{pv} * fold) << place.shift);

      const Window::Entry e = row.enter(octave >> 4, octave & 15, fold, above);
      if (e.moved > 0) {
        others[1] = e.moved == 1 ? others[0] : window;
        others[0] = window;
        window = 0;
      }
      ASSERT_TRUE(e.factor == 0 || e.other_factor == 0);
      window += std::int64_t{pv} * e.factor;
      if (e.opens) others[e.other] = 0;
      others[e.other] += std::int64_t{pv} * e.other_factor;
      ASSERT_LT(std::abs(window), std::int64_t{1} << 62);
    }
    mixed_up += row.mixed_up();
    if (row.mixed_up()) {
      ASSERT_GT(above, 0) << "there is no other way";
      continue;
    }
    with_upper += Window::is_lower(row.contents());
    alone += row.alone();
    ASSERT_EQ(Window::total(row.contents(), window, others), bins.total())
        << "trial " << trial << ", above " << above << ", " << terms << " terms from " << middle << ", "
        << spread;
    if (row.alone() && !Window::is_lower(row.contents())) {
      ASSERT_EQ(window, bins.total());
    }
  }
  EXPECT_GT(alone, kTrials / 2) << "it is for them";
  EXPECT_GT(with_upper, kTrials / 10);
  EXPECT_GT(mixed_up, kTrials / 100) << "no row was mixed up: nothing was tried";
}

TEST(IntegerBins, AnyOrderAndAnySplitGiveTheSameBits) {
  std::mt19937_64 bits(3);
  for (int trial = 0; trial < 300; ++trial) {
    struct Term {
      std::int64_t value;
      std::int32_t octave;
    };
    std::vector<Term> terms(40);
    for (Term& t : terms) {
      t = {static_cast<std::int64_t>(bits() % (1 << 30)) - (1 << 29),
           static_cast<std::int32_t>(bits() % 120) - 60};
    }
    const auto sum = [](const Term* first, const Term* last, std::int32_t& top) {
      integer::Bins<ScalarLane> b;
      for (top = integer::kNoBin; first != last; ++first) {
        const integer::Place p = integer::place(top, first->octave);
        b.move_down(p.moved);
        b.add(p.slot, first->value << p.shift);
        top = p.top;
      }
      return b;
    };
    std::int32_t top = 0;
    const auto whole = sum(terms.data(), terms.data() + 40, top);
    // The definition: terms of the three highest bins.
    std::int64_t want[3] = {};
    for (const Term& t : terms) {
      const int slot = top - (t.octave >> 4);
      if (slot < 3) want[slot] += t.value << (t.octave & 15);
    }
    for (int i = 0; i < 3; ++i) ASSERT_EQ(whole.bin[i], want[i]);
    std::shuffle(terms.begin(), terms.end(), bits);
    const auto cut = static_cast<std::ptrdiff_t>(bits() % 41);
    std::int32_t top_a = 0, top_b = 0;
    auto merged = sum(terms.data(), terms.data() + cut, top_a);
    const auto rest = sum(terms.data() + cut, terms.data() + 40, top_b);
    merged.merge(top_a, rest, top_b);
    ASSERT_EQ(std::max(top_a, top_b), top);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(merged.bin[i], whole.bin[i]);
  }
}

// --- Whole rows.

std::vector<std::map<std::string, std::vector<std::int64_t>>> model_cases() {
  std::ifstream file(std::string(OCTET_SOURCE_DIR) + "/tests/data/integer/cases.txt");
  std::vector<std::map<std::string, std::vector<std::int64_t>>> cases(1);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    if (!(in >> name)) {
      cases.emplace_back();
      continue;
    }
    for (std::int64_t x = 0; in >> x;) cases.back()[name].push_back(x);
  }
  cases.pop_back();
  return cases;
}

std::vector<float> floats(const std::vector<std::int64_t>& bits) {
  std::vector<float> x;
  for (const std::int64_t b : bits) x.push_back(float_of(static_cast<std::uint32_t>(b)));
  return x;
}

TEST(Integer, MatchesTheModelBitForBit) {
  auto cases = model_cases();
  ASSERT_EQ(cases.size(), 9u);
  for (std::size_t number = 0; number < cases.size(); ++number) {
    auto& c = cases[number];
    Head h;
    h.m = c["queries"][0], h.n = c["keys"][0], h.d = h.dv = c["dim"][0], h.block = c["block"][0];
    h.softmax_scale = floats(c["softmax_scale"])[0];
    h.q.assign(c["q"].begin(), c["q"].end()), h.k.assign(c["k"].begin(), c["k"].end());
    h.v.assign(c["v"].begin(), c["v"].end());
    h.q_scale = floats(c["q_scale"]), h.k_scale = floats(c["k_scale"]), h.v_scale = floats(c["v_scale"]);
    h.bias = floats(c["bias"]);
    h.channel_exponent.assign(c["channel_exponent"].begin(), c["channel_exponent"].end());
    const Result r = attend(h);
    for (std::int64_t i = 0; i < h.m * h.dv; ++i)
      ASSERT_EQ(r.codes[i], c["codes"][i]) << "case " << number << ", element " << i;
    for (std::int64_t i = 0; i < h.m; ++i) {
      const float scale = std::ldexp(1.0f, static_cast<int>(c["scale_exponent"][i]));
      ASSERT_EQ(r.scale[i], scale) << "case " << number << ", row " << i;
      const double ln2 = 0.693147180559945309417 / (1 << 24);
      ASSERT_EQ(r.lse[i], static_cast<float>(static_cast<double>(c["log2_sum"][i]) * ln2))
          << "case " << number << ", row " << i;
    }
  }
}

TEST(Integer, OrderOfTheKeyBlocksLeavesNoTrace) {
  for (const float scale : {1e-4f, 0.01f, 1.0f}) {
    const Head h = random_head(7, 333, 32, 16, scale, 11);
    const Result forward = attend(h);
    EXPECT_EQ(attend(h, Order::backward), forward) << scale;
    EXPECT_EQ(attend(h, Order::odd_then_even), forward) << scale;
  }
}

TEST(Integer, ARowAloneEqualsTheRowInItsBatch) {
  Head h = random_head(40, 200, 16, 32, 0.02f, 12);
  const Result all = attend(h);
  for (const std::int64_t row : {0, 31, 32, 39}) {
    Head one = h;
    one.m = 1;
    one.q.assign(h.q.begin() + row * 16, h.q.begin() + (row + 1) * 16);
    one.q_scale = {h.q_scale[row]};
    const Result r = attend(one);
    EXPECT_TRUE(std::equal(r.codes.begin(), r.codes.end(), all.codes.begin() + row * 16)) << "row " << row;
    EXPECT_EQ(r.scale[0], all.scale[row]);
    EXPECT_EQ(r.lse[0], all.lse[row]);
  }
}

TEST(Integer, SplitKeysMergedGiveTheBitsOfAllKeys) {
  // One row by hand, on two sets of key blocks, as two workers would.
  const Head h = random_head(1, 160, 16, 16, 0.03f, 13);
  const S scheme = S::prepare({.softmax_scale = h.softmax_scale, .options = {}});
  const S::Row row = scheme.row(h.q_scale[0]);
  struct Partial {
    S::State state;
    std::vector<S::Out> out = std::vector<S::Out>(16);
  };
  const auto visit = [&](Partial& p, std::int64_t number) {
    const float* v_scale = &h.v_scale[number * 16];
    const S::Block block = scheme.block(h.k_scale[number], *std::max_element(v_scale, v_scale + 16));
    std::int32_t acc[16] = {}, score[16], pv[16] = {};
    for (int j = 0; j < 16; ++j) {
      for (int c = 0; c < 16; ++c) acc[j] += h.q[c] * h.k[(number * 16 + j) * 16 + c];
    }
    const S::View v = scheme.view(row, block, *std::max_element(acc, acc + 16));
    for (int j = 0; j < 16; ++j) score[j] = scheme.score(acc[j], v, scheme.key({1, v_scale[j]}, block), 0);
    const S::Step step = scheme.step(p.state, *std::max_element(score, score + 16), v);
    S::Sum sum = 0;
    for (int j = 0; j < 16; ++j) {
      const std::uint16_t w = scheme.weight(score[j], step);
      sum += scheme.mass(w, 0, scheme.key({1, v_scale[j]}, block));
      for (int c = 0; c < 16; ++c) pv[c] += scheme.code(w) * h.v[(number * 16 + j) * 16 + c];
    }
    for (int c = 0; c < 16; ++c) scheme.fold(p.out[c], pv[c], step, {});
    p.state = scheme.absorb(p.state, step, sum);
  };
  const Result whole = attend(h);
  for (int mask = 1; mask < 1023; mask += 37) {
    Partial a, b;
    for (int number = 9; number >= 0; --number) visit((mask >> number) & 1 ? a : b, number);
    std::vector<S::Wide> wide;
    for (int c = 0; c < 16; ++c) a.out[c].merge(a.state.out_top, b.out[c], b.state.out_top);
    const S::State state = S::merge(a.state, b.state);
    for (int c = 0; c < 16; ++c) {
      wide.push_back(scheme.finish(a.out[c], state, row, scheme.channel({})));
    }
    S::Wide peak = wide[0];
    for (const S::Wide& w : wide) peak = scheme.larger(peak, w);
    const S::Ending ending = scheme.ending(state, row, peak);
    for (int c = 0; c < 16; ++c)
      ASSERT_EQ(scheme.output_code(wide[c], ending), whole.codes[c]) << "split " << mask;
    ASSERT_EQ(scheme.output_scale(ending), whole.scale[0]) << "split " << mask;
    ASSERT_EQ(scheme.lse(state, row), whole.lse[0]) << "split " << mask;
  }
}

TEST(Integer, MaskedKeysLeakAtNoScale) {
  for (int e = -40; e <= 40; e += 4) {
    Head h = random_head(4, 96, 16, 32, std::ldexp(1.0f, e), 14);
    h.bias.assign(4 * 96, 0);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = i; j < 96; j += 3) h.bias[i * 96 + j] = -INFINITY;
      for (std::int64_t j = 32; j < 64; ++j) h.bias[i * 96 + j] = -INFINITY;  // a whole block
    }
    const Result before = attend(h);
    Head changed = h;
    for (std::int64_t j = 32; j < 64; ++j) {
      for (std::int64_t c = 0; c < 16; ++c) changed.k[j * 16 + c] = h.q[c], changed.v[j * 16 + c] = 127;
    }
    for (std::int64_t i = 0; i < 4; ++i) {  // one row at a time: keys hidden from it take the largest scores
      Head row = changed;
      for (std::int64_t j = i; j < 96; j += 3) {
        for (std::int64_t c = 0; c < 16; ++c) {
          row.k[j * 16 + c] = static_cast<std::int8_t>(h.q[i * 16 + c] < 0 ? -127 : 127);
          row.v[j * 16 + c] = -127;
        }
      }
      const Result after = attend(row);
      ASSERT_TRUE(std::equal(&after.codes[i * 16], &after.codes[i * 16] + 16, &before.codes[i * 16]))
          << "scale 2^" << e;
      ASSERT_EQ(after.scale[i], before.scale[i]) << "scale 2^" << e;
      ASSERT_EQ(after.lse[i], before.lse[i]) << "scale 2^" << e;
    }
  }
}

TEST(Integer, CoreIsAccurateOnItsCodesForEveryScaleOfTheScores) {
  // Against double on the same codes: what the core adds. Products of absolute maxima from far below 1e-3 to
  // above 1e5.
  for (int e = -30; e <= 15; e += 3) {
    const Head h = random_head(16, 400, 64, 128, std::ldexp(0.125f, e), 15);
    const Exact want = exact(h);
    const Result got = attend(h);
    EXPECT_GE(sqnr_db(h, got, want), 33) << "softmax_scale 2^" << e - 3;
    for (std::int64_t i = 0; i < h.m; ++i) {
      EXPECT_NEAR(got.lse[i], want.lse[i], 0.006 + std::fabs(want.lse[i]) * 0x1p-22)
          << "softmax_scale 2^" << e - 3;
    }
  }
}

TEST(Integer, BiasIsAddedWhereverItPutsTheWinner) {
  // Biases of hundreds of octaves: the key with the largest accumulator is not the nearest, and by far.
  for (const float spread : {1.0f, 30.0f, 300.0f, 1e5f}) {
    Head h = random_head(8, 130, 32, 64, 0.01f, 16);
    std::mt19937_64 bits(17);
    for (std::int64_t i = 0; i < 8 * 130; ++i) {
      h.bias.push_back(spread * (static_cast<float>(bits() % 2001) / 1000 - 1));
    }
    EXPECT_GE(sqnr_db(h, attend(h), exact(h)), 33) << spread;
  }
}

TEST(Integer, PowersOfTwoInVPassThroughExactly) {
  Head h = random_head(5, 100, 16, 32, 0.02f, 18);
  const Result before = attend(h);
  for (const int e : {-60, -1, 7, 50}) {
    Head scaled = h;
    for (float& s : scaled.v_scale) s = std::ldexp(s, e);
    Result after = attend(scaled);
    for (float& s : after.scale) s = std::ldexp(s, -e);
    EXPECT_EQ(after, before) << "V times 2^" << e;
    scaled = h;
    scaled.channel_exponent.assign(16, e);
    after = attend(scaled);
    for (float& s : after.scale) s = std::ldexp(s, -e);
    EXPECT_EQ(after, before) << "channels times 2^" << e;
  }
}

TEST(Integer, ZerosAndHiddenRowsEndInZeros) {
  Head h = random_head(3, 64, 16, 32, 0.02f, 19);
  h.q_scale[1] = 0;  // a zero row: all scores equal
  std::fill_n(h.q.begin() + 16, 16, std::int8_t{0});
  EXPECT_NEAR(attend(h).lse[1], std::log(64.0f), 0.004f);
  std::fill(h.v.begin(), h.v.end(), std::int8_t{0});
  std::fill(h.v_scale.begin(), h.v_scale.end(), 0.0f);
  const Result zero = attend(h);
  EXPECT_TRUE(std::all_of(zero.codes.begin(), zero.codes.end(), [](int c) { return c == 0; }));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(zero.scale[i] == 0 && std::isfinite(zero.lse[i])) << "row " << i;
  h.bias.assign(3 * 64, 0);
  std::fill_n(h.bias.begin() + 64, 64, -INFINITY);
  EXPECT_EQ(attend(h).lse[1], -INFINITY);
}

TEST(Integer, AKeyWhoseVIsZeroKeepsItsMass) {
  // A sink with V = 0 takes half of the mass: its scale is the floor, eight octaves below its block's
  // largest.
  Head h = random_head(1, 8, 16, 8, 1, 20);
  std::fill(h.k.begin(), h.k.end(), std::int8_t{0});
  std::fill(h.v_scale.begin(), h.v_scale.end(), 1.0f);
  std::fill_n(h.v.begin(), 16, std::int8_t{0});
  h.v_scale[0] = 1.0f / 256;
  h.bias.assign(8, 0);
  h.bias[0] = std::log(7.0f);
  EXPECT_NEAR(attend(h).lse[0], std::log(14.0f), 0.006);
  EXPECT_GE(sqnr_db(h, attend(h), exact(h)), 38);
}

TEST(Integer, ChannelsOfVeryUnevenScaleKeepTheLargestAccurate) {
  Head h = random_head(4, 90, 16, 32, 0.02f, 21);
  for (int c = 0; c < 16; ++c) h.channel_exponent.push_back(c == 3 ? 20 : -40 + 4 * c);
  EXPECT_GE(sqnr_db(h, attend(h), exact(h)), 38);
}

}  // namespace
}  // namespace octet
