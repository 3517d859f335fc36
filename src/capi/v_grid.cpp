#include "capi/v_grid.h"

#include <algorithm>
#include <string>

#include "base/try.h"
#include "numerics/integer_keys.h"

namespace octet::capi {
namespace {

constexpr float kFloor = 0x1p-8f;

Status broken(std::int64_t b, std::int64_t h, std::int64_t group, float scale, const std::string& rule) {
  return invalid_argument("v.scales is " + std::to_string(scale) + " at batch " + std::to_string(b) +
                          ", head " + std::to_string(h) + ", group " + std::to_string(group) + ": " + rule +
                          "; quantise V with the scale rule sixteenths and a block floor of 8 octaves");
}

/// The groups of one key block: [begin, end) along the group axis.
Status check_block(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t begin,
                   std::int64_t end) {
  const auto* scales = static_cast<const float*>(x.data) + b * x.stride[0] + h * x.stride[1];
  float largest = 0;
  for (std::int64_t g = begin; g < end; ++g) largest = std::max(largest, scales[g * x.stride[2]]);
  for (std::int64_t g = begin; g < end; ++g) {
    const float s = scales[g * x.stride[2]];
    if (!integer::on_grid(s)) {
      return broken(b, h, g, s, "integer takes scales of 2^e * 16 / g with g = 16...31 only");
    }
    if (s < largest * kFloor) {
      return broken(b, h, g, s,
                    "it must be at least 1/256 of the largest of its key block, " + std::to_string(largest));
    }
  }
  return {};
}

}  // namespace

Status check_v_grid(const AttentionDesc& desc, const QuantizedTensor& v, const Sequences& keys) {
  if (v.tokens_per_scale == 0 || v.channels_per_scale != 0 || !v.scales.data) return {};
  const std::int64_t groups_a_block = std::max<std::int64_t>(desc.key_block / v.tokens_per_scale, 1);
  for (std::int64_t s = 0; s < keys.count; ++s) {
    const std::int64_t first = keys.first_group(s, v.tokens_per_scale);
    const std::int64_t last = first + (keys.length(s) + v.tokens_per_scale - 1) / v.tokens_per_scale;
    for (std::int64_t h = 0; h < desc.heads_kv; ++h) {
      for (std::int64_t g = first; g < last; g += groups_a_block) {
        OCTET_TRY(check_block(v.scales, keys.batch(s), h, g, std::min(g + groups_a_block, last)));
      }
    }
  }
  return {};
}

}  // namespace octet::capi
