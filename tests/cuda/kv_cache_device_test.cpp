// Caches of keys in device memory: however tokens were appended, a call has the same bits, those of
// octet_attend on the same keys where both read them by one kernel, those of a cache on the CPU where the
// scheme is of integers, and no more error than that one's elsewhere. Without a GPU everything is skipped.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/schemes.h"
#include "numerics/formats.h"
#include "octet/octet.hpp"
#include "tests/attention/calls.h"
#include "tests/attention/distributions.h"
#include "tests/capi/kv_cache_cases.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/on_device.h"
#include "tests/sentence.h"

namespace octet::testing {
namespace {

constexpr std::int64_t kCapacity = 1100;

/// A stream that is not the default one, and waits for nothing queued there.
class Stream {
 public:
  Stream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  /// Whether all that was queued there has succeeded.
  bool wait() const { return cudaStreamSynchronize(stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_ = nullptr;
};

TensorView tokens_of(TensorView x, std::int64_t begin, std::int64_t end) {
  const std::int64_t bytes = x.dtype == DType::f32 ? 4 : 2;
  x.data = static_cast<std::byte*>(x.data) + begin * x.stride[2] * bytes;
  x.shape[2] = end - begin;
  return x;
}

/// The dtype of what is given to a device: of 16 bits short appends are quantised by a kernel of their own.
enum class Given { f32, bf16 };

/// A problem whose keys are prefixes of the same tensors, on a device and on the host.
class DeviceProblem {
 public:
  DeviceProblem(const CacheCase& c, const CacheShape& s, std::int64_t tokens, Given given = Given::bf16)
      : given_(given),
        case_(c),
        shape_(s),
        call_(normal_call(s.batch, s.heads_q, s.tokens_q, tokens, s.dim, 11)),
        anchor_(1, s.heads_kv, 1, s.dim) {
    Random random(14);
    call_.k = Tensor(s.batch, s.heads_kv, tokens, s.dim), call_.v = call_.k;
    call_.k.fill_normal(random), call_.v.fill_normal(random), anchor_.fill_normal(random);
    call_.options.mask = Mask::causal;
  }
  Call& call() { return call_; }
  const Call& call() const { return call_; }
  /// What is seen from the next cache or call on is what `call()` is now.
  void put() {
    device_.emplace();
    q_ = put(call_.q), k_ = put(call_.k), v_ = put(call_.v);
    device_anchor_ = device_->put(anchor_.view());
    if (!call_.mask.empty()) mask_ = device_->put(mask_view());
    device_->wait();
  }

  AttentionDesc desc(Device device, std::int64_t tokens_k) const {
    const bool there = device == Device::cuda;
    const TensorView k = with_tokens(there ? k_ : call_.k.view(), tokens_k);
    AttentionDesc d = describe(case_.scheme, there ? q_ : call_.q.view(), k, k).take();
    d.recipe = case_.recipe, d.wants_lse = true, d.output = DType::f32;
    d.mask = call_.options.mask;
    if (!call_.mask.empty()) d.bias = AttentionDesc::Bias::boolean;
    return d;
  }
  AttentionPlan plan(Device device, std::int64_t tokens_k = kCapacity) const {
    return AttentionPlan::create(desc(device, tokens_k)).take();
  }
  KvCache cache(Device device, std::int64_t capacity = kCapacity) const {
    KvCacheOptions o;
    o.k_amax = case_.k_amax, o.v_amax = case_.v_amax;
    if (case_.recipe.smooth == Smooth::anchor && gives_anchor)
      o.k_anchor = device == Device::cuda ? device_anchor_ : anchor_.view();
    KvCache cache = KvCache::create(plan(device, capacity), o).take();
    const Status set = cache.set_stream(device == Device::cuda ? stream_.get() : nullptr);
    EXPECT_TRUE(set.ok()) << set.message();
    return cache;
  }

  /// append() to a cache on either.
  Status append(KvCache& cache, Device device, std::int64_t begin, std::int64_t end) const {
    const bool there = device == Device::cuda;
    return cache.append(tokens_of(there ? k_ : call_.k.view(), begin, end),
                        tokens_of(there ? v_ : call_.v.view(), begin, end));
  }

  /// KvCache::step() of some tokens.
  Output step(KvCache& cache, Device device, std::int64_t begin, std::int64_t end) const {
    const bool there = device == Device::cuda;
    const AttentionPlan plan = this->plan(device);
    return run(device, cache.workspace_bytes(plan), end, [&](const AttentionArgs& args) {
      return cache.step(tokens_of(there ? k_ : call_.k.view(), begin, end),
                        tokens_of(there ? v_ : call_.v.view(), begin, end), plan, args);
    });
  }
  Output attend(const KvCache& cache, Device device, std::int64_t capacity = kCapacity) const {
    const AttentionPlan plan = this->plan(device, capacity);
    return run(device, cache.workspace_bytes(plan), cache.length(),
               [&](const AttentionArgs& args) { return cache.attend(plan, args); });
  }
  /// octet_attend on the device, of the first n keys as they come.
  Output attend_plain(std::int64_t n) const {
    const AttentionPlan direct = plan(Device::cuda, n);
    return run(Device::cuda, direct.workspace_bytes(), n, [&](AttentionArgs args) {
      args.k.codes = tokens_of(k_, 0, n), args.v.codes = tokens_of(v_, 0, n);
      if (case_.recipe.smooth == Smooth::anchor) args.k_anchor = device_anchor_;
      return direct.run(args);
    });
  }
  /// octet_attend on the CPU by another scheme.
  Output attend_exact(std::int64_t n) const {
    Call call = call_;
    call.options.recipe.reset();
    call.k = first_tokens(call_.k, n), call.v = first_tokens(call_.v, n);
    if (!call.mask.empty()) call.mask.resize(static_cast<std::size_t>(shape_.tokens_q * n));
    return testing::run(call, Scheme::exact);
  }

  const CacheCase& of() const { return case_; }
  const CacheShape& shape() const { return shape_; }
  bool gives_anchor = true;

 private:
  /// In device memory; the host's numbers are rounded to those that it has there.
  TensorView put(Tensor& x) {
    if (given_ == Given::f32) return device_->put(x.view());
    std::vector<std::uint16_t> bits;
    x.each([&](float& value, auto...) {
      bits.push_back(bf16_from_f32(value));
      value = f32_from_bf16(bits.back());
    });
    return device_->put(view_bhsd(bits.data(), DType::bf16, {x.size(0), x.size(1), x.size(2), x.size(3)}));
  }
  static TensorView with_tokens(TensorView x, std::int64_t tokens) {
    x.shape[2] = tokens;
    return x;
  }
  static Tensor first_tokens(const Tensor& x, std::int64_t n) {
    Tensor y(x.size(0), x.size(1), n, x.size(3));
    y.each([&](float& value, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
      value = x.at(b, h, t, c);
    });
    return y;
  }
  /// One row of the mask for all queries, which may be of more keys than there are.
  TensorView mask_view() const {
    return view_bhsd(const_cast<std::uint8_t*>(call_.mask.data()), DType::boolean,
                     {1, 1, 1, static_cast<std::int64_t>(call_.mask.size()) / shape_.tokens_q});
  }

  template <class Run>
  Output run(Device device, std::int64_t workspace_bytes, std::int64_t keys, const Run& run) const {
    EXPECT_GE(workspace_bytes, 0) << octet_last_error();
    Output output;
    output.o = Tensor(shape_.batch, shape_.heads_q, shape_.tokens_q, shape_.dim);
    output.lse = Tensor(shape_.batch, shape_.heads_q, shape_.tokens_q, 1);
    const bool there = device == Device::cuda;
    DeviceMemory memory;
    Workspace workspace;
    AttentionArgs args;
    args.q.codes = there ? q_ : call_.q.view();
    args.o = there ? memory.put(output.o.view()) : output.o.view();
    args.lse = there ? memory.put(output.lse.view()) : output.lse.view();
    if (!call_.mask.empty()) args.bias = with_keys(there ? mask_ : mask_view(), keys);
    args.workspace_bytes = workspace_bytes;
    if (there) {
      args.workspace = memory.take(workspace_bytes), args.stream = stream_.get();
    } else {
      workspace = Workspace::allocate(workspace_bytes).take();
      args.workspace = workspace.data();
    }
    if (there) memory.wait();  // for what stream_ does not wait for: the poison
    output.status = run(args);
    EXPECT_TRUE(output.status.ok()) << case_.name << ": " << output.status.message();
    if (!there) return output;
    EXPECT_TRUE(stream_.wait()) << case_.name;
    memory.get(args.o, output.o.view()), memory.get(args.lse, output.lse.view());
    memory.look_at_margins(), device_->look_at_margins();
    EXPECT_TRUE(memory.status.ok() && device_->status.ok()) << memory.status.message();
    return output;
  }
  static TensorView with_keys(TensorView x, std::int64_t keys) {
    x.shape[3] = keys;
    return x;
  }

  const Given given_;
  const CacheCase case_;
  const CacheShape shape_;
  Call call_;
  Tensor anchor_;
  Stream stream_;
  mutable std::optional<DeviceMemory> device_;
  TensorView q_, k_, v_, device_anchor_, mask_;
};

class DeviceKvCaches : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

/// Cases of the kernels that GPUs have.
std::vector<CacheCase> device_cases() {
  std::vector<CacheCase> cases = cache_cases();
  std::erase_if(cases, [](const CacheCase& c) { return c.scheme == Scheme::f32; });
  return cases;
}

void expect_same(const Output& got, const Output& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.o, want.o)) << what << ": off by " << relative_error(got.o, want.o);
  EXPECT_TRUE(same_bits(got.lse, want.lse))
      << what << ": LSE off by " << largest_difference(got.lse, want.lse);
}

/// As the cache on the CPU: integers with the same bits, others no less accurate (mma_device_test.cpp).
void expect_as_on_the_cpu(const DeviceProblem& problem, const Output& got, const Output& host,
                          const std::string& what) {
  const Scheme scheme = problem.of().scheme;
  if (scheme == Scheme::integer || scheme == Scheme::qflash) return expect_same(got, host, what);
  constexpr double kOfCodes = 1.15, kOfSums = 0.02;
  const Output exact = problem.attend_exact(problem.call().k.size(2));
  EXPECT_LE(relative_error(got.o, exact.o), kOfCodes * relative_error(host.o, exact.o) + 0x1p-9) << what;
  EXPECT_LE(largest_difference(got.lse, exact.lse), largest_difference(host.lse, exact.lse) + kOfSums)
      << what;
}

void expect_every_way_alike(const CacheCase& c, const CacheShape& shape, std::int64_t n, Given given) {
  DeviceProblem problem(c, shape, n, given);
  problem.put();
  const std::string where = c.name + (given == Given::f32 ? ", f32, " : ", bf16, ") + std::to_string(n) +
                            " keys of dim " + std::to_string(shape.dim) + ", ";
  KvCache at_once = problem.cache(Device::cuda), in_chunks = problem.cache(Device::cuda),
          on_host = problem.cache(Device::cpu);
  ASSERT_TRUE(problem.append(at_once, Device::cuda, 0, n).ok()) << where << octet_last_error();
  ASSERT_TRUE(problem.append(on_host, Device::cpu, 0, n).ok()) << where << octet_last_error();
  for (std::int64_t t = 0, step = 1; t < n; t += step, step = step % 97 == 6 ? 1 : step % 97 + 6)
    ASSERT_TRUE(problem.append(in_chunks, Device::cuda, t, std::min(n, t + step)).ok()) << octet_last_error();
  ASSERT_EQ(in_chunks.length(), n);
  const Output got = problem.attend(at_once, Device::cuda);
  expect_same(problem.attend(in_chunks, Device::cuda), got, where + "in odd chunks");
  expect_as_on_the_cpu(problem, got, problem.attend(on_host, Device::cpu), where + "the CPU's cache");
  // Of fewer keys a call has narrower tiles, and of fixed scales faster kernels.
  const bool tokens_only = c.k_amax == 0 && c.v_amax == 0;
  if (tokens_only && n >= 128) expect_same(problem.attend_plain(n), got, where + "octet_attend");
}

TEST_F(DeviceKvCaches, AreTheSameHoweverTokensWereAppended) {
  for (const CacheCase& c : device_cases())
    for (const std::int64_t n : {1, 49, 63, 64, 65, 127, 128, 197, 1000})
      for (const Given given : {Given::f32, Given::bf16})
        expect_every_way_alike(c, {1, 4, 2, 3, 64}, n, given);
}

TEST_F(DeviceKvCaches, AreTheSameAtEveryHeadDim) {
  for (const CacheCase& c : device_cases())
    for (const std::int64_t dim : {32, 80, 128, 256})
      for (const std::int64_t n : {65, 197}) expect_every_way_alike(c, {2, 2, 1, 1, dim}, n, Given::bf16);
}

TEST_F(DeviceKvCaches, ServePromptsAndLongKeys) {
  for (const CacheCase& c : device_cases()) {
    for (const CacheShape& shape : {CacheShape{1, 8, 2, 1, 128}, CacheShape{1, 8, 2, 600, 64}}) {
      constexpr std::int64_t kKeys = 3001;
      DeviceProblem problem(c, shape, kKeys);
      problem.put();
      KvCache there = problem.cache(Device::cuda, 4096), here = problem.cache(Device::cpu, 4096);
      ASSERT_TRUE(problem.append(there, Device::cuda, 0, 2500).ok());
      ASSERT_TRUE(problem.append(there, Device::cuda, 2500, 3000).ok());
      ASSERT_TRUE(problem.append(there, Device::cuda, 3000, kKeys).ok());
      ASSERT_TRUE(problem.append(here, Device::cpu, 0, kKeys).ok());
      expect_as_on_the_cpu(
          problem, problem.attend(there, Device::cuda, 4096), problem.attend(here, Device::cpu, 4096),
          c.name + ", " + std::to_string(shape.tokens_q) + " rows of dim " + std::to_string(shape.dim));
    }
  }
}

TEST_F(DeviceKvCaches, StepAsAppendingAndAttendingDo) {
  for (const CacheCase& c : device_cases()) {
    DeviceProblem problem(c, {2, 4, 2, 1, 64}, 140);
    problem.put();
    KvCache calls = problem.cache(Device::cuda), steps = problem.cache(Device::cuda);
    for (std::int64_t t = 0; t < 140; t += t < 120 ? 60 : 1) {
      const std::int64_t end = t < 120 ? t + 60 : t + 1;
      const std::string where = c.name + ", step to " + std::to_string(end);
      ASSERT_TRUE(problem.append(calls, Device::cuda, t, end).ok()) << where;
      expect_same(problem.step(steps, Device::cuda, t, end), problem.attend(calls, Device::cuda), where);
      ASSERT_EQ(steps.length(), end);
    }
  }
}

TEST_F(DeviceKvCaches, HideWhatAMaskHides) {
  for (const CacheCase& c : device_cases()) {
    DeviceProblem problem(c, {1, 2, 1, 1, 64}, 300);
    problem.call().options.mask = Mask::none;
    problem.call().mask.resize(300);
    for (std::size_t i = 0; i < 300; ++i) problem.call().mask[i] = i % 3 != 1;
    problem.put();
    KvCache there = problem.cache(Device::cuda), here = problem.cache(Device::cpu);
    ASSERT_TRUE(problem.append(there, Device::cuda, 0, 300).ok());
    ASSERT_TRUE(problem.append(here, Device::cpu, 0, 300).ok());
    expect_as_on_the_cpu(problem, problem.attend(there, Device::cuda), problem.attend(here, Device::cpu),
                         c.name + " with a mask");
  }
}

/// Numbers that are not there any more, some enormous and some NaN, leave no trace.
TEST_F(DeviceKvCaches, ForgetWhatIsTruncated) {
  for (const CacheCase& c : device_cases()) {
    DeviceProblem problem(c, {1, 2, 1, 2, 64}, 300);
    problem.put();
    Tensor large(1, 1, 40, 64);
    large.each([](float& x, auto, auto, std::int64_t t, auto) {
      x = t < 20 ? 1e4f : std::numeric_limits<float>::quiet_NaN();
    });
    DeviceMemory memory;
    const TensorView odd = memory.put(large.view());
    memory.wait();
    KvCache straight = problem.cache(Device::cuda), detour = problem.cache(Device::cuda);
    ASSERT_TRUE(problem.append(straight, Device::cuda, 0, 150).ok());
    ASSERT_TRUE(problem.append(detour, Device::cuda, 100, 133).ok());
    ASSERT_TRUE(detour.truncate(0).ok());
    ASSERT_TRUE(problem.append(detour, Device::cuda, 0, 150).ok());
    ASSERT_TRUE(detour.append(odd, odd).ok()) << octet_last_error();
    ASSERT_TRUE(problem.append(detour, Device::cuda, 200, 300).ok());
    ASSERT_TRUE(detour.truncate(150).ok());
    expect_same(problem.attend(detour, Device::cuda), problem.attend(straight, Device::cuda),
                c.name + ", truncated");
    ASSERT_TRUE(problem.append(straight, Device::cuda, 150, 300).ok());
    ASSERT_TRUE(problem.append(detour, Device::cuda, 150, 300).ok());
    expect_same(problem.attend(detour, Device::cuda), problem.attend(straight, Device::cuda),
                c.name + ", appended again");
  }
}

TEST_F(DeviceKvCaches, AnswerZeroAndMinusInfinityWhileEmpty) {
  for (const CacheCase& c : device_cases()) {
    DeviceProblem problem(c, {1, 2, 1, 2, 32}, 1);
    problem.put();
    Output out = problem.attend(problem.cache(Device::cuda), Device::cuda);
    out.o.each([&](float& x, auto...) { EXPECT_EQ(x, 0) << c.name; });
    out.lse.each([&](float& x, auto...) { EXPECT_EQ(x, -std::numeric_limits<float>::infinity()) << c.name; });
  }
}

TEST_F(DeviceKvCaches, TakeTheFirstKeyForAnAnchorWhereNoneIsGiven) {
  for (const CacheCase& c : device_cases()) {
    if (c.recipe.smooth != Smooth::anchor || c.k_amax > 0) continue;
    DeviceProblem problem(c, {2, 2, 1, 2, 32}, 90);
    problem.gives_anchor = false;
    problem.put();
    KvCache first = problem.cache(Device::cuda), later = problem.cache(Device::cuda),
            here = problem.cache(Device::cpu);
    ASSERT_TRUE(problem.append(first, Device::cuda, 0, 90).ok());
    ASSERT_TRUE(problem.append(here, Device::cpu, 0, 90).ok());
    ASSERT_TRUE(problem.append(later, Device::cuda, 40, 80).ok() && later.truncate(0).ok());
    for (std::int64_t t = 0; t < 90; ++t) ASSERT_TRUE(problem.append(later, Device::cuda, t, t + 1).ok());
    const Output got = problem.attend(first, Device::cuda);
    expect_same(problem.attend(later, Device::cuda), got, c.name + ", the first key");
    expect_as_on_the_cpu(problem, got, problem.attend(here, Device::cpu), c.name + ", the first key");
  }
}

/// Tokens of V of zeros, of as little as no number before it, and one that makes all after it small: what the
/// floors of scales are for. The CPU's cache takes one token after the other.
void expect_floors(const CacheCase& c, Given given) {
  DeviceProblem problem(c, {1, 2, 1, 1, 64}, 700, given);
  problem.call().v.each([](float& x, auto, auto, std::int64_t t, auto) {
    if (t < 2 || t == 130 || t == 513) x = 0;
    if (t == 2) x *= 1e-32f;
    if (t == 300) x *= 1e6f;
    if (t > 400 && t % 7 == 0) x *= 1e-3f;
  });
  problem.put();
  KvCache at_once = problem.cache(Device::cuda), in_chunks = problem.cache(Device::cuda),
          here = problem.cache(Device::cpu);
  ASSERT_TRUE(problem.append(at_once, Device::cuda, 0, 700).ok());
  for (std::int64_t t = 0; t < 700;) {
    const std::int64_t end = t % 140 < 7 ? t + 1 : std::min<std::int64_t>(t + 9, 700);
    ASSERT_TRUE(problem.append(in_chunks, Device::cuda, t, end).ok());
    ASSERT_TRUE(problem.append(here, Device::cpu, t, end).ok());
    t = end;
  }
  const Output got = problem.attend(at_once, Device::cuda), host = problem.attend(here, Device::cpu);
  expect_same(problem.attend(in_chunks, Device::cuda), got, c.name + ", floors in chunks");
  expect_as_on_the_cpu(problem, got, host, c.name + ", floors");
  EXPECT_LE(largest_difference(got.lse, host.lse), 0.02) << c.name << ": the mass of small tokens";
}

TEST_F(DeviceKvCaches, FloorScalesAsTheCpuDoes) {
  for (const CacheCase& c : device_cases()) {
    const bool has_floors = c.recipe.v == Granularity::token && scheme_info(c.scheme).v_set != 0;
    for (const Given given : {Given::f32, Given::bf16})
      if (has_floors) expect_floors(c, given);
  }
}

TEST_F(DeviceKvCaches, RefuseTensorsOfTheHostAndStreamsOnIt) {
  const CacheCase c = device_cases()[0];
  DeviceProblem problem(c, {1, 2, 1, 1, 32}, 8);
  problem.put();
  KvCache there = problem.cache(Device::cuda), here = problem.cache(Device::cpu);
  const Status of_host = problem.append(there, Device::cpu, 0, 8);
  EXPECT_EQ(of_host.code(), Code::invalid_argument);
  EXPECT_TRUE(is_sentence(of_host.message())) << of_host.message();
  EXPECT_EQ(problem.append(here, Device::cuda, 0, 8).code(), Code::invalid_argument);
  EXPECT_EQ(there.length(), 0);
  Stream stream;
  EXPECT_EQ(here.set_stream(stream.get()).message(),
            "stream is set, but the cache is of a plan on the CPU; pass NULL");
  const Status no_room = problem.append(there, Device::cuda, 0, 8);
  EXPECT_TRUE(no_room.ok());
  EXPECT_GT(there.bytes(), 0);
}

}  // namespace
}  // namespace octet::testing
