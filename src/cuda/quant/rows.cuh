// A row on its way to codes, in the registers of a few threads: loaded as f32, shifted, rotated, equalised,
// NaN and Inf confined. The channels lie in vectors of eight neighbours; the threads of a row, a power of two
// within a warp, take them in turn, kVectors each: vector j of thread i is number i + j * threads. Every lane
// of a warp takes part in what is said to be of the warp.
#pragma once
#include <cstdint>

#include "cuda/ptx/convert.cuh"
#include "cuda/quant/begin.cuh"
#include "cuda/quant/places.cuh"
#include "numerics/formats.h"
#include "octet/types.hpp"
#include "quant/rows.h"

namespace octet::cuda {

using quant::is_finite;
using quant::kAbsMask;
using quant::kInfBits;
using quant::row_offset;

inline constexpr int kChannels = 8;  ///< of a vector: 16 bytes of a 16-bit input
inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256;  ///< of a block that works on rows
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// What is done with NaN and Inf; docs/numerics/quantisation.md, "NaN, Inf and the ends of the range".
enum class Confine : std::int32_t {
  nothing,   ///< formats that have both
  infinity,  ///< becomes NaN: e4m3
  row,       ///< becomes zeros: integers
};

/// How the rows of one tensor are read.
struct RowReading {
  TensorView x;
  RowOrder order;
  int dim = 0, channels = 0;   ///< of x, of the codes
  int lanes_log2 = 0;          ///< threads of a row
  bool in_vectors = false;     ///< 16 bytes at once: all addresses and strides allow it
  TensorView shift;            ///< f32 [batch, head, sequence, dim]; data null: none
  TensorView exponent;         ///< s32 [batch, head, sequence, channel]; data null: none
  int hadamard = 0;            ///< channels of a block of the butterfly; 0: none
  float norm = 1;              ///< 1 / sqrt(hadamard)
  std::uint32_t sign[8] = {};  ///< a bit a channel, 1: negative
  Confine confine = Confine::nothing;
  Begin begin = Begin::after_all;  ///< of the kernel that reads them

  __device__ int lanes() const { return 1 << lanes_log2; }
  /// +-norm
  OCTET_HD float factor(int channel) const {
    return float_of(bits_of(norm) ^ (sign[channel / kWarp] >> (channel % kWarp) << 31));
  }
  __device__ std::int64_t unit_offset(const TensorView& of, const Place& p) const {
    return row_offset(of, p.b, p.h, order.sequences.cu_seqlens ? p.s : 0);
  }
};

/// Of a thread: its place in a row, and its row among those that the block's threads have beside each other.
struct Lane {
  int first;  ///< channel of its first vector
  int step;   ///< channels from one of its vectors to the next
  int row, rows_at_once;

  __device__ explicit Lane(const RowReading& r) : Lane(r.lanes_log2) {}
  __device__ explicit Lane(int lanes_log2) {
    const int thread = static_cast<int>(threadIdx.x);
    first = (thread & ((1 << lanes_log2) - 1)) * kChannels;
    step = kChannels << lanes_log2;
    row = thread >> lanes_log2;
    rows_at_once = static_cast<int>(blockDim.x) >> lanes_log2;
  }
  /// Of element i of kVectors * 8.
  __device__ int channel(int i) const { return first + i / kChannels * step + i % kChannels; }
};

/// Eight elements as they are stored. Stored: std::uint16_t (f16 and bf16) or float.
template <class Stored>
struct Raw {
  static constexpr int kWords = kChannels * sizeof(Stored) / 16;
  uint4 v[kWords];
};

/// Elements [channel, channel + 8) of a row that begins at `from`, zeros beyond it.
template <class Stored>
__device__ Raw<Stored> load_vector(const RowReading& r, const Stored* from, int channel) {
  Raw<Stored> raw{};
  if (channel >= r.dim) return raw;
  if (r.in_vectors && channel + kChannels <= r.dim) {
    const auto* vectors = reinterpret_cast<const uint4*>(from + channel);
#pragma unroll
    for (int i = 0; i < Raw<Stored>::kWords; ++i) raw.v[i] = __ldg(vectors + i);
    return raw;
  }
  std::uint32_t words[4 * Raw<Stored>::kWords] = {};
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    if (channel + i >= r.dim) continue;
    const Stored e = from[(channel + i) * r.x.stride[3]];
    if constexpr (sizeof(Stored) == 2)
      words[i / 2] |= static_cast<std::uint32_t>(e) << (i % 2 * 16);
    else
      words[i] = bits_of(e);
  }
#pragma unroll
  for (int i = 0; i < Raw<Stored>::kWords; ++i)
    raw.v[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  return raw;
}

/// A thread's vectors of a row.
template <class Stored, int kVectors>
struct RawRow {
  Raw<Stored> v[kVectors];
};

template <class Stored, int kVectors>
__device__ RawRow<Stored, kVectors> load_row(const RowReading& r, const Lane& lane, bool exists,
                                             std::int64_t offset) {
  RawRow<Stored, kVectors> raw{};
  if (!exists) return raw;
  const Stored* from = static_cast<const Stored*>(r.x.data) + offset;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) raw.v[j] = load_vector(r, from, lane.first + j * lane.step);
  return raw;
}

template <class Stored>
__device__ void to_floats(const Raw<Stored>& raw, DType dtype, float* v) {
  if constexpr (sizeof(Stored) == 4) {
#pragma unroll
    for (int i = 0; i < kChannels; i += 4) {
      const uint4 w = raw.v[i / 4];
      v[i] = float_of(w.x), v[i + 1] = float_of(w.y), v[i + 2] = float_of(w.z), v[i + 3] = float_of(w.w);
    }
  } else {
    const std::uint32_t words[4] = {raw.v[0].x, raw.v[0].y, raw.v[0].z, raw.v[0].w};
    if (dtype == DType::bf16) {
#pragma unroll
      for (int i = 0; i < kChannels; i += 2)
        v[i] = float_of(words[i / 2] << 16), v[i + 1] = float_of(words[i / 2] & 0xffff0000u);
    } else {
#pragma unroll
      for (int i = 0; i < kChannels; i += 2)
        v[i] = ptx::number_of_f16(words[i / 2] & 0xffffu), v[i + 1] = ptx::number_of_f16(words[i / 2] >> 16);
    }
  }
}

/// What a thread's channels of a sequence are shifted or multiplied by, loaded anew where the sequence
/// changes: one number each. Where rows are shifted and equalised too, the exponents are read when they are
/// needed.
template <int kVectors>
struct Steps {
  float own[kChannels * kVectors] = {};
  std::int32_t b = -1, h = -1, s = -1;

  __device__ void enter(const RowReading& r, const Lane& lane, const Place& p) {
    if (!p.exists || (p.s == s && p.h == h && p.b == b)) return;
    s = p.s, h = p.h, b = p.b;
    if (r.shift.data) {
      const float* from = static_cast<const float*>(r.shift.data) + r.unit_offset(r.shift, p);
#pragma unroll
      for (int i = 0; i < kChannels * kVectors; ++i)
        own[i] = lane.channel(i) < r.dim ? from[lane.channel(i)] : 0.0f;
    } else if (r.exponent.data) {
      const auto* from = static_cast<const std::int32_t*>(r.exponent.data) + r.unit_offset(r.exponent, p);
#pragma unroll
      for (int i = 0; i < kChannels * kVectors; ++i)
        own[i] = lane.channel(i) < r.channels ? power_of_two(-from[lane.channel(i)]) : 0.0f;
    }
  }

  __device__ float equaliser(const RowReading& r, const Lane& lane, int i) const {
    if (!r.shift.data) return own[i];
    if (lane.channel(i) >= r.channels || b < 0) return 0.0f;
    const std::int64_t at = row_offset(r.exponent, b, h, r.order.sequences.cu_seqlens ? s : 0);
    return power_of_two(-static_cast<const std::int32_t*>(r.exponent.data)[at + lane.channel(i)]);
  }
};

/// One stage of the butterfly between elements that a thread has.
template <int kCount, int kStride>
__device__ void stage(float (&v)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i & kStride) continue;
    const float a = v[i], b = v[i + kStride];
    v[i] = a + b;
    v[i + kStride] = a - b;
  }
}

/// The butterfly over blocks of channels; of the warp.
template <int kVectors>
__device__ void butterfly(const RowReading& r, const Lane& lane, float (&v)[kChannels * kVectors]) {
  constexpr int kCount = kChannels * kVectors;
  const int block = r.hadamard;
  if (block > 1) stage<kCount, 1>(v);
  if (block > 2) stage<kCount, 2>(v);
  if (block > 4) stage<kCount, 4>(v);
  const int within = min(block, lane.step);
  for (int stride = kChannels; stride < within; stride *= 2) {
    const float own = lane.first & stride ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, v[i], stride / kChannels);
      // note: a + b where v is a, a - b where it is b: the product is exact, so this is one addition.
      v[i] = __fmaf_rn(v[i], own, other);
    }
  }
  if constexpr (kVectors > 1)
    if (block > lane.step) stage<kCount, kChannels>(v);
  if constexpr (kVectors > 2)
    if (block > 2 * lane.step) stage<kCount, 2 * kChannels>(v);
}

template <class Stored, int kVectors>
__device__ void to_floats(const RawRow<Stored, kVectors>& raw, DType dtype,
                          float (&v)[kChannels * kVectors]) {
  if (dtype == DType::f16) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) to_floats(raw.v[j], DType::f16, v + j * kChannels);
  } else {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) to_floats(raw.v[j], DType::bf16, v + j * kChannels);
  }
}

/// Signs and the butterfly, where rows are rotated; of the warp. factor: of each channel, in memory.
template <int kVectors>
__device__ void rotate(const RowReading& r, const Lane& lane, const float* factor,
                       float (&v)[kChannels * kVectors]) {
  if (r.hadamard == 0) return;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const auto* of_vector = reinterpret_cast<const float4*>(factor + lane.first + j * lane.step);
    const float4 low = of_vector[0], high = of_vector[1];
    float* at = v + j * kChannels;
    at[0] = at[0] * low.x, at[1] = at[1] * low.y, at[2] = at[2] * low.z, at[3] = at[3] * low.w;
    at[4] = at[4] * high.x, at[5] = at[5] * high.y, at[6] = at[6] * high.z, at[7] = at[7] * high.w;
  }
  butterfly<kVectors>(r, lane, v);
}

/// (x - shift) rotated, times 2^-exponent; of the warp. v: x. factor: as rotate() takes it.
template <int kVectors>
__device__ void transform(const RowReading& r, const Lane& lane, const Steps<kVectors>& steps,
                          const float* factor, float (&v)[kChannels * kVectors]) {
  constexpr int kCount = kChannels * kVectors;
  if (r.shift.data) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = v[i] - steps.own[i];
  }
  rotate<kVectors>(r, lane, factor, v);
  if (r.exponent.data) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = v[i] * steps.equaliser(r, lane, i);
  }
}

/// The factors of all channels and of the places beyond them that threads have, in shared memory; of the
/// block.
struct Factors {
  static constexpr int kMost = 256;
  float of[kMost];

  __device__ void fill(const RowReading& r) {
    put(r, kMost);
    __syncthreads();
  }
  /// The same of the first `width`, which are there after the block's next barrier.
  __device__ void put(const RowReading& r, int width) {
    if (r.hadamard == 0) return;
    for (int c = static_cast<int>(threadIdx.x); c < width; c += static_cast<int>(blockDim.x))
      of[c] = c < r.channels ? r.factor(c) : 0.0f;
  }
};

__device__ inline std::uint32_t size_bits(float x) { return bits_of(x) & kAbsMask; }

/// The largest |v| as bits; at least those of Inf where one is Inf or NaN.
template <int kCount>
__device__ std::uint32_t largest_bits(const float (&v)[kCount]) {
  float most = magnitude(v[0]);
#pragma unroll
  for (int i = 1; i < kCount; ++i) most = ptx::larger_or_nan(most, v[i]);
  return size_bits(most);
}

/// The largest of what the threads of a row have; of the warp.
__device__ inline std::uint32_t largest_of_row(std::uint32_t bits, int lanes) {
  for (int lane = 1; lane < lanes; lane *= 2) bits = max(bits, __shfl_xor_sync(kAllLanes, bits, lane));
  return bits;
}

__device__ inline std::uint32_t finite_bits(float x) {
  const std::uint32_t bits = size_bits(x);
  return bits < kInfBits ? bits : 0;
}

/// Does with NaN and Inf what the format wants, and returns the largest finite |v| of the row as bits, whose
/// peak with NaN and Inf is `peak`; of the warp. lanes: that have the row.
template <int kCount>
__device__ std::uint32_t confined(const RowReading& r, std::uint32_t peak, int lanes, float (&v)[kCount],
                                  std::uint32_t* non_finite) {
  if (__all_sync(kAllLanes, peak < kInfBits)) return peak;
  if (r.confine == Confine::row) {
    if (peak < kInfBits) return peak;
    if (non_finite) *non_finite = 1;
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = 0;
    return 0;
  }
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    most = max(most, finite_bits(v[i]));
    if (r.confine == Confine::infinity && !is_finite(v[i])) v[i] = float_of(kF32QuietNan);
  }
  return largest_of_row(most, lanes);
}

}  // namespace octet::cuda
