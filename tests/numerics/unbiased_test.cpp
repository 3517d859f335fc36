// Forms of schemes without a bias (numerics/unbiased.h) beside the schemes themselves, one row over several
// key blocks.
#include "numerics/unbiased.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "lanes/scalar.h"
#include "numerics/int8.h"
#include "numerics/int8_full.h"
#include "numerics/late_u8.h"

namespace octet {
namespace {

constexpr int kBlocksOfRow = 5, kKeysOfBlock = 64;

/// Sums of Q K^T, scales of K by token and codes of V of one channel.
struct BlockOfKeys {
  std::vector<std::int32_t> acc, v;
  std::vector<float> scale;
};
std::vector<BlockOfKeys> random_keys(double octaves) {
  std::mt19937_64 bits{11};
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<BlockOfKeys> blocks(kBlocksOfRow);
  for (BlockOfKeys& keys : blocks) {
    for (int j = 0; j < kKeysOfBlock; ++j) {
      keys.acc.push_back(static_cast<std::int32_t>(std::lround(20000 * unit(bits))));
      keys.v.push_back(static_cast<std::int32_t>(std::lround(127 * unit(bits))));
      keys.scale.push_back(static_cast<float>(octaves / 20000 * (1 + 0.4 * unit(bits))));
    }
  }
  return blocks;
}

struct OutAndLse {
  double out, lse;
};

/// Whether a key block of which the row sees nothing stands before each of the others.
enum class Between : std::int32_t { nothing, blind_blocks };

/// The contract's loop, without a GPU's or a vector's lanes. q_scale: of the row.
template <class S>
OutAndLse run_form(const S& scheme, const std::vector<BlockOfKeys>& blocks, float q_scale,
                   Between between = Between::nothing) {
  const typename S::Row row = scheme.row(q_scale);
  typename S::State state{};
  typename S::Out out{};
  const typename S::Channel unit = scheme.channel({1.0f, 0});
  for (const BlockOfKeys& keys : blocks) {
    const typename S::Block block = scheme.block(1.0f);
    const typename S::View view = scheme.view(row, block, {});
    if constexpr (requires { scheme.blind_step(state, 0.0f, view); }) {
      if (between == Between::blind_blocks) {
        const typename S::Step blind = scheme.blind_step(state, -INFINITY, view);
        EXPECT_EQ(scheme.weight(-INFINITY, blind), 0);
        scheme.fold(out, {}, blind, unit);
        state = scheme.absorb(state, blind, 0);
      }
    }
    std::vector<typename S::Key> key;
    std::vector<float> score;
    float peak = -INFINITY;
    for (int j = 0; j < kKeysOfBlock; ++j) {
      KeyScales<ScalarLane> scales;
      scales.k = keys.scale[static_cast<std::size_t>(j)], scales.v = 1.0f;
      key.push_back(scheme.key(scales, block));
      score.push_back(scheme.score(keys.acc[static_cast<std::size_t>(j)], view, key.back(), scheme.bias(0)));
      peak = std::max(peak, score.back());
    }
    const typename S::Step step = scheme.step(state, peak, view);
    typename S::PvAcc pv{};
    typename S::Sum sum{};
    for (std::size_t j = 0; j < kKeysOfBlock; ++j) {
      const auto weight = scheme.weight(score[j], step);
      const auto code = scheme.code(weight);
      pv += static_cast<typename S::PvAcc>(code) * static_cast<typename S::PvAcc>(keys.v[j]);
      sum += scheme.mass(weight, code, key[j]);
    }
    scheme.fold(out, pv, step, unit);
    state = scheme.absorb(state, step, sum);
  }
  return {double{scheme.finish(out, state, row, unit)}, double{scheme.lse(state, row)}};
}

template <class Form, class S>
void expect_the_same(double code_step) {
  Prepare prepare;
  prepare.softmax_scale = 0.125f;
  for (double octaves : {0.01, 1.0, 8.0, 60.0}) {
    const std::vector<BlockOfKeys> blocks = random_keys(octaves);
    const float q_scale = static_cast<float>(8 / kLog2E);
    const OutAndLse want = run_form(S::prepare(prepare), blocks, q_scale);
    const OutAndLse got = run_form(Form::prepare(prepare), blocks, q_scale);
    // Codes that fall on the other side of a tie: a few of all the row's, each one step of 127.
    EXPECT_NEAR(got.out, want.out, code_step * 127) << octaves << " octaves";
    EXPECT_NEAR(got.lse, want.lse, 1e-5 * std::max(1.0, std::fabs(want.lse))) << octaves << " octaves";
  }
}

TEST(Unbiased, HasTheSchemesBits) {
  using S = Int8FullScheme<ScalarLane>;
  expect_the_same<Unbiased<S>, S>(0);
}

// Codes are the scheme's; sums are added in the unit of another key block, up to 2^32 times as large.
TEST(Unbiased, DiffersByRoundingsOfSumsWhereRescalingIsPutOff) {
  using S = Int8Scheme<ScalarLane>;
  constexpr double kOfCodes = 1.0 / 255 / kKeysOfBlock / kBlocksOfRow;
  expect_the_same<Unbiased<S>, S>(kOfCodes / 100);
}

TEST(LateScaled, DiffersByRoundingsOfScores) {
  expect_the_same<LateScaled<Int8FullScheme<ScalarLane>>, Int8FullScheme<ScalarLane>>(2.0 / 127 /
                                                                                      kKeysOfBlock);
  expect_the_same<LateScaled<Int8HalfScheme<ScalarLane>>, Int8HalfScheme<ScalarLane>>(0x1p-11);
  expect_the_same<LateU8<ScalarLane>, Int8Scheme<ScalarLane>>(2.0 / 255 / kKeysOfBlock);
}

template <class Form>
void expect_blind_blocks_to_add_nothing() {
  Prepare prepare;
  prepare.softmax_scale = 0.125f;
  for (double octaves : {0.01, 1.0, 60.0}) {
    const std::vector<BlockOfKeys> blocks = random_keys(octaves);
    const Form form = Form::prepare(prepare);
    const OutAndLse want = run_form(form, blocks, 1.0f);
    const OutAndLse got = run_form(form, blocks, 1.0f, Between::blind_blocks);
    EXPECT_EQ(got.out, want.out) << octaves << " octaves";
    EXPECT_EQ(got.lse, want.lse) << octaves << " octaves";
  }
}

TEST(Unbiased, TakesRowsThatSeeNoKeyOfABlock) {
  expect_blind_blocks_to_add_nothing<Unbiased<Int8Scheme<ScalarLane>>>();
  expect_blind_blocks_to_add_nothing<Unbiased<Int8ShiftScheme<ScalarLane>>>();
}

TEST(LateScaled, TakesRowsThatSeeNoKeyOfABlock) {
  expect_blind_blocks_to_add_nothing<LateScaled<Int8FullScheme<ScalarLane>>>();
  expect_blind_blocks_to_add_nothing<LateScaled<Int8HalfScheme<ScalarLane>>>();
}

// A query of zeros has the scale 0: all keys weigh the same, hidden ones nothing.
TEST(LateScaled, TakesQueriesOfZeros) {
  using S = LateScaled<Int8FullScheme<ScalarLane>>;
  const S scheme = S::prepare({});
  const S::Row row = scheme.row(0);
  const S::View view = scheme.view(row, {}, 0);
  const S::Step step = scheme.step({}, 3.0f, view);
  EXPECT_EQ(scheme.code(scheme.weight(3.0f, step)), 127);
  EXPECT_EQ(scheme.code(scheme.weight(-5.0f, step)), 127);
  EXPECT_EQ(scheme.weight(-INFINITY, step), 0);
}

}  // namespace
}  // namespace octet
