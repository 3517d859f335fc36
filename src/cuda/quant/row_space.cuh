// Rows of a warp in shared memory, on their way in as numbers and out as codes: rows of a tensor are read and
// written by lanes beside each other, and computed by a lane each.
#pragma once
#include <utility>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/cp_async_offset.cuh"
#include "cuda/ptx/lane.cuh"
#include "cuda/quant/rows.cuh"

namespace octet::cuda {

/// How rows lie in the lanes of a warp: a segment a lane, the whole row up to 64 channels.
template <int kDim_>
struct SegmentShape {
  static constexpr int kDim = kDim_, kLanes = kDim > 64 ? kDim / 64 : 1;  // of a row
  static constexpr int kCount = kDim / kLanes;                            // channels of a segment
  static constexpr int kRows = kWarp / kLanes;
};

/// The warp's rows and codes, and a word a channel that they have in common. Segments lie 16 bytes further
/// apart than they are long, an odd number of 16 bytes, so that lanes meet in no bank.
template <class Shape>
struct RowSpace {
  static constexpr int kIn = Shape::kCount / 8, kOut = Shape::kCount / 16;  // of 16 bytes, a segment
  uint4 rows[kWarp][kIn + 1];
  uint4 codes[kWarp][kOut + 1];
  float4 words[Shape::kDim / 4];

  /// The lane, read anew, for no register has room for it.
  __device__ static int lane() { return ptx::lane(); }

  /// `count` rows, so many elements apart.
  __device__ void ask_for_rows(const std::uint16_t* from, std::int64_t stride, int count) {
    // Pieces of 16 bytes, beside each other in a row first: lane i has number i, i + 32, ...
    constexpr int kRowPieces = kIn * Shape::kLanes;
    constexpr int kRowsAtOnce = kWarp / kRowPieces,
                  kBytesAtOnce = kRowsAtOnce * Shape::kLanes * sizeof(rows[0]);
    const int row = lane() / kRowPieces, piece = lane() % kRowPieces;
    __builtin_assume(__isGlobal(from));
    from += row * stride + piece * kChannels;
    const std::uint32_t to = ptx::shared_address(&rows[row * Shape::kLanes + piece / kIn][piece % kIn]);
    const std::int64_t step = kRowsAtOnce * stride;
    const auto ask = [&]<int... i>(std::integer_sequence<int, i...>) {
      ((row + i * kRowsAtOnce < count ? ptx::copy_async_to<i * kBytesAtOnce>(to, from) : void(),
        from += step),
       ...);
    };
    ask(std::make_integer_sequence<int, Shape::kRows / kRowsAtOnce>());
  }
  __device__ void wait_until_codes_left() { __syncwarp(); }
  /// The codes of `count` rows, so many bytes apart.
  __device__ void send_codes(std::int8_t* to, std::int64_t stride, int count) {
    constexpr int kRowPieces = kOut * Shape::kLanes;
    constexpr int kRowsAtOnce = kWarp / kRowPieces;
    const int row = lane() / kRowPieces, piece = lane() % kRowPieces;
    __builtin_assume(__isGlobal(to));
    to += row * stride + piece * 16;
    const uint4* from = &codes[row * Shape::kLanes + piece / kOut][piece % kOut];
    const std::int64_t step = kRowsAtOnce * stride;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Shape::kRows / kRowsAtOnce; ++i) {
      if (row + i * kRowsAtOnce < count)
        *reinterpret_cast<uint4*>(to) = from[i * kRowsAtOnce * Shape::kLanes * (kOut + 1)];
      to += step;
    }
  }

  /// A word a channel; a lane has numbers lane, lane + 32, ...
  __device__ void ask_for_words(const void* from) {
    for (int i = lane(); i < Shape::kDim; i += kWarp)
      ptx::copy_word_async(ptx::shared_address(reinterpret_cast<float*>(words) + i),
                           static_cast<const float*>(from) + i);
  }
  /// use(word, i): of channel lane + 32 i.
  template <class Use>
  __device__ void for_own_words(const Use& use) {
    auto* own = reinterpret_cast<std::uint32_t*>(words) + lane();
#pragma unroll
    for (int i = 0; i < Shape::kDim / kWarp; ++i) use(own[i * kWarp], i);
  }
};

/// The butterfly of a row; of the warp. v: channels [part * kCount, + kCount).
template <class Shape>
__device__ void rotate_segment(float (&v)[Shape::kCount], int part) {
  stage<Shape::kCount, 1>(v);
  stage<Shape::kCount, 2>(v);
  stage<Shape::kCount, 4>(v);
  stage<Shape::kCount, 8>(v);
  stage<Shape::kCount, 16>(v);
  if constexpr (Shape::kCount > 32) stage<Shape::kCount, 32>(v);
#pragma unroll
  for (int distance = 1; distance < Shape::kLanes; distance *= 2) {
    const float own = part & distance ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < Shape::kCount; ++i)
      v[i] = __fmaf_rn(v[i], own, __shfl_xor_sync(kAllLanes, v[i], distance));  // as in butterfly()
  }
}

/// The codes of four numbers, the first in the lowest byte: rounded to nearest even, NaN to 0.
__device__ inline std::uint32_t four_codes(const float* v, float rscale) {
  return ptx::s8_codes(v[0] * rscale, v[1] * rscale, v[2] * rscale, v[3] * rscale);
}

}  // namespace octet::cuda
