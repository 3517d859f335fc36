// Sums of one leaf of 16-bit rows that lies in shared memory: a lane has two channels, a warp a segment
// of 64; or one channel.
#pragma once
#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/quant/one_pass_ring.cuh"
#include "cuda/quant/squares.cuh"

namespace octet::cuda {

/// A lane's two channels of a segment of a leaf; lines: the leaf's.
template <class Shape>
struct SegmentColumns {
  const uint4* lines;
  int segment, length, lane;

  /// body(word) with the two numbers of each token, one after the other.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    constexpr int kAtOnce = 32;
    const std::uint32_t from = this->from();
    int row = 0;
#pragma unroll 1
    for (; row + kAtOnce <= length; row += kAtOnce) {
      std::uint32_t some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)  // row is a multiple of 32, which turns no places around
        some[i] =
            ptx::load_shared_word((from ^ i * Shape::kLanes % 8 * 16) + (row + i) * Shape::kLanes * 128);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) body(some[i]);
    }
    for_each_from(row, body);
  }
  /// The same from a row on, in few instructions.
  template <class Body>
  __device__ void for_each_from(int row, const Body& body) const {
    const std::uint32_t from = this->from();
#pragma unroll 1
    for (; row < length; ++row)
      body(ptx::load_shared_word((from ^ row * Shape::kLanes % 8 * 16) + row * Shape::kLanes * 128));
  }

 private:
  /// Of row 0; row_place(), most of which is found once.
  __device__ std::uint32_t from() const {
    return ptx::shared_address(lines) + row_place(segment, lane / 4) + lane % 4 * 4;
  }
};

/// Where a leaf's rows lie: lines of 128 bytes, of a segment each (row_place()).
template <class Shape>
struct SegmentLines {
  static constexpr std::uint32_t kRowBytes = Shape::kLanes * 128;
  static constexpr int kPeriod = 8;  ///< rows after which places turn around anew
  /// Of a channel in row `row`, from where row 0 has it.
  __device__ static std::uint32_t place(std::uint32_t of_first, std::uint32_t row) {
    return (of_first ^ row * Shape::kLanes % 8 * 16) + row * kRowBytes;
  }
};

/// A lane's one channel of all rows of a leaf.
template <class Lines>
struct Column {
  std::uint32_t of_first;  ///< shared memory of its number in row 0
  int length;

  /// body(first, second, tokens) with the numbers of two tokens, one pair after the other; of an odd length
  /// the last one is there twice, and tokens is 1.
  template <int kAtOnce, class Body>
  __device__ void for_each_pair(const Body& body) const {
    static_assert(kAtOnce % Lines::kPeriod == 0);
    int row = 0;
#pragma unroll 1
    for (; row + kAtOnce <= length; row += kAtOnce) {
      std::uint32_t some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        some[i] = ptx::load_shared_half(Lines::place(of_first, i) + row * Lines::kRowBytes);
#pragma unroll
      for (int i = 0; i < kAtOnce; i += 2) body(some[i], some[i + 1], 2);
    }
    for_each_pair_from(row, body);
  }
  /// The same from an even row on, in few instructions.
  template <class Body>
  __device__ void for_each_pair_from(int row, const Body& body) const {
    const auto code = [&](int of) { return ptx::load_shared_half(Lines::place(of_first, of)); };
#pragma unroll 1
    for (; row < length; row += 2) {
      const std::uint32_t first = code(row);
      body(first, row + 1 < length ? code(row + 1) : first, min(length - row, 2));
    }
  }
};

/// The first and the second number of a word.
template <DType kType>
__device__ float low_number(std::uint32_t word) {
  return kType == DType::bf16 ? float_of(word << 16) : ptx::number_of_f16(word & 0xffffu);
}
template <DType kType>
__device__ float high_number(std::uint32_t word) {
  return kType == DType::bf16 ? float_of(word & 0xffff0000u) : ptx::number_of_f16(word >> 16);
}

/// The words of the two channels.
struct PairSum {
  float sum[2] = {-0.0f, -0.0f};  // -0 + x is x for every x
  std::uint32_t range[2];         // of squares alone
};

/// Their sums times `factor`, NaN and Inf as zeros. factor: 2^-16 or more, so that its product with a bf16 or
/// f16, the least subnormal one too, is exact, and this is one rounding.
template <DType kType, class Shape>
__device__ PairSum factored_sum(const SegmentColumns<Shape>& of, float factor) {
  PairSum pair;
  float(&sum)[2] = pair.sum;
  of.for_each([&](std::uint32_t word) {
    sum[0] = __fmaf_rn(low_number<kType>(word), factor, sum[0]);
    sum[1] = __fmaf_rn(high_number<kType>(word), factor, sum[1]);
  });
  // NaN and Inf are rare: where a sum comes out neither, none was there.
  if (is_finite(sum[0]) && is_finite(sum[1])) return pair;
  const auto finite = [](float x) { return is_finite(x) ? x : 0.0f; };
  sum[0] = sum[1] = -0.0f;
  of.for_each_from(0, [&](std::uint32_t word) {
    sum[0] = __fmaf_rn(finite(low_number<kType>(word)), factor, sum[0]);
    sum[1] = __fmaf_rn(finite(high_number<kType>(word)), factor, sum[1]);
  });
  return pair;
}

/// The sum of one channel, as factored_sum() has two.
template <DType kType, int kAtOnce, class Lines>
__device__ float factored_sum(const Column<Lines>& of, float factor) {
  float sum = -0.0f;
  of.template for_each_pair<kAtOnce>([&](std::uint32_t a, std::uint32_t b, int tokens) {
    sum = __fmaf_rn(low_number<kType>(a), factor, sum);
    if (tokens > 1) sum = __fmaf_rn(low_number<kType>(b), factor, sum);
  });
  if (is_finite(sum)) return sum;
  const auto finite = [](float x) { return is_finite(x) ? x : 0.0f; };
  sum = -0.0f;
  of.for_each_pair_from(0, [&](std::uint32_t a, std::uint32_t b, int tokens) {
    sum = __fmaf_rn(finite(low_number<kType>(a)), factor, sum);
    if (tokens > 1) sum = __fmaf_rn(finite(low_number<kType>(b)), factor, sum);
  });
  return sum;
}

/// The sums of their squares as they are, Inf where one is NaN or Inf, and their ranges.
template <DType kType, class Shape>
__device__ PairSum square_sum(const SegmentColumns<Shape>& of) {
  PairSum pair;
  PairRange range;
  // The square of a number of 11 bits is exact (or the sum is not used, for it is too small or large), so
  // this is one rounding.
  of.for_each([&](std::uint32_t word) {
    const float a = low_number<kType>(word), b = high_number<kType>(word);
    pair.sum[0] = __fmaf_rn(a, a, pair.sum[0]), pair.sum[1] = __fmaf_rn(b, b, pair.sum[1]);
    range.see(word);
  });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!is_finite(pair.sum[i])) pair.sum[i] = float_of(kF32Inf);
    pair.range[i] = range.of<kType>(i);
  }
  return pair;
}

/// The same of one channel.
struct SquaresOfChannel {
  float sum;
  std::uint32_t range;
};
template <DType kType, int kAtOnce, class Lines>
__device__ SquaresOfChannel square_sum(const Column<Lines>& of) {
  float sum = -0.0f;
  PairRange range;
  of.template for_each_pair<kAtOnce>([&](std::uint32_t a, std::uint32_t b, int tokens) {
    const float x = low_number<kType>(a), y = low_number<kType>(b);
    sum = __fmaf_rn(x, x, sum);
    if (tokens > 1) sum = __fmaf_rn(y, y, sum);
    range.see(a | b << 16);
  });
  if (!is_finite(sum)) sum = float_of(kF32Inf);
  return {sum, joined_range(range.of<kType>(0), range.of<kType>(1))};
}

/// The range of one channel, but for the least.
template <DType kType, int kAtOnce, class Lines>
__device__ std::uint32_t largest_range(const Column<Lines>& of) {
  PairRange range;
  of.template for_each_pair<kAtOnce>([&](std::uint32_t a, std::uint32_t b, int) { range.see(a | b << 16); });
  return range_of_sizes(0, range.largest<kType>());
}

}  // namespace octet::cuda
