// Schemes with recipes that a cache of keys can append to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "octet/octet.hpp"

namespace octet::testing {

inline constexpr float kAmax = 5;

/// A scheme with a recipe that can be appended to.
struct CacheCase {
  std::string name;
  Scheme scheme;
  Recipe recipe;
  float k_amax = 0, v_amax = 0;
};

inline CacheCase cache_case(Scheme scheme, Granularity k, Granularity v, float k_amax, float v_amax) {
  CacheCase c{name_of(scheme), scheme, default_recipe_of(scheme).take(), k_amax, v_amax};
  c.recipe.k = k, c.recipe.v = v;
  c.recipe.smooth = Smooth::none, c.recipe.equalise = Equalise::off;
  return c;
}

inline CacheCase cache_anchored(CacheCase c) {
  c.name += " with an anchor";
  c.recipe.smooth = Smooth::anchor;
  return c;
}

inline std::vector<CacheCase> cache_cases() {
  using G = Granularity;
  const G none = default_recipe_of(Scheme::f32).take().k,
          half = default_recipe_of(Scheme::int8_half).take().v,
          hybrid = default_recipe_of(Scheme::fp8_hybrid).take().v;
  CacheCase unrotated = cache_case(Scheme::int8, G::token, G::token, 0, 0);
  unrotated.name += " without rotation", unrotated.recipe.rotate = Rotate::off;
  CacheCase head = cache_case(Scheme::int8, G::head, G::head, kAmax, kAmax);
  head.name += " with fixed scales";
  return {cache_case(Scheme::int8, G::token, G::token, 0, 0),
          cache_anchored(cache_case(Scheme::int8, G::token, G::token, 0, 0)),
          unrotated,
          head,
          cache_case(Scheme::int8_shift, G::token, G::token, 0, 0),
          cache_case(Scheme::int4, G::token, G::token, 0, 0),
          cache_case(Scheme::int8_full, G::token, G::head, 0, kAmax),
          cache_case(Scheme::int8_half, G::token, half, 0, 0),
          cache_anchored(cache_case(Scheme::int8_fp8, G::token, G::head, 0, kAmax)),
          cache_case(Scheme::int8_lut, G::token, G::head, 0, kAmax),
          cache_case(Scheme::fp8, G::head, G::token, kAmax, 0),
          cache_case(Scheme::fp8_hybrid, G::head, hybrid, kAmax, 0),
          cache_anchored(cache_case(Scheme::integer, G::head, G::head, kAmax, kAmax)),
          cache_case(Scheme::qflash, G::tensor, G::tensor, kAmax, kAmax),
          cache_case(Scheme::f32, none, none, 0, 0),
          cache_case(Scheme::f16, none, none, 0, 0),
          cache_case(Scheme::bf16, none, none, 0, 0)};
}

/// Heads, queries and channels of a test.
struct CacheShape {
  std::int64_t batch, heads_q, heads_kv, tokens_q, dim;
};

}  // namespace octet::testing
