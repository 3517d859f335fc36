// octet_peak_rate: every documented name is measured or refused as unsupported, and mistakes are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "octet/octet.hpp"

namespace octet {
namespace {

constexpr const char* kInstructions[] = {"tdpbusd",       "tdpbf16ps",    "vpdpbusd_zmm",
                                         "vpdpbusd_ymm",  "vpmaddwd_ymm", "fma_f16_zmm",
                                         "vdpbf16ps_zmm", "fma_f32_zmm",  "fma_f32_ymm"};

TEST(PeakRate, EveryNameIsMeasuredOrNotThere) {
  for (const char* name : kInstructions) {
    const Result<double> rate = peak_rate(name, 0);
    if (rate.ok()) {
      EXPECT_TRUE(rate.value() > 1 && rate.value() < 1e5) << name << ": " << rate.value();
      continue;
    }
    EXPECT_EQ(rate.status().code(), Code::unsupported) << name;
    EXPECT_NE(rate.status().message().find(name), std::string::npos) << rate.status().message();
  }
}

TEST(PeakRate, MemoryIsRead) {
  const Result<double> rate = peak_rate("read", 0);
  ASSERT_TRUE(rate.ok()) << rate.status().message();
  EXPECT_TRUE(rate.value() > 0.1 && rate.value() < 1e4) << rate.value();
}

TEST(PeakRate, VectorsOfTwiceTheWidthAreNotSlower) {
  // On a shared machine one reading may be half of another: the best of some that take turns.
  double narrow = 0, wide = 0;
  for (int turn = 0; turn < 8; ++turn) {
    const Result<double> ymm = peak_rate("vpdpbusd_ymm", 0.005), zmm = peak_rate("vpdpbusd_zmm", 0.005);
    if (!ymm.ok() || !zmm.ok()) GTEST_SKIP() << "this processor has not both";
    narrow = std::max(narrow, ymm.value()), wide = std::max(wide, zmm.value());
  }
  constexpr double kNoise = 0.8;
  EXPECT_GT(wide, kNoise * narrow);
}

TEST(PeakRate, MistakesAreNamed) {
  double rate = 0;
  EXPECT_EQ(octet_peak_rate(nullptr, 0, &rate), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_peak_rate("read", 0, nullptr), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_peak_rate("vpdpbusd", 0, &rate), OCTET_INVALID_ARGUMENT);
  for (const char* name : kInstructions)
    EXPECT_NE(std::string(octet_last_error()).find(name), std::string::npos) << octet_last_error();
  for (double seconds : {-1.0, 61.0, std::nan("")})
    EXPECT_EQ(octet_peak_rate("read", seconds, &rate), OCTET_INVALID_ARGUMENT) << seconds;
}

}  // namespace
}  // namespace octet
