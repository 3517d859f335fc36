// Groups' amax, their scales, and codes.
#include "cuda/quant/encode.cuh"
#include "cuda/quant/launch.cuh"
#include "quant/codes.h"

namespace octet::cuda {
namespace {

/// Rows of a thread, loaded together so that their addresses are on their way beside each other.
constexpr int kRows = 4;

/// *slot = max(*slot, bits). note: one word may be everybody's, and most do not change it.
__device__ void raise(std::uint32_t* slot, std::uint32_t bits) {
  if (*static_cast<volatile std::uint32_t*>(slot) < bits) atomicMax(slot, bits);
}

// --- amax of groups

/// The largest bits that a thread saw since the group changed.
struct Seen {
  std::int64_t slot = -1;
  std::uint32_t most[kChannels] = {};

  __device__ void flush(const GroupAmax& amax, int channel, int channels) {
    if (slot < 0) return;
    if (amax.channel_groups == 1) {
      if (channel == 0 && most[0] > 0) raise(amax.bits + slot, most[0]);
    } else {
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        if (channel + i < channels && most[i] > 0)
          raise(amax.bits + slot * amax.channel_groups + channel + i, most[i]);
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) most[i] = 0;
  }
};

constexpr int kMeasuredRows = 16;  // of a thread, so that few reach memory that others want to change

template <class Stored>
__global__ __launch_bounds__(kThreads) void measure_rows(const __grid_constant__ RowReading r,
                                                         const __grid_constant__ GroupAmax amax) {
  const Lane lane(r);
  Steps steps(r, lane.channel);
  Seen seen;
  std::uint32_t row =
      (blockIdx.x * static_cast<std::uint32_t>(lane.rows_at_once) + static_cast<std::uint32_t>(lane.row)) *
      kMeasuredRows;
  Place next = r.order.at(row);
  for (int batch = 0; batch < kMeasuredRows; batch += kRows) {
    Raw<Stored> raw[kRows];
    Place p = next;
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      raw[u] = load_raw<Stored>(r, next, lane.channel);
      r.order.step(next, ++row);
    }
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      steps.enter(r, p, lane.channel);
      float v[kChannels];
      transform(r, raw[u], steps, lane.channel, v);
      const std::uint32_t peak = confined(r, largest_of_row(largest_bits(v), r.lanes()), v, nullptr);
      if (p.exists) {
        const std::int64_t slot =
            amax.groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), p);
        if (slot != seen.slot) {
          seen.flush(amax, lane.channel, r.channels);
          seen.slot = slot;
        }
        if (amax.channel_groups == 1) {
          seen.most[0] = max(seen.most[0], peak);
        } else {
#pragma unroll
          for (int i = 0; i < kChannels; ++i) seen.most[i] = max(seen.most[i], finite_bits(v[i]));
        }
      }
      r.order.step(p, row - kRows + static_cast<std::uint32_t>(u) + 1);
    }
  }
  seen.flush(amax, lane.channel, r.channels);
}

// --- Scales of groups

/// One block: the groups before each sequence, summed by threads of as many sequences each.
__global__ __launch_bounds__(1024) void sum_groups(const __grid_constant__ Sequences sequences,
                                                   const __grid_constant__ Divider tokens,
                                                   std::int64_t* first_group) {
  __shared__ std::int64_t sums[1024];
  const std::int64_t each = (sequences.count + blockDim.x - 1) / blockDim.x;
  const std::int64_t begin = min(each * threadIdx.x, sequences.count),
                     end = min(begin + each, sequences.count);
  const auto groups = [&](std::int64_t s) {
    return tokens.quotient(static_cast<std::uint32_t>(sequences.length(s)) + tokens.divisor - 1);
  };
  std::int64_t sum = 0;
  for (std::int64_t s = begin; s < end; ++s) sum += groups(s);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
    const std::int64_t before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  std::int64_t first = sums[threadIdx.x] - sum;
  for (std::int64_t s = begin; s < end; ++s) {
    first_group[s] = first;
    first += groups(s);
  }
}

__device__ float floor_of(const ScaleMaking& making, const Floor& floor, std::int64_t slot) {
  if (floor.octaves == 0) return 0;
  const float amax = making.is_shared() ? making.shared() : float_of(floor.amax[slot]);
  return quant::scale_floor(making.of(amax, 0).scale, floor.octaves);
}

__global__ __launch_bounds__(kThreads) void write_scales(const __grid_constant__ ScaleWriting w,
                                                         const __grid_constant__ ScaleMaking making) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t slot = index / w.channel_groups;
  if (slot >= w.groups.slots()) return;
  const std::int64_t channel = index - slot * w.channel_groups;
  const Sequences& sequences = w.order.sequences;
  TensorView scales = w.scales;
  float floor = 0;
  std::int64_t place = 0;
  if (!w.groups.is_one) {
    const auto heads = static_cast<std::int32_t>(w.order.heads.divisor);
    const TokenGroup g = group_at(w.groups, sequences, heads, static_cast<std::uint32_t>(slot));
    if (w.groups.tokens > 0 && g.length == 0) return;
    Place p;
    p.b = g.b, p.h = g.h, p.s = g.s, p.t = p.begin = static_cast<std::int32_t>(sequences.begin(g.s));
    if (making.head_floor.octaves > 0)
      floor = floor_of(making, making.head_floor, making.head_floor.groups.slot(sequences, heads, p));
    const std::int64_t first = !sequences.cu_seqlens ? 0 : w.groups.tokens == 0 ? g.s : w.first_group[g.s];
    place = row_offset(scales, g.b, g.h, first + g.index) + channel * scales.stride[3];
  }
  const float amax = making.is_shared() ? making.shared() : float_of(w.amax[index]);
  const quant::Scale s = making.of(amax, floor);
  static_cast<float*>(scales.data)[place] = s.scale;
  w.rscale[index] = s.rscale;
}

// --- Codes

/// Eight codes of one thread as bytes in their order.
template <int kBytes>
struct Packed {
  std::uint32_t words[kBytes / 4];
};

template <int kBytes>
__device__ void store(const Coding& k, std::int64_t byte_offset, const Packed<kBytes>& packed, int bytes) {
  auto* to = static_cast<unsigned char*>(k.codes.data) + byte_offset;
  if (k.in_vectors && bytes == kBytes) {
    if constexpr (kBytes == 4) {
      *reinterpret_cast<std::uint32_t*>(to) = packed.words[0];
    } else if constexpr (kBytes == 8) {
      *reinterpret_cast<uint2*>(to) = {packed.words[0], packed.words[1]};
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        reinterpret_cast<uint4*>(to)[i] = {packed.words[4 * i], packed.words[4 * i + 1],
                                           packed.words[4 * i + 2], packed.words[4 * i + 3]};
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kBytes; ++i)
    if (i < bytes) to[i] = static_cast<unsigned char>(packed.words[i / 4] >> (i % 4 * 8));
}

template <class Code>
__device__ Packed<8> packed_bytes(const float (&v)[kChannels], const Code& code) {
  Packed<8> p{};
#pragma unroll
  for (int i = 0; i < kChannels; ++i) p.words[i / 4] |= (code(v[i]) & 0xffu) << (i % 4 * 8);
  return p;
}

template <class Code>
__device__ Packed<16> packed_halves(const float (&v)[kChannels], const Code& code) {
  Packed<16> p{};
#pragma unroll
  for (int i = 0; i < kChannels; ++i) p.words[i / 2] |= (code(v[i]) & 0xffffu) << (i % 2 * 16);
  return p;
}

/// Channels [channel, channel + 8) of row p, from what the scale has been taken off.
__device__ void write_codes(const Coding& k, const Place& p, int channel, int channels,
                            const float (&v)[kChannels]) {
  const int count = min(kChannels, channels - channel);
  if (count <= 0) return;
  const std::int64_t offset = row_offset(k.codes, p.b, p.h, p.t) + channel;
  switch (k.codes.dtype) {
    case DType::s8:
      if (k.clamps)
        return store(k, offset,
                     packed_bytes(v, [](float x) { return as_unsigned(quant::nearest_code(x, 127.0f)); }),
                     count);
      return store(k, offset, packed_bytes(v, [](float x) { return bits_of(x + quant::kRoundToInteger); }),
                   count);
    case DType::s4: {
      Packed<4> p4{};
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        p4.words[0] |= (as_unsigned(quant::nearest_code(v[i], 7.0f)) & 0xfu) << (4 * i);
      if (count < kChannels) p4.words[0] &= (1u << (4 * count)) - 1;  // the last nibble of an odd dim is 0
      return store(k, offset / 2, p4, (count + 1) / 2);
    }
    case DType::e4m3:
      return store(k, offset, packed_bytes(v, [](float x) { return e4m3_code_from_f32(x); }), count);
    case DType::e5m2:
      return store(k, offset, packed_bytes(v, [](float x) { return e5m2_code_from_f32(x); }), count);
    case DType::f16:
      return store(k, 2 * offset, packed_halves(v, [](float x) { return f16_code_from_f32(x); }), 2 * count);
    case DType::bf16:
      return store(k, 2 * offset, packed_halves(v, [](float x) { return bf16_code_from_f32(x); }), 2 * count);
    case DType::f64: {
      double* to = static_cast<double*>(k.codes.data) + offset;
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        if (i < count) to[i] = static_cast<double>(v[i]);
      return;
    }
    default: {
      Packed<32> p32;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) p32.words[i] = bits_of(v[i]);
      return store(k, 4 * offset, p32, 4 * count);
    }
  }
}

/// The scale of one token, from its own amax and the floors.
__device__ quant::Scale token_scale(const RowReading& r, const Coding& k, const Place& p,
                                    std::uint32_t peak) {
  const ScaleMaking& making = k.making;
  const auto heads = static_cast<std::int32_t>(r.x.shape[1]);
  float floor = 0;
  if (making.head_floor.octaves > 0)
    floor = floor_of(making, making.head_floor, making.head_floor.groups.slot(r.order.sequences, heads, p));
  if (making.block_floor.octaves > 0)
    floor = fmaxf(floor, floor_of(making, making.block_floor,
                                  making.block_floor.groups.slot(r.order.sequences, heads, p)));
  return making.of(making.is_shared() ? making.shared() : float_of(peak), floor);
}

template <class Stored>
__global__ __launch_bounds__(kThreads) void encode_rows(const __grid_constant__ RowReading r,
                                                        const __grid_constant__ Coding k) {
  const Lane lane(r);
  const std::uint32_t first =
      (blockIdx.x * static_cast<std::uint32_t>(lane.rows_at_once) + static_cast<std::uint32_t>(lane.row)) *
      kRows;
  Raw<Stored> raw[kRows];
  const Place begin = r.order.at(first);
  Place p = begin;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    raw[u] = load_raw<Stored>(r, p, lane.channel);
    r.order.step(p, first + static_cast<std::uint32_t>(u) + 1);
  }
  Steps steps(r, lane.channel);
  p = begin;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    steps.enter(r, p, lane.channel);
    float v[kChannels];
    transform(r, raw[u], steps, lane.channel, v);
    const std::uint32_t peak = k.scale_of == ScaleOf::nothing
                                   ? 0
                                   : confined(r, largest_of_row(largest_bits(v), r.lanes()), v, k.non_finite);
    if (p.exists) {
      if (k.scale_of == ScaleOf::token) {
        const quant::Scale s = token_scale(r, k, p, peak);
        if (lane.channel == 0)
          static_cast<float*>(k.scales.data)[row_offset(k.scales, p.b, p.h, p.t)] = s.scale;
#pragma unroll
        for (int i = 0; i < kChannels; ++i) v[i] = v[i] * s.rscale;
      } else if (k.scale_of == ScaleOf::group) {
        const std::int64_t slot =
            k.groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), p);
        const float* rscale = k.rscale + slot * k.channel_groups;
        const bool by_channel = k.channel_groups > 1;
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
          v[i] = v[i] *
                 (by_channel ? (lane.channel + i < r.channels ? rscale[lane.channel + i] : 0.0f) : rscale[0]);
      }
      write_codes(k, p, lane.channel, r.channels, v);
    }
    r.order.step(p, first + static_cast<std::uint32_t>(u) + 1);
  }
}

}  // namespace

void launch_measure(const RowReading& rows, const GroupAmax& amax, void* stream) {
  const std::uint32_t blocks = blocks_for(rows, kMeasuredRows);
  if (rows.x.dtype == DType::f32)
    measure_rows<float><<<blocks, kThreads, 0, stream_of(stream)>>>(rows, amax);
  else
    measure_rows<std::uint16_t><<<blocks, kThreads, 0, stream_of(stream)>>>(rows, amax);
}

void launch_first_groups(const Sequences& sequences, std::int64_t tokens, std::int64_t* first_group,
                         void* stream) {
  sum_groups<<<1, 1024, 0, stream_of(stream)>>>(sequences, Divider(tokens), first_group);
}

void launch_scales(const ScaleWriting& writing, const ScaleMaking& making, void* stream) {
  const std::int64_t count = writing.groups.slots() * writing.channel_groups;
  write_scales<<<static_cast<std::uint32_t>((count + kThreads - 1) / kThreads), kThreads, 0,
                 stream_of(stream)>>>(writing, making);
}

void launch_encode(const RowReading& rows, const Coding& coding, void* stream) {
  const std::uint32_t blocks = blocks_for(rows, kRows);
  if (rows.x.dtype == DType::f32)
    encode_rows<float><<<blocks, kThreads, 0, stream_of(stream)>>>(rows, coding);
  else
    encode_rows<std::uint16_t><<<blocks, kThreads, 0, stream_of(stream)>>>(rows, coding);
}

}  // namespace octet::cuda
