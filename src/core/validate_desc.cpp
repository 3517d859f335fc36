// Checks a problem before any data: first the rules of every scheme, then what the chosen scheme offers.
#include <cmath>
#include <limits>

#include "base/try.h"
#include "core/names.h"
#include "core/plan.h"
#include "core/sentence.h"

namespace octet {
namespace {

using Bias = AttentionDesc::Bias;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();  // cu_seqlens are 32 bits
constexpr std::int64_t kMaxHeads = 65535;                                     // CUDA's second grid axis
constexpr std::int64_t kMaxDim = 256;  // |Q K| <= 256 * 127^2 fits 22 bits: what the schemes are proved for
constexpr std::int64_t kKeyBlockStep = 16, kMaxKeyBlock = 1024;  // 255 * 127 * 1024 stays below 2^31
constexpr int kMinTableBits = 3, kMaxTableBits = 16;

Status in_range(std::string_view argument, std::int64_t value, std::int64_t low, std::int64_t high,
                std::string_view remedy) {
  if (value >= low && value <= high) return {};
  return broken(argument, value, "it must be " + std::to_string(low) + " to " + std::to_string(high), remedy);
}

Status known(EnumKind kind, std::string_view argument, std::int32_t value) {
  if (is_valid(kind, value)) return {};
  const auto names = names_of(kind);
  return broken(argument, value, "it must be 0 to " + std::to_string(names.size() - 1),
                "choose a value of the enumeration " + std::string(argument_of(kind)));
}

template <class Enum>
Status known(EnumKind kind, std::string_view argument, Enum value) {
  return known(kind, argument, static_cast<std::int32_t>(value));
}

Status check_enumerations(const AttentionDesc& d) {
  OCTET_TRY(known(EnumKind::scheme, "scheme", d.scheme));
  OCTET_TRY(known(EnumKind::dtype, "input", d.input));
  OCTET_TRY(known(EnumKind::dtype, "output", d.output));
  OCTET_TRY(known(EnumKind::mask, "mask", d.mask));
  OCTET_TRY(known(EnumKind::bias, "bias", d.bias));
  OCTET_TRY(known(EnumKind::device, "device", d.device));
  OCTET_TRY(known(EnumKind::granularity, "recipe.q", d.recipe.q));
  OCTET_TRY(known(EnumKind::granularity, "recipe.k", d.recipe.k));
  OCTET_TRY(known(EnumKind::granularity, "recipe.v", d.recipe.v));
  OCTET_TRY(known(EnumKind::smooth, "recipe.smooth", d.recipe.smooth));
  OCTET_TRY(known(EnumKind::rotate, "recipe.rotate", d.recipe.rotate));
  OCTET_TRY(known(EnumKind::equalise, "recipe.equalise", d.recipe.equalise));
  OCTET_TRY(known(EnumKind::row_sum, "options.row_sum", d.options.row_sum));
  OCTET_TRY(known(EnumKind::table, "options.table", d.options.table));
  OCTET_TRY(known(EnumKind::quotient, "options.quotient", d.options.quotient));
  return known(EnumKind::rescale, "options.rescale", d.options.rescale);
}

/// Bytes that an operand and all that the quantiser keeps beside it can need stay far below 2^63.
Status check_size(std::string_view argument, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                  std::int64_t sequences) {
  // 8 bytes a number, channels padded to at most twice kMaxDim; scales, exponents and means a sequence.
  constexpr std::int64_t kBytesPerToken = 8 * 2 * kMaxDim;
  std::int64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(batch, heads, &bytes) ||
                         __builtin_mul_overflow(bytes, tokens + 2 * sequences + 1, &bytes) ||
                         __builtin_mul_overflow(bytes, 4 * kBytesPerToken, &bytes);
  if (!overflows) return {};
  return broken(
      argument,
      "[" + std::to_string(batch) + ", " + std::to_string(heads) + ", " + std::to_string(tokens) + ", ...]",
      "its size in bytes does not fit 63 bits", "attend to fewer batch entries or heads at a time");
}

Status check_shape(const AttentionDesc& d) {
  OCTET_TRY(in_range("batch", d.batch, 1, kMaxCount, "pass one batch entry or more"));
  OCTET_TRY(in_range("heads_q", d.heads_q, 1, kMaxHeads, "fold further heads into the batch"));
  OCTET_TRY(in_range("heads_kv", d.heads_kv, 1, kMaxHeads, "fold further heads into the batch"));
  if (d.heads_q % d.heads_kv != 0) {
    return broken("heads_q", d.heads_q,
                  "it must be a multiple of heads_kv, which is " + std::to_string(d.heads_kv),
                  "let every key-value head serve the same number of query heads");
  }
  OCTET_TRY(in_range("tokens_q", d.tokens_q, 0, kMaxCount, "split the queries into several calls"));
  OCTET_TRY(
      in_range("tokens_k", d.tokens_k, 0, kMaxCount, "split the keys and merge with octet_merge_states"));
  OCTET_TRY(in_range("head_dim", d.head_dim, 1, kMaxDim, "project to smaller heads or use more of them"));
  OCTET_TRY(in_range("head_dim_v", d.head_dim_v, 1, kMaxDim, "split V's channels into several calls"));
  OCTET_TRY(in_range("sequences", d.sequences, 0, kMaxCount, "pass 0 for dense tensors"));
  OCTET_TRY(check_size("q", d.batch, d.heads_q, d.tokens_q, d.sequences));
  return check_size("k", d.batch, d.heads_kv, d.tokens_k, d.sequences);
}

Status check_masks(const AttentionDesc& d) {
  constexpr auto kAll = "pass -1 to see all keys on that side";
  OCTET_TRY(in_range("window_left", d.window_left, -1, kMaxCount, kAll));
  OCTET_TRY(in_range("window_right", d.window_right, -1, kMaxCount, kAll));
  if (d.sequences > 0 && d.batch != 1) {
    return broken("batch", d.batch, "it must be 1 where sequences are packed (varlen)",
                  "pack all sequences along the token axis");
  }
  if (d.sequences > 0 && d.bias != Bias::none) {
    return refused("bias", name_of(d.bias), "packed sequences (varlen) take none",
                   "pass each sequence in a call of its own, or drop the bias");
  }
  return {};
}

Status check_numbers(const AttentionDesc& d) {
  if (!(std::isfinite(d.softmax_scale) && d.softmax_scale > 0)) {
    return broken("softmax_scale", d.softmax_scale, "it must be finite and positive",
                  "pass 1 / sqrt(head_dim) where the model says nothing else");
  }
  if (d.key_block % kKeyBlockStep != 0 || d.key_block < kKeyBlockStep || d.key_block > kMaxKeyBlock) {
    return broken("key_block", d.key_block, "it must be a multiple of 16 in 16 to 1024",
                  "choose 128 where nothing speaks for another");
  }
  return {};
}

std::string quoted(const SchemeInfo& info) { return "scheme " + std::string(info.name); }

std::string members(GranularitySet set) {
  std::string all;
  for (int g = 0; g < 32; ++g) {
    if ((set >> g & 1u) == 0) continue;
    all += (all.empty() ? "" : ", ") + name_of(static_cast<Granularity>(g));
  }
  return all;
}

Status check_granularity(const SchemeInfo& info, std::string_view argument, Granularity wanted,
                         GranularitySet accepted, Granularity neutral) {
  if (accepted == 0) {
    if (wanted == neutral) return {};
    return refused(argument, name_of(wanted), quoted(info) + " gives this operand no scales",
                   "leave it at " + name_of(neutral));
  }
  if (contains(accepted, wanted)) return {};
  return refused(argument, name_of(wanted), quoted(info) + " has no such scales there",
                 "choose one of " + members(accepted));
}

Status check_recipe(const SchemeInfo& info, const Recipe& recipe) {
  OCTET_TRY(check_granularity(info, "recipe.q", recipe.q, info.q_set, info.recipe.q));
  OCTET_TRY(check_granularity(info, "recipe.k", recipe.k, info.k_set, info.recipe.k));
  OCTET_TRY(check_granularity(info, "recipe.v", recipe.v, info.v_set, info.recipe.v));
  if (!info.smooths && recipe.smooth != Smooth::none) {
    return refused("recipe.smooth", name_of(recipe.smooth), quoted(info) + " does not shift K",
                   "pass none, or choose a scheme that smooths, such as int8");
  }
  if (!info.rotates && recipe.rotate != Rotate::off) {
    return refused("recipe.rotate", name_of(recipe.rotate), quoted(info) + " does not rotate Q and K",
                   "pass off, or choose a scheme that rotates, such as int8");
  }
  if (!info.equalises && recipe.equalise != Equalise::off) {
    return refused("recipe.equalise", name_of(recipe.equalise), quoted(info) + " does not equalise V",
                   "pass off, or choose a scheme that equalises, such as int8");
  }
  return {};
}

/// A scheme without the choice takes its default only.
template <class Enum>
Status check_option(const SchemeInfo& info, bool offered, EnumKind kind, Enum value, Enum neutral) {
  if (offered || value == neutral) return {};
  return refused("options." + std::string(argument_of(kind)), name_of(kind, static_cast<std::int32_t>(value)),
                 quoted(info) + " has no such choice",
                 "leave it at " + name_of(kind, static_cast<std::int32_t>(neutral)));
}

Status check_options(const SchemeInfo& info, const SchemeOptions& options) {
  const SchemeOptions neutral;
  OCTET_TRY(check_option(info, info.options.row_sum, EnumKind::row_sum, options.row_sum, neutral.row_sum));
  OCTET_TRY(check_option(info, info.options.table, EnumKind::table, options.table, neutral.table));
  OCTET_TRY(
      check_option(info, info.options.quotient, EnumKind::quotient, options.quotient, neutral.quotient));
  OCTET_TRY(check_option(info, info.options.rescale, EnumKind::rescale, options.rescale, neutral.rescale));
  if (info.options.table) {
    return in_range("options.table_bits", options.table_bits, kMinTableBits, kMaxTableBits,
                    "10 bits leave the table's error below that of 8-bit codes");
  }
  if (options.table_bits == neutral.table_bits) return {};
  return refused("options.table_bits", options.table_bits, quoted(info) + " has no table",
                 "leave it at " + std::to_string(neutral.table_bits));
}

Status check_input(const SchemeInfo& info, const AttentionDesc& d) {
  if (d.input == DType::f32 || d.input == DType::f16 || d.input == DType::bf16) return {};
  if (info.q_set == 0) {
    return refused("input", name_of(d.input), quoted(info) + " reads numbers, not codes",
                   "pass f32, f16 or bf16");
  }
  if (d.input == info.qk) return {};
  return refused(
      "input", name_of(d.input),
      quoted(info) + " reads numbers, or codes in " + name_of(info.qk) + " (V in " + name_of(info.v) + ")",
      "pass f32, f16, bf16 or " + name_of(info.qk));
}

Status check_output(const SchemeInfo& info, const AttentionDesc& d) {
  const bool codes = info.output_codes != OutputCodes::none;
  switch (d.output) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return {};
    case DType::f64:
      if (info.scheme == Scheme::exact) return {};
      return refused("output", "f64", quoted(info) + " has no such precision",
                     "pass f32, or use scheme exact");
    case DType::s8:
      if (codes) return {};
      return refused("output", "s8", quoted(info) + " does not end in codes",
                     "pass f32, f16 or bf16, or use a scheme that ends in codes, such as integer");
    default:
      return refused("output", name_of(d.output), quoted(info) + " writes no such numbers",
                     codes ? "pass f32, f16, bf16 or s8" : "pass f32, f16 or bf16");
  }
}

Status check_scheme(const AttentionDesc& d) {
  const SchemeInfo& info = scheme_info(d.scheme);
  OCTET_TRY(check_input(info, d));
  OCTET_TRY(check_output(info, d));
  if (!info.additive_bias && d.bias == Bias::additive) {
    return refused("bias", "additive", quoted(info) + " cannot add to its scores",
                   "pass a boolean mask, or choose a scheme that adds, such as int8");
  }
  if (d.tokens_k > info.max_tokens_k) {
    return refused(
        "tokens_k", d.tokens_k,
        quoted(info) + "'s sums are proved for at most " + std::to_string(info.max_tokens_k) + " keys",
        d.sequences > 0 ? "pack fewer sequences into a call"
                        : "split the keys and merge with octet_merge_states");
  }
  OCTET_TRY(check_recipe(info, d.recipe));
  return check_options(info, d.options);
}

}  // namespace

Status validate_desc(const AttentionDesc& desc) {
  OCTET_TRY(check_enumerations(desc));
  OCTET_TRY(check_shape(desc));
  OCTET_TRY(check_masks(desc));
  OCTET_TRY(check_numbers(desc));
  return check_scheme(desc);
}

bool takes_codes(const AttentionDesc& desc) {
  return desc.input != DType::f32 && desc.input != DType::f16 && desc.input != DType::bf16;
}

}  // namespace octet
