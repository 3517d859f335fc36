// What the tests of the CPU backend share: a suite runs on every instruction set that this processor has, and
// holds each to the reference.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/cpu.h"
#include "tests/attention/features.h"

namespace octet::testing {

/// INSTANTIATE_TEST_SUITE_P(Sets, Suite, every_set(), name_of_set).
inline auto every_set() {
  return ::testing::Values(cpu::Isa::amx_int8, cpu::Isa::avx512_fp16, cpu::Isa::avx512_bf16,
                           cpu::Isa::avx512_vnni, cpu::Isa::avx_vnni, cpu::Isa::avx2);
}
inline std::string name_of_set(const ::testing::TestParamInfo<cpu::Isa>& set) {
  return std::string(cpu::name_of(set.param));
}

/// A suite's parameter is the instruction set; one that this processor lacks is skipped.
class OnSet : public ::testing::TestWithParam<cpu::Isa> {
 protected:
  void SetUp() override {
    const std::string reason = cpu::refusal(GetParam());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  bool has(Scheme scheme) const { return cpu::nest_of(GetParam(), scheme) != nullptr; }
  /// The schemes that have a nest on the instruction set.
  std::vector<Scheme> fused() const {
    std::vector<Scheme> some;
    for (Scheme scheme : schemes())
      if (has(scheme)) some.push_back(scheme);
    return some;
  }

  /// Relative RMSE between two backends: roundings of float sums, and of the P codes that they decide. 0: the
  /// same bits, for there are integers only from the quantised operands to the output codes.
  virtual double allowance(Scheme scheme) const {
    switch (scheme) {
      case Scheme::integer:
      case Scheme::qflash:
        return 0;
      case Scheme::f32:
        return 2e-6;
      case Scheme::f16:
      case Scheme::fp8_hybrid:
      case Scheme::int8_half:
        return 1e-4;
      case Scheme::int8:
      case Scheme::int8_shift:
      case Scheme::int4:  // the 16-bit softmax: weights within 0.6 %, and codes that fall on the other side
                          // of a tie
        return 1e-2;
      default:  // a code of P that falls on the other side of a tie: 1/127 of a weight at most
        return 3e-3;
    }
  }

  /// Of a scheme that has a nest on the set, unless it refuses the call's features on every backend.
  void expect_reference(Scheme scheme, Call call, const std::string& what) const {
    if (!has(scheme)) return;
    call.options.backend = "reference";
    const Output want = run(call, scheme);
    if (want.status.code() == Code::unsupported) return;
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output got = run(call, scheme);
    const std::string where = std::string(scheme_info(scheme).name) + ", " + what;
    ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
    if (const double allowed = allowance(scheme); allowed == 0) {
      EXPECT_TRUE(same_bits(got.o, want.o)) << where;
      EXPECT_TRUE(same_bits(got.lse, want.lse)) << where << ": LSE";
    } else {
      EXPECT_LE(relative_error(got.o, want.o), allowed) << where;
      EXPECT_LE(largest_difference(got.lse, want.lse), 2 * allowed + 1e-5) << where << ": LSE";
    }
    EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
  }
  void expect_reference(const std::vector<Scheme>& some, const Call& call, const std::string& what) const {
    for (Scheme scheme : some) expect_reference(scheme, call, what);
  }
  void expect_reference(const Call& call, const std::string& what) const {
    expect_reference(schemes(), call, what);
  }
};

}  // namespace octet::testing
