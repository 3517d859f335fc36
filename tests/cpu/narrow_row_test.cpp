// Rows of f32 as smaller floats and back, on every instruction set that this processor has, against one
// number at a time.
#include "numerics/narrow_row.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "base/isa.h"
#include "cpu/pack_kernels.h"
#include "numerics/number_at.h"
#include "quant/row_kernels.h"

namespace octet {
namespace {

std::vector<NarrowRows> every_set() {
  std::vector<NarrowRows> sets{quant::baseline_row_kernels().narrow};
  if (refusal(Isa::avx2).empty()) {
    sets.push_back(quant::avx2_row_kernels().narrow);
    sets.push_back(cpu::pack_kernels_8().narrow);
  }
  if (refusal(Isa::avx512_vnni).empty()) {
    sets.push_back(quant::avx512_row_kernels().narrow);
    sets.push_back(cpu::pack_kernels_16().narrow);
  }
  return sets;
}

std::uint32_t one(DType to, float x) {
  switch (to) {
    case DType::f16:
      return f16_from_f32(x);
    case DType::bf16:
      return bf16_from_f32(x);
    case DType::e4m3:
      return e4m3_from_f32(x);
    default:
      return e5m2_from_f32(x);
  }
}

/// Any bits at all, and the same mantissas at exponents where the formats round and overflow.
std::vector<float> numbers(std::int64_t count) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0f,
                       -0.0f,
                       kInf,
                       -kInf,
                       std::numeric_limits<float>::quiet_NaN(),
                       -448,
                       65504,
                       65519.9f,
                       65520.0f,
                       std::numeric_limits<float>::max(),
                       1e-8f,
                       -6e-8f,
                       5e-40f,
                       float_of(0xffc12345u),
                       57344,
                       61440.0f};
  std::mt19937 random(5);
  while (static_cast<std::int64_t>(x.size()) < count) {
    const auto bits = static_cast<std::uint32_t>(random());
    x.push_back(float_of(bits));
    x.push_back(float_of((bits & 0x807fffffu) | ((bits >> 23) % 48 + 127 - 26) << 23));
  }
  return x;
}

template <class Stored>
void expect_narrowed(NarrowRows narrow, DType to, const std::vector<float>& x, std::int64_t from,
                     std::int64_t count) {
  constexpr Stored kGuard = 0xa5;
  std::vector<Stored> out(static_cast<std::size_t>(count + 2), kGuard);
  narrow({x.data() + from, 0, 1, count}, to, out.data() + 1, 0);
  EXPECT_EQ(out.front(), kGuard);
  EXPECT_EQ(out.back(), kGuard);
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(out[static_cast<std::size_t>(i + 1)], one(to, x[static_cast<std::size_t>(from + i)]))
        << "of " << x[static_cast<std::size_t>(from + i)] << " in dtype " << static_cast<int>(to);
}

TEST(NarrowRows, EverySetWritesTheBitsOfOneNumberAtATime) {
  const std::vector<float> x = numbers(100000);
  for (const NarrowRows narrow : every_set()) {
    for (const DType to : {DType::f16, DType::bf16}) {
      expect_narrowed<std::uint16_t>(narrow, to, x, 0, 100000);
      for (std::int64_t count = 0; count < 70; ++count)
        expect_narrowed<std::uint16_t>(narrow, to, x, count, count);
    }
    for (const DType to : {DType::e4m3, DType::e5m2}) {
      expect_narrowed<std::uint8_t>(narrow, to, x, 0, 100000);
      for (std::int64_t count = 0; count < 70; ++count)
        expect_narrowed<std::uint8_t>(narrow, to, x, count, count);
    }
  }
}

// Rows apart from each other, on either side, and what lies between them stays as it is.
TEST(NarrowRows, RowsKeepTheirDistances) {
  constexpr std::int64_t kRows = 5;
  constexpr std::uint16_t kGuard = 0xa5a5;
  const std::vector<float> x = numbers(4096);
  for (const NarrowRows narrow : every_set())
    for (const DType to : {DType::f16, DType::bf16})
      for (const std::int64_t channels : {1, 16, 31, 32, 64, 100})
        for (const std::int64_t gap : {0, 3})
          for (const std::int64_t out_gap : {0, 7}) {
            const std::int64_t stride = channels + gap, out_stride = channels + out_gap;
            std::vector<std::uint16_t> out(static_cast<std::size_t>(kRows * out_stride), kGuard);
            narrow({x.data(), stride, kRows, channels}, to, out.data(), out_stride);
            for (std::int64_t r = 0; r < kRows; ++r)
              for (std::int64_t c = 0; c < out_stride; ++c) {
                const std::uint32_t want =
                    c < channels ? one(to, x[static_cast<std::size_t>(r * stride + c)]) : kGuard;
                ASSERT_EQ(out[static_cast<std::size_t>(r * out_stride + c)], want)
                    << "row " << r << ", channel " << c << " of " << channels << ", dtype "
                    << static_cast<int>(to);
              }
          }
}

// Every code, at every place of a vector and behind the last one, as formats.h has it one at a time.
TEST(WideRow, EverySetReadsTheNumbersOfOneCodeAtATime) {
  std::vector<WideRow> sets;
  if (refusal(Isa::avx2).empty()) sets.push_back(cpu::pack_kernels_8().widen);
  if (refusal(Isa::avx512_vnni).empty()) sets.push_back(cpu::pack_kernels_16().widen);
  if (sets.empty()) GTEST_SKIP() << "neither AVX2 nor AVX-512 here";
  std::vector<std::uint16_t> halves(65536 + 70);
  std::vector<std::uint8_t> bytes(256 + 70);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  constexpr float kGuard = 12345;
  for (const WideRow widen : sets) {
    const auto expect = [&](const auto& codes, DType from, std::size_t first, std::size_t count) {
      std::vector<float> out(count + 1, kGuard);
      ASSERT_TRUE(widen(codes.data() + first, static_cast<std::int64_t>(count), from, out.data()));
      EXPECT_EQ(out[count], kGuard);
      for (std::size_t i = 0; i < count; ++i) {
        const float want = number_at(codes.data(), from, static_cast<std::int64_t>(first + i));
        if (want != want)
          ASSERT_NE(out[i], out[i]) << codes[first + i];
        else
          ASSERT_EQ(bits_of(out[i]), bits_of(want))
              << codes[first + i] << " in dtype " << static_cast<int>(from);
      }
    };
    for (std::size_t count = 0; count < 70; ++count) {
      for (const DType from : {DType::f16, DType::bf16}) expect(halves, from, 15 * count, count);
      for (const DType from : {DType::e4m3, DType::e5m2}) expect(bytes, from, count, count);
    }
    for (const DType from : {DType::f16, DType::bf16}) expect(halves, from, 0, halves.size());
    for (const DType from : {DType::e4m3, DType::e5m2}) expect(bytes, from, 0, bytes.size());
    float untouched = kGuard;
    EXPECT_FALSE(widen(bytes.data(), 1, DType::s8, &untouched));
    EXPECT_EQ(untouched, kGuard);
  }
}

}  // namespace
}  // namespace octet
