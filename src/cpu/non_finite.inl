// NaN and Inf in V; part of attend.inl's nest. A hidden key has the weight 0, and a product of several rows
// multiplies it all the same: 0 times NaN is NaN. So products meet zeros in their place, and what they would
// have added is added behind, to the rows that see them. Key blocks without any cost a look at a byte.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cpu/visit.inl"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class NonFiniteValues {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Out = typename S::Out;
  static constexpr bool kFloats = is_float(S::kV);
  static constexpr Element kV = products_of<Isa>(S::kP).v;
  static constexpr std::int64_t kGroup = group_elements(kV), kBits = 32 / kGroup;
  static constexpr std::int64_t kVector = kMemberBytes<L>, kLanes = Isa::kLanes;

 public:
  /// Memory for key blocks of `padded` keys.
  static std::int64_t bytes(std::int64_t padded, std::int64_t dim_v) {
    return kFloats ? values_bytes(padded, dim_v) + 4 * padded : 0;
  }

  /// memory: bytes() of it.
  NonFiniteValues(const NestContext<S, Isa>& nest, std::byte* memory)
      : call_(nest.call),
        bias_(nest.bias),
        memory_(nest.memory),
        finite_(memory),
        keys_(reinterpret_cast<std::int32_t*>(memory + values_bytes(memory_.padded, call_.dim_v))) {}

  /// V of a key block as it was packed.
  const std::byte* packed(const OpenBlock<S>& block) const {
    return call_.head.v + block.begin / group_elements(kV) * 4 * call_.dim_v;
  }

  /// V of a key block for the products: where it is, or where there is NaN or Inf in it a copy with zeros for
  /// these.
  const std::byte* without(const OpenBlock<S>& block) {
    v_ = packed(block);
    count_ = 0;
    if constexpr (kFloats) {
      if (call_.head.non_finite[block.index]) {
        copy(block.keys());
        return finite_;
      }
    }
    return v_;
  }

  /// Adds the NaN and Inf of the open block to the outputs of the rows that see their keys. out: of the
  /// group's first row.
  void add(const Visit<S, Isa>& visit, Out* out) const {
    if constexpr (kFloats) {
      const std::int64_t columns = call_.dim_v / kLanes;
      for (std::int64_t r = 0; count_ > 0 && r < visit.live; ++r) {
        if (!(visit.seen >> r & 1)) continue;
        const RowKeys<Isa> keys = bias_.keys(r, visit.span(r));
        for (std::int64_t i = 0; i < count_; ++i)
          if (sees(keys, keys_[i])) add_key(keys_[i], has_weight(r, keys_[i]), out + r * columns);
      }
    }
  }

 private:
  static std::int64_t values_bytes(std::int64_t padded, std::int64_t dim_v) {
    return padded / kGroup * 4 * dim_v;
  }

  static bool sees(const RowKeys<Isa>& keys, std::int64_t key) {
    return keys.span.first <= key && key < keys.span.last && (!keys.bias || keys.bias[key] != kMinusInfinity);
  }

  /// Whether row r's P of a key is not 0. NaN is not, and has spoilt the row before.
  bool has_weight(std::int64_t r, std::int64_t key) const {
    const std::byte* const p = memory_.p + r * memory_.p_row + key * kPBytesOf<S, Isa>;
    std::uint32_t bits = 0;
    __builtin_memcpy(&bits, p, kPBytesOf<S, Isa>);
    return bits != 0;
  }

  /// One key's NaN and Inf times its weight: only whether that is 0 matters.
  void add_key(std::int64_t key, bool has_weight, Out* out) const {
    const F32 weight = L::broadcast(has_weight ? 1.0f : 0.0f);
    for (std::int64_t c = 0; c < call_.dim_v / kLanes; ++c) {
      const F32 value = L::from_bits(element(group(key, c), key % kGroup));
      out[c] = is_non_finite(value) ? out[c] + weight * value : out[c];
    }
  }

  void copy(std::int64_t keys) {
    for (std::int64_t first = 0; first < keys; first += kGroup) {
      I32 found[kGroup] = {};
      for (std::int64_t c = 0; c < call_.dim_v / kLanes; ++c) {
        const I32 values = group(first, c);
        I32 kept{};
        for (std::int64_t e = 0; e < kGroup; ++e) {
          const I32 none = is_non_finite(L::from_bits(element(values, e)));
          found[e] |= none;
          kept |= values & ~none & of_element(e);
        }
        store(finite_ + first / kGroup * 4 * call_.dim_v + c * kVector, kept);
      }
      for (std::int64_t e = 0; e < kGroup && first + e < keys; ++e)
        if (simd::any(found[e])) keys_[count_++] = static_cast<std::int32_t>(first + e);
    }
  }

  /// The block's groups that hold a key, of a vector of channels.
  I32 group(std::int64_t key, std::int64_t column) const {
    return load<I32>(v_ + key / kGroup * 4 * call_.dim_v + column * kVector);
  }
  /// The bits of element e of a group, the first being the lowest, and its number as f32.
  static std::int32_t of_element(std::int64_t e) {
    constexpr std::uint64_t kElement = (std::uint64_t{1} << kBits) - 1;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(kElement << e * kBits));
  }
  static I32 element(I32 group, std::int64_t e) {
    static_assert(!kFloats || kV == Element::f32 || kV == Element::bf16,
                  "the highest bits of f32, and the bits of a group in the order of its elements");
    const I32 bits = group & of_element(e);
    return bits << static_cast<std::int32_t>(32 - (e + 1) * kBits);
  }
  static I32 is_non_finite(F32 x) { return x - x != F32{}; }

  const RowsCall& call_;
  const GroupBias<Isa>& bias_;
  const GroupMemory& memory_;
  std::byte* const finite_;   ///< the open block's V without them
  std::int32_t* const keys_;  ///< of the block that have any
  std::int64_t count_ = 0;
  const std::byte* v_ = nullptr;  ///< the block's
};

}  // namespace
}  // namespace octet::cpu
