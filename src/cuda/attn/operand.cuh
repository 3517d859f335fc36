// One head of one sequence of an operand: codes as the products take them, scales and exponents.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/attn/sequence.cuh"
#include "numerics/number_at.h"

namespace octet::cuda::attn {

/// What a product holds an operand's element in.
template <Operand kOperand>
struct Element {
  static_assert(kOperand != Operand::f32, "the matrix units have no f32");
  static constexpr int kBytes = bytes_of(kOperand);
  using Type = std::conditional_t<kBytes == 2, std::uint16_t, std::uint8_t>;
};

/// Whether rows of V are keys in the tiles of the products, as they are in the caller's tensor: elements of
/// 16 bits, which these turn around as they read them. Single bytes nothing turns, and rows are channels.
template <class S>
inline constexpr bool kValuesByKeys = Element<S::kV>::kBytes == 2;

/// Elements that are read and written together.
template <Operand kOperand, int kBytes>
struct Elements {
  static constexpr int kCount = kBytes / Element<kOperand>::kBytes;
  typename Element<kOperand>::Type of[kCount];
};

/// A number in an element of a product, which holds it exactly.
template <Operand kOperand>
__device__ __forceinline__ typename Element<kOperand>::Type element_of(float number) {
  if constexpr (kOperand == Operand::f16)
    return f16_from_f32(number);
  else if constexpr (kOperand == Operand::bf16)
    return bf16_from_f32(number);
  else if constexpr (kOperand == Operand::e4m3)
    return e4m3_from_f32(number);
  else
    return static_cast<std::uint8_t>(static_cast<std::int8_t>(static_cast<std::int32_t>(number)));
}

/// The dtype whose elements are those of a product.
constexpr DType native_dtype(Operand operand) {
  switch (operand) {
    case Operand::f16:
      return DType::f16;
    case Operand::bf16:
      return DType::bf16;
    case Operand::e4m3:
      return DType::e4m3;
    default:
      return DType::s8;
  }
}

class HeadOperand {
 public:
  __device__ HeadOperand(const DeviceOperand& x, const DeviceSequences& sequences, const Sequence& sequence,
                         std::int32_t head)
      : x_(x),
        base_(x.codes.along(0, sequence.batch) + x.codes.along(1, head) + x.codes.along(2, sequence.begin)),
        scale_base_(0),
        exponent_base_(0) {
    if (x.scales.data) {
      scale_base_ = x.scales.along(0, sequence.batch) + x.scales.along(1, head);
      if (sequences.cu_seqlens)
        scale_base_ += first_scale_group(sequences, sequence.index, x.tokens_per_scale) * x.scales.stride[2];
    }
    if (x.exponent.data) {
      exponent_base_ = x.exponent.along(0, sequence.batch) + x.exponent.along(1, head);
      if (sequences.cu_seqlens) exponent_base_ += x.exponent.along(2, sequence.index);
    }
  }

  /// The element of a token and channel in the tensor.
  __device__ std::int64_t offset(std::int32_t token, std::int32_t channel) const {
    return base_ + x_.codes.along(2, token) + x_.codes.along(3, channel);
  }
  __device__ float number(std::int32_t token, std::int32_t channel) const {
    return number_at(x_.codes.data, x_.codes.dtype, offset(token, channel));
  }
  /// The same as a product's element, of the formats that schemes have for it. note: of all, as number()
  /// reads them, this was 3 to 10 KB of each kernel.
  template <Operand kOperand>
  __device__ typename Element<kOperand>::Type element(std::int32_t token, std::int32_t channel) const {
    return element_at<kOperand>(offset(token, channel));
  }
  /// The same of the element at an offset().
  template <Operand kOperand>
  __device__ typename Element<kOperand>::Type element_at(std::int64_t at) const {
    using Type = typename Element<kOperand>::Type;
    const auto* const bytes = static_cast<const std::uint8_t*>(x_.codes.data);
    if constexpr (sizeof(Type) == 1) {
      if (x_.codes.dtype != DType::s4) return bytes[at];
      const std::uint8_t pair = bytes[at >> 1];
      return static_cast<Type>((at & 1) ? s4_high(pair) : s4_low(pair));
    } else {
      if (x_.codes.dtype == native_dtype(kOperand)) return static_cast<const Type*>(x_.codes.data)[at];
      if constexpr (kOperand == Operand::f16)
        return element_of<kOperand>(f32_from_e4m3(bytes[at]));
      else
        return element_of<kOperand>(static_cast<std::int8_t>(bytes[at]));
    }
  }
  /// Scale of a token that holds for all its channels; 1 where the operand has no scales.
  __device__ float token_scale(std::int32_t token) const { return x_.scales.data ? scale(token, 0) : 1.0f; }
  /// Where the scale lies of an operand that has scales.
  __device__ const float* scale_at(std::int32_t token, std::int32_t channel) const {
    const std::int32_t t = x_.tokens_per_scale ? token / x_.tokens_per_scale : 0;
    const std::int32_t c = x_.channels_per_scale ? channel / x_.channels_per_scale : 0;
    return static_cast<const float*>(x_.scales.data) + scale_base_ + x_.scales.along(2, t) +
           x_.scales.along(3, c);
  }
  __device__ float scale(std::int32_t token, std::int32_t channel) const { return *scale_at(token, channel); }
  __device__ bool has_exponents() const { return x_.exponent.data != nullptr; }
  __device__ const std::int32_t* exponent_at(std::int32_t channel) const {
    return static_cast<const std::int32_t*>(x_.exponent.data) + exponent_base_ +
           x_.exponent.along(3, channel);
  }
  __device__ bool has_scales() const { return x_.scales.data != nullptr; }
  __device__ bool scales_vary_by_token() const { return x_.scales.data && x_.tokens_per_scale > 0; }
  __device__ bool scales_vary_by_channel() const { return x_.scales.data && x_.channels_per_scale > 0; }
  /// Whether P carries its scales, as V of a scheme that can.
  template <class S>
  __device__ bool scales_in_p() const {
    return carries_v<S>() && scales_vary_by_token() && !scales_vary_by_channel();
  }
  __device__ const DeviceOperand& operand() const { return x_; }

 private:
  const DeviceOperand& x_;
  std::int64_t base_, scale_base_, exponent_base_;
};

/// Rows of Q of `joined` heads as one head's: those of a token one after the other.
class JoinedHeads {
 public:
  __device__ JoinedHeads(const HeadOperand& first, const Divider& joined) : first_(first), joined_(joined) {}

  /// As HeadOperand's of a token.
  __device__ bool has_scales() const { return first_.has_scales(); }
  __device__ std::int64_t offset(std::int32_t row, std::int32_t channel) const {
    const Place at = place(row);
    return first_.offset(at.token, channel) + first_.operand().codes.along(1, at.head);
  }
  __device__ const float* scale_at(std::int32_t row, std::int32_t channel) const {
    const Place at = place(row);
    return first_.scale_at(at.token, channel) + first_.operand().scales.along(1, at.head);
  }

 private:
  struct Place {
    std::int32_t token, head;  ///< of those joined
  };
  __device__ Place place(std::int32_t row) const {
    const std::int32_t token = row / joined_;
    return {token, row - token * joined_};
  }

  const HeadOperand& first_;
  const Divider& joined_;
};

/// Whether a kernel's calls may have query heads joined.
enum class Heads : std::int32_t { are_apart, may_be_joined };

/// The rows of Q that a launch has as one head's.
template <Heads kHeads>
class QueryHead {
 public:
  /// head: as the launch counts them.
  __device__ QueryHead(const Call& call, const Sequence& sequence, std::int32_t head)
      : call_(call),
        first_(call.q, call.queries, sequence,
               kHeads == Heads::may_be_joined ? head * call.queries.rows_a_token : head) {}

  /// body(rows), which have offset(), has_scales() and scale_at() of a row. note: two bodies, so that nothing
  /// is divided where rows are tokens.
  template <class Body>
  __device__ __forceinline__ void visit(const Body& body) const {
    if constexpr (kHeads == Heads::may_be_joined) {
      if (call_.has_ranges) [[unlikely]] {
        body(JoinedHeads(first_, call_.queries.rows_a_token));
        return;
      }
    }
    body(first_);
  }
  template <Operand kOperand>
  __device__ typename Element<kOperand>::Type element(std::int32_t row, std::int32_t channel) const {
    std::int64_t at = 0;
    visit([&](const auto& rows) { at = rows.offset(row, channel); });
    return first_.template element_at<kOperand>(at);
  }
  __device__ const DeviceOperand& operand() const { return first_.operand(); }
  /// Its tokens, which are its rows where no heads are joined.
  __device__ const HeadOperand& first() const { return first_; }

 private:
  const Call& call_;
  HeadOperand first_;
};

}  // namespace octet::cuda::attn
