// A row on its way to codes, in the registers of a few threads: loaded as f32, shifted, rotated, equalised,
// NaN and Inf confined. Eight neighbouring channels a thread; the threads of a row are a power of two within
// a warp. Every lane of a warp takes part in what is said to be of the warp.
#pragma once
#include <cstdint>

#include "cuda/quant/places.cuh"
#include "numerics/formats.h"
#include "octet/types.hpp"
#include "quant/rows.h"

namespace octet::cuda {

using quant::is_finite;
using quant::kAbsMask;
using quant::kInfBits;
using quant::row_offset;

inline constexpr int kChannels = 8;  ///< of a thread: 16 bytes of a 16-bit input
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

  __device__ int lanes() const { return 1 << lanes_log2; }
  __device__ std::int64_t unit_offset(const TensorView& of, const Place& p) const {
    return row_offset(of, p.b, p.h, order.sequences.cu_seqlens ? p.s : 0);
  }
};

/// Of a thread: its first channel, and its rows among those of its block.
struct Lane {
  int channel;
  int row;  ///< among the rows that the block's threads have beside each other
  int rows_at_once;

  __device__ explicit Lane(const RowReading& r) {
    const int thread = static_cast<int>(threadIdx.x);
    channel = (thread & (r.lanes() - 1)) * kChannels;
    row = thread >> r.lanes_log2;
    rows_at_once = static_cast<int>(blockDim.x) >> r.lanes_log2;
  }
};

/// Eight elements as they are stored. Stored: std::uint16_t (f16 and bf16) or float.
template <class Stored>
struct Raw {
  static constexpr int kVectors = kChannels * sizeof(Stored) / 16;
  uint4 v[kVectors];
};

/// Elements [channel, channel + 8) of the row at `offset`, zeros beyond the row.
template <class Stored>
__device__ Raw<Stored> load_raw(const RowReading& r, const Place& p, int channel) {
  Raw<Stored> raw{};
  if (!p.exists || channel >= r.dim) return raw;
  const Stored* from = static_cast<const Stored*>(r.x.data) + row_offset(r.x, p.b, p.h, p.t);
  if (r.in_vectors && channel + kChannels <= r.dim) {
    const auto* vectors = reinterpret_cast<const uint4*>(from + channel);
#pragma unroll
    for (int i = 0; i < Raw<Stored>::kVectors; ++i) raw.v[i] = __ldg(vectors + i);
    return raw;
  }
  std::uint32_t words[4 * Raw<Stored>::kVectors] = {};
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
  for (int i = 0; i < Raw<Stored>::kVectors; ++i)
    raw.v[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  return raw;
}

template <class Stored>
__device__ void to_floats(const Raw<Stored>& raw, DType dtype, float (&v)[kChannels]) {
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
      for (int i = 0; i < kChannels; i += 2) {
        v[i] = f32_from_f16_code(words[i / 2] & 0xffffu);
        v[i + 1] = f32_from_f16_code(words[i / 2] >> 16);
      }
    }
  }
}

/// What a thread's channels of a sequence are shifted and multiplied by, loaded anew where the sequence
/// changes.
struct Steps {
  float shift[kChannels] = {}, equaliser[kChannels] = {};
  float factor[kChannels] = {};
  std::int32_t b = -1, h = -1, s = -1;

  __device__ Steps(const RowReading& r, int channel) {
    const std::uint32_t signs = r.sign[channel / kWarp] >> (channel % kWarp);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) factor[i] = float_of(bits_of(r.norm) ^ (signs >> i << 31));
  }

  __device__ void enter(const RowReading& r, const Place& p, int channel) {
    if (!p.exists || (p.s == s && p.h == h && p.b == b)) return;
    s = p.s, h = p.h, b = p.b;
    if (r.shift.data) {
      const float* from = static_cast<const float*>(r.shift.data) + r.unit_offset(r.shift, p);
#pragma unroll
      for (int i = 0; i < kChannels; ++i) shift[i] = channel + i < r.dim ? from[channel + i] : 0.0f;
    }
    if (r.exponent.data) {
      const auto* from = static_cast<const std::int32_t*>(r.exponent.data) + r.unit_offset(r.exponent, p);
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        equaliser[i] = channel + i < r.channels ? power_of_two(-from[channel + i]) : 0.0f;
    }
  }
};

/// The butterfly over blocks of channels; of the warp.
__device__ inline void butterfly(float (&v)[kChannels], int block, int channel) {
#pragma unroll
  for (int stride = 1; stride < kChannels; stride *= 2) {
    if (stride >= block) return;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i & stride) continue;
      const float a = v[i], b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
  }
  for (int stride = kChannels; stride < block; stride *= 2) {
    const float own = channel & stride ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, v[i], stride / kChannels);
      // note: a + b where v is a, a - b where it is b: the product is exact, so this is one addition.
      v[i] = __fmaf_rn(v[i], own, other);
    }
  }
}

/// (x - shift) rotated, times 2^-exponent; of the warp.
template <class Stored>
__device__ void transform(const RowReading& r, const Raw<Stored>& raw, const Steps& steps, int channel,
                          float (&v)[kChannels]) {
  to_floats(raw, r.x.dtype, v);
  if (r.shift.data) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = v[i] - steps.shift[i];
  }
  if (r.hadamard > 0) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = v[i] * steps.factor[i];
    butterfly(v, r.hadamard, channel);
  }
  if (r.exponent.data) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = v[i] * steps.equaliser[i];
  }
}

__device__ inline std::uint32_t size_bits(float x) { return bits_of(x) & kAbsMask; }

/// The largest bits of |v|, those of NaN and Inf among them.
__device__ inline std::uint32_t largest_bits(const float (&v)[kChannels]) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kChannels; ++i) most = max(most, size_bits(v[i]));
  return most;
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
/// peak with NaN and Inf is `peak`; of the warp.
__device__ inline std::uint32_t confined(const RowReading& r, std::uint32_t peak, float (&v)[kChannels],
                                         std::uint32_t* non_finite) {
  if (__all_sync(kAllLanes, peak < kInfBits)) return peak;
  if (r.confine == Confine::row) {
    if (peak < kInfBits) return peak;
    if (non_finite) *non_finite = 1;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = 0;
    return 0;
  }
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    most = max(most, finite_bits(v[i]));
    if (r.confine == Confine::infinity && !is_finite(v[i])) v[i] = float_of(kF32QuietNan);
  }
  return largest_of_row(most, r.lanes());
}

}  // namespace octet::cuda
