// Problems whose keys lie in a cache, for the suites of both devices.
#pragma once
#include "common/recipe_text.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// The problem with a recipe that keys can be appended by, as near as may be to the given one.
inline AttentionDesc appendable(AttentionDesc desc) {
  if (desc.recipe.smooth == Smooth::mean) desc.recipe.smooth = Smooth::anchor;
  desc.recipe.equalise = Equalise::off;
  return desc;
}

/// Scales of all tokens are for so large a number: of 67 million normal ones all but a few are smaller.
inline KvCacheOptions cache_options(const AttentionDesc& desc) {
  constexpr float kLargest = 6;
  const auto fixed = [](Granularity g) { return g == Granularity::head || g == Granularity::tensor; };
  const octet_scheme_info info = info_of(desc.scheme);
  KvCacheOptions options;
  if (info.k_granularities != 0 && fixed(desc.recipe.k)) options.k_amax = kLargest;
  if (info.v_granularities != 0 && fixed(desc.recipe.v)) options.v_amax = kLargest;
  return options;
}

}  // namespace octet::tool
