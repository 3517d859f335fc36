// The packing of one vector width. Loops over a row's codes are left to the compiler, which knows them well;
// the transposition of K is written in the vectors of lanes/native.h.
#include <immintrin.h>

#include <utility>

#include "base/bits.h"
#include "cpu/pack_kernels.h"
#include "cpu/reduce.inl"
#include "cpu/widen.inl"
#include "lanes/native.h"
#include "lanes/vector.h"

namespace octet::cpu {
namespace {

struct PackTag {};

template <int kLanes>
struct PackIn {
  using Words = simd::RegisterOf<std::uint32_t, 4 * kLanes>;
  using Part = simd::RegisterOf<std::uint32_t, 16>;
  /// Rows that share a part's four lanes; a vector is made of kLanes / 4 parts.
  static constexpr int kPartRows = 4;

  static constexpr std::int64_t kVector = 4 * kLanes;  ///< bytes
  using Numbers = simd::RegisterOf<std::int32_t, 4 * kLanes>;

  /// psadbw sums unsigned bytes: code + 128 here, and |code| 32 bits higher.
  using Sums = simd::RegisterOf<std::uint64_t, 4 * kLanes>;
  static Sums sums_of(Words codes) {
    constexpr std::uint32_t kSigns = 0x80808080;
    constexpr int kHigher = 32;
    const Words shifted = codes ^ kSigns;
    if constexpr (kLanes == 16) {
      const __m512i x = simd::cast<__m512i>(codes);
      return simd::cast<Sums>(_mm512_sad_epu8(simd::cast<__m512i>(shifted), __m512i{})) +
             (simd::cast<Sums>(_mm512_sad_epu8(_mm512_abs_epi8(x), __m512i{})) << kHigher);
    } else {
      const __m256i x = simd::cast<__m256i>(codes);
      return simd::cast<Sums>(_mm256_sad_epu8(simd::cast<__m256i>(shifted), __m256i{})) +
             (simd::cast<Sums>(_mm256_sad_epu8(_mm256_abs_epi8(x), __m256i{})) << kHigher);
    }
  }
  /// The codes of a row's last groups, which are no whole vector, and zeros.
  static Words codes_within(const std::byte* at, std::int64_t bytes) {
    const std::int64_t groups = bytes / 4;
    if constexpr (kLanes == 16) {
      return simd::cast<Words>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << groups) - 1), at));
    } else {
      const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(groups)), lane);
      return simd::cast<Words>(_mm256_maskload_epi32(reinterpret_cast<const int*>(at), there));
    }
  }
  static Sums sums_of_row(const std::byte* row, std::int64_t bytes) {
    Sums sums{};
    std::int64_t at = 0;
    for (; at + kVector <= bytes; at += kVector) sums += sums_of(simd::load<Words>(row + at));
    if (at < bytes) sums += sums_of(codes_within(row + at, bytes - at));
    return sums;
  }
  static constexpr std::int64_t kTogether = kLanes / 2;  ///< rows at once: as many as a vector has sums
  static constexpr std::int32_t kShift = 128;            ///< of every byte of the vectors that hold a row
  static void put_sums(std::uint64_t both, std::int32_t shift, std::int64_t row, const RowSums& out) {
    out.sum[row] = static_cast<std::int32_t>(both) - shift;
    out.size[row] = static_cast<std::int32_t>(both >> 32);
  }
  /// The same of kTogether rows.
  static void put_sums(Sums both, std::int32_t shift, std::int64_t row, const RowSums& out) {
    typedef std::int32_t Rows __attribute__((vector_size(4 * kTogether)));
    const Rows sum = __builtin_convertvector(both, Rows) - shift;
    const Rows size = __builtin_convertvector(both >> 32, Rows);
    __builtin_memcpy(out.sum + row, &sum, sizeof sum);
    __builtin_memcpy(out.size + row, &size, sizeof size);
  }
  /// bytes: whole groups of 4.
  static void sums(const std::byte* rows, std::int64_t bytes, std::int64_t count, const RowSums& out) {
    if (2 * bytes == kVector) return sums_of_halves(rows, count, out);
    const auto shift = static_cast<std::int32_t>((bytes + kVector - 1) / kVector * kVector * kShift);
    std::int64_t r = 0;
    if (bytes == kVector)
      for (; r + kTogether <= count; r += kTogether, rows += kTogether * kVector) {
        Sums of[kTogether];
        for (std::int64_t i = 0; i < kTogether; ++i) of[i] = sums_of(simd::load<Words>(rows + i * kVector));
        put_sums(rows_reduced<kTogether>(of, Plus{}), shift, r, out);
      }
    for (; r < count; r += kTogether, rows += kTogether * bytes) {
      const std::int64_t here = count - r < kTogether ? count - r : kTogether;
      Sums of[kTogether];
      for (std::int64_t i = 0; i < kTogether; ++i)
        of[i] = sums_of_row(rows + (i < here ? i : here - 1) * bytes, bytes);
      std::uint64_t both[kTogether];
      simd::store(both, rows_reduced<kTogether>(of, Plus{}));
      for (std::int64_t i = 0; i < here; ++i) put_sums(both[i], shift, r + i, out);
    }
  }
  /// The same of rows of which a vector holds two.
  static void sums_of_halves(const std::byte* rows, std::int64_t count, const RowSums& out) {
    constexpr std::int64_t kBytes = kVector / 2, kPairs = kTogether / 2;
    for (std::int64_t r = 0; r < count; r += kTogether) {
      Sums of[kPairs];
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const std::int64_t row = r + 2 * i, left = count - row;
        const std::byte* at = rows + row * kBytes;
        of[i] = left >= 2   ? sums_of(simd::load<Words>(at))
                : left == 1 ? sums_of(codes_within(at, kBytes))
                            : Sums{};
      }
      std::uint64_t both[kTogether];
      simd::store(both, rows_reduced<kPairs, 1, 2>(of, Plus{}));
      const std::int64_t here = count - r < kTogether ? count - r : kTogether;
      for (std::int64_t i = 0; i < here; ++i)
        put_sums(both[i / 2 + i % 2 * kPairs], static_cast<std::int32_t>(kBytes * kShift), r + i, out);
    }
  }
  static void to_u8(const std::int8_t* codes, std::int64_t count, std::uint8_t* out) {
    for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<std::uint8_t>(codes[c] ^ -128);
  }

  /// The signed codes of a vector of channels.
  static OCTET_HOST Numbers numbers_at(const std::byte* codes) {
    if constexpr (kLanes == 16)
      return simd::cast<Numbers>(
          _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
    else
      return simd::cast<Numbers>(
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes))));
  }
  /// add() of kCount vectors of channels, whose sums stay in registers.
  template <int kCount>
  static OCTET_HOST void add_columns(const CodeRows& keys, std::int64_t count, std::int32_t* sums) {
    Numbers sum[kCount];
    for (int i = 0; i < kCount; ++i) sum[i] = simd::load<Numbers>(sums + i * kLanes);
    const std::byte* key = keys.data;
    for (std::int64_t k = 0; k < count; ++k, key += keys.stride)
      for (int i = 0; i < kCount; ++i) sum[i] += numbers_at(key + i * kLanes);
    for (int i = 0; i < kCount; ++i) simd::store(sums + i * kLanes, sum[i]);
  }
  static void add(const CodeRows& keys, std::int64_t count, std::int64_t channels, std::int32_t* sums) {
    constexpr int kBeside = 4;
    std::int64_t c = 0;
    const auto from = [&] { return CodeRows{keys.data + c, keys.stride}; };
    for (; c + kBeside * kLanes <= channels; c += kBeside * kLanes)
      add_columns<kBeside>(from(), count, sums + c);
    for (; c + kLanes <= channels; c += kLanes) add_columns<1>(from(), count, sums + c);
    for (; c < channels; ++c)
      for (std::int64_t k = 0; k < count; ++k)
        sums[c] += static_cast<std::int8_t>(keys.data[k * keys.stride + c]);
  }

  /// Elements of a and b in turns, from the lower (kHalf = 0) or upper half of every 16 bytes.
  template <int kHalf, class V, int... kAt>
  static OCTET_HOST V interleaved(V a, V b, std::integer_sequence<int, kAt...>) {
    constexpr int kAll = simd::kLanesOf<V>, kPart = 16 / static_cast<int>(sizeof(simd::Element<V>));
    return __builtin_shufflevector(
        a, b, (kAt / kPart * kPart + kHalf * kPart / 2 + kAt % kPart / 2 + kAt % 2 * kAll)...);
  }
  template <class To, int kHalf, class V>
  static OCTET_HOST To interleaved(V a, V b) {
    return simd::cast<To>(interleaved<kHalf>(a, b, std::make_integer_sequence<int, simd::kLanesOf<V>>{}));
  }

  /// 16 bytes at kA, kB of a and kC, kD of b (in 64 bytes), or kA of a and kC of b (in 32).
  template <int kA, int kB, int kC, int kD, class V>
  static OCTET_HOST V parts_of(V a, V b) {
    if constexpr (sizeof(V) == 64)
      return __builtin_shufflevector(a, b, 2 * kA, 2 * kA + 1, 2 * kB, 2 * kB + 1, 2 * kC + 8, 2 * kC + 9,
                                     2 * kD + 8, 2 * kD + 9);
    else
      return __builtin_shufflevector(a, b, 2 * kA, 2 * kA + 1, 2 * kC + 4, 2 * kC + 5);
  }

  /// The groups of kBytes channels.
  template <int kBytes>
  static OCTET_HOST void quads_of(const std::byte* key, std::int64_t stride, std::byte* out) {
    using U8 = simd::RegisterOf<std::uint8_t, kBytes>;
    using U16 = simd::RegisterOf<std::uint16_t, kBytes>;
    using U64 = simd::RegisterOf<std::uint64_t, kBytes>;
    const U8 a = simd::load<U8>(key), b = simd::load<U8>(key + stride), c = simd::load<U8>(key + 2 * stride),
             d = simd::load<U8>(key + 3 * stride);
    const U16 ab_low = interleaved<U16, 0>(a, b), ab_high = interleaved<U16, 1>(a, b),
              cd_low = interleaved<U16, 0>(c, d), cd_high = interleaved<U16, 1>(c, d);
    // Of every 16 channels: 0...3, 4...7, 8...11, 12...15.
    const U64 x = interleaved<U64, 0>(ab_low, cd_low), y = interleaved<U64, 1>(ab_low, cd_low),
              z = interleaved<U64, 0>(ab_high, cd_high), w = interleaved<U64, 1>(ab_high, cd_high);
    const auto put = [&](int i, U64 groups) { simd::store(out + i * kBytes, groups); };
    if constexpr (kBytes == 64) {
      const U64 xy_low = parts_of<0, 1, 0, 1>(x, y), xy_high = parts_of<2, 3, 2, 3>(x, y),
                zw_low = parts_of<0, 1, 0, 1>(z, w), zw_high = parts_of<2, 3, 2, 3>(z, w);
      put(0, parts_of<0, 2, 0, 2>(xy_low, zw_low)), put(1, parts_of<1, 3, 1, 3>(xy_low, zw_low));
      put(2, parts_of<0, 2, 0, 2>(xy_high, zw_high)), put(3, parts_of<1, 3, 1, 3>(xy_high, zw_high));
    } else if constexpr (kBytes == 32) {
      put(0, parts_of<0, 0, 0, 0>(x, y)), put(1, parts_of<0, 0, 0, 0>(z, w));
      put(2, parts_of<1, 0, 1, 0>(x, y)), put(3, parts_of<1, 0, 1, 0>(z, w));
    } else {
      put(0, x), put(1, y), put(2, z), put(3, w);
    }
  }

  static void quads(const CodeRows& keys, std::int64_t channels, std::int64_t padded, std::int64_t runs,
                    std::byte* out) {
    constexpr int kBytes = 4 * kLanes, kPart = 16;
    for (std::int64_t run = 0; run < runs; ++run, out += 4 * padded) {
      const std::byte* key = keys.data + 4 * run * keys.stride;
      std::int64_t c = 0;
      for (; c + kBytes <= channels; c += kBytes) quads_of<kBytes>(key + c, keys.stride, out + 4 * c);
      for (; c + kPart <= channels; c += kPart) quads_of<kPart>(key + c, keys.stride, out + 4 * c);
      for (; c < padded; ++c)
        for (std::int64_t k = 0; k < 4; ++k)
          out[4 * c + k] = c < channels ? key[k * keys.stride + c] : std::byte{0};
    }
  }

  static void halves(const float* numbers, std::int64_t count, std::uint16_t* out) {
    for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<std::uint16_t>(bits_of(numbers[c]) >> 16);
  }
  static void pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t channels,
                    std::byte* out) {
    using Lane = VectorLane<kLanes, PackTag>;
    constexpr int kHalf = 16;
    auto* words = reinterpret_cast<std::int32_t*>(out);
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes)
      Lane::store(words + c, Lane::widen_u16(Lane::load(first + c)) |
                                 Lane::shl_i32(Lane::widen_u16(Lane::load(second + c)), kHalf));
    for (; c < channels; ++c)
      words[c] = static_cast<std::int32_t>(first[c] | std::uint32_t{second[c]} << kHalf);
  }

  /// Whether any element has all bits of `exponent`: the largest with no others is it then.
  template <class Element>
  static bool any_with_all(Element exponent, const std::byte* numbers, std::int64_t bytes) {
    using V = simd::RegisterOf<Element, 4 * kLanes>;
    const V bits = simd::fill<V>(exponent);
    V most{};
    for (std::int64_t i = 0; i < bytes; i += kVector) {
      const V x = simd::load<V>(numbers + i) & bits;
      most = x > most ? x : most;
    }
    Element largest[sizeof(V) / sizeof(Element)];
    simd::store(largest, most);
    bool found = false;
    for (const Element e : largest) found |= e == exponent;
    return found;
  }
  static bool any_non_finite_f32(const std::byte* numbers, std::int64_t bytes) {
    constexpr std::uint32_t kExponent = 0x7f800000;
    return any_with_all(kExponent, numbers, bytes);
  }
  static bool any_non_finite_bf16(const std::byte* numbers, std::int64_t bytes) {
    constexpr std::uint16_t kExponent = 0x7f80;
    return any_with_all(kExponent, numbers, bytes);
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

  static void columns(const CodeRows& rows, std::int64_t groups, std::uint32_t flip, std::int64_t runs,
                      std::byte* out) {
    constexpr int kGroups = 4;  // of a part
    const std::int64_t stride = rows.stride;
    const Words flips = simd::fill<Words>(flip);
    for (std::int64_t run = 0; run < runs; ++run, out += groups * kVector)
      for (std::int64_t g = 0; g < groups; g += kGroups) {
        const std::byte* from = rows.data + run * kLanes * stride + 4 * g;
        const Words a = parts(from, stride), b = parts(from + stride, stride),
                    c = parts(from + 2 * stride, stride), d = parts(from + 3 * stride, stride);
        const Words ab_low = turns<1, 0>(a, b), ab_high = turns<1, 1>(a, b), cd_low = turns<1, 0>(c, d),
                    cd_high = turns<1, 1>(c, d);
        const Words columns_of[kGroups] = {turns<2, 0>(ab_low, cd_low), turns<2, 1>(ab_low, cd_low),
                                           turns<2, 0>(ab_high, cd_high), turns<2, 1>(ab_high, cd_high)};
        for (int i = 0; i < kGroups && g + i < groups; ++i)
          simd::store(out + (g + i) * kVector, columns_of[i] ^ flips);
      }
  }

  static constexpr PackKernels kTable{sums,
                                      to_u8,
                                      columns,
                                      quads,
                                      halves,
                                      pairs,
                                      add,
                                      any_non_finite_f32,
                                      any_non_finite_bf16,
                                      RowsNarrowed<VectorLane<kLanes, PackTag>>::run,
                                      RowsWidened<VectorLane<kLanes, PackTag>>::run};
};

}  // namespace
}  // namespace octet::cpu
