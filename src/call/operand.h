// One head of one sequence of an operand, as a CPU backend reads it: rows decoded to the product's operand
// type.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/sequences.h"
#include "numerics/contract.h"
#include "numerics/narrow_row.h"
#include "numerics/number_at.h"
#include "octet/types.hpp"

namespace octet::call {

/// Address of element (batch, head, token, 0) of a view; s4 is addressed by the codes' nibbles instead.
template <class T>
const T* row_of(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t) {
  return static_cast<const T*>(x.data) + b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
}

/// The operand's codes, scales and exponents of one (sequence, head).
class HeadOperand {
 public:
  HeadOperand(const QuantizedTensor& x, const Sequences& sequences, std::int64_t sequence, std::int64_t head)
      : x_(x),
        batch_(sequences.batch(sequence)),
        head_(head),
        begin_(sequences.begin(sequence)),
        first_group_(sequences.first_group(sequence, x.tokens_per_scale)),
        packed_sequence_(sequences.cu_seqlens ? sequence : 0) {}

  std::int64_t dim() const { return x_.codes.shape[3]; }

  /// Row `token` (within the sequence) as numbers of type T: int16 for integer codes, float for float
  /// formats.
  template <class T>
  void load(std::int64_t token, T* row) const {
    const std::int64_t base = offset(token);
    if (x_.codes.dtype == DType::s8 && x_.codes.stride[3] == 1) {
      const auto* codes = static_cast<const std::int8_t*>(x_.codes.data) + base;
      for (std::int64_t c = 0; c < dim(); ++c) row[c] = codes[c];
    } else if (x_.codes.dtype == DType::f32 && x_.codes.stride[3] == 1) {
      const auto* codes = static_cast<const float*>(x_.codes.data) + base;
      if constexpr (std::is_same_v<T, float>)
        std::copy_n(codes, dim(), row);
      else
        for (std::int64_t c = 0; c < dim(); ++c) row[c] = static_cast<T>(codes[c]);
    } else {
      for (std::int64_t c = 0; c < dim(); ++c)
        row[c] = static_cast<T>(number_at(x_.codes.data, x_.codes.dtype, base + c * x_.codes.stride[3]));
    }
  }

  /// The codes of a row as they lie in memory, where they are of that type and one after the other; else
  /// null.
  const std::int8_t* s8_row(std::int64_t token) const { return row_as<std::int8_t>(DType::s8, token); }
  const std::uint16_t* bf16_row(std::int64_t token) const {
    return row_as<std::uint16_t>(DType::bf16, token);
  }
  const float* f32_row(std::int64_t token) const { return row_as<float>(DType::f32, token); }

  /// Row `token` as floats: by `widen` where its codes lie one after the other and are of a format that it
  /// knows.
  void load(std::int64_t token, WideRow widen, float* row) const {
    const bool is_dense = x_.codes.stride[3] == 1;
    const std::int64_t bytes = x_.codes.dtype == DType::f16 || x_.codes.dtype == DType::bf16 ? 2 : 1;
    const auto* codes = static_cast<const std::byte*>(x_.codes.data) + offset(token) * bytes;
    if (!is_dense || !widen(codes, dim(), x_.codes.dtype, row)) load(token, row);
  }
  /// Elements from the codes of a token to the next one's.
  std::int64_t token_stride() const { return x_.codes.stride[2]; }

  /// Scale of a token that holds for all its channels; 1 where the operand has no scales.
  float token_scale(std::int64_t token) const { return x_.scales.data ? scale(token, 0) : 1.0f; }
  /// out[i] = token_scale(begin + i), i < count.
  void token_scales(std::int64_t begin, std::int64_t count, float* out) const {
    if (x_.tokens_per_scale != 1 || !x_.scales.data) {
      // One division a group: tokens of a group follow each other.
      const std::int64_t group = x_.scales.data ? x_.tokens_per_scale : 0;
      for (std::int64_t i = 0; i < count;) {
        const float scale = token_scale(begin + i);
        const std::int64_t left = group ? group - (begin + i) % group : count;
        for (const std::int64_t next = i + left; i < count && i < next; ++i) out[i] = scale;
      }
      return;
    }
    const float* from = row_of<float>(x_.scales, batch_, head_, first_group_ + begin);
    if (x_.scales.stride[2] == 1) {
      std::copy(from, from + count, out);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = from[i * x_.scales.stride[2]];
  }
  /// Scale of a channel at a token.
  float scale(std::int64_t token, std::int64_t channel) const {
    const std::int64_t t = x_.tokens_per_scale ? token / x_.tokens_per_scale : 0;
    const std::int64_t c = x_.channels_per_scale ? channel / x_.channels_per_scale : 0;
    return row_of<float>(x_.scales, batch_, head_, first_group_ + t)[c * x_.scales.stride[3]];
  }
  std::int32_t exponent(std::int64_t channel) const {
    if (!x_.channel_exponent.data) return 0;
    return row_of<std::int32_t>(x_.channel_exponent, batch_, head_,
                                packed_sequence_)[channel * x_.channel_exponent.stride[3]];
  }
  void channel_exponents(std::int32_t* out) const {
    if (!x_.channel_exponent.data) {
      std::fill_n(out, dim(), 0);
      return;
    }
    const std::int32_t* from = row_of<std::int32_t>(x_.channel_exponent, batch_, head_, packed_sequence_);
    if (x_.channel_exponent.stride[3] == 1) {
      std::copy_n(from, dim(), out);
      return;
    }
    for (std::int64_t c = 0; c < dim(); ++c) out[c] = from[c * x_.channel_exponent.stride[3]];
  }
  bool has_scales() const { return x_.scales.data != nullptr; }
  bool scales_vary_by_token() const { return x_.scales.data && x_.tokens_per_scale > 0; }
  bool scales_vary_by_channel() const { return x_.scales.data && x_.channels_per_scale > 0; }

 private:
  template <class T>
  const T* row_as(DType dtype, std::int64_t token) const {
    const bool there = x_.codes.dtype == dtype && x_.codes.stride[3] == 1;
    return there ? static_cast<const T*>(x_.codes.data) + offset(token) : nullptr;
  }
  std::int64_t offset(std::int64_t token) const {
    const auto& s = x_.codes.stride;
    return batch_ * s[0] + head_ * s[1] + (begin_ + token) * s[2];
  }

  const QuantizedTensor& x_;
  std::int64_t batch_, head_, begin_, first_group_;
  std::int64_t packed_sequence_;  ///< index along the sequence axis of per-sequence constants; 0 where dense
};

}  // namespace octet::call
