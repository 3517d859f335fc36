// The C structs of octet.h and the C++ ones of types.hpp: the same fields, checked here at compile time. Used
// by octet.hpp and by the library itself, so that the two sides of the C interface cannot drift apart.
#pragma once
#include <bit>
#include <cstddef>
#include <type_traits>

#include "octet/octet.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::abi {

template <class Cpp, class C>
inline constexpr bool kSameLayout =
    sizeof(Cpp) == sizeof(C) &&
    alignof(Cpp) == alignof(C) && std::is_trivially_copyable_v<Cpp>&& std::is_standard_layout_v<Cpp>;

#define OCTET_SAME_FIELD(Cpp, C, field)                                                               \
  static_assert(offsetof(Cpp, field) == offsetof(C, field) && sizeof(Cpp::field) == sizeof(C::field), \
                #Cpp "." #field " lies elsewhere in " #C)

static_assert(kSameLayout<TensorView, octet_tensor>, "TensorView must be octet_tensor");
OCTET_SAME_FIELD(TensorView, octet_tensor, dtype);
OCTET_SAME_FIELD(TensorView, octet_tensor, device);
OCTET_SAME_FIELD(TensorView, octet_tensor, shape);
OCTET_SAME_FIELD(TensorView, octet_tensor, stride);

static_assert(kSameLayout<Recipe, octet_recipe>, "Recipe must be octet_recipe");
OCTET_SAME_FIELD(Recipe, octet_recipe, k);
OCTET_SAME_FIELD(Recipe, octet_recipe, v);
OCTET_SAME_FIELD(Recipe, octet_recipe, smooth);
OCTET_SAME_FIELD(Recipe, octet_recipe, rotate);
OCTET_SAME_FIELD(Recipe, octet_recipe, equalise);
OCTET_SAME_FIELD(Recipe, octet_recipe, rotation_seed);

static_assert(kSameLayout<SchemeOptions, octet_scheme_options>, "SchemeOptions must be octet_scheme_options");
OCTET_SAME_FIELD(SchemeOptions, octet_scheme_options, table);
OCTET_SAME_FIELD(SchemeOptions, octet_scheme_options, table_bits);
OCTET_SAME_FIELD(SchemeOptions, octet_scheme_options, quotient);
OCTET_SAME_FIELD(SchemeOptions, octet_scheme_options, rescale);

static_assert(kSameLayout<QuantizedTensor, octet_quantized_tensor>,
              "QuantizedTensor must be octet_quantized_tensor");
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, scales);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, tokens_per_scale);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, channels_per_scale);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, channel_exponent);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, mean);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, rotate);
OCTET_SAME_FIELD(QuantizedTensor, octet_quantized_tensor, rotation_seed);

static_assert(kSameLayout<ParallelFor, octet_parallel_for>, "ParallelFor must be octet_parallel_for");
OCTET_SAME_FIELD(ParallelFor, octet_parallel_for, pool);
#undef OCTET_SAME_FIELD

static_assert(static_cast<int>(Code::internal) == OCTET_INTERNAL);
static_assert(static_cast<int>(DType::boolean) == OCTET_BOOLEAN);
static_assert(static_cast<int>(Scheme::qattn) == OCTET_SCHEME_QATTN && kSchemes == OCTET_SCHEME_QATTN + 1);
static_assert(static_cast<int>(Granularity::block_channel) == OCTET_PER_BLOCK_CHANNEL);
static_assert(static_cast<int>(Smooth::anchor) == OCTET_SMOOTH_ANCHOR);
static_assert(static_cast<int>(Mask::causal) == OCTET_MASK_CAUSAL);
static_assert(static_cast<int>(AttentionDesc::Bias::additive) == OCTET_BIAS_ADDITIVE);

inline octet_tensor to_c(const TensorView& x) { return std::bit_cast<octet_tensor>(x); }
inline octet_quantized_tensor to_c(const QuantizedTensor& x) {
  return std::bit_cast<octet_quantized_tensor>(x);
}
inline octet_parallel_for to_c(const ParallelFor& x) { return std::bit_cast<octet_parallel_for>(x); }
inline octet_recipe to_c(const Recipe& x) { return std::bit_cast<octet_recipe>(x); }
inline TensorView from_c(const octet_tensor& x) { return std::bit_cast<TensorView>(x); }
inline QuantizedTensor from_c(const octet_quantized_tensor& x) { return std::bit_cast<QuantizedTensor>(x); }
inline ParallelFor from_c(const octet_parallel_for& x) { return std::bit_cast<ParallelFor>(x); }
inline Recipe from_c(const octet_recipe& x) { return std::bit_cast<Recipe>(x); }

/// Fields of AttentionDesc and AttentionArgs that both structs spell alike and hold alike.
// note: clang-format never comes to rest on lists of macro calls.
// clang-format off
#define OCTET_DESC_NUMBERS(X)                                                       \
  X(batch) X(heads_q) X(heads_kv) X(tokens_q) X(tokens_k) X(head_dim) X(head_dim_v) \
  X(window_left) X(window_right) X(key_block) X(sequences) X(softmax_scale)
#define OCTET_ARGS_TENSORS(X) X(q) X(k) X(v) X(o) X(lse) X(o_scale) X(bias) X(k_anchor) X(parallel_for)
#define OCTET_ARGS_POINTERS(X) X(cu_seqlens_q) X(cu_seqlens_k) X(workspace) X(workspace_bytes) X(stream)
// clang-format on

inline octet_attention_desc to_c(const AttentionDesc& x) {
  octet_attention_desc c{};
  c.struct_size = sizeof c;
  c.scheme = static_cast<octet_scheme>(x.scheme);
  c.input = static_cast<octet_dtype>(x.input);
  c.output = static_cast<octet_dtype>(x.output);
  c.mask = static_cast<octet_mask>(x.mask);
  c.bias = static_cast<octet_bias>(x.bias);
  c.wants_lse = x.wants_lse ? 1 : 0;
  c.device = static_cast<octet_device>(x.device);
#define X(field) c.field = x.field;
  OCTET_DESC_NUMBERS(X)
#undef X
  c.recipe = to_c(x.recipe);
  c.options = std::bit_cast<octet_scheme_options>(x.options);
  return c;
}

/// Values are taken as they are, in range or not: the library validates them.
inline AttentionDesc from_c(const octet_attention_desc& c) {
  AttentionDesc x;
  x.scheme = static_cast<Scheme>(c.scheme);
  x.input = static_cast<DType>(c.input);
  x.output = static_cast<DType>(c.output);
  x.mask = static_cast<Mask>(c.mask);
  x.bias = static_cast<AttentionDesc::Bias>(c.bias);
  x.wants_lse = c.wants_lse != 0;
  x.device = static_cast<Device>(c.device);
#define X(field) x.field = c.field;
  OCTET_DESC_NUMBERS(X)
#undef X
  x.recipe = from_c(c.recipe);
  x.options = std::bit_cast<SchemeOptions>(c.options);
  return x;
}

inline octet_attention_args to_c(const AttentionArgs& x) {
  octet_attention_args c{};
  c.struct_size = sizeof c;
#define X(field) c.field = to_c(x.field);
  OCTET_ARGS_TENSORS(X)
#undef X
#define X(field) c.field = x.field;
  OCTET_ARGS_POINTERS(X)
#undef X
  return c;
}

inline AttentionArgs from_c(const octet_attention_args& c) {
  AttentionArgs x;
#define X(field) x.field = from_c(c.field);
  OCTET_ARGS_TENSORS(X)
#undef X
#define X(field) x.field = c.field;
  OCTET_ARGS_POINTERS(X)
#undef X
  return x;
}
#undef OCTET_DESC_NUMBERS
#undef OCTET_ARGS_TENSORS
#undef OCTET_ARGS_POINTERS

}  // namespace octet::abi
