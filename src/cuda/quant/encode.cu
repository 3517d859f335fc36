// Groups' amax, their scales, and codes.
#include <algorithm>

#include "cuda/ptx/grid.cuh"
#include "cuda/quant/encode.cuh"
#include "cuda/quant/encode_tiles.cuh"
#include "cuda/quant/encode_tokens.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plain_rows.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/runtime/launch.cuh"

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

/// Of a thread: many, so that few reach memory that others want to change, or few, where processors would be
/// left without, of 16 bits; a launch has several operands then.
constexpr int kManyRows = 16, kFewRows = kRows;

struct MeasuredOperands {
  MeasuredRows of[kMostTogether];
};

template <class Stored, int kRowsOfThread>
__global__ void __launch_bounds__(kThreads, 2)
    measure_rows(const __grid_constant__ MeasuredOperands operands) {
  __shared__ Factors factors;
  // note: parameters that are found by an index cost long measures time (docs/cuda-measurements.md).
  const MeasuredRows& operand = operands.of[kRowsOfThread == kFewRows ? blockIdx.y : 0];
  const RowReading& r = operand.rows;
  const GroupAmax& amax = operand.amax;
  factors.fill(r);
  const Begun begun(r.begin);
  const Lane lane(r);
  Steps<1> steps;
  Seen seen;
  std::uint32_t row =
      (blockIdx.x * static_cast<std::uint32_t>(lane.rows_at_once) + static_cast<std::uint32_t>(lane.row)) *
      kRowsOfThread;
  Place next = r.order.at(row);
  for (int batch = 0; batch < kRowsOfThread; batch += kRows) {
    RawRow<Stored, 1> raw[kRows];
    Place p = next;
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      raw[u] = load_row<Stored, 1>(r, lane, next.exists, row_offset(r.x, next.b, next.h, next.t));
      r.order.step(next, ++row);
    }
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      steps.enter(r, lane, p);
      float v[kChannels];
      to_floats(raw[u], r.x.dtype, v);
      transform(r, lane, steps, factors.of, v);
      const std::uint32_t peak =
          confined(r, largest_of_row(largest_bits(v), r.lanes()), r.lanes(), v, nullptr);
      if (p.exists) {
        const std::int64_t slot =
            amax.groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), p);
        if (slot != seen.slot) {
          seen.flush(amax, lane.first, r.channels);
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
  if (amax.groups.is_one && amax.channel_groups == 1) {
    // One of a warp reaches the word that all want.
    const std::uint32_t most = __reduce_max_sync(kAllLanes, seen.most[0]);
    seen.most[0] = threadIdx.x % kWarp == 0 ? most : 0;
    seen.slot = 0;
  }
  seen.flush(amax, lane.first, r.channels);
}

// --- Scales of groups

/// One block: the groups before each sequence, summed by threads of as many sequences each.
__global__ __launch_bounds__(1024) void sum_groups(const __grid_constant__ Sequences sequences,
                                                   const __grid_constant__ Divider tokens,
                                                   std::int64_t* first_group) {
  __shared__ std::int64_t sums[1024];
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
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

__global__ __launch_bounds__(kThreads) void write_scales(const __grid_constant__ ScaleWriting w,
                                                         const __grid_constant__ ScaleMaking making) {
  const Begun begun(w.begin);
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
    const TokenGroup g = group_at(w.groups, sequences, w.order.heads, static_cast<std::uint32_t>(slot));
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

/// One row after the other, so many rows apart, and where its elements, codes and scale lie.
struct RowCursor {
  Place p;
  std::uint32_t row;
  std::int64_t from, codes, scale;

  __device__ RowCursor(const RowReading& r, const Coding& k, std::uint32_t first) : row(first) { find(r, k); }

  __device__ void advance(const RowReading& r, const Coding& k, int rows) {
    row += static_cast<std::uint32_t>(rows);
    if (!p.exists || p.t + rows >= p.begin + p.length) return find(r, k);
    p.t += rows;
    from += rows * r.x.stride[2], codes += rows * k.codes.stride[2], scale += rows * k.scales.stride[2];
  }

 private:
  __device__ void find(const RowReading& r, const Coding& k) {
    p = r.order.at(row);
    from = row_offset(r.x, p.b, p.h, p.t);
    codes = row_offset(k.codes, p.b, p.h, p.t);
    scale = row_offset(k.scales, p.b, p.h, p.t);
  }
};

__device__ float row_floor(const RowReading& r, const ScaleMaking& making, std::uint32_t row) {
  const bool is_measured =
      making.head_floor.octaves > 0 || (making.block_floor.octaves > 0 && making.block_floor.amax);
  return is_measured ? measured_floor(r, making, r.order.at(row)) : 0.0f;
}

/// Rows [first, first + count) of a block, a tile or not.
struct BlockRows {
  TokenGroup tile;
  std::uint32_t first, count;

  __device__ BlockRows(const RowReading& r, const Coding& k) {
    const std::uint32_t index = blockIdx.x;
    if (k.tile == Tile::none) {
      first = index * static_cast<std::uint32_t>(k.rows_of_block);
      count = min(static_cast<std::uint32_t>(k.rows_of_block), r.order.rows - first);
    } else {
      const auto heads = static_cast<std::int32_t>(r.x.shape[1]);
      tile = group_at(k.groups, r.order.sequences, r.order.heads, index);
      first = static_cast<std::uint32_t>((tile.b * heads + tile.h) * static_cast<std::int32_t>(r.x.shape[2]) +
                                         tile.begin);
      count = static_cast<std::uint32_t>(tile.length);
    }
  }
};

template <class Stored, int kVectors>
__global__ __launch_bounds__(kThreads, 2) void encode_rows(const __grid_constant__ RowReading r,
                                                           const __grid_constant__ Coding k) {
  constexpr int kCount = kChannels * kVectors;
  __shared__ Factors factors;
  __shared__ std::uint32_t tile_peak;
  if (threadIdx.x == 0) tile_peak = 0;
  factors.fill(r);
  const Begun begun(r.begin);
  const Lane lane(r);
  const BlockRows rows(r, k);
  const std::uint32_t end = rows.first + rows.count;
  const int iterations = static_cast<int>((rows.count + static_cast<std::uint32_t>(lane.rows_at_once) - 1) /
                                          static_cast<std::uint32_t>(lane.rows_at_once));
  const bool writes_words = k.in_vectors && k.codes.dtype == DType::s8 && !k.clamps;
  Steps<kVectors> steps;
  std::uint32_t most = 0;                      // of the thread's rows
  float least = float_of(kF32Inf), floor = 0;  // of their scales; of the tile
  quant::Scale of_tile;
  // Once, and again where the tile's largest element changes something.
  for (int round = 0;; ++round) {
    const bool looks = k.tile == Tile::scale && round == 0;
    RowCursor next(r, k, rows.first + static_cast<std::uint32_t>(lane.row));
    next.p.exists = next.p.exists && next.row < end;
    auto raw = load_row<Stored, kVectors>(r, lane, next.p.exists, next.from);
    for (int i = 0; i < iterations; ++i) {
      const std::uint32_t row = next.row;
      const std::int64_t codes = next.codes, scale = next.scale;
      const bool exists = next.p.exists;
      float v[kCount];
      to_floats(raw, r.x.dtype, v);
      steps.enter(r, lane, next.p);
      next.advance(r, k, lane.rows_at_once);
      next.p.exists = next.p.exists && next.row < end;
      raw = load_row<Stored, kVectors>(r, lane, next.p.exists, next.from);

      transform(r, lane, steps, factors.of, v);
      const std::uint32_t peak =
          k.scale_of == ScaleOf::nothing
              ? 0
              : confined(r, largest_of_row(largest_bits(v), r.lanes()), r.lanes(), v, k.non_finite);
      if (!exists) continue;
      most = max(most, peak);
      if (looks) continue;
      if (k.scale_of == ScaleOf::token) {
        const quant::Scale s = k.making.of(k.making.is_shared() ? k.making.shared() : float_of(peak),
                                           fmaxf(floor, row_floor(r, k.making, row)));
        least = fminf(least, s.scale);
        if (lane.first == 0) static_cast<float*>(k.scales.data)[scale] = s.scale;
#pragma unroll
        for (int c = 0; c < kCount; ++c) v[c] = v[c] * s.rscale;
      } else if (k.tile == Tile::scale) {
#pragma unroll
        for (int c = 0; c < kCount; ++c) v[c] = v[c] * of_tile.rscale;
      } else if (k.scale_of == ScaleOf::group) {
        const std::int64_t slot =
            k.groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), r.order.at(row));
        const float* rscale = k.rscale + slot * k.channel_groups;
        if (k.channel_groups == 1) {
          const float by = rscale[0];
#pragma unroll
          for (int c = 0; c < kCount; ++c) v[c] = v[c] * by;
        } else {
#pragma unroll
          for (int c = 0; c < kCount; ++c)
            v[c] = v[c] * (lane.channel(c) < r.channels ? rscale[lane.channel(c)] : 0.0f);
        }
      }
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        const int channel = lane.first + j * lane.step;
        if (channel >= r.channels) continue;
        if (writes_words && channel + kChannels <= r.channels)
          *reinterpret_cast<uint2*>(static_cast<std::int8_t*>(k.codes.data) + codes + channel) =
              codes_in_words(v + j * kChannels);
        else
          write_vector(k, codes + channel, r.channels - channel, Eight(v + j * kChannels));
      }
    }
    if (k.tile == Tile::none || round == 1) return;
    most = __reduce_max_sync(kAllLanes, most);
    if (threadIdx.x % kWarp == 0) atomicMax(&tile_peak, most);
    __syncthreads();
    const float amax = k.making.is_shared() ? k.making.shared() : float_of(tile_peak);
    if (k.tile == Tile::floor) {
      // A larger amax has no smaller scale, so the largest scale is that of the largest amax. Few tokens have
      // smaller ones than its floor, if any.
      floor = quant::scale_floor(k.making.of(amax, 0).scale, k.making.block_floor.octaves);
      if (!__any_sync(kAllLanes, least < floor)) return;
    } else {
      if (rows.count == 0) return;
      Place p;
      p.b = rows.tile.b, p.h = rows.tile.h, p.s = rows.tile.s, p.t = p.begin = rows.tile.begin;
      of_tile = k.making.of(amax, measured_floor(r, k.making, p));
      if (threadIdx.x == 0) {
        const std::int64_t first = r.order.sequences.cu_seqlens ? k.first_group[rows.tile.s] : 0;
        static_cast<float*>(
            k.scales.data)[row_offset(k.scales, rows.tile.b, rows.tile.h, first + rows.tile.index)] =
            of_tile.scale;
      }
    }
  }
}

template <class Stored, int kVectors>
void launch_vectors(const RowReading& rows, Coding coding, void* stream) {
  std::int64_t blocks = coding.groups.slots();
  if (coding.tile == Tile::none) {
    // Several rows a thread, the next one on its way while one is computed, once all processors have some.
    constexpr std::int64_t kManyBlocks = 1024;
    constexpr int kMostRows = 8;
    const int at_once = kThreads >> rows.lanes_log2;
    std::int64_t each = rows.order.rows / (kManyBlocks * at_once);
    each = each < 1 ? 1 : each > kMostRows ? kMostRows : each;
    coding.rows_of_block = static_cast<int>(each) * at_once;
    blocks = (rows.order.rows + coding.rows_of_block - 1) / coding.rows_of_block;
  }
  runtime::launch(encode_rows<Stored, kVectors>, static_cast<std::uint32_t>(blocks), kThreads, 0, stream,
                  rows, coding);
}

template <int kRowsOfThread>
void launch_measured(const MeasuredOperands& operands, std::uint32_t blocks, unsigned count, void* stream) {
  auto* kernel = measure_rows<std::uint16_t, kRowsOfThread>;
  if constexpr (kRowsOfThread == kManyRows)
    if (operands.of[0].rows.x.dtype == DType::f32) kernel = measure_rows<float, kRowsOfThread>;
  runtime::launch(kernel, dim3(blocks, count), kThreads, 0, stream, operands);
}

}  // namespace

void launch_measure(std::span<const MeasuredRows> operands, void* stream) {
  MeasuredOperands few{};
  std::uint32_t most = 0;
  unsigned count = 0;
  for (const MeasuredRows& x : operands) {
    const std::uint32_t blocks = blocks_for(x.rows, kManyRows);
    if (takes_plain(x) && (operands.size() == 1 || blocks >= processors())) {
      launch_measure_plain(x, stream);
      continue;
    }
    if (blocks >= processors() || x.rows.x.dtype == DType::f32) {
      launch_measured<kManyRows>({{x}}, blocks, 1, stream);
      continue;
    }
    few.of[count++] = x;
    most = std::max(most, blocks_for(x.rows, kFewRows));
  }
  if (count > 0) launch_measured<kFewRows>(few, most, count, stream);
}

void launch_first_groups(const Sequences& sequences, std::int64_t tokens, std::int64_t* first_group,
                         void* stream) {
  runtime::launch(sum_groups, 1, 1024, 0, stream, sequences, Divider(tokens), first_group);
}

void launch_scales(const ScaleWriting& writing, const ScaleMaking& making, void* stream) {
  const std::int64_t count = writing.groups.slots() * writing.channel_groups;
  runtime::launch(write_scales, static_cast<std::uint32_t>((count + kThreads - 1) / kThreads), kThreads, 0,
                  stream, writing, making);
}

void launch_encode(const RowReading& rows, const Coding& coding, void* stream) {
  if (takes_tokens(rows, coding)) return launch_encode_tokens(rows, coding, stream);
  if (takes_plain(rows, coding)) return launch_encode_plain(rows, coding, stream);
  if (takes_tiles(rows, coding)) return launch_encode_tiles(rows, coding, stream);
  // Few threads a row, for what is done once a row, as far as registers reach.
  constexpr int kMostVectors = 2, kFewLanes = 4;
  RowReading r = rows;
  const int vectors = (rows.channels + kChannels - 1) / kChannels;
  const int of_thread = vectors > kFewLanes ? kMostVectors : 1;
  r.lanes_log2 = 0;
  while ((of_thread << r.lanes_log2) < vectors) ++r.lanes_log2;
  if (rows.x.dtype == DType::f32)
    return of_thread == 1 ? launch_vectors<float, 1>(r, coding, stream)
                          : launch_vectors<float, 2>(r, coding, stream);
  return of_thread == 1 ? launch_vectors<std::uint16_t, 1>(r, coding, stream)
                        : launch_vectors<std::uint16_t, 2>(r, coding, stream);
}

}  // namespace octet::cuda
