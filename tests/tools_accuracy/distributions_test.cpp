// The generator of the accuracy tables' inputs: each kind is what its formula says.
#include "accuracy/distributions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace octet::tool {
namespace {

DataSpec spec_of(Distribution kind, std::int64_t queries = 64, std::int64_t keys = 2048) {
  DataSpec spec;
  spec.kind = kind, spec.queries = queries, spec.keys = keys, spec.dim = 64, spec.seed = 7;
  return spec;
}

struct Moments {
  double mean = 0, deviation = 0, kurtosis = 0;
};
Moments moments_of(const std::vector<float>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const float v : x) m.mean += v / n;
  double fourth = 0;
  for (const float v : x) {
    const double d = v - m.mean;
    m.deviation += d * d / n, fourth += d * d * d * d / n;
  }
  m.kurtosis = fourth / (m.deviation * m.deviation);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

double score(const Data& x, const DataSpec& s, std::int64_t query, std::int64_t key) {
  double sum = 0;
  for (std::int64_t c = 0; c < s.dim; ++c)
    sum += double{x.q[static_cast<std::size_t>(query * s.dim + c)]} *
           double{x.k[static_cast<std::size_t>(key * s.dim + c)]};
  return sum / std::sqrt(static_cast<double>(s.dim));
}

/// Root mean square of rows (tokens) of v, or of columns (channels).
enum class Axis { token, channel };
std::vector<double> log_norms(const std::vector<float>& v, std::int64_t dim, Axis axis) {
  const std::int64_t tokens = static_cast<std::int64_t>(v.size()) / dim;
  std::vector<double> squares(static_cast<std::size_t>(axis == Axis::token ? tokens : dim));
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t c = 0; c < dim; ++c) {
      const double x = v[static_cast<std::size_t>(t * dim + c)];
      squares[static_cast<std::size_t>(axis == Axis::token ? t : c)] += x * x;
    }
  for (double& s : squares) s = 0.5 * std::log(s);
  return squares;
}
double deviation(const std::vector<double>& x) {
  return moments_of(std::vector<float>(x.begin(), x.end())).deviation;
}

TEST(Distributions, NormalHasTheMomentsOfN01) {
  const Data x = generate(spec_of(Distribution::normal));
  const Moments m = moments_of(x.k);  // 131072 numbers: four standard errors are 0.011, 0.008 and 0.054
  EXPECT_NEAR(m.mean, 0, 0.011);
  EXPECT_NEAR(m.deviation, 1, 0.008);
  EXPECT_NEAR(m.kurtosis, 3, 0.054);
}

TEST(Distributions, UniformKindsKeepToTheirRange) {
  const Data x = generate(spec_of(Distribution::uniform)), u = generate(spec_of(Distribution::u4)),
             p = generate(spec_of(Distribution::positive));
  for (const float v : x.v) ASSERT_LE(std::fabs(v), 0.5f);
  for (const float v : u.v) ASSERT_LE(std::fabs(v), 4.0f);
  for (const float v : p.v) ASSERT_GE(v, 0.0f);
  EXPECT_NEAR(moments_of(x.k).deviation, 1 / std::sqrt(12.0), 0.003);
  EXPECT_NEAR(moments_of(u.k).deviation, 8 / std::sqrt(12.0), 0.02);
  EXPECT_NEAR(moments_of(p.k).mean, 0.5, 0.004);
}

TEST(Distributions, OutliersComeOnceInAThousandAndAreTenTimesAsLarge) {
  const Data x = generate(spec_of(Distribution::outlier));
  for (const auto* m : {&x.k, &x.v}) {
    // |N| > 5.5 happens once in 2.6e7; of the outliers N(0, 101), 58 % are that large.
    const auto large = std::count_if(m->begin(), m->end(), [](float v) { return std::fabs(v) > 5.5f; });
    EXPECT_NEAR(static_cast<double>(large), 0.001 * 0.584 * static_cast<double>(m->size()), 35);
  }
}

TEST(Distributions, SinkScoresEightNatsForEveryQueryAndHasASmallValue) {
  const DataSpec s = spec_of(Distribution::sink);
  const Data x = generate(s);
  double others = 0;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    EXPECT_NEAR(score(x, s, i, 0), 8, 1e-4) << "query " << i;
    for (std::int64_t j = 1; j < s.keys; ++j) others += score(x, s, i, j);
  }
  EXPECT_NEAR(others / static_cast<double>(s.queries * (s.keys - 1)), 0, 0.1);
  const std::vector<double> norms = log_norms(x.v, s.dim, Axis::token);
  EXPECT_NEAR(norms[0] - norms[1], std::log(.05), 0.5);
}

TEST(Distributions, NeedleScoresTwelveAndAHalfNatsAndTheRestNothing) {
  const DataSpec s = spec_of(Distribution::needle);
  const Data x = generate(s);
  double largest_other = 0, needle = 0;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    needle += score(x, s, i, s.keys / 3) / static_cast<double>(s.queries);
    for (std::int64_t j = 0; j < s.keys; ++j)
      if (j != s.keys / 3) largest_other = std::max(largest_other, std::fabs(score(x, s, i, j)));
  }
  EXPECT_NEAR(needle, 12.5, 0.1);  // each query adds 0.05 N along the needle: 0.125 N nats
  EXPECT_LT(largest_other, 0.1);
}

TEST(Distributions, TokensAndChannelsOfVSpreadByEToOneAndAHalf) {
  const DataSpec t = spec_of(Distribution::vtoken), c = spec_of(Distribution::vchannel);
  EXPECT_NEAR(deviation(log_norms(generate(t).v, t.dim, Axis::token)), 1.5, 0.1);
  EXPECT_LT(deviation(log_norms(generate(t).v, t.dim, Axis::channel)), 0.4);
  EXPECT_NEAR(deviation(log_norms(generate(c).v, c.dim, Axis::channel)), 1.5, 0.55);  // of 64 channels
  EXPECT_LT(deviation(log_norms(generate(c).v, c.dim, Axis::token)), 0.6);
}

TEST(Distributions, MixedHasUnevenTokensAndBiasedChannels) {
  const DataSpec s = spec_of(Distribution::mixed);
  const Data x = generate(s);
  EXPECT_NEAR(deviation(log_norms(x.v, s.dim, Axis::token)), 1, 0.1);
  std::vector<double> means(static_cast<std::size_t>(s.dim));
  for (std::size_t i = 0; i < x.k.size(); ++i)
    means[i % means.size()] += x.k[i] / static_cast<double>(s.keys);
  EXPECT_NEAR(deviation(means), 2, 0.7);
}

TEST(Distributions, ScalesOfSharpTinyAndHuge) {
  EXPECT_NEAR(moments_of(generate(spec_of(Distribution::sharp)).q).deviation, 4, 0.2);
  EXPECT_NEAR(moments_of(generate(spec_of(Distribution::tiny)).v).deviation, 1e-3, 1e-5);
  EXPECT_NEAR(moments_of(generate(spec_of(Distribution::huge)).k).deviation, 300, 3);
}

TEST(Distributions, ASeedGivesTheSameNumbersAndAnotherOneOthers) {
  for (int kind = 0; kind < kDistributions; ++kind) {
    DataSpec s = spec_of(static_cast<Distribution>(kind), 4, 32);
    const Data first = generate(s), again = generate(s);
    EXPECT_EQ(first.k, again.k) << name_of(s.kind);
    ++s.seed;
    EXPECT_NE(first.k, generate(s).k) << name_of(s.kind);
  }
}

TEST(Distributions, TheFirstKeysAreTheSameAtEveryLength) {
  const Data shorter = generate(spec_of(Distribution::vtoken, 4, 32)),
             longer = generate(spec_of(Distribution::vtoken, 4, 64));
  EXPECT_TRUE(std::equal(shorter.v.begin(), shorter.v.end(), longer.v.begin()));
}

TEST(Distributions, HeadsDiffer) {
  DataSpec s = spec_of(Distribution::normal, 4, 32);
  s.heads = 2;
  const Data x = generate(s);
  ASSERT_EQ(x.k.size(), static_cast<std::size_t>(2 * 32 * 64));
  EXPECT_FALSE(std::equal(x.k.begin(), x.k.begin() + 32 * 64, x.k.begin() + 32 * 64));
}

TEST(Distributions, RoundingToF16KeepsElevenBits) {
  DataSpec s = spec_of(Distribution::normal, 4, 32);
  const Data plain = generate(s);
  s.as_f16 = true;
  const Data rounded = generate(s);
  for (std::size_t i = 0; i < plain.k.size(); ++i) {
    const float step = std::ldexp(1.0f, std::ilogb(rounded.k[i]) - 10);
    EXPECT_EQ(std::remainder(rounded.k[i], step), 0) << i;
    EXPECT_LE(std::fabs(rounded.k[i] - plain.k[i]), step / 2) << i;
  }
}

TEST(Distributions, NamesGoBothWaysAndUnknownOnesAreListed) {
  EXPECT_EQ(distribution_by_name("biasK").value(), Distribution::bias_k);
  const Status unknown = distribution_by_name("cauchy").status();
  EXPECT_NE(unknown.message().find("vchannel"), std::string::npos) << unknown.message();
}

}  // namespace
}  // namespace octet::tool
