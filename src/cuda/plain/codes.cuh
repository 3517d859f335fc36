// Rows of 64 channels in 16 bits on their way to the tiles that attention's kernels multiply: as s8 with a
// scale a row, or as f16. By warps, each by itself, sixteen rows at a time. The codes and scales are those of
// quant/encode_tokens.cu, the f16 those of mma/pack.cuh, bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "cuda/plain/launch.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/quad.cuh"
#include "cuda/tile/swizzle.cuh"
#include "quant/scales.h"

namespace octet::cuda::plain {

__device__ __forceinline__ std::uint32_t lane_of_warp() { return threadIdx.x % kWarp; }

/// A head's rows, from those bytes of a row on.
struct HeadRows {
  const std::byte* from;
  std::int64_t row_bytes;

  __device__ HeadRows(const RowsOfHeads& x, std::int32_t batch, std::int32_t head, std::uint32_t byte)
      : from(reinterpret_cast<const std::byte*>(x.data + x.stride[0] * batch + x.stride[1] * head) + byte),
        row_bytes(x.stride[2] * static_cast<std::int64_t>(sizeof(std::uint16_t))) {}
  __device__ __forceinline__ const std::byte* row(std::int32_t number) const {
    return from + row_bytes * static_cast<std::uint32_t>(number);
  }
};

/// A lane's parts of sixteen rows, by steps of as many as the warp has at once when kLanes have a row each.
template <std::uint32_t kLanes>
struct RowParts {
  static constexpr std::uint32_t kRowsAStep = kWarp / kLanes, kSteps = kRowsAtOnce / kRowsAStep,
                                 kBytes = kDim * 2 / kLanes, kPieces = kBytes / sizeof(uint4);
  uint4 of[kSteps][kPieces];

  /// The lane's row of the first step, and its part of a row.
  static __device__ __forceinline__ std::uint32_t row() { return lane_of_warp() / kLanes; }
  static __device__ __forceinline__ std::uint32_t part() { return lane_of_warp() % kLanes; }

  /// Zeros for rows from number `count` on. at: the lane's part of its first row.
  static __device__ __forceinline__ RowParts read(const std::byte* at, std::int64_t row_bytes,
                                                  std::int32_t count) {
    RowParts parts{};
    const std::int64_t step_bytes = kRowsAStep * row_bytes;
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      if (static_cast<std::int32_t>(step * kRowsAStep + row()) < count) {
#pragma unroll
        for (std::uint32_t i = 0; i < kPieces; ++i)
          parts.of[step][i] = __ldg(reinterpret_cast<const uint4*>(at) + i);
      }
      at = tile::kept(at + step_bytes);  // the compiler would multiply anew
    }
    return parts;
  }
};

/// Codes by two steps of eight rows: a lane has sixteen channels of a row of each, and the scale of one of
/// its two rows, which another lane has too.
class TokenCodes {
 public:
  static constexpr std::uint32_t kLanesOfRow = 4;
  using Parts = RowParts<kLanesOfRow>;
  static constexpr std::uint32_t kSteps = Parts::kSteps, kRowsAStep = Parts::kRowsAStep;
  static_assert(kSteps == 2 && Parts::kPieces == 2);

  __device__ explicit TokenCodes(const Coded& of) : of_(of) {}

  /// The row whose scale the lane has.
  static __device__ __forceinline__ std::int32_t scaled_row() {
    return static_cast<std::int32_t>(Parts::part() % kSteps * kRowsAStep + Parts::row());
  }
  /// The scale of scaled_row(); the codes to a tile of rows of kDim bytes at shared address `to`, a multiple
  /// of as many. A row with NaN or Inf is zeros.
  __device__ __forceinline__ float put(const Parts& parts, std::uint32_t to) const {
    return of_.dtype == DType::f16 ? put_of<DType::f16>(parts, to) : put_of<DType::bf16>(parts, to);
  }

 private:
  struct Words {
    std::uint32_t of[8];
  };

  template <DType kType>
  __device__ __forceinline__ float put_of(const Parts& parts, std::uint32_t to) const {
    const std::uint32_t first = largest_of_row(words_of(parts, 0)),
                        second = largest_of_row(words_of(parts, 1));
    std::uint32_t largest = Parts::part() % kSteps == 0 ? first : second;  // of the lane's scaled row
    largest = max(largest & 0xffffu, largest >> 16);
    constexpr std::uint32_t kInf = kType == DType::f16 ? 0x7c00 : 0x7f80;
    const float amax = largest < kInf ? number<kType>(largest) : 0.0f;
    const quant::Scale scale = quant::group_scale(amax, 0, quant::ScaleRule::nearest, of_.largest_code);
    to += tile::chunk_offset<kDim>(static_cast<int>(Parts::row()), static_cast<int>(Parts::part()));
    static_assert(tile::chunk_offset<kDim>(kRowsAStep, 0) == kRowsAStep * kDim, "steps have the same places");
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const float rscale =
          __shfl_sync(tile::kAllLanes, scale.rscale, static_cast<int>(step), static_cast<int>(kLanesOfRow));
      const Words words = words_of(parts, step);
      std::uint32_t codes[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) codes[i] = four_codes<kType>(words.of[2 * i], words.of[2 * i + 1], rscale);
      // note: a NaN times 0 would not be code 0.
      if (rscale == 0) codes[0] = codes[1] = codes[2] = codes[3] = 0;
      ptx::store_shared_16_bytes(to + step * kRowsAStep * kDim, {codes[0], codes[1], codes[2], codes[3]});
    }
    return scale.scale;
  }
  static __device__ __forceinline__ Words words_of(const Parts& parts, std::uint32_t step) {
    const auto& [a, b] = parts.of[step];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
  /// The bits of the row's largest |x|, which are in their order; of two halves one has them.
  static __device__ __forceinline__ std::uint32_t largest_of_row(const Words& words) {
    constexpr std::uint32_t kAbsOfBoth = 0x7fff7fff;
    std::uint32_t most = 0;
#pragma unroll
    for (const std::uint32_t word : words.of) most = __vmaxu2(most, word & kAbsOfBoth);
#pragma unroll
    for (std::uint32_t distance = 1; distance < kLanesOfRow; distance *= 2)
      most = __vmaxu2(most, __shfl_xor_sync(tile::kAllLanes, most, static_cast<int>(distance)));
    return most;
  }
  /// code: 16 bits.
  template <DType kType>
  static __device__ __forceinline__ float number(std::uint32_t code) {
    return kType == DType::f16 ? ptx::number_of_f16(code) : float_of(code << 16);
  }
  /// Of the numbers of two words. The product and the sum are rounded each, whatever the unit is compiled as.
  template <DType kType>
  static __device__ __forceinline__ std::uint32_t four_codes(std::uint32_t a, std::uint32_t b, float rscale) {
    const auto code = [&](float x) {
      return bits_of(__fadd_rn(__fmul_rn(x, rscale), quant::kRoundToInteger));
    };
    const auto low = [](std::uint32_t word) {
      return number<kType>(kType == DType::f16 ? word & 0xffffu : word);
    };
    const auto high = [](std::uint32_t word) {
      return kType == DType::f16 ? ptx::number_of_f16(word >> 16) : float_of(word & 0xffff0000u);
    };
    return four_bytes(code(low(a)), code(high(a)), code(low(b)), code(high(b)));
  }

  const Coded& of_;
};

/// V's numbers as f16, rows as they come: attention turns them around.
struct Values {
  static constexpr int kRow = kDim * 2;  ///< bytes
  using Parts = RowParts<kRow / 16>;
  static_assert(Parts::kRowsAStep == 4 && Parts::kPieces == 1);

  /// To a tile of rows of kRow bytes at shared address `to`, a multiple of eight rows.
  static __device__ __forceinline__ void put(const Parts& parts, DType dtype, std::uint32_t to) {
    to += tile::chunk_offset<kRow>(static_cast<int>(Parts::row()), static_cast<int>(Parts::part()));
    // Rows that are four apart have chunks four apart, those that are eight apart the same ones.
#pragma unroll
    for (std::uint32_t step = 0; step < Parts::kSteps; ++step) {
      const uint4& x = parts.of[step][0];
      const uint4 as_f16 = dtype == DType::bf16
                               ? uint4{ptx::f16_pair_of_bf16(x.x), ptx::f16_pair_of_bf16(x.y),
                                       ptx::f16_pair_of_bf16(x.z), ptx::f16_pair_of_bf16(x.w)}
                               : x;
      ptx::store_shared_16_bytes((to ^ (step % 2 * 64)) + step * Parts::kRowsAStep * kRow, as_f16);
    }
  }
};

}  // namespace octet::cuda::plain
