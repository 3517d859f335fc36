// Few queries on many keys: the keys are cut into ranges, and the heads of one K and V go together.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

/// Keys of one range: src/cpu/attend.cpp.
constexpr std::int64_t kRange = 2048;

/// A call with groups of query heads.
Call grouped_call(std::int64_t heads_q, std::int64_t heads_kv, std::int64_t m, std::int64_t n,
                  std::int64_t d) {
  Call call = normal_call(2, heads_q, m, n, d);
  Random random(5);
  call.k = Tensor(2, heads_kv, n, d), call.v = Tensor(2, heads_kv, n, d);
  call.k.fill_normal(random), call.v.fill_normal(random);
  return call;
}

class Decode : public OnSet {
 protected:
  /// P is also rounded against a range's own maximum.
  double allowance(Scheme scheme) const override {
    const bool half = scheme == Scheme::f16 || scheme == Scheme::fp8_hybrid || scheme == Scheme::int8_half;
    return half ? 3e-4 : OnSet::allowance(scheme);
  }
};

TEST_P(Decode, FollowsTheReferenceAroundEveryCut) {
  for (std::int64_t n : {kRange - 1, kRange, kRange + 1, 2 * kRange + 300, 3 * kRange})
    expect_reference(normal_call(1, 1, 1, n, 32), "keys " + std::to_string(n));
}

TEST_P(Decode, FollowsTheReferenceAtEveryNumberOfQueriesAndHeads) {
  for (std::int64_t m : {1, 2, 7, 16, 17})
    for (std::int64_t group : {1, 4, 7})
      expect_reference(grouped_call(2 * group, 2, m, kRange + 130, 16),
                       std::to_string(m) + " queries, " + std::to_string(group) + " heads a group");
}

TEST_P(Decode, FollowsTheReferenceWithFewRowsOfEveryHeadDim) {
  for (std::int64_t d : {20, 64, 80, 128, 200, 256})
    for (std::int64_t group : {1, 2, 3, 4, 5})
      expect_reference(grouped_call(2 * group, 2, 1, 300, d),
                       "head dim " + std::to_string(d) + ", " + std::to_string(group) + " heads a group");
}

// Few rows take several key blocks together: some of a run hidden from all rows, others from one, and blocks
// so wide or narrow that a range has one run, several, or none.
TEST_P(Decode, FollowsTheReferenceWithFewRowsInRunsOfKeyBlocks) {
  for (std::int64_t key_block : {32, 128, 512, 1024})
    for (std::int64_t group : {1, 4}) {
      const std::string what =
          "key block " + std::to_string(key_block) + ", " + std::to_string(group) + " heads";
      Call call = grouped_call(2 * group, 2, 1, kRange + 130, 32);
      call.options.key_block = key_block;
      expect_reference(call, what);
      call.bias = Tensor(1, 2 * group, 1, kRange + 130);
      Random random(99);
      call.bias.each([&](float& x, auto, std::int64_t h, auto, std::int64_t j) {
        const bool hidden = (200 <= j && j < 420) || (h == 1 && j < 1100);
        x = hidden ? -std::numeric_limits<float>::infinity() : static_cast<float>(2 * random.normal());
      });
      expect_reference(call, what + ", bias");
    }
}

TEST_P(Decode, FollowsTheReferenceUnderMasks) {
  Call call = grouped_call(8, 2, 9, 2 * kRange + 77, 16);
  call.options.mask = Mask::causal;
  expect_reference(call, "causal");
  call.options.window_left = 100;
  expect_reference(call, "a window in the last range");
  call.options.window_left = kRange + 300;
  expect_reference(call, "a window over ranges");
  call = grouped_call(8, 2, 3, 2 * kRange + 77, 16);
  add_bias(call, 2);
  expect_reference(call, "bias");
  call.bias.each([](float& x, auto, auto, std::int64_t i, std::int64_t j) {
    if (i == 1 || (i == 2 && j < kRange)) x = -std::numeric_limits<float>::infinity();
  });
  expect_reference(call, "a row without keys and one without those of the first range");
}

TEST_P(Decode, CutsEachPackedSequenceByItself) {
  Call call = normal_call(1, 2, 30, 3 * kRange, 16);
  call.cu_q = {0, 1, 1, 25, 30};
  call.cu_k = {0, static_cast<std::int32_t>(kRange + 5), static_cast<std::int32_t>(kRange + 40),
               static_cast<std::int32_t>(kRange + 50), static_cast<std::int32_t>(3 * kRange)};
  expect_reference(call, "packed sequences");
}

/// Runs items backwards on the calling thread.
void run_backwards(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  for (std::int64_t i = count; i-- > 0;) body(context, i);
}

TEST_P(Decode, HasTheSameBitsInAnyOrderOfItsItems) {
  for (Scheme scheme : fused()) {
    Call call = grouped_call(8, 2, 2, 2 * kRange + 77, 32);
    call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output forwards = run(call, scheme);
    call.options.parallel_for.run = run_backwards;
    const Output backwards = run(call, scheme);
    ASSERT_TRUE(forwards.status.ok() && backwards.status.ok());
    EXPECT_TRUE(same_bits(forwards.o, backwards.o) && same_bits(forwards.lse, backwards.lse))
        << scheme_info(scheme).name;
  }
}

TEST_P(Decode, StaysWithinTheBound) {
  for (Scheme scheme :
       {Scheme::f32, Scheme::bf16, Scheme::int8, Scheme::int8_full, Scheme::int8_fp8, Scheme::integer}) {
    if (!has(scheme)) continue;
    Call call = normal_call(1, 1, 2, kRange + 200, 32);
    const Output exact = run(call, Scheme::exact), bound = error_bound(call, scheme);
    call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output got = run(call, scheme);
    ASSERT_TRUE(exact.status.ok() && bound.status.ok() && got.status.ok());
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t c = 0; c < 32; ++c)
        EXPECT_LE(std::fabs(got.o.at(0, 0, i, c) - exact.o.at(0, 0, i, c)), bound.o.at(0, 0, i, c))
            << scheme_info(scheme).name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Decode, every_set(), name_of_set);

}  // namespace
}  // namespace octet::testing
