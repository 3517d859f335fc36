// The features of attention, each as a small call on N(0, 1) numbers: masks, windows, GQA, cross lengths,
// varlen, bias, strides.
#pragma once
#include <functional>
#include <vector>

#include "tests/attention/calls.h"

namespace octet::testing {

/// A feature and the call that uses it.
struct Feature {
  const char* name;
  std::function<Call()> make;
};

inline void add_bias(Call& call, double size) {
  call.bias = Tensor(1, 1, call.q.size(2), call.k.size(2));
  Random random(99);
  call.bias.each([&](float& x, auto...) { x = static_cast<float>(size * random.normal()); });
}

inline Call relaid(Call call, Layout layout) {
  for (Tensor* x : {&call.q, &call.k, &call.v}) {
    Tensor other(x->size(0), x->size(1), x->size(2), x->size(3), layout);
    other.each([&](float& y, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
      y = x->at(b, h, t, c);
    });
    *x = other;
  }
  call.output_layout = layout;
  return call;
}

/// Three packed sequences, the second of which has no queries; the last has fewer keys than queries, so that
/// under a causal mask its first rows are empty.
inline Call packed() {
  Call call = normal_call(1, 2, 60, 200, 32);
  call.cu_q = {0, 20, 20, 60}, call.cu_k = {0, 130, 170, 200};
  return call;
}

/// One call for each feature of attention.
inline const std::vector<Feature>& features() {
  static const std::vector<Feature> all{
      {"plain", [] { return normal_call(2, 2, 70, 150, 32); }},
      {"causal",
       [] {
         Call c = normal_call(1, 2, 150, 150, 32);
         c.options.mask = Mask::causal;
         return c;
       }},
      {"causal_more_queries_than_keys",
       [] {  // bottom-right: the first 30 rows see nothing
         Call c = normal_call(1, 1, 100, 70, 16);
         c.options.mask = Mask::causal;
         return c;
       }},
      {"causal_fewer_queries_than_keys",
       [] {
         Call c = normal_call(1, 1, 7, 300, 16);
         c.options.mask = Mask::causal;
         return c;
       }},
      {"window",
       [] {
         Call c = normal_call(1, 2, 200, 200, 32);
         c.options.window_left = 30, c.options.window_right = 5;
         return c;
       }},
      {"causal_window_across_blocks",
       [] {
         Call c = normal_call(1, 1, 300, 300, 16);
         c.options.mask = Mask::causal, c.options.window_left = 140;
         return c;
       }},
      {"grouped_queries",
       [] {
         Call c = normal_call(2, 6, 40, 100, 32);
         Random random(5);
         c.k = Tensor(2, 2, 100, 32), c.v = Tensor(2, 2, 100, 32);
         c.k.fill_normal(random), c.v.fill_normal(random);
         return c;
       }},
      {"v_has_another_dim",
       [] {
         Call c = normal_call(1, 2, 40, 100, 48);
         Random random(5);
         c.v = Tensor(1, 2, 100, 20), c.v.fill_normal(random);
         return c;
       }},
      {"varlen", [] { return packed(); }},
      {"varlen_causal",
       [] {
         Call c = packed();
         c.options.mask = Mask::causal;
         return c;
       }},
      {"boolean_mask",
       [] {
         Call c = normal_call(1, 2, 40, 150, 32);
         c.mask.resize(40 * 150);
         for (std::size_t i = 0; i < c.mask.size(); ++i) c.mask[i] = (i * 7919 / 3) % 5 != 0;
         for (std::size_t j = 0; j < 150; ++j) c.mask[3 * 150 + j] = 0;  // row 3 is empty
         for (std::size_t j = 0; j < 128; ++j) c.mask[5 * 150 + j] = 0;  // row 5 sees nothing of block 0
         return c;
       }},
      {"additive_bias",
       [] {
         Call c = normal_call(1, 2, 40, 150, 32);
         add_bias(c, 1);
         return c;
       }},
      {"additive_bias_that_hides",
       [] {
         Call c = normal_call(1, 2, 40, 150, 32);
         add_bias(c, 1);
         c.bias.each([](float& x, auto, auto, std::int64_t i, std::int64_t j) {
           if (j % 3 == i % 3 || i == 2) x = kMinusInfinity;
         });
         return c;
       }},
      {"bshd", [] { return relaid(normal_call(2, 3, 33, 65, 32), Layout::bshd); }},
      {"gapped", [] { return relaid(normal_call(2, 2, 33, 65, 31), Layout::gapped); }},
      {"softmax_scale",
       [] {
         Call c = normal_call(1, 1, 40, 150, 32);
         c.options.softmax_scale = 0.05f;
         return c;
       }},
      {"key_block_64",
       [] {
         Call c = normal_call(1, 1, 40, 200, 32);
         c.options.key_block = 64;
         return c;
       }},
  };
  return all;
}

}  // namespace octet::testing
