// Where finished rows go: from shared memory to the caller's tensors, in their format, with what rows have
// beside their outputs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/call.h"
#include "cuda/attn/sequence.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/store.cuh"
#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::cuda::attn {

/// From numbers to a format of outputs: one, and those of a word.
struct F32Format {
  using Number = float;
  static constexpr int kOfWord = 1;
  static __device__ __forceinline__ Number number(float x) { return x; }
  static __device__ __forceinline__ std::uint32_t word(const float* x) { return __float_as_uint(*x); }
};
struct F16Format {
  using Number = std::uint16_t;
  static constexpr int kOfWord = 2;
  static __device__ __forceinline__ Number number(float x) { return f16_from_f32(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) { return ptx::f16_pair(x[0], x[1]); }
};
struct Bf16Format {
  using Number = std::uint16_t;
  static constexpr int kOfWord = 2;
  static __device__ __forceinline__ Number number(float x) { return bf16_from_f32(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) { return ptx::bf16_pair(x[0], x[1]); }
};
/// Codes, which are numbers of s8.
struct S8Format {
  using Number = std::int8_t;
  static constexpr int kOfWord = 4;
  static __device__ __forceinline__ Number number(float x) { return static_cast<std::int8_t>(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) {
    std::uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bytes |= std::uint32_t{static_cast<std::uint8_t>(number(x[i]))} << (8 * i);
    return bytes;
  }
};

/// A row on its way out, in the caller's format or in numbers that get it when they leave. Eight numbers more
/// than it has, so that the lanes of a fragment write to different banks.
template <int kDim, class Format = F32Format>
struct alignas(16) StagedRow {
  using Number = typename Format::Number;
  Number number[kDim + 8];
  /// Those of channels `even` and the next.
  __device__ __forceinline__ void put(int even, float first, float second) {
    const float pair[2] = {first, second};
    if constexpr (Format::kOfWord == 1)
      *reinterpret_cast<float2*>(number + even) = {first, second};
    else
      *reinterpret_cast<std::uint32_t*>(number + even) = Format::word(pair);
  }
};

/// RowStore::rows()'s kTogether. Four words hide each other's way from shared memory; of `integer`'s codes
/// they gained nothing. (docs/cuda-measurements.md)
template <class S>
inline constexpr int kWordsTogether = S::kOutput == Output::values ? 4 : 1;

/// Where the rows of one head of one sequence lie: those of tokens, or of a range's joined heads.
class RowStore {
 public:
  __device__ RowStore(const Call& call, const Sequence& sequence, std::int32_t head)
      : call_(call), batch_(sequence.batch), head_(head), begin_(sequence.begin) {}

  /// kRows rows of a warp from shared memory, number `first` and on; rows from `count` on are nobody's. A
  /// lane asks for kTogether of its words before it waits for the first.
  template <int kRows, int kTogether, int kDim>
  __device__ __forceinline__ void rows(const StagedRow<kDim>* staged, std::int32_t first, std::int32_t count,
                                       std::int32_t dim_v) const {
    // note: not by visit_format(), with which nvcc 13 makes other code where it is asked for lines
    // (integer_only).
    switch (call_.o.dtype) {
      case DType::f16:
        return rows_in<F16Format, kRows, kTogether>(staged, first, count, dim_v);
      case DType::bf16:
        return rows_in<Bf16Format, kRows, kTogether>(staged, first, count, dim_v);
      case DType::s8:
        return rows_in<S8Format, kRows, kTogether>(staged, first, count, dim_v);
      default:
        return rows_in<F32Format, kRows, kTogether>(staged, first, count, dim_v);
    }
  }
  /// The same of rows that are in the caller's format.
  template <int kRows, int kTogether, class Format, int kDim>
  __device__ __forceinline__ void formatted_rows(const StagedRow<kDim, Format>* staged, std::int32_t first,
                                                 std::int32_t count, std::int32_t dim_v) const {
    rows_in<Format, kRows, kTogether>(staged, first, count, dim_v);
  }
  /// body(format) of outputs that are no codes.
  template <class Body>
  __device__ __forceinline__ void visit_format(const Body& body) const {
    switch (call_.o.dtype) {
      case DType::f16:
        return body(F16Format{});
      case DType::bf16:
        return body(Bf16Format{});
      default:
        return body(F32Format{});
    }
  }
  /// What a code is multiplied by on its way out: s8 keeps code and scale apart.
  __device__ float code_factor(float scale) const { return call_.o.dtype == DType::s8 ? 1.0f : scale; }
  __device__ void scale(std::int32_t row_number, float scale) const {
    if (call_.wants_o_scale) row(call_.o_scale, row_number, scale);
  }
  __device__ bool wants_lse() const { return call_.wants_lse; }
  __device__ bool wants_ends() const { return call_.wants_lse || call_.wants_o_scale; }
  /// lse: of the smoothed K; what smoothing took away comes back here.
  __device__ void lse(std::int32_t row_number, float lse) const {
    double shift = 0;
    if (call_.q_anchor.data)
      shift = static_cast<const float*>(call_.q_anchor.data)[offset(call_.q_anchor, row_number)];
    row(call_.lse, row_number, static_cast<float>(lse + shift));
  }
  /// Of a row that saw no key.
  __device__ void empty_lse(std::int32_t row_number) const { row(call_.lse, row_number, kMinusInfinity); }

 private:
  __device__ std::int64_t offset(const DeviceTensor& x, std::int32_t row_number) const {
    return x.along(0, batch_) + x.along(1, head_) + x.along(2, begin_ + row_number);
  }
  /// In words of 16 bytes where rows are made of these, else one number at a time.
  template <class Format, int kRows, int kWords, int kDim, class Staged>
  __device__ __forceinline__ void rows_in(const StagedRow<kDim, Staged>* staged, std::int32_t first,
                                          std::int32_t count, std::int32_t dim_v) const {
    using Number = typename Format::Number;
    constexpr int kNumbers = 16 / sizeof(Number);
    constexpr int kChunks = kDim / kNumbers, kLanes = kChunks < 32 ? kChunks : 32;  // of a row
    const int lane = static_cast<int>(threadIdx.x % 32);
    auto* to = static_cast<Number*>(call_.o.data) + offset(call_.o, first);
    if (call_.o_in_chunks) [[likely]] {
      constexpr int kRowsATurn = 32 / kLanes, kTurns = kRows / kRowsATurn, kOfRow = kChunks / kLanes;
      constexpr int kTogether = std::min(kTurns, std::max(kWords / kOfRow, 1));
      static_assert(kTurns > 0 && kTurns % kTogether == 0, "all rows have their turn");
#pragma unroll(kTogether > 1 ? 1 : 4)
      for (int turn = 0; turn < kRows; turn += kTogether * kRowsATurn) {
        const int r = turn + lane / kLanes, channel = lane % kLanes * kNumbers;
        uint4 words[kTogether][kOfRow];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
#pragma unroll
          for (int c = 0; c < kOfRow; ++c)
            words[i][c] = chunk<Format>(staged[r + i * kRowsATurn].number + channel + c * kLanes * kNumbers);
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
#pragma unroll
          for (int c = 0; c < kOfRow; ++c) {
            const int row = r + i * kRowsATurn, of_chunk = channel + c * kLanes * kNumbers;
            if (first + row < count && of_chunk < dim_v)
              ptx::store_16_bytes(to + row * call_.o.stride[2] + of_chunk, words[i][c]);
          }
      }
      return;
    }
#pragma unroll 1
    for (int r = 0; r < kRows && first + r < count; ++r) {
#pragma unroll 1
      for (std::int32_t c = lane; c < dim_v; c += 32)
        to[r * call_.o.stride[2] + c * call_.o.stride[3]] = number<Format>(staged[r].number[c]);
    }
  }
  template <class Format>
  static __device__ __forceinline__ typename Format::Number number(typename Format::Number x) {
    return x;
  }
  template <class Format>
  requires(!std::is_same_v<Format, F32Format>) static __device__ __forceinline__ typename Format::Number
      number(float x) {
    return Format::number(x);
  }
  template <class Format>
  static __device__ __forceinline__ uint4 chunk(const typename Format::Number* numbers) {
    return *reinterpret_cast<const uint4*>(numbers);
  }
  template <class Format>
  requires(!std::is_same_v<Format, F32Format>) static __device__ __forceinline__ uint4
      chunk(const float* numbers) {
    uint4 words;
    words.x = Format::word(numbers), words.y = Format::word(numbers + Format::kOfWord);
    words.z = Format::word(numbers + 2 * Format::kOfWord),
    words.w = Format::word(numbers + 3 * Format::kOfWord);
    return words;
  }
  __device__ void row(const DeviceTensor& x, std::int32_t row_number, float v) const {
    static_cast<float*>(x.data)[offset(x, row_number)] = v;
  }

  const Call& call_;
  std::int32_t batch_, head_, begin_;
};

}  // namespace octet::cuda::attn
