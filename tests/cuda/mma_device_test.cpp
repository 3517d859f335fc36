// The mma kernels, and the quantiser on the GPU before them, against the reference: integer schemes bit for
// bit, the others within what another order of float sums may change. Without a GPU everything is skipped.
#include "core/schemes.h"
#include "numerics/contract.h"
#include "tests/attention/features.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

class Mma : public OnDevice {
 protected:
  /// Relative RMSE between the two: roundings of float sums, and of the codes of P that they decide. 0: the
  /// same bits.
  double allowance() const {
    switch (GetParam()) {
      case Scheme::integer:
      case Scheme::qflash:
        return 0;
      case Scheme::f16:
      case Scheme::fp8_hybrid:
      case Scheme::int8_half:
        return 1e-4;
      default:  // a code of P that falls on the other side of a tie
        return 3e-3;
    }
  }

  void expect_reference(Call call, const std::string& what) const {
    const Scheme scheme = GetParam();
    call.options.backend = "reference";
    const Output want = run(call, scheme);
    if (want.status.code() == Code::unsupported) return;
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    // note: from codes the LSE gets back what K's mean takes away from Q as quantised, not from Q.
    const double of_codes = scheme_info(scheme).qk == DType::s4 ? 0.5 : 0.1;
    const bool shifted = scheme_info(scheme).recipe.smooth != Smooth::none;
    for (const Operands operands : {Operands::codes, Operands::plain}) {
      const Output got = run_on_device(call, scheme, operands);
      const std::string where = std::string(scheme_info(scheme).name) + ", " + what +
                                (operands == Operands::codes ? ", from codes" : ", from numbers");
      const bool compares_lse = operands == Operands::plain || !shifted;
      ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
      if (const double allowed = allowance(); allowed == 0) {
        EXPECT_TRUE(same_bits(got.o, want.o)) << where << ": off by " << relative_error(got.o, want.o);
        EXPECT_TRUE(!compares_lse || same_bits(got.lse, want.lse)) << where << ": LSE";
      } else {
        EXPECT_LE(relative_error(got.o, want.o), allowed) << where;
        const double most = compares_lse ? 2 * allowed + 1e-5 : of_codes;
        EXPECT_LE(largest_difference(got.lse, want.lse), most) << where << ": LSE";
      }
      EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
    }
  }
};

TEST_P(Mma, FollowsTheReferenceInEveryFeature) {
  for (const Feature& f : features()) expect_reference(f.make(), f.name);
}

TEST_P(Mma, FollowsTheReferenceAtEveryLength) {
  for (std::int64_t n = 1; n <= 300; n = n < 70 ? n + 1 : n + 7)
    expect_reference(normal_call(1, 2, n % 37 + 1, n, 64, static_cast<std::uint64_t>(n)),
                     "keys " + std::to_string(n));
  for (std::int64_t n : {1024, 8191})
    expect_reference(normal_call(1, 1, 33, n, 64, static_cast<std::uint64_t>(n)),
                     "keys " + std::to_string(n));
}

TEST_P(Mma, FollowsTheReferenceAtEveryNumberOfRows) {
  for (std::int64_t m : {1, 2, 15, 16, 17, 63, 64, 65, 127, 197, 1000})
    expect_reference(normal_call(1, 2, m, 130, 32, static_cast<std::uint64_t>(m)),
                     "rows " + std::to_string(m));
}

TEST_P(Mma, FollowsTheReferenceAtEveryHeadDim) {
  for (std::int64_t d :
       {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 72, 80, 96, 100, 127, 128, 129, 160, 255, 256})
    expect_reference(normal_call(1, 1, 13, 140, d), "dim " + std::to_string(d));
}

TEST_P(Mma, FollowsTheReferenceAtEveryKeyBlock) {
  for (std::int64_t block : {16, 48, 64, 112, 128}) {
    Call call = normal_call(1, 1, 70, 500, 64);
    call.options.key_block = block;
    expect_reference(call, "key block " + std::to_string(block));
    call.options.mask = Mask::causal;
    expect_reference(call, "causal, key block " + std::to_string(block));
  }
}

TEST_P(Mma, GivesTheSameBitsAHundredTimes) {
  const Call call = normal_call(2, 3, 130, 333, 64);
  const Output first = run_on_device(call, GetParam(), Operands::plain);
  ASSERT_TRUE(first.status.ok()) << first.status.message();
  for (int i = 1; i < 100; ++i) {
    const Output again = run_on_device(call, GetParam(), Operands::plain);
    ASSERT_TRUE(again.status.ok() && same_bits(again.o, first.o)) << "run " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Mma,
                         ::testing::Values(Scheme::f16, Scheme::bf16, Scheme::fp8, Scheme::fp8_hybrid,
                                           Scheme::int8_full, Scheme::int8_half, Scheme::int8,
                                           Scheme::int8_shift, Scheme::int8_fp8, Scheme::int8_lut,
                                           Scheme::int4, Scheme::qflash, Scheme::qattn, Scheme::integer),
                         [](const auto& param) { return std::string(scheme_info(param.param).name); });

}  // namespace
}  // namespace octet::testing
