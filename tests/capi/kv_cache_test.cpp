// K and V across calls: however they were appended, a call has the bits of octet_attend on the same codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "octet/octet.hpp"
#include "tests/capi/kv_cache_cases.h"
#include "tests/capi/support.h"
#include "tests/sentence.h"

namespace octet::testing {
namespace {

constexpr std::int64_t kCapacity = 1100;

/// Everything that a call against a cache writes.
struct CacheOutput {
  std::vector<float> o, lse;
  bool operator==(const CacheOutput& other) const {
    return std::memcmp(o.data(), other.o.data(), o.size() * sizeof(float)) == 0 &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }
};

/// A problem whose keys are prefixes of the same tensors.
class CacheProblem {
 public:
  CacheProblem(const CacheCase& c, const CacheShape& s, std::int64_t tokens)
      : case_(c),
        shape_(s),
        q_(Tensor::normal({s.batch, s.heads_q, s.tokens_q, s.dim}, 11)),
        k_(Tensor::normal({s.batch, s.heads_kv, tokens, s.dim}, 12)),
        v_(Tensor::normal({s.batch, s.heads_kv, tokens, s.dim}, 13)),
        anchor_(Tensor::normal({1, s.heads_kv, 1, s.dim}, 14)) {}

  AttentionDesc desc(std::int64_t tokens_k) const {
    TensorView k = k_.view();
    k.shape[2] = tokens_k;
    AttentionDesc d = describe(case_.scheme, q_.view(), k, k).take();
    d.recipe = case_.recipe;
    d.wants_lse = true;
    d.mask = Mask::causal;
    return d;
  }
  AttentionPlan plan(std::int64_t tokens_k) const { return AttentionPlan::create(desc(tokens_k)).take(); }

  KvCacheOptions options() const {
    KvCacheOptions o;
    o.k_amax = case_.k_amax, o.v_amax = case_.v_amax;
    if (case_.recipe.smooth == Smooth::anchor) o.k_anchor = anchor_.view();
    return o;
  }

  static TensorView tokens(const Tensor& x, std::int64_t begin, std::int64_t end) {
    TensorView view = x.view();
    view.data = static_cast<float*>(view.data) + begin * view.stride[2];
    view.shape[2] = end - begin;
    return view;
  }
  Status append(KvCache& cache, std::int64_t begin, std::int64_t end) const {
    return cache.append(tokens(k_, begin, end), tokens(v_, begin, end));
  }

  CacheOutput attend(const KvCache& cache, const AttentionPlan& plan) const {
    return run(cache.workspace_bytes(plan),
               [&](const AttentionArgs& args) { return cache.attend(plan, args); });
  }

  CacheOutput step(KvCache& cache, const AttentionPlan& plan, std::int64_t begin, std::int64_t end) const {
    return run(cache.workspace_bytes(plan), [&](const AttentionArgs& args) {
      return cache.step(tokens(k_, begin, end), tokens(v_, begin, end), plan, args);
    });
  }
  /// octet_attend on plain k and v.
  CacheOutput attend_plain(std::int64_t n) const {
    const AttentionPlan direct = plan(n);
    return run(direct.workspace_bytes(), [&](AttentionArgs args) {
      args.k.codes = tokens(k_, 0, n), args.v.codes = tokens(v_, 0, n);
      if (case_.recipe.smooth == Smooth::anchor) args.k_anchor = anchor_.view();
      return direct.run(args);
    });
  }

  /// octet_attend on the codes that the cache's recipe makes.
  CacheOutput attend_codes(std::int64_t n) const {
    const AttentionPlan direct = plan(n);
    CacheCodes q(direct, OCTET_Q, q_.view(), {}, 0),
        k(direct, OCTET_K, tokens(k_, 0, n), options().k_anchor, case_.k_amax),
        v(direct, OCTET_V, tokens(v_, 0, n), {}, case_.v_amax);
    AttentionDesc d = desc(n);
    d.input = static_cast<DType>(q.tensor.codes.dtype);
    const AttentionPlan coded = AttentionPlan::create(d).take();
    return run(coded.workspace_bytes(), [&](AttentionArgs args) {
      args.q = abi::from_c(q.tensor), args.k = abi::from_c(k.tensor), args.v = abi::from_c(v.tensor);
      return coded.run(args);
    });
  }

 private:
  /// One operand as a cache makes it.
  struct CacheCodes {
    octet_quantized_tensor tensor{};
    std::array<std::vector<std::uint64_t>, 4> memory;

    CacheCodes(const AttentionPlan& plan, octet_operand which, const TensorView& x, const TensorView& anchor,
               float amax) {
      octet_operand_recipe recipe{};
      recipe.struct_size = sizeof recipe;
      EXPECT_EQ(octet_operand_recipe_of(plan.handle(), which, &recipe), OCTET_OK);
      recipe.anchor = abi::to_c(anchor), recipe.shared_amax = amax;
      EXPECT_EQ(octet_quantized_layout(x.shape.data(), &recipe, 0, &tensor), OCTET_OK);
      octet_tensor* parts[] = {&tensor.codes, &tensor.scales, &tensor.channel_exponent, &tensor.mean};
      for (std::size_t i = 0; i < 4; ++i) {
        if (parts[i]->shape[0] == 0) continue;
        memory[i].resize(static_cast<std::size_t>(octet_tensor_bytes(parts[i]) / 8 + 1));
        parts[i]->data = memory[i].data();
      }
      const octet_tensor in = abi::to_c(x);
      EXPECT_EQ(octet_quantize(&in, &recipe, nullptr, &tensor, nullptr), OCTET_OK) << octet_last_error();
    }
  };

  template <class Run>
  CacheOutput run(std::int64_t workspace_bytes, const Run& run) const {
    EXPECT_GE(workspace_bytes, 0) << octet_last_error();
    const Workspace workspace = Workspace::allocate(workspace_bytes).take();
    Tensor o({shape_.batch, shape_.heads_q, shape_.tokens_q, shape_.dim}, 7),
        lse({shape_.batch, shape_.heads_q, shape_.tokens_q, 1}, 7);
    AttentionArgs args;
    args.q.codes = q_.view(), args.o = o.view(), args.lse = lse.view();
    args.workspace = workspace.data(), args.workspace_bytes = workspace.bytes();
    const Status status = run(args);
    EXPECT_TRUE(status.ok()) << case_.name << ": " << status.message();
    return {o.data, lse.data};
  }

  const CacheCase case_;
  const CacheShape shape_;
  Tensor q_, k_, v_, anchor_;
};

/// Whether this process may use a backend that keeps keys.
bool caches_here() {
  const CacheCase c = cache_cases()[0];
  const CacheProblem problem(c, {1, 1, 1, 1, 32}, 1);
  return std::string(problem.plan(1).backend()) != "reference";
}

class KvCaches : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!caches_here()) GTEST_SKIP() << "the reference keeps no keys";
  }
};

/// Bits of o, and of the LSE where the shift of K does not enter it by another way.
void expect_same(const CacheCase& c, CacheOutput got, CacheOutput want, const std::string& what) {
  const bool codes_shift_lse = c.recipe.smooth != Smooth::none && what.find("codes") != std::string::npos;
  if (codes_shift_lse) got.lse = want.lse = {};
  EXPECT_TRUE(got == want) << c.name << ", " << what;
}

void expect_every_way_alike(const CacheCase& c, const CacheShape& shape,
                            const std::vector<std::int64_t>& lengths) {
  const CacheProblem problem(c, shape, lengths.back());
  const AttentionPlan plan = problem.plan(kCapacity);
  KvCache one_by_one = KvCache::create(plan, problem.options()).take();
  for (const std::int64_t n : lengths) {
    const std::string where = std::to_string(n) + " keys of dim " + std::to_string(shape.dim);
    for (std::int64_t t = one_by_one.length(); t < n; ++t)
      ASSERT_TRUE(problem.append(one_by_one, t, t + 1).ok()) << octet_last_error();
    ASSERT_EQ(one_by_one.length(), n);
    const CacheOutput want = problem.attend(one_by_one, plan);

    KvCache at_once = KvCache::create(plan, problem.options()).take();
    ASSERT_TRUE(problem.append(at_once, 0, n).ok());
    expect_same(c, problem.attend(at_once, plan), want, "at once, " + where);

    KvCache in_chunks = KvCache::create(plan, problem.options()).take();
    for (std::int64_t t = 0, step = 1; t < n; t += step, step = step % 97 + 6)
      ASSERT_TRUE(problem.append(in_chunks, t, std::min(n, t + step)).ok());
    expect_same(c, problem.attend(in_chunks, plan), want, "in odd chunks, " + where);

    const bool tokens_only = c.k_amax == 0 && c.v_amax == 0;
    if (tokens_only) expect_same(c, problem.attend_plain(n), want, "octet_attend, " + where);
    const bool has_codes = c.scheme != Scheme::f32 && c.scheme != Scheme::f16 && c.scheme != Scheme::bf16;
    if (has_codes) expect_same(c, problem.attend_codes(n), want, "octet_attend on codes, " + where);
  }
}

TEST_F(KvCaches, AreTheSameHoweverTokensWereAppended) {
  for (const CacheCase& c : cache_cases())
    expect_every_way_alike(c, {1, 4, 2, 3, 64}, {1, 49, 63, 64, 65, 127, 197, 1000});
}

TEST_F(KvCaches, AreTheSameAtEveryHeadDim) {
  for (const CacheCase& c : cache_cases())
    for (const std::int64_t dim : {32, 80, 128, 256}) expect_every_way_alike(c, {2, 2, 1, 1, dim}, {65, 197});
}

TEST_F(KvCaches, CutLongKeysAsOtherCallsDo) {
  for (const CacheCase& c : cache_cases()) {
    const CacheProblem problem(c, {1, 4, 1, 1, 32}, 5000);
    const AttentionPlan plan = problem.plan(6000);
    KvCache cache = KvCache::create(plan, problem.options()).take();
    ASSERT_TRUE(problem.append(cache, 0, 4097).ok());
    ASSERT_TRUE(problem.append(cache, 4097, 5000).ok());
    const bool plain = c.scheme == Scheme::f32 || c.scheme == Scheme::f16 || c.scheme == Scheme::bf16;
    if (plain)
      expect_same(c, problem.attend(cache, plan), problem.attend_plain(5000), "plain");
    else
      expect_same(c, problem.attend(cache, plan), problem.attend_codes(5000), "codes");
  }
}

TEST_F(KvCaches, StepAsAppendingAndAttendingDo) {
  for (const CacheCase& c : cache_cases()) {
    const CacheProblem problem(c, {1, 4, 2, 1, 64}, 70);
    const AttentionPlan plan = problem.plan(kCapacity);
    KvCache calls = KvCache::create(plan, problem.options()).take(),
            steps = KvCache::create(plan, problem.options()).take();
    for (std::int64_t t = 0; t < 70; t += t < 60 ? 60 : 1) {
      const std::int64_t end = t < 60 ? 60 : t + 1;
      ASSERT_TRUE(problem.append(calls, t, end).ok());
      expect_same(c, problem.step(steps, plan, t, end), problem.attend(calls, plan),
                  "step to " + std::to_string(end));
      ASSERT_EQ(steps.length(), end);
    }
  }
}

TEST_F(KvCaches, AreUnchangedByStepsThatFail) {
  const CacheCase c = cache_cases()[0];
  const CacheProblem problem(c, {1, 2, 1, 2, 32}, 60);
  const AttentionPlan plan = problem.plan(64);
  KvCache cache = KvCache::create(plan, problem.options()).take();
  ASSERT_TRUE(problem.append(cache, 0, 60).ok());
  const CacheOutput before = problem.attend(cache, plan);
  const Tensor good({1, 1, 2, 32}, 1), five({1, 1, 5, 32}, 1);
  Tensor bad({1, 1, 2, 32}, 1), q({1, 2, 2, 32}, 1), o({1, 2, 2, 32}), lse({1, 2, 2, 1});
  bad.data[40] = std::numeric_limits<float>::quiet_NaN();
  const Workspace workspace = Workspace::allocate(cache.workspace_bytes(plan)).take();
  AttentionArgs args;
  args.q.codes = q.view(), args.o = o.view(), args.lse = lse.view();
  args.workspace = workspace.data(), args.workspace_bytes = workspace.bytes();
  EXPECT_EQ(cache.step(five.view(), five.view(), plan, args).code(), Code::invalid_argument);
  EXPECT_EQ(cache.step(good.view(), bad.view(), plan, args).code(), Code::non_finite);
  AttentionArgs small = args;
  small.workspace_bytes -= 1;
  EXPECT_EQ(cache.step(good.view(), good.view(), plan, small).code(), Code::invalid_argument);
  q.data[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cache.step(good.view(), good.view(), plan, args).code(), Code::non_finite);
  EXPECT_EQ(cache.length(), 60);
  EXPECT_TRUE(problem.attend(cache, plan) == before);
  q.data[3] = 1;
  EXPECT_TRUE(cache.step(good.view(), good.view(), plan, args).ok()) << octet_last_error();
  EXPECT_EQ(cache.length(), 62);
}

TEST_F(KvCaches, ForgetWhatIsTruncated) {
  for (const CacheCase& c : cache_cases()) {
    const CacheProblem problem(c, {1, 2, 1, 2, 64}, 500);
    const AttentionPlan plan = problem.plan(kCapacity);
    KvCache straight = KvCache::create(plan, problem.options()).take(),
            detour = KvCache::create(plan, problem.options()).take();
    ASSERT_TRUE(problem.append(straight, 0, 300).ok());
    // Other tokens first, one of them enormous; then the same ones again.
    ASSERT_TRUE(problem.append(detour, 100, 133).ok());
    ASSERT_TRUE(detour.truncate(0).ok());
    ASSERT_TRUE(problem.append(detour, 0, 150).ok());
    Tensor large({1, 1, 3, 64}, 4);
    ASSERT_TRUE(detour.append(large.view(), large.view()).ok());
    ASSERT_TRUE(problem.append(detour, 200, 390).ok());
    ASSERT_TRUE(detour.truncate(150).ok());
    expect_same(
        c, problem.attend(detour, plan),
        [&] {
          KvCache fresh = KvCache::create(plan, problem.options()).take();
          EXPECT_TRUE(problem.append(fresh, 0, 150).ok());
          return problem.attend(fresh, plan);
        }(),
        "truncated");
    ASSERT_TRUE(problem.append(detour, 150, 300).ok());
    expect_same(c, problem.attend(detour, plan), problem.attend(straight, plan), "appended again");
  }
}

TEST_F(KvCaches, AnswerZeroAndMinusInfinityWhileEmpty) {
  for (const CacheCase& c : cache_cases()) {
    const CacheProblem problem(c, {1, 2, 1, 2, 32}, 1);
    const AttentionPlan plan = problem.plan(kCapacity);
    const CacheOutput out = problem.attend(KvCache::create(plan, problem.options()).take(), plan);
    for (const float x : out.o) EXPECT_EQ(x, 0) << c.name;
    for (const float x : out.lse) EXPECT_EQ(x, -std::numeric_limits<float>::infinity()) << c.name;
  }
}

TEST_F(KvCaches, TakeTheFirstKeyForAnAnchorWhereNoneIsGiven) {
  const CacheCase c = cache_anchored(cache_case(Scheme::int8, Granularity::token, Granularity::token, 0, 0));
  const CacheProblem problem(c, {2, 2, 1, 2, 32}, 90);
  const AttentionPlan plan = problem.plan(kCapacity);
  KvCache first = KvCache::create(plan).take(), later = KvCache::create(plan).take();
  ASSERT_TRUE(problem.append(first, 0, 90).ok());
  ASSERT_TRUE(problem.append(later, 40, 80).ok() &&
              later.truncate(0).ok());  // whose first key is forgotten too
  for (std::int64_t t = 0; t < 90; ++t) ASSERT_TRUE(problem.append(later, t, t + 1).ok());
  EXPECT_TRUE(problem.attend(first, plan) == problem.attend(later, plan));
}

/// A token of zeros has a weight like any other, also the first one.
TEST_F(KvCaches, KeepTheSoftmaxMassOfZeroValues) {
  for (const std::int64_t zero : {0, 3, 130}) {
    const CacheCase c = cache_case(Scheme::int8, Granularity::token, Granularity::token, 0, 0);
    Tensor q({1, 1, 1, 32}, 1), k({1, 1, 200, 32}, 1), v = Tensor::normal({1, 1, 200, 32}, 5),
                                                       o({1, 1, 1, 32});
    for (std::int64_t ch = 0; ch < 32; ++ch) v.data[static_cast<std::size_t>(zero * 32 + ch)] = 0;
    AttentionDesc d = describe(c.scheme, q.view(), k.view(), v.view()).take();
    d.recipe = c.recipe;
    const AttentionPlan plan = AttentionPlan::create(d).take();
    KvCache cache = KvCache::create(plan).take();
    ASSERT_TRUE(cache.append(k.view(), v.view()).ok());
    const Workspace workspace = Workspace::allocate(cache.workspace_bytes(plan)).take();
    AttentionArgs args;
    args.q.codes = q.view(), args.o = o.view(), args.workspace = workspace.data(),
    args.workspace_bytes = workspace.bytes();
    ASSERT_TRUE(cache.attend(plan, args).ok()) << octet_last_error();
    for (std::int64_t ch = 0; ch < 32; ++ch) {  // all keys alike: the mean of V
      double mean = 0;
      for (std::int64_t t = 0; t < 200; ++t) mean += v.data[static_cast<std::size_t>(t * 32 + ch)] / 200;
      EXPECT_NEAR(o.data[static_cast<std::size_t>(ch)], mean, 0.004) << "token " << zero;
    }
  }
}

TEST_F(KvCaches, AreUnchangedByWhatTheyRefuse) {
  const CacheCase c = cache_cases()[0];
  const CacheProblem problem(c, {1, 2, 1, 2, 32}, 60);
  const AttentionPlan plan = problem.plan(64);
  KvCache cache = KvCache::create(plan, problem.options()).take();
  ASSERT_TRUE(problem.append(cache, 0, 60).ok());
  const CacheOutput before = problem.attend(cache, plan);

  const Tensor five({1, 1, 5, 32}, 1), wide({1, 1, 2, 33}, 1), two({1, 2, 2, 32}, 1), good({1, 1, 2, 32}, 1);
  EXPECT_EQ(
      cache.append(five.view(), five.view()).message(),
      "k.shape[2] is 5, but the cache holds 60 of 64 tokens; append fewer, truncate it, or plan for more");
  EXPECT_EQ(cache.append(wide.view(), good.view()).code(), Code::invalid_argument);
  EXPECT_EQ(cache.append(good.view(), wide.view()).code(), Code::invalid_argument);
  EXPECT_EQ(cache.append(two.view(), two.view()).code(), Code::invalid_argument);
  TensorView missing = good.view();
  missing.data = nullptr;
  EXPECT_EQ(cache.append(missing, good.view()).code(), Code::invalid_argument);
  TensorView codes = good.view();
  codes.dtype = DType::s8;
  EXPECT_EQ(cache.append(codes, good.view()).code(), Code::invalid_argument);
  Tensor bad({1, 1, 2, 32}, 1);
  bad.data[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(cache.append(good.view(), bad.view()).code(), Code::non_finite);
  EXPECT_EQ(cache.append(bad.view(), good.view()).code(), Code::non_finite);
  EXPECT_EQ(cache.truncate(61).message(),
            "length is 61, but the cache holds 60 tokens; pass 0 to that number");
  EXPECT_EQ(cache.truncate(-1).code(), Code::invalid_argument);

  EXPECT_EQ(cache.length(), 60);
  EXPECT_TRUE(problem.attend(cache, plan) == before);
}

TEST_F(KvCaches, RefuseRecipesWhoseEarlierCodesLaterTokensWouldChange) {
  const auto refusal = [](Scheme scheme, const std::function<void(Recipe&)>& change, float k_amax,
                          float v_amax) {
    CacheCase c = cache_case(scheme, Granularity::token, Granularity::token, k_amax, v_amax);
    change(c.recipe);
    const CacheProblem problem(c, {1, 1, 1, 1, 32}, 8);
    KvCacheOptions options;
    options.k_amax = k_amax, options.v_amax = v_amax;
    const Status status = KvCache::create(problem.plan(8), options).status();
    EXPECT_TRUE(is_sentence(status.message())) << status.message();
    return status;
  };
  using G = Granularity;
  const auto smooth = refusal(
      Scheme::int8, [](Recipe& r) { r.smooth = Smooth::mean; }, 0, 0);
  EXPECT_EQ(smooth.code(), Code::unsupported);
  EXPECT_EQ(smooth.message(),
            "recipe.smooth is mean, but the mean of K changes with keys that are appended; plan with anchor "
            "or none");
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.equalise = Equalise::on; }, 0, 0)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.k = G::block; }, 0, 0)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.k = G::head; }, 0, 0)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.v = G::channel; }, 0, kAmax)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.v = G::block_channel; }, 0, 0)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::integer, [](Recipe& r) { r.k = G::head; }, kAmax, 0)
                .code(),
            Code::unsupported);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe&) {}, kAmax, 0)
                .code(),
            Code::invalid_argument);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.v = G::head; }, 0, -1)
                .code(),
            Code::invalid_argument);
  EXPECT_EQ(refusal(
                Scheme::int8, [](Recipe& r) { r.v = G::head; }, 0, std::numeric_limits<float>::infinity())
                .code(),
            Code::invalid_argument);
}

TEST_F(KvCaches, ServeOnlyPlansOfTheirOwnCodes) {
  const CacheCase c = cache_cases()[0];
  const CacheProblem problem(c, {1, 2, 1, 2, 32}, 10);
  const AttentionPlan plan = problem.plan(64);
  KvCache cache = KvCache::create(plan, problem.options()).take();
  ASSERT_TRUE(problem.append(cache, 0, 10).ok());
  const auto refuses = [&](const std::function<void(AttentionDesc&)>& change) {
    AttentionDesc d = problem.desc(64);
    change(d);
    return cache.workspace_bytes(AttentionPlan::create(d).take()) == -1;
  };
  EXPECT_FALSE(refuses(
      [](AttentionDesc& d) { d.tokens_q = 40, d.heads_q = 3, d.mask = Mask::none, d.window_left = 5; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.key_block = 64; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.tokens_k = 65; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.head_dim_v = 16; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.recipe.rotation_seed = 5; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.softmax_scale = 1; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.scheme = Scheme::int8_shift; }));
  EXPECT_TRUE(refuses([](AttentionDesc& d) { d.input = DType::s8; }));

  Tensor q({1, 2, 2, 32}, 1), o({1, 2, 2, 32}), lse({1, 2, 2, 1});
  const Workspace workspace = Workspace::allocate(cache.workspace_bytes(plan)).take();
  AttentionArgs args;
  args.q.codes = q.view(), args.o = o.view(), args.lse = lse.view();
  args.workspace = workspace.data(), args.workspace_bytes = workspace.bytes();
  EXPECT_TRUE(cache.attend(plan, args).ok());
  AttentionArgs with_k = args;
  with_k.k.codes = q.view();
  EXPECT_EQ(cache.attend(plan, with_k).message(),
            "k is set, but the keys are those of the cache; leave it unset, or call octet_attend");
  AttentionArgs small = args;
  small.workspace_bytes -= 1;
  EXPECT_EQ(cache.attend(plan, small).code(), Code::invalid_argument);
}

TEST(KvCacheOfTheReference, IsRefusedByName) {
  const CacheCase c = cache_cases()[0];
  const CacheProblem problem(c, {1, 1, 1, 1, 32}, 8);
  const Status status = KvCache::create(AttentionPlan::create(problem.desc(8), "reference").take()).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_EQ(status.message().substr(0, 52), "backend is reference, but it keeps no keys across ca");
}

TEST(KvCacheHandle, MayBeNull) {
  octet_kv_cache_destroy(nullptr);
  EXPECT_EQ(octet_kv_cache_length(nullptr), -1);
  EXPECT_EQ(octet_kv_cache_capacity(nullptr), -1);
  EXPECT_EQ(octet_kv_cache_bytes(nullptr), -1);
  EXPECT_EQ(octet_kv_cache_workspace_bytes(nullptr, nullptr), -1);
  EXPECT_EQ(octet_kv_cache_create(nullptr, nullptr, nullptr), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_kv_cache_append(nullptr, nullptr, nullptr, nullptr), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_kv_cache_truncate(nullptr, 0), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_kv_cache_attend(nullptr, nullptr, nullptr), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_kv_cache_step(nullptr, nullptr, nullptr, nullptr, nullptr), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_kv_cache_set_stream(nullptr, nullptr), OCTET_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace octet::testing
