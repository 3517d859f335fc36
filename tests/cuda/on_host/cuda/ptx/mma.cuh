// cuda/ptx/mma.cuh on the host: sums of floats are rounded once.
#pragma once
#include <cstdint>

#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::cuda::ptx {

inline constexpr bool kUnpacksE4m3 = false;

/// Element i of a word, of formats with numbers of 8 or 16 bits.
template <Operand kFormat>
auto element_of(std::uint32_t word, int i) {
  const auto byte = static_cast<std::uint8_t>(word >> 8 * i);
  const auto half = static_cast<std::uint16_t>(word >> 16 * i);
  if constexpr (kFormat == Operand::u8) return std::int64_t{byte};
  if constexpr (kFormat == Operand::s8) return std::int64_t{static_cast<std::int8_t>(byte)};
  if constexpr (kFormat == Operand::e4m3) return double{f32_from_e4m3(byte)};
  if constexpr (kFormat == Operand::f16) return double{f32_from_f16(half)};
  if constexpr (kFormat == Operand::bf16) return double{f32_from_bf16(half)};
}

/// note: most of what the tests compute is here, where nothing of the kernels' can be read amiss.
template <int kInner, class Number>
[[gnu::no_sanitize_address]] Number inner_product(Number sum, const Number* a, const Number* b) {
  for (int i = 0; i < kInner; ++i) sum += a[i] * b[i];
  return sum;
}

/// Each element is read from its lane's fragment once, as rows of A and columns of B.
template <Operand kA, Operand kB, class Acc>
void multiply(Acc (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  constexpr int kElements = kA == Operand::f16 || kA == Operand::bf16 ? 2 : 4;  // of a word
  constexpr int kRows = 16, kColumns = 8, kInner = 8 * kElements;
  struct {
    Acc* d;
    const std::uint32_t *a, *b;
  } own{d, a, b};
  on_host::work_together(own, [](const auto& of) {
    using Number = decltype(element_of<kA>(0, 0));
    Number rows[kRows][kInner], columns[kColumns][kInner];
    for (int lane = 0; lane < 32; ++lane)
      for (int half = 0; half < 2; ++half)
        for (int i = 0; i < kElements; ++i) {
          const int first = lane / 4, inner = (half * 4 + lane % 4) * kElements + i;
          rows[first][inner] = element_of<kA>(of(lane).a[2 * half], i);
          rows[first + 8][inner] = element_of<kA>(of(lane).a[2 * half + 1], i);
          columns[first][inner] = element_of<kB>(of(lane).b[half], i);
        }
    for (int lane = 0; lane < 32; ++lane)
      for (int n = 0; n < 4; ++n) {
        const int row = n / 2 * 8 + lane / 4, column = lane % 4 * 2 + n % 2;
        const Number sum = inner_product<kInner>(Number(of(lane).d[n]), rows[row], columns[column]);
        of(lane).d[n] = static_cast<Acc>(sum);
      }
  });
}

}  // namespace octet::cuda::ptx
