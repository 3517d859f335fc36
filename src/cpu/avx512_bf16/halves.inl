// P in bf16, for the sets whose products take it.
#pragma once
#include <immintrin.h>

#include <cstddef>

#include "cpu/avx512_bf16/weights.inl"

namespace octet::cpu {
namespace {

/// The lanes of Base with P in bf16.
template <class Base>
struct WithHalves : Base {
  using Approximate = HalvesSoftmax;
  /// Codes are numbers that bf16 holds.
  static void store_halves(std::byte* at, typename Base::Lane::F32 codes) {
    const __m512i bits = _mm512_srli_epi32(reinterpret_cast<__m512i>(codes), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm512_cvtepi32_epi16(bits));
  }
};

}  // namespace
}  // namespace octet::cpu
