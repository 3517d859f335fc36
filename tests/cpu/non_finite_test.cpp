// NaN and Inf reach the rows that use them and no others: a hidden key's values and scores, and other rows'
// queries, leave every bit of a row as it is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/bits.h"
#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kPoisons[] = {kNotANumber, kInfinity, -kInfinity};
constexpr std::int64_t kKeyBlock = 64;
/// Schemes whose products of V are of floats.
constexpr Scheme kFloatV[] = {Scheme::f32, Scheme::f16,        Scheme::bf16,
                              Scheme::fp8, Scheme::fp8_hybrid, Scheme::int8_fp8};

/// A call whose rows do not all see the same keys.
struct Hiding {
  std::string name;
  Call call;
};

Call call_of(std::int64_t heads_q, std::int64_t heads_kv, std::int64_t m, std::int64_t n, std::int64_t d) {
  Call call = normal_call(1, heads_q, m, n, d, static_cast<std::uint64_t>(m + n + d));
  Random random(5);
  call.k = Tensor(1, heads_kv, n, d), call.v = Tensor(1, heads_kv, n, d);
  call.k.fill_normal(random), call.v.fill_normal(random);
  call.options.key_block = kKeyBlock;
  return call;
}

Call causal(Call call, std::int64_t window_left = -1) {
  call.options.mask = Mask::causal;
  call.options.window_left = window_left;
  return call;
}

/// Every row hides some keys of its own, row 1 the whole first key block.
bool is_hidden(std::int64_t i, std::int64_t j) {
  return (i * 5 + j * 3) % 7 < 3 || (i == 1 && j < kKeyBlock);
}
Call boolean_mask(Call call) {
  const std::int64_t m = call.q.size(2), n = call.k.size(2);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) call.mask.push_back(is_hidden(i, j) ? 0 : 1);
  return call;
}
Call additive_mask(Call call) {
  add_bias(call, 1);
  call.bias.each([](float& x, auto, auto, std::int64_t i, std::int64_t j) {
    if (is_hidden(i, j)) x = -kInfinity;
  });
  return call;
}
Call packed_sequences(std::int64_t d) {
  Call call = call_of(2, 2, 35, 150, d);
  call.cu_q = {0, 12, 13, 35}, call.cu_k = {0, 65, 98, 150};
  return call;
}

std::vector<Hiding> hidings(std::int64_t d) {
  return {{"causal", causal(call_of(1, 1, 130, 130, d))},
          {"causal window", causal(call_of(1, 1, 130, 130, d), 20)},
          {"causal, heads together", causal(call_of(6, 1, 3, 131, d))},
          {"boolean mask", boolean_mask(call_of(2, 1, 13, 131, d))},
          {"boolean mask, six rows", boolean_mask(call_of(1, 1, 6, 131, d))},
          {"boolean mask, one row", boolean_mask(call_of(1, 1, 1, 131, d))},
          {"additive mask", additive_mask(call_of(2, 2, 13, 131, d))},
          {"additive mask under causal", causal(additive_mask(call_of(1, 1, 131, 131, d)))},
          {"one row with a window", causal(call_of(1, 1, 1, 131, d), 40)},
          {"packed sequences", packed_sequences(d)},
          {"causal packed sequences", causal(packed_sequences(d))}};
}

/// The first and last keys of blocks, of vectors and of pairs, and those between.
std::set<std::int64_t> places(const Call& call) {
  std::set<std::int64_t> all;
  for (std::int64_t j : {0, 1, 31, 32, 63, 64, 65, 97, 98, 127, 128, 129, 130})
    if (j < call.k.size(2)) all.insert(j);
  return all;
}

Output on(const std::string& backend, Call call, Scheme scheme) {
  call.options.backend = backend;
  return run(call, scheme);
}

bool is_same(float a, float b) { return bits_of(a) == bits_of(b); }

/// `got` has no number where float64 has none, and the bits of `clean` everywhere else.
void expect_confined(const Output& got, const Output& clean, const Output& exact, const std::string& what) {
  ASSERT_TRUE(got.status.ok()) << what << ": " << got.status.message();
  ASSERT_TRUE(clean.status.ok() && exact.status.ok()) << what;
  std::int64_t strays = 0, lost = 0;
  Tensor o = got.o;
  o.each([&](float x, auto b, auto h, auto i, auto c) {
    if (std::isfinite(exact.o.at(b, h, i, c)))
      strays += !is_same(x, clean.o.at(b, h, i, c));
    else
      lost += std::isfinite(x);
  });
  EXPECT_EQ(strays, 0) << what << ": elements that do not use it changed";
  EXPECT_EQ(lost, 0) << what << ": elements that use it are numbers";
}

/// Poisons V, K and Q of one token after the other.
void expect_confined(const std::string& backend, Scheme scheme, const Hiding& hiding) {
  const Call& call = hiding.call;
  const std::int64_t d = call.v.size(3);
  const bool qk_has_nan = scheme_info(scheme).qk != DType::s8;
  for (std::int64_t key : places(call)) {
    const std::string what = std::string(scheme_info(scheme).name) + " on " + backend + ", " + hiding.name +
                             ", dim " + std::to_string(d) + ", key " + std::to_string(key);
    Call zero = call, poisoned = call;
    zero.v.at(0, 0, key, key % d) = 0;
    poisoned.v.at(0, 0, key, key % d) = kNotANumber;
    const Output exact = run(poisoned, Scheme::exact), clean = on(backend, zero, scheme);
    for (const float poison : kPoisons) {
      poisoned.v.at(0, 0, key, key % d) = poison;
      expect_confined(on(backend, poisoned, scheme), clean, exact, what + ", V " + std::to_string(poison));
    }
    if (!qk_has_nan) continue;
    zero = call, poisoned = call;
    zero.k.at(0, 0, key, key % d) = 0;
    poisoned.k.at(0, 0, key, key % d) = kNotANumber;
    expect_confined(on(backend, poisoned, scheme), on(backend, zero, scheme), run(poisoned, Scheme::exact),
                    what + ", K");
  }
  if (!qk_has_nan) return;
  for (std::int64_t row = 0; row < call.q.size(2); row += 4) {
    Call zero = call, poisoned = call;
    zero.q.at(0, 0, row, row % d) = 0;
    poisoned.q.at(0, 0, row, row % d) = kNotANumber;
    expect_confined(on(backend, poisoned, scheme), on(backend, zero, scheme), run(poisoned, Scheme::exact),
                    std::string(scheme_info(scheme).name) + " on " + backend + ", " + hiding.name + ", row " +
                        std::to_string(row));
  }
}

class NonFinite : public OnSet {
 protected:
  std::string backend() const { return std::string(cpu::name_of(GetParam())); }
};

TEST_P(NonFinite, StaysInTheRowsThatUseIt) {
  for (const std::int64_t d : {5, 33, 64})
    for (const Hiding& hiding : hidings(d))
      for (const Scheme scheme : kFloatV)
        if (has(scheme)) expect_confined(backend(), scheme, hiding);
}

/// Keys cut into ranges, of which some rows see nothing.
TEST_P(NonFinite, StaysInItsRangeOfKeys) {
  constexpr std::int64_t kRangeKeys = 2048;  // src/cpu/attend.cpp
  for (const Scheme scheme : kFloatV) {
    if (!has(scheme)) continue;
    Call call = causal(call_of(4, 1, 3, 2 * kRangeKeys + 70, 16));
    Call windowed = causal(call_of(4, 1, 3, 2 * kRangeKeys + 70, 16), kRangeKeys);
    for (const Call& some : {call, windowed})
      for (std::int64_t key :
           {std::int64_t{0}, kRangeKeys + 68, kRangeKeys + 69, 2 * kRangeKeys + 68, 2 * kRangeKeys + 69}) {
        Call zero = some, poisoned = some;
        zero.v.at(0, 0, key, 3) = 0, poisoned.v.at(0, 0, key, 3) = kNotANumber;
        expect_confined(on(backend(), poisoned, scheme), on(backend(), zero, scheme),
                        run(poisoned, Scheme::exact),
                        std::string(scheme_info(scheme).name) + ", key " + std::to_string(key));
      }
  }
}

/// Attention against a cache of the call's first `tokens` keys.
std::vector<float> against(const KvCache& cache, const AttentionPlan& plan, const Call& call) {
  std::vector<float> o(static_cast<std::size_t>(call.q.size(1) * call.q.size(2) * call.v.size(3)));
  Workspace workspace = Workspace::allocate(cache.workspace_bytes(plan)).take();
  AttentionArgs args;
  args.q.codes = call.q.view();
  args.o = view_bhsd(o.data(), DType::f32, {1, call.q.size(1), call.q.size(2), call.v.size(3)});
  args.workspace = workspace.data(), args.workspace_bytes = workspace.bytes();
  const Status status = cache.attend(plan, args);
  EXPECT_TRUE(status.ok()) << status.message();
  return o;
}

Status append(KvCache& cache, const Call& call, std::int64_t begin, std::int64_t end) {
  TensorView k = call.k.view(), v = call.v.view();
  for (TensorView* x : {&k, &v}) {
    x->data = static_cast<float*>(x->data) + begin * x->stride[2];
    x->shape[2] = end - begin;
  }
  return cache.append(k, v);
}

/// Token by token and in chunks, and after the tokens that held it are gone.
TEST_P(NonFinite, StaysInTheRowsThatUseItOfACache) {
  constexpr std::int64_t kTokens = 90, kCapacity = 200;
  for (const Scheme scheme : {Scheme::f32, Scheme::f16, Scheme::bf16}) {
    if (!has(scheme)) continue;
    for (std::int64_t key : {62, 63, 64, 87, 88, 89}) {
      Call zero = causal(call_of(2, 1, 7, kTokens, 20)), poisoned = zero;
      zero.v.at(0, 0, key, 3) = 0, poisoned.v.at(0, 0, key, 3) = kNotANumber;
      AttentionDesc desc = describe(scheme, zero.q.view(), zero.k.view(), zero.v.view()).take();
      desc.mask = Mask::causal, desc.tokens_k = kCapacity, desc.key_block = kKeyBlock;
      const AttentionPlan plan = AttentionPlan::create(desc, backend()).take();
      const Output clean = on(backend(), zero, scheme), exact = run(poisoned, Scheme::exact);
      for (std::int64_t chunk : {1, 7, 90}) {
        const std::string what = std::string(scheme_info(scheme).name) + ", key " + std::to_string(key) +
                                 ", chunks of " + std::to_string(chunk);
        KvCache cache = KvCache::create(plan).take();
        for (std::int64_t t = 0; t < kTokens; t += chunk)
          ASSERT_TRUE(append(cache, poisoned, t, std::min(t + chunk, kTokens)).ok());
        Output got = clean;
        std::vector<float> o = against(cache, plan, zero);
        got.o.each([&, at = std::size_t{0}](float& x, auto...) mutable { x = o[at++]; });
        expect_confined(got, clean, exact, what);
        ASSERT_TRUE(cache.truncate(key).ok() && append(cache, zero, key, kTokens).ok());
        o = against(cache, plan, zero);
        got.o.each([&, at = std::size_t{0}](float& x, auto...) mutable { x = o[at++]; });
        EXPECT_TRUE(same_bits(got.o, clean.o)) << what << ": truncated";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, NonFinite, every_set(), name_of_set);

TEST(NonFiniteOnTheReference, StaysInTheRowsThatUseIt) {
  for (const Hiding& hiding : hidings(5))
    for (const Scheme scheme : kFloatV) expect_confined("reference", scheme, hiding);
}

}  // namespace
}  // namespace octet::testing
