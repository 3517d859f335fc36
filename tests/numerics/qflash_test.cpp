// QFlash against the published recurrence: five cases of a bit model (tests/data/qflash), its constants, its
// state, its output codes.
#include "numerics/qflash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lanes/scalar.h"
#include "ref/reference.h"

namespace octet {
namespace {

using Scheme_ = QFlashScheme<ScalarLane>;

std::vector<std::int8_t> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::int8_t> bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    held += 6;
    if (held >= 8) held -= 8, bytes.push_back(static_cast<std::int8_t>(bits >> held));
  }
  return bytes;
}

/// One case of the file, which is flat: "key": number, string or list of numbers.
class Fixture {
 public:
  explicit Fixture(std::string text) : text_(std::move(text)) {}

  std::string raw(const std::string& key) const {
    const std::size_t at = text_.find("\"" + key + "\":");
    EXPECT_NE(at, std::string::npos) << key;
    const std::size_t begin = text_.find_first_not_of(" \n", at + key.size() + 3);
    const char close = text_[begin] == '"' ? '"' : text_[begin] == '[' ? ']' : ',';
    const std::size_t end =
        text_.find_first_of(std::string(close == ',' ? ",}\n" : std::string(1, close)), begin + 1);
    return close == ',' ? text_.substr(begin, end - begin) : text_.substr(begin + 1, end - begin - 1);
  }
  double number(const std::string& key) const { return std::stod(raw(key)); }
  std::int64_t integer(const std::string& key) const { return std::stoll(raw(key)); }
  std::vector<std::int8_t> codes(const std::string& key) const { return from_base64(raw(key)); }
  std::vector<std::int64_t> list(const std::string& key) const {
    std::istringstream in(raw(key));
    std::vector<std::int64_t> values;
    for (std::string one; std::getline(in, one, ',');) values.push_back(std::stoll(one));
    return values;
  }

 private:
  std::string text_;
};

std::vector<Fixture> fixtures() {
  std::ifstream in(OCTET_SOURCE_DIR "/tests/data/qflash/qflash_integer_cases.json");
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str().substr(0, all.str().find("\"shiftexp2\""));
  std::vector<Fixture> cases;
  for (std::size_t at = text.find("\"name\""); at != std::string::npos;) {
    const std::size_t next = text.find("\"name\"", at + 1);
    cases.emplace_back(text.substr(at, next == std::string::npos ? next : next - at));
    at = next;
  }
  return cases;
}

Prepare prepare_of(const Fixture& f) {
  Prepare p;
  p.head_dim = static_cast<std::int32_t>(f.integer("d"));
  p.softmax_scale = static_cast<float>(1 / std::sqrt(f.number("d")));
  p.q_scale = static_cast<float>(f.number("q_scale"));
  p.k_scale = static_cast<float>(f.number("k_scale"));
  p.v_scale = static_cast<float>(f.number("v_scale"));
  p.key_block = static_cast<std::int32_t>(f.integer("block_n"));
  return p;
}

/// One row through the contract, so that its state and its accumulators can be seen.
struct RowResult {
  Scheme_::State state;
  std::vector<std::int32_t> acc;
};
RowResult run_row(const Scheme_& s, const std::int8_t* q, const std::vector<std::int8_t>& k,
                  const std::vector<std::int8_t>& v, std::size_t d, std::size_t block) {
  RowResult row{{}, std::vector<std::int32_t>(d, 0)};
  const std::size_t n = k.size() / d;
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    std::vector<std::int32_t> score;
    for (std::size_t j = begin; j < end; ++j) {
      std::int32_t acc = 0;
      for (std::size_t c = 0; c < d; ++c) acc += q[c] * k[j * d + c];
      score.push_back(s.score(acc, {}, {}, 0));
    }
    const auto step = s.step(row.state, *std::max_element(score.begin(), score.end()), {});
    std::int32_t sum = s.padding_mass(step) * static_cast<std::int32_t>(block - (end - begin));
    std::vector<std::int32_t> pv(d, 0);
    for (std::size_t j = begin; j < end; ++j) {
      const std::int32_t p = s.code(s.weight(score[j - begin], step));
      sum += s.mass(0, p, {});
      for (std::size_t c = 0; c < d; ++c) pv[c] += p * v[j * d + c];
    }
    for (std::size_t c = 0; c < d; ++c) s.fold(row.acc[c], pv[c], step, {});
    row.state = s.absorb(row.state, step, sum);
  }
  return row;
}

/// The file's checksum: sum of (i + 1) acc_i, each product modulo 2^61, the sum modulo 2^64.
std::int64_t checksum(const std::vector<std::int32_t>& acc) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < acc.size(); ++i)
    sum += static_cast<std::uint64_t>(acc[i]) * (i + 1) & ((std::uint64_t{1} << 61) - 1);
  return static_cast<std::int64_t>(sum);
}

TEST(QFlash, ConstantsMatchTheFixtures) {
  for (const Fixture& f : fixtures()) {
    SCOPED_TRACE(f.raw("name"));
    const Scheme_ s = Scheme_::prepare(prepare_of(f));
    EXPECT_NEAR(s.constants.octaves / f.number("sm"), 1, 1e-7);
    EXPECT_EQ(s.constants.exp.one, f.integer("R"));
    EXPECT_EQ(s.constants.exp.multiplier, f.integer("exp_M"));
    EXPECT_EQ(s.constants.requantise, f.integer("req_M"));
    EXPECT_EQ(s.constants.release, f.integer("l_M"));
    EXPECT_EQ(s.constants.release, f.integer("acc_M"));
  }
}

TEST(QFlash, StateAndAccumulatorsMatchTheFixturesBitForBit) {
  const std::vector<Fixture> cases = fixtures();
  ASSERT_EQ(cases.size(), 5u);
  for (const Fixture& f : cases) {
    SCOPED_TRACE(f.raw("name"));
    const Scheme_ s = Scheme_::prepare(prepare_of(f));
    const auto q = f.codes("q8"), k = f.codes("k8"), v = f.codes("v8");
    const auto d = static_cast<std::size_t>(f.integer("d"));
    const auto m = f.list("m"), l = f.list("l"), acc_row0 = f.list("acc_row0");
    ASSERT_EQ(m.size(), q.size() / d);
    std::vector<std::int32_t> acc;
    for (std::size_t i = 0; i < m.size(); ++i) {
      const RowResult row = run_row(s, &q[i * d], k, v, d, static_cast<std::size_t>(f.integer("block_n")));
      ASSERT_EQ(row.state.reference, m[i]) << "row " << i;
      ASSERT_EQ(row.state.sum, l[i]) << "row " << i;
      acc.insert(acc.end(), row.acc.begin(), row.acc.end());
    }
    for (std::size_t c = 0; c < d; ++c) ASSERT_EQ(acc[c], acc_row0[c]) << "channel " << c;
    EXPECT_EQ(checksum(acc), f.integer("acc_checksum"));
  }
}

TensorView dense(void* data, DType dtype, std::int64_t tokens, std::int64_t d) {
  return {data, dtype, Device::cpu, {1, 1, tokens, d}, {tokens * d, tokens * d, d, 1}};
}

/// The output codes of a case through the loop nest of the reference.
std::vector<std::int8_t> attend_codes(const Fixture& f, const SchemeOptions& options) {
  auto q = f.codes("q8"), k = f.codes("k8"), v = f.codes("v8");
  Prepare p = prepare_of(f);
  AttentionDesc desc;
  desc.scheme = Scheme::qflash;
  desc.tokens_q = desc.tokens_k = f.integer("N");
  desc.head_dim = desc.head_dim_v = f.integer("d");
  desc.softmax_scale = p.softmax_scale;
  desc.key_block = p.key_block;
  desc.recipe.q = desc.recipe.k = desc.recipe.v = Granularity::tensor;
  desc.output = DType::s8;
  desc.options = options;
  std::vector<std::int8_t> out(q.size());
  std::vector<float> out_scale(static_cast<std::size_t>(desc.tokens_q));
  AttentionArgs args;
  const auto coded = [&](std::vector<std::int8_t>& codes, float& scale) {
    QuantizedTensor x;
    x.codes = dense(codes.data(), DType::s8, desc.tokens_q, desc.head_dim);
    x.scales = {&scale, DType::f32, Device::cpu, {1, 1, 1, 1}, {}};
    return x;
  };
  args.q = coded(q, p.q_scale), args.k = coded(k, p.k_scale), args.v = coded(v, p.v_scale);
  args.o = dense(out.data(), DType::s8, desc.tokens_q, desc.head_dim_v);
  args.o_scale = dense(out_scale.data(), DType::f32, desc.tokens_q, 1);
  EXPECT_TRUE(ref::attend(desc, args).ok());
  EXPECT_EQ(out_scale.front(), p.v_scale);
  return out;
}

TEST(QFlash, MatchesTheFixturesBitForBit) {
  for (const Fixture& f : fixtures()) {
    const auto expected = f.codes("out8"), out = attend_codes(f, {});
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(int{out[i]}, int{expected[i]}) << f.raw("name") << ", element " << i;
    }
  }
}

/// Where nothing has gone wrong, the rejected quotient (15) changes codes by one or two units, not more.
TEST(QFlash, ExactQuotientGivesNearlyTheSameCodes) {
  const Fixture f = fixtures().front();
  const auto published = attend_codes(f, {}),
             divided = attend_codes(f, {.quotient = SchemeOptions::Quotient::divide});
  int largest = 0, changed = 0;
  for (std::size_t i = 0; i < published.size(); ++i) {
    const int difference = std::abs(published[i] - divided[i]);
    largest = std::max(largest, difference), changed += difference != 0;
  }
  EXPECT_GT(changed, 0);
  EXPECT_LE(largest, 3);
}

/// (13) keeps every factor R0: from the second block on int32 is full, and the codes mean nothing.
TEST(QFlash, AccumulatedScalesCollapseAtTheSecondBlock) {
  const Fixture f = fixtures().at(1);
  const auto release = attend_codes(f, {});
  const auto accumulate = attend_codes(f, {.rescale = SchemeOptions::Rescale::accumulate});
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < release.size(); ++i) {
    const double difference = release[i] - accumulate[i];
    signal += release[i] * release[i], noise += difference * difference;
  }
  EXPECT_GT(noise, 0.5 * signal);
}

TEST(QFlash, TruncatesTowardZeroAndKeepsTheLowByte) {
  Prepare p;
  p.q_scale = p.k_scale = p.v_scale = 0.03f, p.softmax_scale = 0.125f;
  const Scheme_ s = Scheme_::prepare(p);
  const auto code = [&](std::int32_t acc, std::int32_t sum) {
    Scheme_::State state;
    state.sum = sum;
    return s.finish(acc, state, {}, {});
  };
  EXPECT_EQ(code(199, 100), 1);
  EXPECT_EQ(code(-199, 100), -1);
  EXPECT_EQ(code(-99, 100), 0);
  EXPECT_EQ(code(12800, 100), -128);
  EXPECT_EQ(code(0, 0), 0) << "0 / 0 converts to the least int32, whose low byte is 0";
}

/// A tensor of zeros has scale 0: constants stay defined.
TEST(QFlash, ZeroScaleGivesDefinedConstants) {
  const QFlashConstants c = qflash_constants(0.125f, 0, 1);
  EXPECT_EQ(c.exp.one, 1 << 30);
  EXPECT_EQ(c.exp.multiplier, 0);
  EXPECT_EQ(c.requantise, 0);
  EXPECT_EQ(c.release, 1);
}

}  // namespace
}  // namespace octet
