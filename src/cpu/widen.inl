// Rows of the floats below f32 as f32, in lanes: the numbers of formats.h.
#pragma once
#include <cstdint>

#include "lanes/native.h"
#include "lanes/vector.h"
#include "numerics/formats.h"
#include "numerics/narrow_row.h"

namespace octet::cpu {
namespace {

/// L: the lane of one register. Elements that fill no vector are read one by one.
template <class L>
struct RowsWidened {
  template <class Stored, class Number>
  static OCTET_HOST bool write(const void* codes, std::int64_t count, float* out, const Number& number) {
    const auto* from = static_cast<const Stored*>(codes);
    std::int64_t c = 0;
    for (; c + L::kWidth <= count; c += L::kWidth) L::store(out + c, number(L{}, from + c));
    for (; c < count; ++c) out[c] = number(typename L::Scalar{}, from + c);
    return true;
  }

  /// 16 bits of an f16, of which e5m2 has the upper 8.
  template <class Lane, class Codes>
  static OCTET_HOST auto from_f16(Codes codes) {
    if constexpr (simd::kConvertsF16 && Lane::kWidth > 1)
      return simd::from_f16(codes);
    else
      return f32_from_f16_code(as_unsigned(Lane::widen_u16(codes)));
  }
  template <class Lane>
  static OCTET_HOST auto bytes(const std::uint8_t* at) {
    if constexpr (Lane::kWidth == 1)
      return std::uint32_t{*at};
    else
      return as_unsigned(simd::widened_bytes(Lane::load(at)));
  }

  /// An e4m3 has f16's fields with 7 bits less behind and an exponent 8 less: exact, but for its NaN.
  template <class U32>
  static OCTET_HOST auto from_e4m3(U32 code) {
    constexpr float kExponents = 1 << 8;
    const U32 size = code & 0x7fu;
    const auto nan = float_of((size & 0u) | kF32QuietNan);
    const auto value = LaneTraits<U32>::select(size == 0x7fu, nan, f32_from_f16_code(size << 7) * kExponents);
    return float_of(bits_of(value) | ((code & 0x80u) << 24));
  }

  static bool run(const void* codes, std::int64_t count, DType from, float* out) {
    switch (from) {
      case DType::f16:
        return write<std::uint16_t>(codes, count, out, [](auto lane, const std::uint16_t* at) {
          using Lane = decltype(lane);
          return from_f16<Lane>(Lane::load(at));
        });
      case DType::bf16:
        return write<std::uint16_t>(codes, count, out, [](auto lane, const std::uint16_t* at) {
          using Lane = decltype(lane);
          return float_of(as_unsigned(Lane::widen_u16(Lane::load(at))) << 16);
        });
      case DType::e4m3:
        return write<std::uint8_t>(codes, count, out, [](auto lane, const std::uint8_t* at) {
          return from_e4m3(bytes<decltype(lane)>(at));
        });
      case DType::e5m2:
        return write<std::uint8_t>(codes, count, out, [](auto lane, const std::uint8_t* at) {
          return f32_from_f16_code(bytes<decltype(lane)>(at) << 8);
        });
      default:
        return false;
    }
  }
};

}  // namespace
}  // namespace octet::cpu
