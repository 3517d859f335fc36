// Weights that do not wait for their block's largest score (numerics/early.h), beside the scheme's own: one
// row whose reference comes from its first keys, which lie near the others or far from them.
#include "numerics/early.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lanes/scalar.h"
#include "numerics/int8.h"

namespace octet {
namespace {

/// A lane with an exponential of its own, as the GPU's is: the unit of weights then lies in the exponent.
struct LaneWithExp2 : ScalarLane {
  static float exp2(float x) { return std::exp2(x); }
};
using Waiting = Int8Scheme<LaneWithExp2>;

constexpr std::size_t kBlocksOfRow = 4, kKeysOfBlock = 128, kFirstKeys = 8;

struct KeyOfRow {
  std::int32_t acc, v;  ///< sum of Q K^T, code of V of one channel
  KeyScales<LaneWithExp2> scales;
};
/// largest: octaves of scores at most; first_times: those of the first keys times this.
std::vector<KeyOfRow> random_row(double largest, double first_times, float first_v_scale) {
  std::mt19937_64 bits{7};
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<KeyOfRow> keys(kBlocksOfRow * kKeysOfBlock);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    const bool is_first = j < kFirstKeys;
    keys[j].acc = static_cast<std::int32_t>(std::lround(20000 * unit(bits)));
    keys[j].v = static_cast<std::int32_t>(std::lround(127 * unit(bits)));
    keys[j].scales.k = static_cast<float>(largest / 20000 * (is_first ? first_times : 1));
    keys[j].scales.v = is_first ? first_v_scale : static_cast<float>(std::exp2(unit(bits)));
  }
  return keys;
}

Prepare plain() {
  Prepare prepare;
  prepare.softmax_scale = 1;
  return prepare;
}

/// Of the row, so that its scores are in octaves.
constexpr float kQScale = static_cast<float>(1 / kLog2E);

struct RowEnds {
  double out, lse;
};

template <class S>
RowEnds ends(const S& scheme, typename S::Out out, const typename S::State& state,
             const typename S::Row& row) {
  return {double{scheme.finish(out, state, row, scheme.channel({}))}, double{scheme.lse(state, row)}};
}

RowEnds run_waiting(const std::vector<KeyOfRow>& keys) {
  const Waiting scheme = Waiting::prepare(plain());
  const Waiting::Row row = scheme.row(kQScale);
  Waiting::State state{};
  Waiting::Out out{};
  for (std::size_t begin = 0; begin < keys.size(); begin += kKeysOfBlock) {
    std::vector<float> score;
    for (std::size_t j = begin; j < begin + kKeysOfBlock; ++j)
      score.push_back(scheme.score(keys[j].acc, row, scheme.key(keys[j].scales, {}), 0));
    const Waiting::Step step = scheme.step(state, *std::max_element(score.begin(), score.end()), row);
    std::int32_t pv = 0;
    float sum = 0;
    for (std::size_t j = 0; j < kKeysOfBlock; ++j) {
      const KeyOfRow& key = keys[begin + j];
      const float weight = scheme.weight(score[j], step);
      pv += scheme.code(weight) * key.v;
      sum += scheme.mass(weight, 0, scheme.key(key.scales, {}));
    }
    scheme.fold(out, pv, step, scheme.channel({}));
    state = scheme.absorb(state, step, sum);
  }
  return ends(scheme, out, state, row);
}

/// As wgmma/early_weights.cuh goes through a row; nothing where the row is to be computed without these.
std::optional<RowEnds> run_early(const std::vector<KeyOfRow>& keys) {
  using E = Early<Waiting>;
  const E scheme = E::prepare(plain());
  const E::Row row = scheme.row(kQScale);
  const auto exponent = [&](std::size_t j, float lift) {
    return scheme.exponent(keys[j].acc, row, scheme.key(keys[j].scales, {}), lift);
  };
  E::State state{exponent(0, 0), 0};
  for (std::size_t j = 1; j < kFirstKeys; ++j) state.reference = std::max(state.reference, exponent(j, 0));
  state.reference += E::kAboveFirstKeys;
  const float lift = scheme.lift(state, scheme.rslope(row));
  float out = 0;
  for (std::size_t begin = 0; begin < keys.size(); begin += kKeysOfBlock) {
    float largest = -INFINITY;
    for (std::size_t j = begin; j < begin + kKeysOfBlock; ++j) largest = std::max(largest, exponent(j, lift));
    const float above = scheme.above(largest);
    if (!(above <= E::kMostAbove)) return std::nullopt;
    std::int32_t pv = 0;
    for (std::size_t j = begin; j < begin + kKeysOfBlock; ++j) {
      const float weight = scheme.early_weight(exponent(j, lift));
      pv += scheme.code(weight * scheme.early_weight(-above)) * keys[j].v;
      state.sum += scheme.mass(weight, 0, scheme.key(keys[j].scales, {}));
    }
    out += static_cast<float>(pv) * scheme.early_weight(above);
  }
  return ends(scheme, out, state, row);
}

/// Of the row's rounding of exponents, three of them at most, up to `largest` plus the unit's octaves; no
/// code of these rows falls on the other side of a tie.
double tolerance(double largest, float first_v_scale) {
  return (largest + kWeightUnitOctaves) * 0x1p-22 * 127 * std::max(2.0, double{first_v_scale});
}

void expect_the_schemes(double largest, double first_times, float first_v_scale) {
  const std::string what = std::to_string(largest) + " octaves, of the first keys times " +
                           std::to_string(first_times) + ", their V " + std::to_string(first_v_scale);
  const std::vector<KeyOfRow> keys = random_row(largest, first_times, first_v_scale);
  const std::optional<RowEnds> got = run_early(keys);
  ASSERT_TRUE(got) << what;
  const RowEnds want = run_waiting(keys);
  EXPECT_NEAR(got->out, want.out, tolerance(largest, first_v_scale)) << what;
  EXPECT_NEAR(got->lse, want.lse, 1e-5 * std::max(1.0, std::fabs(want.lse))) << what;
}

TEST(Early, AnyOfTheBlocksKeysIsAReference) {
  for (double largest : {0.01, 1.0, 8.0, 40.0, 120.0})
    for (double first_times : {0.01, 1.0, 2.0}) expect_the_schemes(largest, first_times, 1);
}

TEST(Early, KeysWhoseVAreZerosSmallOrLargeAreAReferenceToo) {
  for (float v : {0.0f, 0x1p-20f, 0x1p20f}) expect_the_schemes(8, 1, v);
}

TEST(Early, SaysThatARowIsFarFromItsFirstKeys) {
  EXPECT_FALSE(run_early(random_row(200, 0.01, 1))) << "scores 200 octaves above the first keys'";
  EXPECT_FALSE(run_early(random_row(60, 0.01, 0x1p-95f))) << "60, and V 95 octaves above the first keys'";
  EXPECT_TRUE(run_early(random_row(200, 2, 1))) << "scores below the first keys'";
}

}  // namespace
}  // namespace octet
