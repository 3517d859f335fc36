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

template <Operand kA, Operand kB, class Acc>
void multiply(Acc (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  constexpr int kElements = kA == Operand::f16 || kA == Operand::bf16 ? 2 : 4;  // of a word
  struct {
    Acc* d;
    const std::uint32_t *a, *b;
  } own{d, a, b};
  on_host::work_together(own, [](const auto& of) {
    for (int lane = 0; lane < 32; ++lane)
      for (int n = 0; n < 4; ++n) {
        const int row = n / 2, column = lane % 4 * 2 + n % 2;
        auto sum = decltype(element_of<kA>(0, 0)){of(lane).d[n]};
        for (int t = 0; t < 4; ++t)
          for (int half = 0; half < 2; ++half)
            for (int i = 0; i < kElements; ++i)
              sum += element_of<kA>(of(lane / 4 * 4 + t).a[2 * half + row], i) *
                     element_of<kB>(of(column * 4 + t).b[half], i);
        of(lane).d[n] = static_cast<Acc>(sum);
      }
  });
}

}  // namespace octet::cuda::ptx
