// The CUDA kernels, mma's and Hopper's, and the quantiser before them, against the reference: integer schemes
// bit for bit, the others within what another order of float sums may change, and each element within the
// scheme's own bound of float64 attention. Without a GPU everything is skipped.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/schemes.h"
#include "numerics/contract.h"
#include "tests/attention/features.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

/// What beside the reference a call is held to.
enum class Also { nothing, the_bound };

/// QFlash's problems: ViT and DeiT of three sizes, and the stages of Swin-T and S, whose windows are entries
/// of the batch. Source: QFlash, table 1.
struct PaperProblem {
  const char* name;
  std::int64_t windows, heads, tokens, dim;
};

class Mma : public OnDevice {
 protected:
  /// Schemes whose allowance is that of a matrix unit's own sums: their elements are held to the bound by
  /// every cut.
  bool is_of_e4m3() const {
    return GetParam() == Scheme::fp8 || GetParam() == Scheme::fp8_hybrid || GetParam() == Scheme::int8_fp8;
  }

  /// Every element within its bound of float64 attention; a scheme of the reference's bits is where that is.
  static void expect_within_bound(const Output& got, const Output& exact, const Output& bound,
                                  const std::string& where) {
    Tensor o = got.o;
    std::int64_t beyond = 0;
    o.each([&](float& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
      const double error = std::fabs(double{x} - double{exact.o.at(b, h, i, c)});
      if (error <= double{bound.o.at(b, h, i, c)} || beyond++ > 0) return;
      ADD_FAILURE() << where << ": element (" << b << ", " << h << ", " << i << ", " << c << ") is " << x
                    << " against " << exact.o.at(b, h, i, c) << ", bound " << bound.o.at(b, h, i, c);
    });
    EXPECT_EQ(beyond, 0) << where << ": elements beyond their bound";
  }

  /// How operands reach the kernel.
  using Ways = std::vector<Operands>;
  static Ways usual_ways() { return {Operands::codes, Operands::plain}; }
  static std::string name_of_way(Operands operands) {
    return operands == Operands::codes   ? ", from codes"
           : operands == Operands::plain ? ", from numbers"
                                         : ", from bf16";
  }

  void expect_reference(Call call, const std::string& what, Also also = Also::nothing,
                        const Ways& ways = usual_ways()) const {
    const Scheme scheme = GetParam();
    call.options.backend = "reference";
    const Output want = run(call, scheme);
    if (want.status.code() == Code::unsupported) return;
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    Output exact, bound;
    if (allowance() == 0) also = Also::nothing;  // tests/attention/bound_test.cpp says it of the same bits
    if (also == Also::the_bound) {
      exact = run(call, Scheme::exact), bound = error_bound(call, scheme);
      ASSERT_TRUE(exact.status.ok() && bound.status.ok()) << exact.status.message() << bound.status.message();
    }
    // note: from codes the LSE gets back what K's mean takes away from Q as quantised, not from Q.
    const double of_codes = scheme_info(scheme).qk == DType::s4 ? 0.5 : 0.1;
    const bool shifted = scheme_info(scheme).recipe.smooth != Smooth::none;
    for (const Operands operands : ways) {
      const Output got = run_on_device(call, scheme, operands);
      const std::string where = std::string(scheme_info(scheme).name) + ", " + what + name_of_way(operands);
      const bool compares_lse = operands != Operands::codes || !shifted;
      ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
      if (const double allowed = allowance(); allowed == 0) {
        EXPECT_TRUE(same_bits(got.o, want.o)) << where << ": off by " << relative_error(got.o, want.o);
        EXPECT_TRUE(!compares_lse || same_bits(got.lse, want.lse)) << where << ": LSE";
      } else {
        EXPECT_LE(relative_error(got.o, want.o), allowed) << where;
        const double most = compares_lse ? lse_allowance(want) : of_codes;
        EXPECT_LE(largest_difference(got.lse, want.lse), most) << where << ": LSE";
      }
      if (also == Also::the_bound) expect_within_bound(got, exact, bound, where);
      EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
    }
  }

  /// Schemes that round P against the largest score so far: of keys in ranges, against the range's own.
  bool rounds_by_ranges() const {
    return GetParam() == Scheme::fp8 || GetParam() == Scheme::int8_full || GetParam() == Scheme::int8_fp8 ||
           GetParam() == Scheme::int8_lut;
  }

  /// No less accurate than the reference, whose codes are others of as many bits: of a few rows their errors
  /// differ by so much.
  void expect_accuracy(const Output& got, const Output& want, const Output& exact,
                       const std::string& where) const {
    constexpr double kOfCodes = 1.15;
    EXPECT_LE(relative_error(got.o, exact.o), kOfCodes * relative_error(want.o, exact.o) + allowance())
        << where;
  }

  /// The same of the LSE: where sums are of codes, a range loses fewer small weights than all keys do.
  void expect_accurate_lse(const Output& got, const Output& want, const Output& exact,
                           const std::string& where) const {
    EXPECT_LE(largest_difference(got.lse, exact.lse),
              largest_difference(want.lse, exact.lse) + lse_allowance(want))
        << where << ": LSE";
  }

  /// A call whose keys are cut in ranges: as expect_reference(), or where P's codes are others than the
  /// reference's as by expect_as_accurate(): of schemes that round against the largest score so far, and of
  /// all where a bias leaves few weights above one code.
  void expect_few_rows(const Call& call, const std::string& what, Also also = Also::nothing,
                       const Ways& ways = usual_ways()) const {
    const bool has_bias = call.bias.size(0) > 0;
    if (rounds_by_ranges() || (has_bias && allowance() > 0))
      expect_as_accurate(call, what, ways);
    else
      expect_reference(call, what, also, ways);
  }

  /// Within the bound, and no less accurate than the reference is.
  void expect_as_accurate(Call call, const std::string& what, const Ways& ways = usual_ways()) const {
    const Scheme scheme = GetParam();
    const Output bound = error_bound(call, scheme);
    Call of_exact = call;
    of_exact.options.recipe.reset();
    const Output exact = run(of_exact, Scheme::exact);
    call.options.backend = "reference";
    const Output want = run(call, scheme);
    if (want.status.code() == Code::unsupported) return;
    ASSERT_TRUE(want.status.ok() && exact.status.ok() && bound.status.ok())
        << want.status.message() << exact.status.message() << bound.status.message();
    for (const Operands operands : ways) {
      const Output got = run_on_device(call, scheme, operands);
      const std::string where = std::string(scheme_info(scheme).name) + ", " + what + name_of_way(operands);
      ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
      expect_accuracy(got, want, exact, where);
      if (operands != Operands::codes) expect_accurate_lse(got, want, exact, where);
      expect_within_bound(got, exact, bound, where);
      EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
    }
  }

  /// The call by every cut that it would not take itself (CutsOnDevice); of int8 all forms.
  void expect_seldom_cuts(Call call, const std::string& what) const {
    expect_cuts(call, what);
    if ((GetParam() != Scheme::int8 && GetParam() != Scheme::int4) || call.options.recipe) return;
    call.options.recipe = scheme_info(GetParam()).recipe;
    call.options.recipe->v = Granularity::channel;
    expect_cuts(call, what + ", V by channel");
    call.options.recipe->k = Granularity::block, call.options.recipe->v = Granularity::head;
    expect_cuts(call, what + ", K by block, V by head");
  }
  void expect_cuts(const Call& call, const std::string& what) const {
    const Scheme scheme = GetParam();
    Call by_reference = call;
    by_reference.options.backend = "reference";
    const Output want = run(by_reference, scheme);
    if (want.status.code() == Code::unsupported) return;
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    Output exact, bound;
    const bool has_bound = (is_of_e4m3() || rounds_by_ranges()) &&
                           (exact = run(call, Scheme::exact)).status.ok() &&
                           (bound = error_bound(call, scheme)).status.ok();
    CutsOnDevice cuts(call, scheme);
    if (cuts.status().code() == Code::unsupported) return;
    ASSERT_TRUE(cuts.status().ok()) << what << ": " << cuts.status().message();
    for (std::size_t cut = 0; cut < cuts.count(); ++cut) {
      const Output got = cuts.run(cut), again = cuts.run(cut);
      const std::string where =
          std::string(scheme_info(scheme).name) + ", " + what + ", cut " + std::to_string(cut);
      ASSERT_TRUE(got.status.ok() && again.status.ok()) << where << ": " << got.status.message();
      const bool by_ranges = cuts.has_ranges(cut) && rounds_by_ranges();
      if (by_ranges) {
        expect_accuracy(got, want, exact, where);
      } else {
        EXPECT_LE(relative_error(got.o, want.o), allowance()) << where;
      }
      if (has_bound) expect_within_bound(got, exact, bound, where);
      if (scheme_info(scheme).recipe.smooth == Smooth::none) {
        if (by_ranges) {
          expect_accurate_lse(got, want, exact, where);
        } else {
          EXPECT_LE(largest_difference(got.lse, want.lse), lse_allowance(want)) << where << ": LSE";
        }
      }
      EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
      EXPECT_TRUE(same_bits(again.o, got.o) && same_bits(again.lse, got.lse)) << where << ": other bits";
    }
    const Status margins = cuts.look_at_margins();
    EXPECT_TRUE(margins.ok()) << what << ": " << margins.message();
  }
  bool has_seldom_cuts(const Call& call) const { return CutsOnDevice(call, GetParam()).count() > 0; }

  /// Numbers of the paper's protocol, uniform on (-4, 4); windows also with a bias for each head.
  void expect_problem(const PaperProblem& p) const {
    for (std::int64_t batch : {1, 8}) {
      Call call = normal_call(batch * p.windows, p.heads, p.tokens, p.tokens, p.dim);
      Random random(static_cast<std::uint64_t>(batch));
      for (Tensor* x : {&call.q, &call.k, &call.v})
        x->each([&](float& number, auto...) { number = static_cast<float>(random.uniform(-4, 4)); });
      const std::string what = std::string(p.name) + ", batch " + std::to_string(batch);
      expect_reference(call, what, Also::the_bound);
      if (p.dim == 64) {
        call.options.key_block = 112;
        expect_reference(call, what + ", key block 112", Also::the_bound);
        continue;
      }
      call.bias = Tensor(1, p.heads, p.tokens, p.tokens);
      call.bias.fill_normal(random);
      expect_reference(call, what + ", relative positions");
    }
  }
};

TEST_P(Mma, FollowsTheReferenceInEveryFeature) {
  for (const Feature& f : features()) expect_reference(f.make(), f.name, Also::the_bound);
}

TEST_P(Mma, FollowsTheReferenceAtEveryLength) {
  for (std::int64_t n = 1; n <= 300; n = n < 70 ? n + 1 : n + 7)
    expect_reference(normal_call(1, 2, n % 37 + 1, n, 64, static_cast<std::uint64_t>(n)),
                     "keys " + std::to_string(n));
  for (std::int64_t n : {1024, 8191})
    expect_few_rows(normal_call(1, 1, 33, n, 64, static_cast<std::uint64_t>(n)), "keys " + std::to_string(n));
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

// Blocks' references lie from a fraction of an octave to thousands of them apart: sums of `integer` go to one
// bin, to two, and to more than can be parted afterwards; distances to 16 bits and to 32.
TEST_P(Mma, GivesTheReferencesBitsWhateverBinsSumsGoTo) {
  if (GetParam() != Scheme::integer) GTEST_SKIP() << "a scheme without bins";
  for (float scale : {1e-6f, 0.02f, 0.125f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 5.0f, 20.0f, 1000.0f, 1e6f}) {
    for (std::int64_t d : {32, 64, 160}) {
      Call call = normal_call(1, 2, 40, 2000, d, static_cast<std::uint64_t>(d));
      call.options.softmax_scale = scale;
      call.options.key_block = 64;
      expect_reference(call, "softmax_scale " + std::to_string(scale) + ", dim " + std::to_string(d));
    }
    // Rows of one and of two key blocks have none.
    for (std::int64_t n : {1, 7, 49, 64, 65, 113, 197, 224, 256}) {
      for (std::int64_t d : {20, 32, 64}) {
        for (std::int64_t block : {48, 64, 112, 128}) {
          Call call = normal_call(2, 2, 37, n, d, static_cast<std::uint64_t>(n + d));
          call.options.softmax_scale = scale;
          call.options.key_block = block;
          expect_seldom_cuts(call, std::to_string(n) + " keys, softmax_scale " + std::to_string(scale) +
                                       ", dim " + std::to_string(d) + ", key block " + std::to_string(block));
        }
      }
    }
  }
}

TEST_P(Mma, FollowsTheReferenceOnA1) { expect_problem({"A1", 1, 3, 197, 64}); }
TEST_P(Mma, FollowsTheReferenceOnA2) { expect_problem({"A2", 1, 6, 197, 64}); }
TEST_P(Mma, FollowsTheReferenceOnA3) { expect_problem({"A3", 1, 12, 197, 64}); }
TEST_P(Mma, FollowsTheReferenceOnA4) { expect_problem({"A4", 64, 3, 49, 32}); }
TEST_P(Mma, FollowsTheReferenceOnA5) { expect_problem({"A5", 16, 6, 49, 32}); }
TEST_P(Mma, FollowsTheReferenceOnA6) { expect_problem({"A6", 4, 12, 49, 32}); }
TEST_P(Mma, FollowsTheReferenceOnA7) { expect_problem({"A7", 1, 24, 49, 32}); }

TEST_P(Mma, FollowsTheReferenceForEveryNumberOfQueryHeadsAKeyHead) {
  constexpr std::int64_t kKeyHeads = 2, kRows = 75, kKeys = 150;
  for (std::int64_t group = 1; group <= 8; ++group) {
    Call call = normal_call(1, kKeyHeads * group, kRows, kKeys, 64, static_cast<std::uint64_t>(group));
    Random random(static_cast<std::uint64_t>(group) + 100);
    call.k = Tensor(1, kKeyHeads, kKeys, 64), call.v = Tensor(1, kKeyHeads, kKeys, 64);
    call.k.fill_normal(random), call.v.fill_normal(random);
    const std::string what = std::to_string(group) + " query heads a key head";
    expect_reference(call, what, Also::the_bound);
    Call causal = call;
    causal.options.mask = Mask::causal;
    expect_reference(causal, what + ", causal", Also::the_bound);
    call.mask.resize(static_cast<std::size_t>(kRows * kKeys));
    for (std::size_t i = 0; i < call.mask.size(); ++i) call.mask[i] = (i * 7919 / 3) % 5 != 0;
    expect_reference(call, what + ", masked", Also::the_bound);
  }
}

/// Scales that all keys of a block share, and none of V along tokens: int8 has a form of its own for them.
TEST_P(Mma, FollowsTheReferenceWhereKeysShareTheirScales) {
  if (GetParam() != Scheme::int8 && GetParam() != Scheme::int4) GTEST_SKIP() << "other recipes have one form";
  for (const Granularity k :
       {Granularity::token, Granularity::block, Granularity::head, Granularity::tensor}) {
    for (const Granularity v : {Granularity::channel, Granularity::head}) {
      for (const Feature& f : features()) {
        Call call = f.make();
        if (call.options.recipe) continue;
        call.options.recipe = scheme_info(GetParam()).recipe;
        call.options.recipe->k = k, call.options.recipe->v = v;
        expect_reference(call, f.name + std::string(", K by ") + name_of(k) + ", V by " + name_of(v));
      }
    }
  }
}

// Long calls and calls that fill the card do not have their keys in parts by themselves, and short ones are
// not for Hopper's kernels: here all are.
TEST_P(Mma, FollowsTheReferenceByEveryCut) {
  if (!has_seldom_cuts(normal_call(1, 1, 16, 197, 64)))
    GTEST_SKIP() << "parts of rows are not merged, and Hopper has no kernels of its own";
  for (const Feature& f : features()) expect_seldom_cuts(f.make(), f.name);
  for (std::int64_t n : {1, 49, 129, 197, 300, 1000}) {
    for (std::int64_t rows : {1, 197}) {
      const auto length = static_cast<std::uint64_t>(n);
      const std::string what = std::to_string(rows) + " rows, " + std::to_string(n) + " keys";
      Call call = normal_call(2, 2, rows, n, 64, length);
      expect_seldom_cuts(call, what);
      Call causal = call;
      causal.options.mask = Mask::causal;
      expect_seldom_cuts(causal, what + ", causal");
      Call window = call;  // rows whose keys are all in the first part, in the second, and in both
      window.options.window_left = 40, window.options.window_right = 9;
      expect_seldom_cuts(window, what + ", window");
      Call blocks = call;
      blocks.options.key_block = 48;
      expect_seldom_cuts(blocks, what + ", key block 48");
      blocks.options.key_block = 112;
      expect_seldom_cuts(blocks, what + ", key block 112");
      blocks.options.mask = Mask::causal;
      expect_seldom_cuts(blocks, what + ", key block 112, causal");
      call.mask.resize(static_cast<std::size_t>(rows * n));
      for (std::size_t i = 0; i < call.mask.size(); ++i) call.mask[i] = (i * 7919 / 3) % 5 != 0;
      expect_seldom_cuts(call, what + ", masked");
    }
  }
}

/// Heads in groups that share keys.
Call grouped_call(std::int64_t batch, std::int64_t group, std::int64_t rows, std::int64_t keys,
                  std::int64_t d) {
  constexpr std::int64_t kKeyHeads = 2;
  Call call = normal_call(batch, kKeyHeads * group, rows, keys, d, static_cast<std::uint64_t>(group + d));
  Random random(static_cast<std::uint64_t>(rows) + 100);
  call.k = Tensor(batch, kKeyHeads, keys, d), call.v = Tensor(batch, kKeyHeads, keys, d);
  call.k.fill_normal(random), call.v.fill_normal(random);
  return call;
}

/// Keys that stay in shared memory: one to three blocks of them, rows at the ends of warps and of tiles,
/// heads that share keys, and rows of Q that are copied and those that are not (mma/attend_in_turn.cuh).
TEST_P(Mma, FollowsTheReferenceWhereKeysStayFromTileToTile) {
  if (!has_seldom_cuts(normal_call(1, 1, 65, 100, 64)))
    GTEST_SKIP() << "no kernels of the scheme keep keys, and Hopper has none of its own";
  constexpr std::int64_t kBlock = 112;
  for (std::int64_t d : {64, 50}) {
    for (std::int64_t n : {1, 77, 113, 224, 257, 336}) {
      for (std::int64_t rows : {65, 150}) {
        Call call = grouped_call(2, 1 + rows % 2, rows, n, d);
        call.options.key_block = kBlock;
        expect_seldom_cuts(call, std::to_string(rows) + " rows, " + std::to_string(n) +
                                     " keys that stay, dim " + std::to_string(d));
      }
    }
  }
}

/// Tiles of Hopper's kernels: all widths, rows at the ends of warps, warpgroups and blocks of threads, keys
/// at the ends of key blocks, and more key blocks than there are buffers.
TEST_P(Mma, FollowsTheReferenceByEveryCutAtEveryWidth) {
  if (!has_seldom_cuts(normal_call(1, 1, 16, 197, 128))) GTEST_SKIP() << "Hopper has no kernels of its own";
  for (std::int64_t d : {24, 64, 100, 128, 200, 256}) {
    for (std::int64_t n : {1, 127, 128, 129, 400, 1500}) {
      for (std::int64_t rows : {1, 17, 64, 65, 192, 193, 300}) {
        Call call = normal_call(1, 2, rows, n, d, static_cast<std::uint64_t>(d + n));
        const std::string what =
            std::to_string(rows) + " rows, " + std::to_string(n) + " keys, dim " + std::to_string(d);
        if ((rows + n) % 2 == 0) call.options.mask = Mask::causal;
        expect_seldom_cuts(call, what);
      }
    }
  }
  expect_seldom_cuts(normal_call(1, 1, 200, 8191, 64), "8191 keys");
}

/// Rows whose scores lie far apart from key block to key block, or far from 0, and rows that see nothing of
/// the block that others of their warpgroup see first: Hopper's kernels measure weights of int8 and
/// int8_half against what rows have seen before (wgmma/early_weights.cuh, tracked_weights.cuh).
TEST_P(Mma, FollowsTheReferenceWhereKeyBlocksLieFarApart) {
  if (!has_seldom_cuts(normal_call(1, 1, 16, 197, 64))) GTEST_SKIP() << "Hopper has no kernels of its own";
  constexpr std::int64_t kRows = 200, kKeys = 700;
  const auto scaled_keys = [](float first, float middle, float last) {
    Call call = normal_call(1, 2, kRows, kKeys, 64);
    call.k.each([&](float& x, std::int64_t, std::int64_t, std::int64_t j, std::int64_t) {
      x *= j < 256 ? first : j < 512 ? middle : last;
    });
    return call;
  };
  expect_seldom_cuts(scaled_keys(1, 40, 1), "larger keys in the middle");
  expect_seldom_cuts(scaled_keys(0.01f, 4, 40), "larger and larger keys");
  expect_seldom_cuts(scaled_keys(40, 1, 1), "larger keys at the beginning");
  // By 2 to 16 octaves: references of int8_half follow, and no row leaves its halves' range.
  expect_seldom_cuts(scaled_keys(0.01f, 2, 3), "slightly larger keys in the middle");
  for (const float scale : {0x1p-90f, 0x1p-40f, 0x1p8f}) {
    Call call = normal_call(1, 2, kRows, kKeys, 64);
    call.v.each([&](float& x, auto...) { x *= scale; });
    expect_seldom_cuts(call, "values times " + std::to_string(std::ilogb(scale)) + " octaves");
  }
  // int8 of Hopper's refers to the first keys' scores before any block is weighed, from which others may be
  // some 95 nats away.
  constexpr std::int64_t kFirstKeys = 8;
  const auto scaled_beginning = [](float first, float others) {
    Call call = normal_call(1, 2, kRows, kKeys, 64);
    call.k.each([&](float& x, std::int64_t, std::int64_t, std::int64_t j, std::int64_t) {
      x *= j < kFirstKeys ? first : others;
    });
    return call;
  };
  expect_seldom_cuts(scaled_beginning(0.01f, 4), "smaller first keys");
  expect_seldom_cuts(scaled_beginning(0.01f, 16), "much smaller first keys");
  expect_seldom_cuts(scaled_beginning(0.01f, 40), "far smaller first keys");
  expect_seldom_cuts(scaled_beginning(40, 1), "far larger first keys");
  for (const float scale : {0.0f, 0x1p-60f, 0x1p8f}) {
    Call call = normal_call(1, 2, kRows, kKeys, 64);
    call.v.each([&](float& x, std::int64_t, std::int64_t, std::int64_t j, std::int64_t) {
      x *= j < kFirstKeys ? scale : 1;
    });
    expect_seldom_cuts(call, "the first keys' values times " + std::to_string(scale));
  }
  for (std::int64_t window : {127, 191, 300}) {
    Call call = normal_call(1, 2, kRows, kKeys, 64);
    call.options.window_left = window, call.options.window_right = 140;
    expect_seldom_cuts(call, "window of " + std::to_string(window));
  }
}

/// Under a causal mask Hopper's first tile of a head lacks the rows that its tiles have room for: tiles of 64
/// to 192 rows that lack one, most of them, or some, against as many keys, fewer (rows that see none) and
/// more.
TEST_P(Mma, FollowsTheReferenceWhereTheFirstTileIsTheShortOne) {
  if (!has_seldom_cuts(normal_call(1, 1, 16, 197, 128))) GTEST_SKIP() << "Hopper has no kernels of its own";
  for (std::int64_t d : {64, 128, 256}) {
    for (std::int64_t rows : {193, 257, 320, 383, 384, 385, 500}) {
      for (std::int64_t n : {rows - 150, rows, rows + 170}) {
        Call call = normal_call(1, 2, rows, n, d, static_cast<std::uint64_t>(d + n));
        call.options.mask = Mask::causal;
        expect_seldom_cuts(
            call, std::to_string(rows) + " rows, " + std::to_string(n) + " keys, dim " + std::to_string(d));
      }
    }
  }
}

/// More tiles of rows than processors: where Hopper's blocks of threads go from one to the next.
TEST_P(Mma, FollowsTheReferenceWhereBlocksOfThreadsHaveSeveralTiles) {
  if (!has_seldom_cuts(normal_call(1, 1, 16, 197, 128))) GTEST_SKIP() << "Hopper has no kernels of its own";
  constexpr std::int64_t kHeads = 150, kRows = 300;
  for (std::int64_t n : {128, 200})
    expect_seldom_cuts(normal_call(1, kHeads, kRows, n, 64), std::to_string(n) + " keys");
}

/// A prompt's next tokens against those before: Hopper's kernels cut keys in ranges (wgmma/shares.h).
TEST_P(Mma, FollowsTheReferenceOfAChunkAgainstManyKeys) {
  constexpr std::int64_t kGroup = 16, kRows = 100, kKeys = 8192, kDim = 128;
  Call call = grouped_call(1, kGroup, kRows, kKeys, kDim);
  call.options.mask = Mask::causal;
  expect_few_rows(call, "a chunk, causal");
}

/// Rows too few for the card: keys are cut in ranges, and heads that share keys are joined (cuda/ranges.h).
TEST_P(Mma, FollowsTheReferenceOfFewRowsAgainstManyKeys) {
  constexpr std::int64_t kBatch = 2, kKeys = 1500;
  const auto call_of = [](std::int64_t group, std::int64_t rows, std::int64_t keys, std::int64_t d) {
    return grouped_call(kBatch, group, rows, keys, d);
  };
  for (std::int64_t group : {1, 4}) {
    for (std::int64_t rows : {1, 5}) {
      const std::string what = std::to_string(group) + " heads a key head, " + std::to_string(rows) + " rows";
      for (std::int64_t d : {64, 100, 128, 256}) {
        const std::string of_dim = what + ", dim " + std::to_string(d);
        Call call = call_of(group, rows, kKeys, d);
        expect_few_rows(call, of_dim, Also::the_bound);
        call.options.mask = Mask::causal;
        expect_few_rows(call, of_dim + ", causal", Also::the_bound);
      }
      for (std::int64_t block : {48, 112}) {
        Call call = call_of(group, rows, kKeys, 64);
        call.options.key_block = block;
        expect_few_rows(call, what + ", key block " + std::to_string(block));
      }
      for (const Granularity q : {Granularity::tensor, Granularity::head, Granularity::block}) {
        Call call = call_of(group, rows, kKeys, 64);
        call.options.recipe = scheme_info(GetParam()).recipe;
        call.options.recipe->q = q;
        expect_few_rows(call, what + ", Q by " + name_of(q));
      }
      Call shorter = call_of(group, rows, 300, 64);
      shorter.options.key_block = 48;
      expect_seldom_cuts(shorter, what + ", 300 keys");
    }
  }
}

/// The same of rows that see different keys, of biases, and of more rows than a tile has.
TEST_P(Mma, FollowsTheReferenceOfFewRowsThatSeeSomeOfManyKeys) {
  constexpr std::int64_t kBatch = 2, kKeys = 1500;
  for (std::int64_t group : {1, 3}) {
    for (std::int64_t rows : {1, 7, 40}) {
      const std::string what = std::to_string(group) + " heads a key head, " + std::to_string(rows) + " rows";
      const Call plain = grouped_call(kBatch, group, rows, kKeys, 64);
      Call call = plain;
      call.options.window_left = 1100, call.options.window_right = 60;
      expect_few_rows(call, what + ", window", Also::the_bound);
      call.options.mask = Mask::causal, call.options.window_left = 1030;
      expect_few_rows(call, what + ", causal window", Also::the_bound);
      call.options.key_block = 48;
      expect_few_rows(call, what + ", causal window, key block 48");
      call = plain;
      add_bias(call, 1);
      expect_few_rows(call, what + ", bias");
      call.bias.each([&](float& x, auto, auto, std::int64_t i, std::int64_t j) {
        if (i == 0 || j % 3 == 0 || (i == 2 && j < 1000)) x = -std::numeric_limits<float>::infinity();
      });
      expect_few_rows(call, what + ", hiding bias");
    }
  }
}

/// And of packed sequences of very different lengths, some without queries or keys.
TEST_P(Mma, FollowsTheReferenceOfFewRowsOfPackedSequences) {
  const std::vector<std::int32_t> keys{0, 5000, 5000, 5040, 7088, 9700};
  const std::vector<std::vector<std::int32_t>> queries{
      {0, 1, 2, 3, 4, 5}, {0, 1, 1, 2, 9, 10}, {0, 0, 1, 1, 2, 24}};
  for (std::int64_t group : {1, 4}) {
    for (const std::vector<std::int32_t>& cu_q : queries) {
      Call call = grouped_call(1, group, cu_q.back(), keys.back(), 128);
      call.cu_q = cu_q, call.cu_k = keys;
      const std::string what =
          std::to_string(group) + " heads a key head, packed " + std::to_string(cu_q.back()) + " rows";
      expect_few_rows(call, what, Also::the_bound);
      call.options.mask = Mask::causal;
      expect_few_rows(call, what + ", causal", Also::the_bound);
      call.options.window_left = 3000;
      expect_few_rows(call, what + ", causal window");
    }
  }
  Call call = grouped_call(1, 4, 9, 1000, 64);
  call.cu_q = {0, 1, 1, 7, 9}, call.cu_k = {0, 300, 310, 310, 1000};
  expect_seldom_cuts(call, "packed, by every cut");
  call.options.mask = Mask::causal;
  expect_seldom_cuts(call, "packed, by every cut, causal");
}

/// Operands that become codes by the ways that 16-bit ones have on a GPU: short sequences, those that blocks
/// of threads hold, and long ones that are read once, whose V is packed as it is made.
TEST_P(Mma, FollowsTheReferenceFromNumbersOf16Bits) {
  struct Lengths {
    std::int64_t batch, heads, rows, keys, dim, key_block;
  };
  const auto as_bf16 = [](Tensor& x) {
    x.each([](float& number, auto...) { number = f32_from_bf16(bf16_from_f32(number)); });
  };
  for (const Lengths& of : {Lengths{2, 3, 197, 197, 64, 112}, Lengths{1, 2, 130, 520, 64, 128},
                            Lengths{1, 2, 70, 512, 64, 112}, Lengths{1, 2, 70, 300, 128, 128},
                            Lengths{1, 32, 3, 2200, 64, 128}, Lengths{1, 16, 3, 2200, 128, 128}}) {
    Call call = normal_call(of.batch, of.heads, of.rows, of.keys, of.dim);
    for (Tensor* x : {&call.q, &call.k, &call.v}) as_bf16(*x);
    call.options.key_block = of.key_block;
    const std::string what =
        std::to_string(of.heads) + " heads of " + std::to_string(of.keys) + " x " + std::to_string(of.dim);
    expect_few_rows(call, what, Also::nothing, {Operands::bf16});
    call.options.recipe = scheme_info(GetParam()).recipe;
    for (const Granularity v : {Granularity::head, Granularity::channel, Granularity::block_channel}) {
      const SchemeInfo& info = scheme_info(GetParam());
      if (!contains(info.k_set, Granularity::block) || !contains(info.v_set, v)) continue;
      call.options.recipe->k = Granularity::block, call.options.recipe->v = v;
      expect_few_rows(call, what + ", K by block, V by " + name_of(v), Also::nothing, {Operands::bf16});
    }
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

INSTANTIATE_TEST_SUITE_P(Schemes, Mma, every_scheme(), name_of_scheme);

}  // namespace
}  // namespace octet::testing
