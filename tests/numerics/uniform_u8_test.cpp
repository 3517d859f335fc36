// The form of `int8` for scales that keys share (numerics/uniform_u8.h) beside the scheme itself, one row
// over several key blocks.
#include "numerics/uniform_u8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "lanes/scalar.h"

namespace octet {
namespace {

using Folded = FoldedU8<ScalarLane, AccurateExponential>;
using Uniform = UniformU8<ScalarLane>;

/// Sums of Q K^T and codes of V of one channel; a scale of K for each block.
struct Row {
  std::vector<std::vector<std::int32_t>> acc, v;
  std::vector<float> scale;
};
struct Result {
  double out, lse;
};

class Random {
 public:
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_() >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 bits_{5};
};

Row random_row(Random& random, double spread, double octaves) {
  constexpr int kBlocks = 7, kKeys = 64;
  Row row;
  for (int b = 0; b < kBlocks; ++b) {
    std::vector<std::int32_t> acc(kKeys), v(kKeys);
    for (int j = 0; j < kKeys; ++j) {
      acc[j] = static_cast<std::int32_t>(std::lround(random.uniform(-spread, spread)));
      v[j] = static_cast<std::int32_t>(std::lround(random.uniform(-127, 127)));
    }
    row.acc.push_back(acc), row.v.push_back(v);
    row.scale.push_back(static_cast<float>(octaves / spread * random.uniform(0.5, 1.5)));
  }
  return row;
}

Result exact(const Row& row) {
  double peak = -INFINITY, sum = 0, out = 0;
  const auto score = [&](std::size_t b, std::size_t j) { return double{row.scale[b]} * row.acc[b][j]; };
  for (std::size_t b = 0; b < row.acc.size(); ++b)
    for (std::size_t j = 0; j < row.acc[b].size(); ++j) peak = std::max(peak, score(b, j));
  for (std::size_t b = 0; b < row.acc.size(); ++b)
    for (std::size_t j = 0; j < row.acc[b].size(); ++j) {
      const double weight = std::exp2(score(b, j) - peak);
      sum += weight, out += weight * row.v[b][j];
    }
  return {out / sum, (peak + std::log2(sum)) * std::log(2)};
}

/// The contract's loop; start: what sums of Q K^T start from.
template <class S>
Result attend(const Row& row, std::int32_t start) {
  const S scheme{{kLog2E / kLog2E}};  // scores in octaves as they are
  const auto of_row = scheme.row(1);
  typename S::State state;
  typename S::Out out = 0;
  for (std::size_t b = 0; b < row.acc.size(); ++b) {
    const auto block = scheme.block(row.scale[b]);
    const auto key = scheme.key({row.scale[b], 1}, block);
    const auto view = scheme.view(of_row, block, 0);
    std::vector<typename S::Score> score;
    for (const std::int32_t acc : row.acc[b])
      score.push_back(scheme.score(acc + start, view, key, scheme.bias(0)));
    const auto step = scheme.step(state, *std::max_element(score.begin(), score.end()), view);
    std::int32_t pv = 0;
    typename S::Sum sum = 0;
    for (std::size_t j = 0; j < score.size(); ++j) {
      const auto weight = scheme.weight(score[j], step);
      const auto code = scheme.code(weight);
      EXPECT_LE(code, 255);
      pv += code * row.v[b][j], sum += scheme.mass(weight, code, key);
    }
    scheme.fold(out, pv, step, scheme.channel({}));
    state = scheme.absorb(state, step, sum);
  }
  return {scheme.finish(out, state, of_row, scheme.channel({})), scheme.lse(state, of_row)};
}

/// The start's share of the origin is rounded to a large part of what sums of few bits count, and given back.
TEST(UniformU8, HasTheErrorsOfInt8) {
  Random random;
  for (const double spread : {60.0, 700.0, 20000.0, 1e6}) {
    double of_folded = 0, of_uniform = 0;
    constexpr int kRows = 200;
    for (int i = 0; i < kRows; ++i) {
      const Row row = random_row(random, spread, random.uniform(0.1, 30));
      const Result want = exact(row), folded = attend<Folded>(row, 0),
                   uniform = attend<Uniform>(row, Uniform::kStart);
      EXPECT_NEAR(uniform.lse, want.lse, 2e-5) << spread;
      EXPECT_NEAR(folded.lse, want.lse, 2e-5) << spread;
      of_folded += (folded.out - want.out) * (folded.out - want.out);
      of_uniform += (uniform.out - want.out) * (uniform.out - want.out);
    }
    EXPECT_LE(std::sqrt(of_uniform / kRows), 1.2 * std::sqrt(of_folded / kRows) + 1e-4) << spread;
  }
}

/// A block of zeros has the slope 0.
TEST(UniformU8, TakesKeysOfZeros) {
  Row row{{std::vector<std::int32_t>(64, 0)}, {std::vector<std::int32_t>(64, 3)}, {0.0f}};
  const Result got = attend<Uniform>(row, Uniform::kStart);
  EXPECT_NEAR(got.out, 3, 1e-5);
  EXPECT_NEAR(got.lse, std::log(64), 1e-5);
}

/// Whatever the slope, 0 and the largest among them, and in a block of hidden keys too.
TEST(UniformU8, HiddenKeysWeighNothing) {
  Prepare problem;
  problem.softmax_scale = 1;
  const Uniform scheme = Uniform::prepare(problem);
  for (const float k_scale : {0.0f, 0x1p-149f, 0x1p-126f, 1e-20f, 1e-3f, 1.0f, 1e6f}) {
    const auto block = scheme.block(k_scale);
    const auto view = scheme.view(scheme.row(1), block, 0);
    for (const std::int32_t peak : {Uniform::kStart - 1000, Uniform::kStart, Uniform::kStart + (1 << 22)}) {
      EXPECT_LT(Uniform::kHiddenScore, peak);
      const auto step = scheme.step({}, peak, view);
      EXPECT_EQ(scheme.weight(Uniform::kHiddenScore, step), 0) << k_scale << " " << peak;
    }
    const auto none = scheme.step({}, Uniform::kHiddenScore, view);
    EXPECT_EQ(scheme.weight(Uniform::kHiddenScore, none), 0) << k_scale;
  }
}

}  // namespace
}  // namespace octet
