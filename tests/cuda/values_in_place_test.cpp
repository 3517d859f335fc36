// V of 16 bits that attention reads where it is, beside V whose rows are no multiples of 16 bytes and are
// packed first: the same bits, whatever stands between the tokens of one head and those of the next. Skipped
// without a GPU.
#include <bit>

#include "tests/cuda/plain_calls.h"

namespace octet::testing {
namespace {

using namespace plain_calls;

class ValuesInPlace : public PlainCalls {
 protected:
  /// Numbers of all heads, rows of so many elements, NaN between them and behind each head's tokens.
  TensorView values(const Ask& ask, std::int64_t row) {
    constexpr std::int64_t kTokensBehind = 3;
    const Lengths& of = ask.of;
    const std::int64_t head = (of.tokens_k + kTokensBehind) * row;
    const std::uint16_t nan = ask.dtype == DType::bf16 ? bf16_from_f32(NAN) : f16_from_f32(NAN);
    std::vector<std::uint16_t> all(static_cast<std::size_t>(of.batch * of.heads * head), nan);
    Random random(23);
    for (std::int64_t i = 0; i < of.batch * of.heads * of.tokens_k; ++i)
      for (std::int64_t c = 0; c < ask.dim; ++c) {
        const auto x = static_cast<float>(random.normal());
        all[static_cast<std::size_t>(i / of.tokens_k * head + i % of.tokens_k * row + c)] =
            ask.dtype == DType::bf16 ? bf16_from_f32(x) : f16_from_f32(x);
      }
    TensorView v;
    v.data = device_.put(all.data(), static_cast<std::int64_t>(all.size()) * 2);
    v.dtype = ask.dtype, v.device = Device::cuda;
    v.shape = {of.batch, of.heads, of.tokens_k, ask.dim};
    v.stride = {of.heads * head, head, row, 1};
    return v;
  }

  void expect_same_bits(Ask ask) {
    ask.name = title(ask) + " of " + std::to_string(ask.dim) + " channels" +
               (ask.mask == Mask::causal ? ", causal" : "");
    Given in_place = given(ask), packed = in_place;
    in_place.args.v.codes = values(ask, ask.dim), packed.args.v.codes = values(ask, ask.dim + 1);
    const Run got = run(ask, in_place, By::halves), want = run(ask, packed, By::halves);
    std::size_t other = 0, bad = 0;
    for (std::size_t i = 0; i < want.o.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(got.o[i]) != std::bit_cast<std::uint32_t>(want.o[i])) ++other;
      if (!std::isfinite(got.o[i])) ++bad;
    }
    EXPECT_EQ(other, 0u) << ask.name << ": of " << want.o.size() << " elements";
    EXPECT_EQ(bad, 0u) << ask.name << ": not finite";
  }

  struct Kind {
    Scheme scheme;
    DType dtype;
  };
  static constexpr Kind kKinds[] = {{Scheme::f16, DType::f16},
                                    {Scheme::bf16, DType::bf16},
                                    {Scheme::int8_half, DType::f16},
                                    {Scheme::fp8_hybrid, DType::f16}};

 private:
  DeviceMemory device_;
};

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnes) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {32, 64, 128, 256})
      for (const std::int64_t tokens : {1, 15, 49, 64, 65, 127, 128, 129, 197, 257})
        expect_same_bits({.of = {2, 2, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype});
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesAtEveryKeyBlock) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t key_block : {16, 64, 80, 112})
      for (const std::int64_t tokens : {63, 197, 333})
        for (const std::int64_t dim : {32, 64, 128})
          expect_same_bits({.of = {1, 3, 70, tokens},
                            .dim = dim,
                            .key_block = key_block,
                            .scheme = scheme,
                            .dtype = dtype});
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereRowsAreLong) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128, 256})
      for (const Mask mask : {Mask::none, Mask::causal})
        for (const std::int64_t tokens : {2048, 1999})
          expect_same_bits(
              {.of = {1, 4, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype, .mask = mask});
}

/// Few queries, of whose keys ranges are cut.
TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereQueriesAreFew) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128})
      for (const std::int64_t queries : {1, 17})
        expect_same_bits({.of = {2, 2, queries, 4001}, .dim = dim, .scheme = scheme, .dtype = dtype});
}

}  // namespace
}  // namespace octet::testing
