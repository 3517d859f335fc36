// AVX-512 with FP16 and VBMI: the exponential of the softmax in words is a half-precision number's bits.
#include <immintrin.h>

#include "cpu/avx512/lanes.inl"

namespace octet::cpu {
namespace {

/// By how much the straight lines between powers of two lie above 2^f, in units of a half-precision number's
/// mantissa, where f is in [i, i + 1) / 64: at the middle of the two units of 2^-7 octave that share an
/// entry. One more at f = 0: the weight of the peak, 2^15, must fit a signed word.
struct ChordExcess {
  alignas(64) std::uint8_t of[64] = {};

  constexpr ChordExcess() {
    constexpr double kMantissa = 1024;
    double power = 1;
    for (int i = 0; i < 64; ++i) {
      const double next = power * kOneUnit, first = 1 + 2 * i / 128.0, second = first + 1 / 128.0;
      const double excess = kMantissa * ((first - power) + (second - next)) / 2;
      of[i] = static_cast<std::uint8_t>(excess + 0.5);
      power = next * kOneUnit;
    }
    of[0] = 1;
  }
};
constexpr ChordExcess kChordExcess;

/// The largest relative error of a mantissa that is corrected so.
constexpr double largest_error() {
  double power = 1, largest = 0;
  for (int f = 0; f < 128; ++f, power *= kOneUnit) {
    const double mantissa = 1 + (8 * f - kChordExcess.of[f / 2]) / 1024.0, error = mantissa / power - 1;
    largest = error > largest ? error : -error > largest ? -error : largest;
  }
  return largest;
}
static_assert(largest_error() < 0.0031, "what the error bound counts: ref/bound_terms.cpp");

struct Isa512Fp16 : Isa512 {
  /// Schemes whose softmax in words has the exponential below; others are the same on avx512_vnni.
  template <class S>
  static constexpr bool kHas = requires {
    typename S::FixedMantissa;
  };

  /// fixed16::weight(): a half's bits are its logarithm, up to the straight lines between powers of two.
  template <class Mantissa>
  static Words::U16 weight(Words::U16 largest, Words::U16 words) {
    constexpr int kOctaves = 30;  // from 2^15 down to the least subnormal
    constexpr int kMantissaBits = 10;
    static_assert(kOctaves <= fixed16::kReachOfWeights, "the subtrahend is no less than 0");
    const __m512i of_nothing = _mm512_sub_epi16(reinterpret_cast<__m512i>(largest),
                                                _mm512_set1_epi16(kOctaves << fixed16::kUnitBits));
    const __m512i log2 = _mm512_subs_epu16(reinterpret_cast<__m512i>(words), of_nothing);
    __m512i excess = _mm512_set1_epi16(1);
    if constexpr (std::is_same_v<Mantissa, fixed16::AccurateMantissa>)
      excess = _mm512_maskz_permutexvar_epi8(kLowBytes, _mm512_srli_epi16(log2, 1),
                                             _mm512_load_si512(kChordExcess.of));
    const __m512i bits =
        _mm512_subs_epu16(_mm512_slli_epi16(log2, kMantissaBits - fixed16::kUnitBits), excess);
    return reinterpret_cast<Words::U16>(_mm512_cvtph_epu16(_mm512_castsi512_ph(bits)));
  }

 private:
  static constexpr __mmask64 kLowBytes = 0x5555555555555555;  ///< of words
};

}  // namespace
}  // namespace octet::cpu
