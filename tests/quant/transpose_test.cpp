// Key order and the dim-major layout of V.
#include "quant/transpose.h"

#include <set>

#include "quant/key_order.h"
#include "tests/quant/support.h"

namespace octet::quant {
namespace {

using namespace testing;

static_assert(key_of_slot(0) == 0 && key_of_slot(1) == 1 && key_of_slot(2) == 8 && key_of_slot(3) == 9,
              "the first register of P holds keys 0, 1, 8, 9");

TEST(KeyOrder, IsThePermutationOfTheFormulaWithinSixteen) {
  for (std::int64_t base : {0, 16, 4096}) {
    std::set<std::int64_t> seen;
    for (std::int64_t r = 0; r < 4; ++r)
      for (std::int64_t q = 0; q < 2; ++q)
        for (std::int64_t p = 0; p < 2; ++p) {
          const std::int64_t slot = base + 4 * r + 2 * q + p, key = base + 8 * q + 2 * r + p;
          EXPECT_EQ(key_of_slot(slot), key);
          EXPECT_EQ(slot_of_key(key), slot);
          seen.insert(key);
        }
    EXPECT_EQ(seen.size(), 16u);
    EXPECT_EQ(*seen.begin(), base);
    EXPECT_EQ(*seen.rbegin(), base + 15);
  }
}

TEST(KeyOrder, TurnsTheAccumulatorIntoTheOperandOfEveryThread) {
  // m16n8 accumulators: thread t of a quad holds keys 8j + 2t, 8j + 2t + 1 of tile j. A k32 8-bit operand A:
  // thread t holds slots 4t..4t+3 and 16 + 4t..16 + 4t + 3. (PTX ISA, fragments of mma.m16n8k32.)
  for (std::int64_t thread = 0; thread < 4; ++thread) {
    std::set<std::int64_t> accumulator, operand;
    for (std::int64_t tile = 0; tile < 4; ++tile)
      for (std::int64_t p = 0; p < 2; ++p) accumulator.insert(8 * tile + 2 * thread + p);
    for (std::int64_t half = 0; half < 2; ++half)
      for (std::int64_t i = 0; i < 4; ++i) operand.insert(key_of_slot(16 * half + 4 * thread + i));
    EXPECT_EQ(accumulator, operand) << "thread " << thread;
  }
}

void expect_transposed(const TensorView& codes, const Sequences& sequences, const std::string& what) {
  TensorView out = transposed_layout(codes, sequences.cu_seqlens ? sequences.count : 0);
  Guarded memory(out);
  ASSERT_TRUE(transpose(codes, sequences, out, {}).ok()) << what;
  EXPECT_TRUE(memory.intact()) << what;
  ASSERT_EQ(out.shape[3] % 16, 0) << what;
  const auto byte = [](const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return static_cast<const std::uint8_t*>(
        x.data)[b * x.stride[0] + h * x.stride[1] + i * x.stride[2] + j * x.stride[3]];
  };
  // All slots start as padding; each token is then ticked off where it must be.
  for (std::int64_t b = 0; b < codes.shape[0]; ++b)
    for (std::int64_t h = 0; h < codes.shape[1]; ++h)
      for (std::int64_t c = 0; c < codes.shape[3]; ++c) {
        std::vector<std::uint8_t> expected(static_cast<std::size_t>(out.shape[3]));
        std::int64_t slot = 0;
        for (std::int64_t s = 0; s < sequences.count; ++s) {
          if (sequences.batch(s) != b) continue;
          for (std::int64_t t = 0; t < sequences.length(s); ++t) {
            expected[static_cast<std::size_t>(slot + slot_of_key(t))] =
                byte(codes, b, h, sequences.begin(s) + t, c);
          }
          slot += (sequences.length(s) + 15) / 16 * 16;
        }
        for (std::int64_t i = 0; i < out.shape[3]; ++i) {
          ASSERT_EQ(byte(out, b, h, c, i), expected[static_cast<std::size_t>(i)])
              << what << ", head " << h << ", channel " << c << ", slot " << i;
        }
      }
}

TEST(Transpose, PutsEveryTokenIntoItsSlotAndZerosIntoPadding) {
  for (const DType format : {DType::s8, DType::e4m3, DType::e5m2}) {
    for (const std::int64_t tokens : {1, 15, 16, 17, 40, 128}) {
      Input x = normal_input({2, 2, tokens, 20}, 50);
      const OperandRecipe recipe = recipe_of(format, Granularity::token);
      Output out(layout(x.view.shape, recipe, 0));
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
      expect_transposed(out.tensor.codes, x.dense(),
                        name(format) + " of " + std::to_string(tokens) + " tokens");
    }
    Input x = normal_input({1, 2, 70, 20}, 51);
    const std::int32_t edges[] = {0, 17, 17, 49, 70};
    const Sequences sequences{4, 70, edges};
    const OperandRecipe recipe = recipe_of(format, Granularity::token);
    Output out(layout(x.view.shape, recipe, 4));
    ASSERT_TRUE(quantize(x.view, sequences, recipe, out.tensor, {}).ok());
    expect_transposed(out.tensor.codes, sequences, name(format) + " packed");
  }
}

TEST(Transpose, RefusesOtherFormatsAndShapes) {
  Input x = normal_input({1, 1, 20, 8}, 52);
  TensorView out = transposed_layout(x.view, 0);
  Guarded memory(out);
  EXPECT_EQ(transpose(x.view, x.dense(), out, {}).code(), Code::invalid_argument);
  TensorView codes = x.view;
  codes.dtype = out.dtype = DType::s8;
  out.shape[3] = 20;
  const Status status = transpose(codes, x.dense(), out, {});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("slots"), std::string::npos);
}

}  // namespace
}  // namespace octet::quant
