// The packing of one vector width. Loops over a row's codes are left to the compiler, which knows them well;
// the transposition of K is written in the vectors of lanes/native.h.
#include <immintrin.h>

#include <utility>

#include "base/bits.h"
#include "cpu/pack_kernels.h"
#include "lanes/native.h"

namespace octet::cpu {
namespace {

template <int kLanes>
struct PackIn {
  using Words = simd::RegisterOf<std::uint32_t, 4 * kLanes>;
  using Part = simd::RegisterOf<std::uint32_t, 16>;
  /// Rows that share a part's four lanes; a vector is made of kLanes / 4 parts.
  static constexpr int kPartRows = 4;

  static RowSums sums(const std::int8_t* codes, std::int64_t count) {
    constexpr std::int64_t kStep = 16;
    // psadbw sums unsigned bytes: |code|, and code + 128.
    const __m128i high = _mm_set1_epi8(-128);
    __m128i shifted{}, absolute{};
    std::int64_t c = 0;
    for (; c + kStep <= count; c += kStep) {
      const __m128i code = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + c));
      shifted = _mm_add_epi64(shifted, _mm_sad_epu8(_mm_xor_si128(code, high), __m128i{}));
      absolute = _mm_add_epi64(absolute, _mm_sad_epu8(_mm_abs_epi8(code), __m128i{}));
    }
    const auto both = [](__m128i x) {
      return _mm_cvtsi128_si32(x) + _mm_cvtsi128_si32(_mm_unpackhi_epi64(x, x));
    };
    RowSums s{both(shifted) - 128 * static_cast<std::int32_t>(c), both(absolute)};
    for (; c < count; ++c) {
      const std::int32_t code = codes[c];
      s.sum += code;
      s.size += code < 0 ? -code : code;
    }
    return s;
  }
  static void to_u8(const std::int8_t* codes, std::int64_t count, std::uint8_t* out) {
    for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<std::uint8_t>(codes[c] ^ -128);
  }
  static void add(const std::int8_t* codes, std::int64_t channels, std::int32_t* sums) {
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += codes[c];
  }

  static void quads(const std::int8_t* const* keys, std::int64_t channels, std::byte* out) {
    const std::int8_t *a = keys[0], *b = keys[1], *c = keys[2], *d = keys[3];
    auto* words = reinterpret_cast<std::uint32_t*>(out);
    const auto bits = [](std::int8_t code) { return std::uint32_t{static_cast<std::uint8_t>(code)}; };
    for (std::int64_t i = 0; i < channels; ++i)
      words[i] = bits(a[i]) | bits(b[i]) << 8 | bits(c[i]) << 16 | bits(d[i]) << 24;
  }

  static void halves(const float* numbers, std::int64_t count, std::uint16_t* out) {
    for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<std::uint16_t>(bits_of(numbers[c]) >> 16);
  }
  static void pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t channels,
                    std::byte* out) {
    auto* words = reinterpret_cast<std::uint32_t*>(out);
    for (std::int64_t c = 0; c < channels; ++c) words[c] = first[c] | std::uint32_t{second[c]} << 16;
  }

  /// Lanes of a and b in turns, kRun of each, from the lower (kHalf = 0) or upper half of every part.
  template <int kRun, int kHalf, int... kLane>
  static OCTET_HOST Words turns(Words a, Words b, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b,
                                   (kLane / 4 * 4 + 2 * kHalf + (kRun == 1 ? kLane % 4 / 2 : kLane % 2) +
                                    ((kRun == 1 ? kLane % 2 : kLane % 4 / 2) ? kLanes : 0))...);
  }
  template <int kRun, int kHalf>
  static OCTET_HOST Words turns(Words a, Words b) {
    return turns<kRun, kHalf>(a, b, std::make_integer_sequence<int, kLanes>{});
  }

  static OCTET_HOST Part part(const std::byte* at) { return simd::load<Part>(at); }

  /// 4 groups of rows i, i + 4, i + 8, ...: a part each.
  static OCTET_HOST Words parts(const std::byte* row, std::int64_t stride) {
    const std::int64_t step = kPartRows * stride;
    const auto half = simd::join(part(row), part(row + step));
    if constexpr (kLanes == 8)
      return half;
    else
      return simd::join(half, simd::join(part(row + 2 * step), part(row + 3 * step)));
  }

  static void columns(const std::byte* rows, std::int64_t stride, std::int64_t groups, std::byte* out) {
    constexpr int kGroups = 4;  // of a part
    for (std::int64_t g = 0; g < groups; g += kGroups) {
      const std::byte* from = rows + 4 * g;
      const Words a = parts(from, stride), b = parts(from + stride, stride),
                  c = parts(from + 2 * stride, stride), d = parts(from + 3 * stride, stride);
      const Words ab_low = turns<1, 0>(a, b), ab_high = turns<1, 1>(a, b), cd_low = turns<1, 0>(c, d),
                  cd_high = turns<1, 1>(c, d);
      const Words columns_of[kGroups] = {turns<2, 0>(ab_low, cd_low), turns<2, 1>(ab_low, cd_low),
                                         turns<2, 0>(ab_high, cd_high), turns<2, 1>(ab_high, cd_high)};
      for (int i = 0; i < kGroups && g + i < groups; ++i)
        simd::store(out + (g + i) * static_cast<std::int64_t>(sizeof(Words)), columns_of[i]);
    }
  }

  static constexpr PackKernels kTable{sums, to_u8, columns, quads, halves, pairs, add};
};

}  // namespace
}  // namespace octet::cpu
