// VectorLane: the verbs of lanes/scalar.h on kLanes values at once, with the same bits (any NaN for a NaN).
// Lanes are the compiler's vectors where a register holds them and pairs of those where not, so that a lane
// of any width works, and works well, with any instruction set.
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/bits.h"
#include "base/hd.h"
#include "lanes/exchange.h"
#include "lanes/native.h"
#include "lanes/pair.h"
#include "lanes/scalar.h"

namespace octet {

namespace simd {

/// kLanes values of T.
template <class T, int kLanes, bool kOneRegister = kLanes * sizeof(T) <= kRegisterBytes>
struct Wide {
  using Type = RegisterOf<T, kLanes* static_cast<int>(sizeof(T))>;
};
template <class T, int kLanes>
struct Wide<T, kLanes, false> {
  using Type = Pair<typename Wide<T, kLanes / 2>::Type>;
};

template <class V>
struct ElementOfWide {
  using Type = Element<V>;
};
template <class Half>
struct ElementOfWide<Pair<Half>> : ElementOfWide<Half> {};

/// x where it is lanes, a plain number in all of them.
template <class V, class X>
OCTET_HD V spread(X x) {
  if constexpr (std::is_same_v<V, X>) {
    return x;
  } else if constexpr (kIsPair<V>) {
    using Half = decltype(V::lo);
    const Half half = spread<Half>(x);
    return {half, half};
  } else {
    static_assert(std::is_arithmetic_v<X>, "an operand is neither lanes of this type nor a plain number");
    return fill<V>(static_cast<Element<V>>(x));
  }
}

/// LaneTraits of lanes.
template <class F, class I, class U>
struct Traits {
  using F32 = F;
  using I32 = I;
  using U32 = U;

  static OCTET_HD U32 bits_of(F32 x) { return apply(Cast<std::uint32_t>{}, x); }
  static OCTET_HD F32 float_of(U32 x) { return apply(Cast<float>{}, x); }
  static OCTET_HD F32 float_of(I32 x) { return apply(Cast<float>{}, x); }
  static OCTET_HD I32 as_signed(U32 x) { return apply(Cast<std::int32_t>{}, x); }
  static OCTET_HD U32 as_unsigned(I32 x) { return apply(Cast<std::uint32_t>{}, x); }

  template <class A, class B>
  static OCTET_HD F32 min(A a, B b) {
    return apply(Min{}, spread<F32>(a), spread<F32>(b));
  }
  template <class A, class B>
  static OCTET_HD F32 max(A a, B b) {
    return apply(Max{}, spread<F32>(a), spread<F32>(b));
  }
  /// The arm that is lanes says of which type the result is; f32 where both are plain numbers.
  template <class M, class A, class B>
  static OCTET_HD auto select(M mask, A yes, B no) {
    using V =
        std::conditional_t<!std::is_arithmetic_v<A>, A, std::conditional_t<!std::is_arithmetic_v<B>, B, F32>>;
    return apply(Select{}, mask, spread<V>(yes), spread<V>(no));
  }

  static OCTET_HD F32 to_f32(I32 x) { return apply(ToF32{}, x); }
  static OCTET_HD I32 truncated(F32 x) { return apply(Truncate{}, x); }
  static OCTET_HD I32 nearest(F32 x) { return apply(ToI32OrLeast{}, x); }
};

template <int kBytes>
using RegisterTraits =
    Traits<RegisterOf<float, kBytes>, RegisterOf<std::int32_t, kBytes>, RegisterOf<std::uint32_t, kBytes>>;

}  // namespace simd

template <>
struct LaneTraits<simd::RegisterOf<float, 16>> : simd::RegisterTraits<16> {};
template <>
struct LaneTraits<simd::RegisterOf<std::int32_t, 16>> : simd::RegisterTraits<16> {};
template <>
struct LaneTraits<simd::RegisterOf<std::uint32_t, 16>> : simd::RegisterTraits<16> {};
template <>
struct LaneTraits<simd::RegisterOf<float, 32>> : simd::RegisterTraits<32> {};
template <>
struct LaneTraits<simd::RegisterOf<std::int32_t, 32>> : simd::RegisterTraits<32> {};
template <>
struct LaneTraits<simd::RegisterOf<std::uint32_t, 32>> : simd::RegisterTraits<32> {};
template <>
struct LaneTraits<simd::RegisterOf<float, 64>> : simd::RegisterTraits<64> {};
template <>
struct LaneTraits<simd::RegisterOf<std::int32_t, 64>> : simd::RegisterTraits<64> {};
template <>
struct LaneTraits<simd::RegisterOf<std::uint32_t, 64>> : simd::RegisterTraits<64> {};
template <class Half>
struct LaneTraits<simd::Pair<Half>>
    : simd::Traits<simd::Pair<typename LaneTraits<Half>::F32>, simd::Pair<typename LaneTraits<Half>::I32>,
                   simd::Pair<typename LaneTraits<Half>::U32>> {};

/// kLanes is 8, 16 or 32. Tag keeps apart the translation units that are compiled for different instruction
/// sets: a type of the unit's own, so that no template instantiated for one is taken by another. Verbs mean
/// what ScalarLane says.
template <int kLanes, class Tag>
struct VectorLane {
  template <class T>
  using Lanes = typename simd::Wide<T, kLanes>::Type;
  using Scalar = ScalarLane;
  template <int kOther>
  using OfWidth = VectorLane<kOther, Tag>;
  using F32 = Lanes<float>;
  using I32 = Lanes<std::int32_t>;
  using U32 = Lanes<std::uint32_t>;
  using U16 = Lanes<std::uint16_t>;
  using I64 = Lanes<std::int64_t>;
  using U8 = Lanes<std::uint8_t>;
  using S8 = Lanes<std::int8_t>;
  using Mask = decltype(F32{} < F32{});
  using T = LaneTraits<F32>;
  static constexpr int kWidth = kLanes;

  template <class E>
  static OCTET_HD Lanes<E> load(const E* from) {
    return simd::load<Lanes<E>>(from);
  }
  template <class E>
  static OCTET_HD void store(E* to, Lanes<E> a) {
    simd::store(to, a);
  }

  static OCTET_HD F32 broadcast(float x) { return simd::spread<F32>(x); }
  static OCTET_HD float get(F32 a, int lane) { return simd::lane_of(a, lane); }
  static OCTET_HD std::int32_t get_i32(const I32& a, int lane) { return simd::lane_of(a, lane); }
  static OCTET_HD void put_i32(I32& a, int lane, std::int32_t x) { simd::set_lane(a, lane, x); }

  // Across lanes.
  static OCTET_HD std::int32_t largest_lane_i32(I32 a) { return simd::largest_lane(a); }
  /// Whether any lane of a mask holds.
  static OCTET_HD bool any_i32(Mask a) { return simd::any(a); }
  static OCTET_HD std::uint32_t lanes_that_i32(Mask a) { return simd::lanes_that(a); }

  // f32
  template <class A, class B>
  static OCTET_HD F32 add(A a, B b) {
    return f32(a) + f32(b);
  }
  template <class A, class B>
  static OCTET_HD F32 sub(A a, B b) {
    return f32(a) - f32(b);
  }
  template <class A, class B>
  static OCTET_HD F32 mul(A a, B b) {
    return f32(a) * f32(b);
  }
  template <class A, class B>
  static OCTET_HD F32 div(A a, B b) {
    return f32(a) / f32(b);
  }
  template <class A, class B>
  static OCTET_HD F32 min(A a, B b) {
    return T::min(a, b);
  }
  template <class A, class B>
  static OCTET_HD F32 max(A a, B b) {
    return T::max(a, b);
  }
  static OCTET_HD F32 rint(F32 a) { return simd::apply(simd::Rint{}, a); }
  template <class A, class B>
  static OCTET_HD Mask less(A a, B b) {
    return f32(a) < f32(b);
  }
  template <class A, class B>
  static OCTET_HD F32 select(Mask m, A yes, B no) {
    return T::select(m, f32(yes), f32(no));
  }
  static OCTET_HD I32 bits(F32 a) { return simd::apply(simd::Cast<std::int32_t>{}, a); }
  static OCTET_HD F32 from_bits(I32 a) { return simd::apply(simd::Cast<float>{}, a); }

  // Conversions.
  static OCTET_HD F32 to_f32(I32 a) { return T::to_f32(a); }
  /// The conversion gives the least value for all that does not fit: right for NaN and below; what is above
  /// the range has all its bits flipped.
  static OCTET_HD I32 to_i32(F32 a) {
    constexpr float kTwo31 = 2147483648.0f;
    return nearest_i32(a) ^ (a >= kTwo31);
  }
  static OCTET_HD I32 nearest_i32(F32 a) { return T::nearest(a); }
  static OCTET_HD I32 truncate_i32(F32 a) { return T::truncated(a); }
  static OCTET_HD U8 to_u8(F32 a) { return to_u8_i32(nearest_i32(min(max(a, 0.0f), 255.0f))); }
  static OCTET_HD S8 to_s8(F32 a) { return to_s8_i32(nearest_i32(min(max(a, -128.0f), 127.0f))); }
  static OCTET_HD U8 to_u8_i32(I32 a) { return simd::clamped_byte<std::uint8_t>(a); }
  static OCTET_HD S8 to_s8_i32(I32 a) { return simd::clamped_byte<std::int8_t>(a); }
  static OCTET_HD U16 to_u16_i32(I32 a) { return simd::clamped_u16(a); }
  static OCTET_HD U16 upper_u16(U32 a) { return simd::upper_u16(a); }
  /// Where there is an instruction: see simd::to_f16().
  static OCTET_HD U16 f16_codes(F32 a) requires(simd::kConvertsF16) { return simd::to_f16(a); }
  static OCTET_HD I32 widen_u16(U16 a) { return simd::widened<std::int32_t>(a); }

  // i32
  template <class A, class B>
  static OCTET_HD I32 add_i32(A a, B b) {
    return T::as_signed(T::as_unsigned(i32(a)) + T::as_unsigned(i32(b)));
  }
  template <class A, class B>
  static OCTET_HD I32 sub_i32(A a, B b) {
    return T::as_signed(T::as_unsigned(i32(a)) - T::as_unsigned(i32(b)));
  }
  template <class A, class B>
  static OCTET_HD I32 mul_i32(A a, B b) {
    return T::as_signed(T::as_unsigned(i32(a)) * T::as_unsigned(i32(b)));
  }
  template <class A, class B>
  static OCTET_HD I32 mul_u15(A a, B b) {
    return simd::apply(simd::MulU15{}, i32(a), i32(b));
  }
  template <class A, class B>
  static OCTET_HD I32 min_i32(A a, B b) {
    return simd::apply(simd::MinI32{}, i32(a), i32(b));
  }
  template <class A, class B>
  static OCTET_HD I32 max_i32(A a, B b) {
    return simd::apply(simd::MaxI32{}, i32(a), i32(b));
  }
  template <class A, class B>
  static OCTET_HD Mask less_i32(A a, B b) {
    return i32(a) < i32(b);
  }
  template <class A, class B>
  static OCTET_HD Mask equal_i32(A a, B b) {
    return i32(a) == i32(b);
  }
  template <class A, class B>
  static OCTET_HD I32 select_i32(Mask m, A yes, B no) {
    return T::select(m, i32(yes), i32(no));
  }
  template <class A, class B>
  static OCTET_HD I32 mulhi_i32(A a, B b) {
    return simd::apply(simd::MulHigh{}, i32(a), i32(b));
  }
  template <class A, class B>
  static OCTET_HD U32 mulhi_u32(A a, B b) {
    return simd::apply(simd::MulHigh{}, u32(a), u32(b));
  }

  // Shifts.
  template <class A, class S>
  static OCTET_HD I32 shl_i32(A a, S s) {
    return simd::apply(simd::ShiftLeft{}, i32(a), u32(s));
  }
  template <class A, class S>
  static OCTET_HD I32 sra_i32(A a, S s) {
    return simd::apply(simd::ShiftRight{}, i32(a), u32(s));
  }
  template <class A, class S>
  static OCTET_HD U32 srl_u32(A a, S s) {
    return simd::apply(simd::ShiftRight{}, u32(a), u32(s));
  }
  static OCTET_HD U32 clz_u32(U32 a) { return simd::apply(simd::LeadingZeros{}, a); }

  // u16
  template <class A, class B>
  static OCTET_HD U16 adds_u16(A a, B b) {
    return simd::apply(simd::AddSaturated{}, u16(a), u16(b));
  }
  template <class A, class B>
  static OCTET_HD U16 sub_u16(A a, B b) {
    return u16(a) - u16(b);
  }
  template <class A, class B>
  static OCTET_HD U16 mulhi_u16(A a, B b) {
    return simd::apply(simd::MulHighU16{}, u16(a), u16(b));
  }
  static OCTET_HD U16 srl_u16(U16 a, std::uint32_t s) {
    return s < 16 ? a >> static_cast<std::uint16_t>(s) : U16{};
  }
  static OCTET_HD U16 shl_u16(U16 a, std::uint32_t s) {
    return s < 16 ? a << static_cast<std::uint16_t>(s) : U16{};
  }
  template <class A, class S>
  static OCTET_HD U16 srlv_u16(A a, S s) {
    return simd::apply(simd::ShiftRightU16{}, u16(a), u16(s));
  }
  template <class A, class B>
  static OCTET_HD U16 avg_u16(A a, B b) {
    return simd::apply(simd::Average{}, u16(a), u16(b));
  }
  template <class A, class B>
  static OCTET_HD U16 mulhrs_u16(A a, B b) {
    return simd::apply(simd::MulRounded{}, u16(a), u16(b));
  }
  template <class A, class B>
  static OCTET_HD U16 min_u16(A a, B b) {
    return simd::apply(simd::MinI32{}, u16(a), u16(b));
  }
  template <class A, class B>
  static OCTET_HD U16 max_u16(A a, B b) {
    return simd::apply(simd::MaxI32{}, u16(a), u16(b));
  }

  // i64
  static OCTET_HD I64 widen(I32 a) { return simd::widened<std::int64_t>(a); }
  template <class A, class B>
  static OCTET_HD I64 mul_wide(A a, B b) {
    return simd::full_product(i32(a), i32(b));
  }
  template <class A, class B>
  static OCTET_HD I64 mul_i64(A a, B b) {
    return simd::apply(MulI64{}, i64(a), i64(b));
  }
  template <class A, class B>
  static OCTET_HD I64 add_i64(A a, B b) {
    return simd::apply(AddI64{}, i64(a), i64(b));
  }
  static OCTET_HD I64 shl_i64(I64 a, std::uint32_t s) {
    return s < 64 ? simd::apply(simd::ShiftLeftI64{s}, a) : I64{};
  }
  static OCTET_HD I64 sra_i64(I64 a, std::uint32_t s) {
    return simd::apply(simd::ShiftRightI64{s < 64 ? s : 63}, a);
  }
  static OCTET_HD I32 low_word(I64 a) { return simd::words<simd::Word::low>(a); }
  static OCTET_HD I32 high_word(I64 a) { return simd::words<simd::Word::high>(a); }

  static OCTET_HD F32 gather(const float* table, I32 index) {
    return simd::apply(simd::Gather{table}, index);
  }
  static OCTET_HD F32 lookup64(const float* table, I32 index) {
    return simd::apply(simd::Lookup64{table}, index);
  }
  static OCTET_HD I32 lookup16(const std::int32_t* table, I32 index) {
    return simd::apply(simd::Lookup16{table}, index);
  }

 private:
  template <class X>
  static OCTET_HD F32 f32(X x) {
    return simd::spread<F32>(x);
  }
  template <class X>
  static OCTET_HD I32 i32(X x) {
    return simd::spread<I32>(x);
  }
  template <class X>
  static OCTET_HD U32 u32(X x) {
    return simd::spread<U32>(x);
  }
  template <class X>
  static OCTET_HD U16 u16(X x) {
    return simd::spread<U16>(x);
  }
  template <class X>
  static OCTET_HD I64 i64(X x) {
    return simd::spread<I64>(x);
  }

  // Wrap modulo 2^64.
  struct AddI64 {
    template <class V>
    OCTET_HD V operator()(V a, V b) const {
      using U = simd::Like<std::uint64_t, V>;
      return simd::cast<V>(simd::cast<U>(a) + simd::cast<U>(b));
    }
  };
  struct MulI64 {
    template <class V>
    OCTET_HD V operator()(V a, V b) const {
      using U = simd::Like<std::uint64_t, V>;
      return simd::cast<V>(simd::cast<U>(a) * simd::cast<U>(b));
    }
  };
};

}  // namespace octet
