// A window's codes and scales as rows of the call's tensors.
#pragma once
#include <cstdint>

#include "cuda/quant/window.cuh"

namespace octet::cuda {

/// Codes of up to 32 rows in their lines, on their way from lanes of rows to lanes of what lies together.
class WindowCodes {
 public:
  static constexpr int kPieces = WindowShape::kDim / 16;  ///< of 16 bytes, a row

  /// Where a piece of a row lies behind the first one's: four rows a line; lanes meet in no bank.
  __device__ __forceinline__ static std::uint32_t place(int row, int piece) {
    return static_cast<std::uint32_t>(row / 4 * 8 + row % 4 * 2 + (piece ^ row / 4 % 2)) * 16;
  }
  /// Piece number `piece` of the codes of a row's numbers.
  __device__ __forceinline__ static uint4 piece_of(const float (&v)[WindowShape::kDim], float rscale,
                                                   int piece) {
    const float* const of = v + 16 * piece;
    return {four_codes(of, rscale), four_codes(of + 4, rscale), four_codes(of + 8, rscale),
            four_codes(of + 12, rscale)};
  }
  /// Row `lane` of the lines; of the warp, which sees all of them then.
  __device__ __forceinline__ static void put(const float (&v)[WindowShape::kDim], float rscale, int lane,
                                             std::uint32_t lines) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      ptx::store_shared_16_bytes(lines + place(lane, i), piece_of(v, rscale, i));
    __syncwarp();
  }
};

/// WindowOut of a block of threads that is a warp.
class WindowToMemory {
 public:
  __device__ WindowToMemory(const ShortOperand& x, std::int32_t b, std::int32_t h)
      : r_(x.rows), k_(x.coding), b_(b), h_(h), tokens_(static_cast<int>(x.rows.x.shape[2])) {}

  __device__ static int lane() { return static_cast<int>(threadIdx.x); }
  __device__ void mean(float mean) const {
    static_cast<float*>(r_.shift.data)[channel_offset(r_.shift)] = mean;
  }
  __device__ void exponent(std::int32_t exponent) const {
    static_cast<std::int32_t*>(r_.exponent.data)[channel_offset(r_.exponent)] = exponent;
  }
  __device__ void scale_of_window(float scale, bool by_channel) const {
    if (!by_channel && lane() > 0) return;
    static_cast<float*>(k_.scales.data)[row_offset(k_.scales, b_, h_, 0) + lane() * k_.scales.stride[3]] =
        scale;
  }
  __device__ void scale_of_row(int first, float scale) const {
    static_cast<float*>(k_.scales.data)[row_offset(k_.scales, b_, h_, first + lane())] = scale;
  }
  __device__ __forceinline__ void codes(const float (&v)[WindowShape::kDim], float rscale, int first,
                                        std::uint32_t lines) const {
    constexpr int kPieces = WindowCodes::kPieces, kRowsAtOnce = kWarp / kPieces;
    WindowCodes::put(v, rscale, lane(), lines);
    const int row = lane() / kPieces, piece = lane() % kPieces;
    auto* const to =
        static_cast<std::int8_t*>(k_.codes.data) + row_offset(k_.codes, b_, h_, first + row) + piece * 16;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      if (first + row + i * kRowsAtOnce < tokens_)
        *reinterpret_cast<uint4*>(to + i * kRowsAtOnce * k_.codes.stride[2]) =
            ptx::load_shared_16_bytes(lines + WindowCodes::place(row + i * kRowsAtOnce, piece));
  }

 private:
  /// Of a tensor with a word a channel.
  __device__ std::int64_t channel_offset(const TensorView& of) const {
    return row_offset(of, b_, h_, 0) + lane();
  }

  const RowReading& r_;
  const Coding& k_;
  const std::int32_t b_, h_;
  const int tokens_;
};

}  // namespace octet::cuda
