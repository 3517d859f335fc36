// Scales of V that the scheme `integer` could only take approximately are refused, with their place.
#include "capi/v_grid.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace octet::capi {
namespace {

struct Scales {
  std::vector<float> at = std::vector<float>(2 * 2 * 10, 1.0f);
  AttentionDesc desc;
  QuantizedTensor v;
  Sequences keys{2, 10, nullptr};

  Scales() {
    desc.heads_kv = 2, desc.key_block = 4;
    v.scales = {at.data(), DType::f32, Device::cpu, {2, 2, 10, 1}, {20, 10, 1, 1}};
    v.tokens_per_scale = 1;
  }
  Status check() const { return check_v_grid(desc, v, keys); }
};

TEST(VGrid, TakesTheGridAndWhatLiesEightOctavesBelow) {
  Scales s;
  for (int i = 0; i < 10; ++i) s.at[i] = 16.0f / static_cast<float>(16 + i);
  s.at[3] = 0x1p-8f;
  EXPECT_TRUE(s.check().ok()) << s.check().message();
  s.at[9] = 0x1p-20f, s.at[8] = 0x1p-20f;  // the last key block, shorter, is its own reference
  EXPECT_TRUE(s.check().ok()) << s.check().message();
}

TEST(VGrid, NamesTheFirstScaleThatIsOff) {
  Scales off;
  off.at[20 + 10 + 7] = 0.97f;
  EXPECT_NE(off.check().message().find("batch 1, head 1, group 7: integer takes scales of 2^e"),
            std::string::npos)
      << off.check().message();
  Scales low;
  low.at[5] = 0x1p-9f;
  EXPECT_NE(low.check().message().find("batch 0, head 0, group 5: it must be at least 1/256"),
            std::string::npos)
      << low.check().message();
  EXPECT_EQ(low.check().code(), Code::invalid_argument);
}

TEST(VGrid, OneScaleAHeadMayBeAnything) {
  Scales s;
  s.v.tokens_per_scale = 0, s.at[0] = 0.97f;
  EXPECT_TRUE(s.check().ok());
}

}  // namespace
}  // namespace octet::capi
