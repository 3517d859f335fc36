// Every instruction set of the CPU backend against the reference: integer schemes bit for bit, the others
// within what another order of float sums and the 16-bit softmax may change. What this processor lacks is
// skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

using cpu::Isa;

class Backends : public OnSet {};

TEST_P(Backends, HaveEveryFusedScheme) {
  // AMX: int8, int8_shift, int8_full, int8_lut, int4, qflash, integer, whose two products are of codes, and
  // bf16; FP16: those with a rounded softmax in words, int8, int8_shift, int4; BF16: bf16.
  const std::map<Isa, std::size_t> some{{Isa::amx_int8, 8}, {Isa::avx512_fp16, 3}, {Isa::avx512_bf16, 1}};
  const auto wanted = some.find(GetParam());
  EXPECT_EQ(fused().size(), wanted == some.end() ? 15 : wanted->second);
}

TEST_P(Backends, FollowTheReferenceInEveryFeature) {
  for (Scheme scheme : fused())
    for (const Feature& f : features()) expect_reference(scheme, f.make(), f.name);
}

TEST_P(Backends, FollowTheReferenceAtEveryLength) {
  for (Scheme scheme : fused()) {
    for (std::int64_t n : {1, 15, 16, 17, 31, 33, 49, 63, 64, 65, 127, 128, 129, 197, 255, 257, 511, 1025})
      expect_reference(scheme, normal_call(1, 1, n % 37 + 1, n, 16, static_cast<std::uint64_t>(n)),
                       "keys " + std::to_string(n));
  }
}

TEST_P(Backends, FollowTheReferenceAtEveryNumberOfRows) {
  for (Scheme scheme : fused()) {
    for (std::int64_t m : {1, 2, 5, 6, 7, 12, 47, 48, 49, 95, 97})
      expect_reference(scheme, normal_call(1, 2, m, 130, 32, static_cast<std::uint64_t>(m)),
                       "rows " + std::to_string(m));
  }
}

TEST_P(Backends, FollowTheReferenceAtEveryHeadDim) {
  for (Scheme scheme : fused()) {
    for (std::int64_t d : {1, 2, 3, 7, 8, 15, 17, 31, 33, 64, 72, 80, 96, 100, 127, 129, 160, 255, 256})
      expect_reference(scheme, normal_call(1, 1, 13, 140, d), "dim " + std::to_string(d));
  }
}

TEST_P(Backends, FollowTheReferenceAtEveryKeyBlock) {
  for (Scheme scheme : fused()) {
    for (std::int64_t block : {16, 48, 128, 256, 512, 1024}) {
      Call call = normal_call(1, 1, 13, 1100, 32);
      call.options.key_block = block;
      expect_reference(scheme, call, "key block " + std::to_string(block));
      call.options.mask = Mask::causal;
      expect_reference(scheme, call, "causal, key block " + std::to_string(block));
    }
  }
}

/// Stages of a group of rows go beside products of others: groups that are whole or not, first and last ones,
/// and blocks whose keys fill no chunk, or that some rows see a part of.
TEST_P(Backends, FollowTheReferenceWhereGroupsOfRowsGoBesideEachOther) {
  if (!has(Scheme::integer)) GTEST_SKIP() << "a set without a nest of the scheme that does so";
  for (std::int64_t dim : {64, 80, 128})
    for (std::int64_t rows : {16, 20, 33, 100, 213})
      for (std::int64_t block : {64, 128, 512, 1024}) {
        const std::int64_t keys = block + 5 * rows;
        Call call = normal_call(1, 1, rows, keys, dim, static_cast<std::uint64_t>(rows + block));
        call.options.key_block = block;
        const std::string name = std::to_string(dim) + " channels, " + std::to_string(rows) + " rows, " +
                                 std::to_string(keys) + " keys in blocks of " + std::to_string(block);
        expect_reference(Scheme::integer, call, name);
        call.options.mask = Mask::causal;
        expect_reference(Scheme::integer, call, "causal, " + name);
      }
}

/// Scores and V scales beyond the range of the 16-bit softmax: its key blocks take the f32 form.
TEST_P(Backends, LeaveTheSixteenBitFormWhereItDoesNotFit) {
  for (Scheme scheme : {Scheme::int8, Scheme::int8_shift, Scheme::int4}) {
    Call call = normal_call(1, 2, 20, 300, 64);
    call.q.each([](float& x, auto...) { x *= 40; });
    expect_reference(scheme, call, "scores of a thousand octaves");
    call = normal_call(1, 2, 20, 300, 64);
    call.v.each([](float& x, auto, auto, std::int64_t t, auto) { x *= t % 7 == 0 ? 1e-4f : 1.0f; });
    expect_reference(scheme, call, "uneven tokens of V");
    call.v.each([](float& x, auto, auto, std::int64_t t, auto) { x = t < 128 ? 0.0f : x; });
    expect_reference(scheme, call, "a block of zeros in V");
    call = normal_call(1, 1, 20, 300, 64);
    add_bias(call, 300);
    expect_reference(scheme, call, "a bias of hundreds");
  }
}

/// Codes are integers, and so is their sum: of one key block, against which nothing is rescaled, a table
/// gives the reference's bits, whether its codes come from registers or its entries by gathers.
TEST_P(Backends, LookUpTheCodesOfATable) {
  if (!has(Scheme::int8_lut)) GTEST_SKIP() << "a set without a nest of int8_lut";
  for (const SchemeOptions::Table table : {SchemeOptions::Table::direct, SchemeOptions::Table::linear})
    for (const std::int32_t bits : {3, 7, 8, 10, 11})
      for (const Mask mask : {Mask::none, Mask::causal}) {
        Call call = normal_call(1, 2, 150, 1000, 64, static_cast<std::uint64_t>(bits));
        call.options.key_block = 1024, call.options.mask = mask;
        call.options.scheme_options.table = table, call.options.scheme_options.table_bits = bits;
        call.options.backend = "reference";
        const Output want = run(call, Scheme::int8_lut);
        call.options.backend = std::string(cpu::name_of(GetParam()));
        const Output got = run(call, Scheme::int8_lut);
        ASSERT_TRUE(want.status.ok() && got.status.ok()) << want.status.message() << got.status.message();
        EXPECT_TRUE(same_bits(got.o, want.o)) << bits << " bits";
      }
}

/// A row by itself has the bits that it has among others: few rows have products and folds of their own.
TEST_P(Backends, GiveARowTheSameBitsWhateverIsComputedBesideIt) {
  for (Scheme scheme : fused()) {
    for (const std::int64_t dim : {32, 64, 128}) {  // with and without whole tiles of channels
      Call call = normal_call(1, 1, 50, 400, dim);
      call.options.backend = std::string(cpu::name_of(GetParam()));
      call.q.each([](float& x, auto, auto, auto, std::int64_t c) {
        if (c == 0) x = x > 0 ? 8.0f : -8.0f;  // so that a scale of the head is a row's as well
      });
      const Output all = run(call, scheme);
      ASSERT_TRUE(all.status.ok());
      for (std::int64_t i : {0, 5, 6, 47, 48, 49}) {
        Call one = call;
        one.q = Tensor(1, 1, 1, dim);
        for (std::int64_t c = 0; c < dim; ++c) one.q.at(0, 0, 0, c) = call.q.at(0, 0, i, c);
        const Output row = run(one, scheme);
        ASSERT_TRUE(row.status.ok());
        for (std::int64_t c = 0; c < dim; ++c)
          EXPECT_EQ(row.o.at(0, 0, 0, c), all.o.at(0, 0, i, c))
              << name_of(scheme) << ", " << dim << " channels, row " << i << ", " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Backends, every_set(), name_of_set);

TEST(Isa, IsHeldToWhatTheEnvironmentNames) {
  ASSERT_EQ(setenv("OCTET_ISA", "scalar", 1), 0);
  EXPECT_EQ(cpu::refusal(Isa::avx2), "OCTET_ISA is scalar");
  ASSERT_EQ(setenv("OCTET_ISA", "avx3", 1), 0);
  EXPECT_NE(cpu::refusal(Isa::avx2).find(
                "must be one of scalar, amx_int8, avx512_fp16, avx512_bf16, avx512_vnni, avx_vnni, avx2"),
            std::string::npos);
  ASSERT_EQ(setenv("OCTET_ISA", "avx512_fp16", 1), 0);  // which includes avx512_vnni
  EXPECT_EQ(cpu::refusal(Isa::avx512_vnni).find("OCTET_ISA"), std::string::npos);
  EXPECT_EQ(cpu::refusal(Isa::avx512_bf16).find("OCTET_ISA"), std::string::npos);
  EXPECT_EQ(cpu::refusal(Isa::amx_int8), "OCTET_ISA is avx512_fp16");
  EXPECT_EQ(cpu::refusal(Isa::avx2), "OCTET_ISA is avx512_fp16");
  ASSERT_EQ(setenv("OCTET_ISA", "avx512_vnni", 1), 0);
  EXPECT_EQ(cpu::refusal(Isa::avx512_fp16), "OCTET_ISA is avx512_vnni");
  EXPECT_EQ(cpu::refusal(Isa::avx512_bf16), "OCTET_ISA is avx512_vnni");
  ASSERT_EQ(setenv("OCTET_ISA", "avx512_bf16", 1), 0);
  EXPECT_TRUE(prefers_bf16());
  ASSERT_EQ(unsetenv("OCTET_ISA"), 0);
  EXPECT_EQ(prefers_bf16(), !__builtin_cpu_is("intel"));
  EXPECT_EQ(cpu::refusal(Isa::avx2).find("OCTET_ISA"), std::string::npos);
}

}  // namespace
}  // namespace octet::testing
