// ScalarLane: the verbs that schemes are written in, on one plain value. It defines what each verb means; the
// vector lanes (one struct for each instruction set, same names) must give the same bits.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet {

/// Names carry the type where a vector lane could not tell by overloading (all integer vectors are one type
/// there): no suffix is f32, then _i32, _u32, _u16, _i64. There is no fused multiply-add: multiply, then add,
/// each rounded. Operators on lanes mean the same as on plain values, and an operand of a verb or operator
/// may be a plain number where the others are lanes: it stands for all lanes.
struct ScalarLane {
  using Scalar = ScalarLane;  // the lane of one value that goes with any lane
  using F32 = float;
  using I32 = std::int32_t;
  using U32 = std::uint32_t;
  using U16 = std::uint16_t;
  using I64 = std::int64_t;
  using U8 = std::uint8_t;
  using S8 = std::int8_t;
  using Mask = bool;
  static constexpr int kWidth = 1;

  // Lanes from and to memory, one after the other.
  template <class T>
  static OCTET_HD T load(const T* from) {
    return *from;
  }
  template <class T>
  static OCTET_HD void store(T* to, T a) {
    *to = a;
  }

  // A number in all lanes, and single lanes, counted from 0: for constants and tests, not for loops.
  static OCTET_HD F32 broadcast(float x) { return x; }
  static OCTET_HD F32 get(F32 a, int /*lane*/) { return a; }
  static OCTET_HD I32 get_i32(I32 a, int /*lane*/) { return a; }
  static OCTET_HD void put_i32(I32& a, int /*lane*/, std::int32_t x) { a = x; }

  // Across lanes.
  static OCTET_HD std::int32_t largest_lane_i32(I32 a) { return a; }
  static OCTET_HD bool any_i32(Mask a) { return a; }

  // f32, IEEE 754, round to nearest even.
  static OCTET_HD F32 add(F32 a, F32 b) { return a + b; }
  static OCTET_HD F32 sub(F32 a, F32 b) { return a - b; }
  static OCTET_HD F32 mul(F32 a, F32 b) { return a * b; }
  static OCTET_HD F32 div(F32 a, F32 b) { return a / b; }
  static OCTET_HD F32 min(F32 a, F32 b) {
    return a < b ? a : b;
  }  // b where either is NaN or both are zero (minps)
  static OCTET_HD F32 max(F32 a, F32 b) {
    return a > b ? a : b;
  }  // b where either is NaN or both are zero (maxps)
  static OCTET_HD F32 rint(F32 a) { return round_to_integer(a); }  // ties to even, any float
  static OCTET_HD Mask less(F32 a, F32 b) { return a < b; }        // false where either is NaN
  static OCTET_HD F32 select(Mask m, F32 yes, F32 no) { return m ? yes : no; }
  static OCTET_HD I32 bits(F32 a) { return as_signed(bits_of(a)); }  // reinterpret
  static OCTET_HD F32 from_bits(I32 a) { return float_of(as_unsigned(a)); }

  // Conversions.
  static OCTET_HD F32 to_f32(I32 a) { return static_cast<F32>(a); }  // nearest even; exact where |a| <= 2^24
  static OCTET_HD I32 to_i32(F32 a);  // nearest even; saturates; NaN gives the least value
  // Nearest even for |a| < 2^31, the least value for NaN; other arguments give either end of the range.
  static OCTET_HD I32 nearest_i32(F32 a) { return to_i32(a); }
  static OCTET_HD I32 truncate_i32(F32 a) { return static_cast<I32>(a); }  // toward 0, for |a| < 2^31
  static OCTET_HD U8 to_u8(F32 a);  // nearest even, saturated to 0...255; NaN gives 0
  static OCTET_HD S8 to_s8(F32 a);  // nearest even, saturated to -128...127; NaN gives -128
  static OCTET_HD U8 to_u8_i32(I32 a) { return static_cast<U8>(min_i32(max_i32(a, 0), 255)); }  // saturates
  static OCTET_HD S8 to_s8_i32(I32 a) {
    return static_cast<S8>(min_i32(max_i32(a, -128), 127));
  }  // saturates
  static OCTET_HD U16 to_u16_i32(I32 a) {
    return static_cast<U16>(min_i32(max_i32(a, 0), 65535));
  }  // saturates

  static OCTET_HD U16 upper_u16(U32 a) { return static_cast<U16>(a >> 16); }
  static OCTET_HD I32 widen_u16(U16 a) { return a; }

  // i32: add, sub and mul wrap mod 2^32.
  static OCTET_HD I32 add_i32(I32 a, I32 b) { return as_signed(as_unsigned(a) + as_unsigned(b)); }
  static OCTET_HD I32 sub_i32(I32 a, I32 b) { return as_signed(as_unsigned(a) - as_unsigned(b)); }
  static OCTET_HD I32 mul_i32(I32 a, I32 b) { return as_signed(as_unsigned(a) * as_unsigned(b)); }
  static OCTET_HD I32 mul_u15(I32 a, I32 b) { return a * b; }  // for 0 <= a, b < 2^15 (pmaddwd)
  static OCTET_HD I32 min_i32(I32 a, I32 b) { return a < b ? a : b; }
  static OCTET_HD I32 max_i32(I32 a, I32 b) { return a > b ? a : b; }
  static OCTET_HD Mask less_i32(I32 a, I32 b) { return a < b; }
  static OCTET_HD Mask equal_i32(I32 a, I32 b) { return a == b; }
  static OCTET_HD I32 select_i32(Mask m, I32 yes, I32 no) { return m ? yes : no; }
  static OCTET_HD I32 mulhi_i32(I32 a, I32 b) { return static_cast<I32>((static_cast<I64>(a) * b) >> 32); }
  static OCTET_HD U32 mulhi_u32(U32 a, U32 b) {  // high half of the 64-bit product, as mulhi_i32
    return static_cast<U32>((static_cast<std::uint64_t>(a) * b) >> 32);
  }

  // Shifts: the amount is unsigned, and 32 or more gives what an endless shift would (PTX's rule; a negative
  // amount is a huge one). C++ leaves those undefined and x86's scalar shifts wrap the amount.
  static OCTET_HD I32 shl_i32(I32 a, U32 s) { return s < 32 ? as_signed(as_unsigned(a) << s) : 0; }
  static OCTET_HD I32 sra_i32(I32 a, U32 s) { return a >> (s < 32 ? s : 31); }  // sign fill
  static OCTET_HD U32 srl_u32(U32 a, U32 s) { return s < 32 ? a >> s : 0; }     // zero fill
  static OCTET_HD U32 clz_u32(U32 a);                                           // leading zeros; 32 for 0

  // u16: 0...65535 in one lane each, twice as many lanes as f32 in a vector.
  static OCTET_HD U16 adds_u16(U16 a, U16 b) { return to_u16_i32(I32{a} + I32{b}); }  // saturates at 65535
  static OCTET_HD U16 sub_u16(U16 a, U16 b) { return static_cast<U16>(a - b); }       // wraps
  static OCTET_HD U16 mulhi_u16(U16 a, U16 b) { return static_cast<U16>((U32{a} * U32{b}) >> 16); }
  static OCTET_HD U16 srl_u16(U16 a, U32 s) {
    return s < 16 ? static_cast<U16>(a >> s) : U16{0};
  }  // zero fill
  static OCTET_HD U16 shl_u16(U16 a, U32 s) { return s < 16 ? static_cast<U16>(U32{a} << s) : U16{0}; }
  static OCTET_HD U16 srlv_u16(U16 a, U16 s) { return srl_u16(a, s); }  // an amount a lane
  static OCTET_HD U16 avg_u16(U16 a, U16 b) { return static_cast<U16>((U32{a} + U32{b} + 1) >> 1); }
  // round(a b / 2^15), ties upwards, for a, b < 2^15 (pmulhrsw)
  static OCTET_HD U16 mulhrs_u16(U16 a, U16 b) { return static_cast<U16>((U32{a} * U32{b} + 0x4000) >> 15); }
  static OCTET_HD U16 min_u16(U16 a, U16 b) { return a < b ? a : b; }
  static OCTET_HD U16 max_u16(U16 a, U16 b) { return a > b ? a : b; }

  // i64: accumulators. add and mul wrap mod 2^64; shift amounts are clamped as above.
  static OCTET_HD I64 widen(I32 a) { return a; }
  static OCTET_HD I64 mul_wide(I32 a, I32 b) { return static_cast<I64>(a) * b; }  // the full product
  static OCTET_HD I64 mul_i64(I64 a, I64 b) { return static_cast<I64>(as_u64(a) * as_u64(b)); }  // wraps
  static OCTET_HD I64 add_i64(I64 a, I64 b) { return static_cast<I64>(as_u64(a) + as_u64(b)); }
  static OCTET_HD I64 shl_i64(I64 a, U32 s) { return s < 64 ? static_cast<I64>(as_u64(a) << s) : 0; }
  static OCTET_HD I64 sra_i64(I64 a, U32 s) { return a >> (s < 64 ? s : 63); }  // sign fill

  static OCTET_HD I32 low_word(I64 a) { return as_signed(static_cast<U32>(as_u64(a))); }  // mod 2^32
  static OCTET_HD I32 high_word(I64 a) { return as_signed(static_cast<U32>(as_u64(a) >> 32)); }

  /// The low word of a >> s, 0 <= s <= 32. Of one number only.
  static OCTET_HD I32 low_word_down(I64 a, U32 s) { return low_word(sra_i64(a, s)); }

  // Table lookup: table[index], no bounds check.
  static OCTET_HD F32 gather(const float* table, I32 index) { return table[index]; }
  /// table[index], 0 <= index < 64, where there are 64 entries.
  static OCTET_HD F32 lookup64(const float* table, I32 index) { return table[index]; }
  /// table[index], 0 <= index < 16.
  static OCTET_HD I32 lookup16(const std::int32_t* table, I32 index) { return table[index]; }

 private:
  static OCTET_HD std::uint64_t as_u64(I64 a) { return static_cast<std::uint64_t>(a); }
};

OCTET_HD ScalarLane::I32 ScalarLane::to_i32(F32 a) {
  constexpr F32 kTwo31 = 2147483648.0f;
  const F32 rounded = rint(a);
  if (!(rounded >= -kTwo31)) return -2147483647 - 1;  // too small or NaN: a plain cast would be undefined
  return rounded < kTwo31 ? static_cast<I32>(rounded) : 2147483647;
}

// The clamp comes first: it makes NaN and Inf harmless, and a bound that is an integer commutes with rint.
OCTET_HD ScalarLane::U8 ScalarLane::to_u8(F32 a) { return static_cast<U8>(rint(min(max(a, 0.0f), 255.0f))); }
OCTET_HD ScalarLane::S8 ScalarLane::to_s8(F32 a) {
  return static_cast<S8>(rint(min(max(a, -128.0f), 127.0f)));
}

OCTET_HD ScalarLane::U32 ScalarLane::clz_u32(U32 a) {
  // Bisection: each step moves the top set bit into the upper half. No builtin, for it differs from compiler
  // to compiler.
  U32 zeros = 0;
  for (U32 half = 16; half != 0; half >>= 1) {
    const bool empty = (a >> (32 - half)) == 0;
    zeros += empty ? half : 0;
    a = empty ? a << half : a;
  }
  return zeros + (a == 0 ? 1u : 0u);  // the five steps add up to 31; only 0 is left without a set bit
}

}  // namespace octet
