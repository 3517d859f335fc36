// What the row kernels share: how numbers are read, channels in vectors, and the largest sizes; a part of
// row_kernels.inl.
#pragma once
#include "base/ask_for.h"
#include "lanes/exchange.h"
#include "lanes/vector.h"
#include "numerics/formats.h"
#include "quant/row_kernels.h"
#include "quant/rows.h"

namespace octet::quant {
namespace {

struct RowTag {};

/// load(lane, at) of the lanes of one register each that make up Lane. note: of wider ones g++ 12 takes the
/// halves by way of the stack (qflash of 192 x 49 x 32 on AVX2 from bf16 1.45 ms in place of 1.20).
template <class Lane, class Stored, class Load>
OCTET_HOST auto by_registers(const Stored* at, const Load& load) {
  if constexpr (simd::kIsPair<typename Lane::F32>) {
    using Half = VectorLane<Lane::kWidth / 2, RowTag>;
    return simd::pair_of(by_registers<Half>(at, load), by_registers<Half>(at + Half::kWidth, load));
  } else {
    return load(Lane{}, at);
  }
}

/// How a stored element becomes a number.
struct FromF32 {
  using Stored = float;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    return Lane::load(at);
  }
};
struct FromF16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    return by_registers<Lane>(at, [](auto lane, const Stored* from) {
      using One = decltype(lane);
      if constexpr (simd::kConvertsF16 && One::kWidth > 1)
        return simd::from_f16(One::load(from));
      else
        return f32_from_f16_code(as_unsigned(One::widen_u16(One::load(from))));
    });
  }
};
struct FromBf16 {
  using Stored = std::uint16_t;
  template <class Lane>
  static OCTET_HOST auto load(const Stored* at) {
    return by_registers<Lane>(at, [](auto lane, const Stored* from) {
      using One = decltype(lane);
      return float_of(as_unsigned(One::widen_u16(One::load(from))) << 16);
    });
  }
};

/// Vectors that a function holds in registers beside each other: enough to hide an addition's latency.
template <int kCount>
struct Vectors {
  static constexpr int kVectors = kCount;
};

/// Bits of the least number that is not finite, as the signed number that sizes are compared as.
constexpr auto kInfinity = static_cast<std::int32_t>(kInfBits);

/// body(source): of rows of that type.
template <class Body>
OCTET_HOST void from_any(DType dtype, const Body& body) {
  if (dtype == DType::f16)
    body(FromF16{});
  else if (dtype == DType::bf16)
    body(FromBf16{});
  else
    body(FromF32{});
}
template <class Source>
OCTET_HOST const typename Source::Stored* stored(const Rows& x) {
  return static_cast<const typename Source::Stored*>(x.data);
}

template <class Source>
OCTET_HOST const typename Source::Stored* stored(const Rows& x, std::int64_t row) {
  return stored<Source>(x) + row * x.stride;
}

/// Asks for half of what is read next in place of a row: who reads it twice asks in each of the passes.
enum class Half : std::int32_t { first, second };
template <class Source>
OCTET_HOST void ask_for_half(const Rows& x, std::int64_t row, Half half) {
  if (!x.next) return;
  using Stored = typename Source::Stored;
  const std::int64_t bytes = x.channels * std::int64_t{sizeof(Stored)} / 2,
                     begin = half == Half::first ? 0 : bytes;
  ask_for(static_cast<const Stored*>(x.next) + row * x.stride, begin, begin + bytes);
}

// L, in all that follows: the lane of one register. Channels that fill no vector are computed one by one.

/// body(lane, c) for every channel, several at once.
template <class L, class Body>
OCTET_HOST void each(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + L::kWidth <= channels; c += L::kWidth) body(L{}, c);
  for (; c < channels; ++c) body(ScalarLane{}, c);
}

/// body(lane, vectors, c): several vectors of channels beside each other, of kLive registers each.
template <class L, int kLive = 1, class Body>
OCTET_HOST void each_column(std::int64_t channels, const Body& body) {
  constexpr int kRegisters = L::kWidth == 16 ? 32 : 16;
  std::int64_t c = 0;
  if constexpr (!simd::kIsPair<typename L::F32> && 8 * kLive < kRegisters)
    for (; c + 8 * L::kWidth <= channels; c += 8 * L::kWidth) body(L{}, Vectors<8>{}, c);
  for (; c + 4 * L::kWidth <= channels; c += 4 * L::kWidth) body(L{}, Vectors<4>{}, c);
  for (; c + 2 * L::kWidth <= channels; c += 2 * L::kWidth) body(L{}, Vectors<2>{}, c);
  for (; c + L::kWidth <= channels; c += L::kWidth) body(L{}, Vectors<1>{}, c);
  for (; c < channels; ++c) body(ScalarLane{}, Vectors<1>{}, c);
}

template <class Lane>
OCTET_HOST auto size_bits(typename Lane::F32 x) {
  return Lane::bits(x) & static_cast<std::int32_t>(kAbsMask);
}
/// x, or 0 where it is NaN or Inf.
template <class Lane>
OCTET_HOST auto finite(typename Lane::F32 x, typename Lane::F32 otherwise) {
  return Lane::select(Lane::less_i32(size_bits<Lane>(x), kInfinity), x, otherwise);
}

/// The largest |x| that it was shown.
template <class L>
struct Peak {
  typename L::I32 lanes{};
  std::int32_t single = 0;

  OCTET_HOST void see(L, typename L::F32 x) { lanes = L::max_i32(lanes, size_bits<L>(x)); }
  OCTET_HOST void see(ScalarLane, float x) { single = ScalarLane::max_i32(single, size_bits<ScalarLane>(x)); }
  OCTET_HOST void see(const Peak& other) {
    lanes = L::max_i32(lanes, other.lanes);
    single = ScalarLane::max_i32(single, other.single);
  }
  OCTET_HOST std::uint32_t bits() const {
    return as_unsigned(ScalarLane::max_i32(single, simd::largest_lane(lanes)));
  }
};

/// The peaks of rows, of which all are wanted or only the largest.
template <class L>
struct Peaks {
  std::uint32_t* largest;  ///< [row], or null
  Peak<L> all{};

  OCTET_HOST void see(std::int64_t row, const Peak<L>& peak) {
    if (largest) largest[row] = peak.bits();
    all.see(peak);
  }
};

/// The same of up to kRows rows, the largest lanes of as many of which as a register has lanes are found
/// together. note: 6 % of the butterfly's time on Zen 4. Rows of 32 and 64 channels that are only looked at
/// take 5.4 -> 4.2 and 6.8 -> 5.6 cycles so on Zen 5; on Zen 4 they took a fifth longer.
template <class L>
struct PeaksTogether {
  static constexpr std::int64_t kRows = 16;
  static constexpr bool kTogether = !simd::kIsPair<typename L::I32>;
  static_assert(!kTogether || kRows % L::kWidth == 0);

  Peaks<L> peaks;
  typename L::I32 waiting[kTogether ? kRows : 1];

  OCTET_HOST explicit PeaksTogether(std::uint32_t* largest) : peaks{largest} {}

  OCTET_HOST void see(std::int64_t row, const Peak<L>& peak) {
    if (!kTogether || !peaks.largest) return peaks.see(row, peak);
    waiting[row] = peak.single == 0 ? peak.lanes : L::max_i32(peak.lanes, peak.single);
  }
  /// After the last of `count` rows.
  OCTET_HOST void end([[maybe_unused]] std::int64_t count) {
    if constexpr (kTogether) {
      if (!peaks.largest) return;
      for (std::int64_t i = count; i < kRows; ++i) waiting[i] = typename L::I32{};
      for (std::int64_t r = 0; r < count; r += L::kWidth) {
        auto& rows = *reinterpret_cast<typename L::I32(*)[L::kWidth]>(waiting + r);
        const typename L::I32 found = simd::largest_lanes(rows);
        const std::int64_t here = count - r;
        if (here >= L::kWidth)
          L::store(reinterpret_cast<std::int32_t*>(peaks.largest) + r, found);
        else
          __builtin_memcpy(peaks.largest + r, &found, static_cast<std::size_t>(4 * here));
        peaks.all.see(Peak<L>{found});
      }
    }
  }
};

/// body(first, count, peaks) for rows that stay in the first-level cache from one pass over them to the next;
/// largest: [row], or null. Returns the largest of all.
template <class L, class Body>
OCTET_HOST std::uint32_t peaks_of_rows(std::int64_t rows, std::uint32_t* largest, const Body& body) {
  constexpr std::int64_t kRows = PeaksTogether<L>::kRows;
  PeaksTogether<L> together(largest);
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t count = rows - r < kRows ? rows - r : kRows;
    together.peaks.largest = largest ? largest + r : nullptr;
    body(r, count, together);
    together.end(count);
  }
  return together.peaks.all.bits();
}

}  // namespace
}  // namespace octet::quant
