// The packing of codes in vectors against loops over single codes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/isa.h"
#include "cpu/pack_kernels.h"

namespace octet::cpu::testing {
namespace {

constexpr std::int64_t kChannels[] = {1, 3, 4, 15, 16, 20, 31, 32, 33, 48, 64, 80, 100, 128, 160, 256};

std::vector<std::byte> random_bytes(std::int64_t count) {
  std::mt19937 random(21);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Kernels of vectors of 8 and 16 words that this processor has.
std::vector<std::int32_t> widths() {
  std::vector<std::int32_t> all;
  if (refusal(Isa::avx2).empty()) all.push_back(8);
  if (refusal(Isa::avx512_vnni).empty()) all.push_back(16);
  return all;
}

TEST(PackKernels, ColumnsHoldAGroupOfEachRow) {
  for (const std::int32_t lanes : widths())
    for (const std::int64_t channels : kChannels)
      for (const std::uint32_t flip : {0u, 0x80808080u}) {
        const std::int64_t groups = (channels + 3) / 4, runs = 3;
        const std::int64_t stride = (channels + 15) / 16 * 16 + 16;  // of which nothing may be taken
        const std::vector<std::byte> rows = random_bytes(runs * lanes * stride);
        std::vector<std::byte> out(static_cast<std::size_t>(runs * lanes * groups * 4) + 1, std::byte{0x5a});
        pack_kernels(lanes).columns({rows.data(), stride}, groups, flip, runs, out.data());
        for (std::int64_t row = 0; row < runs * lanes; ++row)
          for (std::int64_t g = 0; g < groups; ++g) {
            std::uint32_t want, got;
            std::memcpy(&want, rows.data() + row * stride + 4 * g, 4);
            std::memcpy(&got, out.data() + ((row / lanes * groups + g) * lanes + row % lanes) * 4, 4);
            ASSERT_EQ(got, want ^ flip) << lanes << " lanes, " << channels << " channels, row " << row;
          }
        EXPECT_EQ(out.back(), std::byte{0x5a});
      }
}

TEST(PackKernels, QuadsHoldAChannelOfFourKeys) {
  for (const std::int32_t lanes : widths())
    for (const std::int64_t channels : kChannels)
      for (const std::int64_t stride : {channels, channels + 5}) {
        const std::int64_t padded = (channels + lanes - 1) / lanes * lanes, runs = 3;
        const std::vector<std::byte> keys = random_bytes(4 * runs * stride);
        std::vector<std::byte> out(static_cast<std::size_t>(runs * padded * 4) + 1, std::byte{0x5a});
        pack_kernels(lanes).quads({keys.data(), stride}, channels, padded, runs, out.data());
        for (std::int64_t key = 0; key < 4 * runs; ++key)
          for (std::int64_t c = 0; c < padded; ++c) {
            const std::byte want =
                c < channels ? keys[static_cast<std::size_t>(key * stride + c)] : std::byte{0};
            ASSERT_EQ(out[static_cast<std::size_t>((key / 4 * padded + c) * 4 + key % 4)], want)
                << lanes << " lanes, " << channels << " channels, key " << key << ", channel " << c;
          }
        EXPECT_EQ(out.back(), std::byte{0x5a});
      }
}

TEST(PackKernels, SumsAreOfEachRowsCodesAndTheirSizes) {
  for (const std::int32_t lanes : widths())
    for (const std::int64_t channels : kChannels)
      for (const std::int64_t count : {1, 2, 4, 6, 8, 9, 54}) {
        const std::int64_t bytes = (channels + 3) / 4 * 4;
        const std::vector<std::byte> rows = random_bytes(count * bytes);
        std::vector<std::int32_t> sum(static_cast<std::size_t>(count) + 1, 7), size = sum;
        pack_kernels(lanes).sums(rows.data(), bytes, count, {sum.data(), size.data()});
        for (std::int64_t r = 0; r < count; ++r) {
          std::int32_t want_sum = 0, want_size = 0;
          for (std::int64_t c = 0; c < bytes; ++c) {
            const auto code = static_cast<std::int8_t>(rows[static_cast<std::size_t>(r * bytes + c)]);
            want_sum += code, want_size += std::abs(code);
          }
          ASSERT_EQ(sum[static_cast<std::size_t>(r)], want_sum) << lanes << " lanes, " << bytes << " bytes";
          ASSERT_EQ(size[static_cast<std::size_t>(r)], want_size) << lanes << " lanes, " << bytes << " bytes";
        }
        EXPECT_EQ(sum.back(), 7);
        EXPECT_EQ(size.back(), 7);
      }
}

}  // namespace
}  // namespace octet::cpu::testing
