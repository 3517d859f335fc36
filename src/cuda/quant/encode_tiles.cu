// Codes of what calls spend their time on: s8 of 16-bit rows whose channels are 32, 64, 128 or 256, aligned,
// and with one scale a token, key block or sequence. A block of threads has a tile of tokens of one sequence
// and head, so that what belongs to these is loaded once.
#include "cuda/quant/cp_async.cuh"
#include "cuda/quant/encode_tiles.cuh"
#include "cuda/quant/launch.cuh"
#include "quant/codes.h"

namespace octet::cuda {
namespace {

/// How a row lies in threads: so many vectors of eight channels each.
template <int kVectors_, int kLanes_>
struct RowShape {
  static constexpr int kVectors = kVectors_, kLanes = kLanes_;
  static constexpr int kCount = kChannels * kVectors;  // channels of a thread
  static constexpr int kDim = kCount * kLanes;
  static constexpr int kRowsAtOnce = kThreads / kLanes;
};

/// What is done to rows before they become codes.
enum class Work { multiplied, rotated, shifted_and_rotated };

/// Rows on their way: a thread's vectors of as many of its rows, which no other thread looks at.
template <class Shape>
struct Ring {
  static constexpr int kRows = 4;  // 48 KB of two blocks on their way
  uint4 vectors[kRows][Shape::kVectors][kThreads];

  /// The thread's row number `i`, at `from`; a group of copies, empty where the row does not exist.
  __device__ void ask_for(int i, const std::uint16_t* from, bool exists) {
    if (exists) {
#pragma unroll
      for (int j = 0; j < Shape::kVectors; ++j)
        copy_async(&vectors[i % kRows][j][threadIdx.x], from + j * Shape::kLanes * kChannels);
    }
    commit_copies();
  }
  __device__ RawRow<std::uint16_t, Shape::kVectors> take(int i) const {
    wait_for_copies<kRows - 2>();
    RawRow<std::uint16_t, Shape::kVectors> raw;
#pragma unroll
    for (int j = 0; j < Shape::kVectors; ++j) raw.v[j].v[0] = vectors[i % kRows][j][threadIdx.x];
    return raw;
  }
};

/// Four numbers of each of a thread's vectors at a time, from memory that all rows share.
template <class Shape, class Use>
__device__ void for_fours(const Use& use) {
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    use(j * kChannels, j * Shape::kLanes * kChannels);
    use(j * kChannels + 4, j * Shape::kLanes * kChannels + 4);
  }
}

/// The butterfly of a row of kDim channels; of the warp.
template <class Shape>
__device__ void rotate(float (&v)[Shape::kCount], int lane) {
  stage<Shape::kCount, 1>(v);
  stage<Shape::kCount, 2>(v);
  stage<Shape::kCount, 4>(v);
#pragma unroll
  for (int distance = 1; distance < Shape::kLanes; distance *= 2) {
    const float own = lane & distance ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < Shape::kCount; ++i)
      v[i] = __fmaf_rn(v[i], own, __shfl_xor_sync(kAllLanes, v[i], distance));  // as in butterfly()
  }
  if constexpr (Shape::kVectors > 1) stage<Shape::kCount, kChannels>(v);
  if constexpr (Shape::kVectors > 2) stage<Shape::kCount, 2 * kChannels>(v);
}

__device__ std::uint32_t four_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  constexpr std::uint32_t kLowBytes = 0x0040, kLowHalves = 0x5410;
  return __byte_perm(__byte_perm(a, b, kLowBytes), __byte_perm(c, d, kLowBytes), kLowHalves);
}

/// The codes of a thread's channels of a row; no code is beyond +-127.
template <class Shape>
__device__ void write_row(const float (&v)[Shape::kCount], float rscale, std::int8_t* to) {
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    std::uint32_t code[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      code[i] = bits_of(v[j * kChannels + i] * rscale + quant::kRoundToInteger);
    *reinterpret_cast<uint2*>(to + j * Shape::kLanes * kChannels) = {
        four_bytes(code[0], code[1], code[2], code[3]), four_bytes(code[4], code[5], code[6], code[7])};
  }
}

template <class Shape, Work kWork>
__global__ __launch_bounds__(kThreads, 3) void encode_tiles(const __grid_constant__ RowReading r,
                                                            const __grid_constant__ Coding k,
                                                            const __grid_constant__ Groups tiles) {
  constexpr int kCount = Shape::kCount;
  __shared__ float4 factors[Shape::kDim / 4], shifts[Shape::kDim / 4];
  __shared__ std::uint32_t tile_peak;
  extern __shared__ uint4 ring_memory[];
  auto& ring = *reinterpret_cast<Ring<Shape>*>(ring_memory);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % Shape::kLanes,
            row = thread / Shape::kLanes;
  const Sequences& sequences = r.order.sequences;
  const auto heads = static_cast<std::int32_t>(r.x.shape[1]);
  const std::uint32_t index = k.last_first ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const TokenGroup tile = group_at(tiles, sequences, heads, index);
  if (tile.length == 0) return;
  Place place;
  place.b = tile.b, place.h = tile.h, place.s = tile.s, place.t = tile.begin;
  place.begin = static_cast<std::int32_t>(sequences.begin(tile.s)), place.exists = true;
  if (thread == 0) tile_peak = 0;
  if (thread < Shape::kDim) {  // what all rows of the tile have in common
    float factor = 1;
    if (kWork != Work::multiplied)
      factor = r.factor(thread);
    else if (r.exponent.data)
      factor = power_of_two(
          -static_cast<const std::int32_t*>(r.exponent.data)[r.unit_offset(r.exponent, place) + thread]);
    reinterpret_cast<float*>(factors)[thread] = factor;
    if (kWork == Work::shifted_and_rotated)
      reinterpret_cast<float*>(shifts)[thread] =
          static_cast<const float*>(r.shift.data)[r.unit_offset(r.shift, place) + thread];
  }
  __syncthreads();
  const int channel = lane * kChannels;
  float floor = measured_floor(r, k.making, place);
  quant::Scale of_all;
  if (k.scale_of == ScaleOf::group && k.tile == Tile::none)
    of_all.rscale = k.rscale[k.groups.slot(sequences, heads, place)];

  const auto* begin = static_cast<const std::uint16_t*>(r.x.data) +
                      row_offset(r.x, tile.b, tile.h, tile.begin + row) + channel;
  const std::int64_t step = Shape::kRowsAtOnce * r.x.stride[2],
                     code_step = Shape::kRowsAtOnce * k.codes.stride[2],
                     scale_step = Shape::kRowsAtOnce * k.scales.stride[2];
  std::uint32_t most = 0;           // of the thread's rows
  float least = float_of(kF32Inf);  // of their scales
  // Once, and again where the tile's largest element changes something.
  for (int round = 0;; ++round) {
    const bool only_looks = k.tile == Tile::scale && round == 0;
    const std::uint16_t* from = begin;
    std::int8_t* to = static_cast<std::int8_t*>(k.codes.data) +
                      row_offset(k.codes, tile.b, tile.h, tile.begin + row) + channel;
    std::int64_t scale = row_offset(k.scales, tile.b, tile.h, tile.begin + row);
    int asked = row;
    const auto ask_for_next = [&](int i) {
      ring.ask_for(i, from, asked < tile.length);
      from += step, asked += Shape::kRowsAtOnce;
    };
#pragma unroll
    for (int i = 0; i < Ring<Shape>::kRows - 1; ++i) ask_for_next(i);
    for (int i = 0; i * Shape::kRowsAtOnce < tile.length; ++i) {
      const bool exists = i * Shape::kRowsAtOnce + row < tile.length;
      float v[kCount];
      to_floats(ring.take(i), r.x.dtype, v);
      ask_for_next(i + Ring<Shape>::kRows - 1);

      if constexpr (kWork == Work::shifted_and_rotated)
        for_fours<Shape>([&](int i, int at) {
          const float4 x = shifts[(channel + at) / 4];
          v[i] = v[i] - x.x, v[i + 1] = v[i + 1] - x.y, v[i + 2] = v[i + 2] - x.z, v[i + 3] = v[i + 3] - x.w;
        });
      for_fours<Shape>([&](int i, int at) {
        const float4 x = factors[(channel + at) / 4];
        v[i] = v[i] * x.x, v[i + 1] = v[i + 1] * x.y, v[i + 2] = v[i + 2] * x.z, v[i + 3] = v[i + 3] * x.w;
      });
      if constexpr (kWork != Work::multiplied) rotate<Shape>(v, lane);
      std::uint32_t peak = largest_bits(v);
#pragma unroll
      for (int distance = 1; distance < Shape::kLanes; distance *= 2)
        peak = max(peak, __shfl_xor_sync(kAllLanes, peak, distance));
      peak = confined(r, exists ? peak : 0, v, k.non_finite);
      most = max(most, peak);
      if (!only_looks && exists) {
        float rscale = of_all.rscale;
        if (k.scale_of == ScaleOf::token) {
          const quant::Scale s = k.making.of(float_of(peak), floor);
          least = fminf(least, s.scale);
          if (lane == 0) static_cast<float*>(k.scales.data)[scale] = s.scale;
          rscale = s.rscale;
        }
        write_row<Shape>(v, rscale, to);
      }
      to += code_step, scale += scale_step;
    }
    if (k.tile == Tile::none || round == 1) return;
    most = __reduce_max_sync(kAllLanes, most);
    if (thread % kWarp == 0) atomicMax(&tile_peak, most);
    __syncthreads();
    const float amax = float_of(tile_peak);
    if (k.tile == Tile::floor) {
      // A larger amax has no smaller scale, so the largest scale is that of the largest amax. Few tokens have
      // smaller ones than its floor, if any.
      floor = fmaxf(floor, quant::scale_floor(k.making.of(amax, 0).scale, k.making.block_floor.octaves));
      if (!__any_sync(kAllLanes, least < floor)) return;
    } else {
      of_all = k.making.of(amax, floor);
      const std::int64_t first = sequences.cu_seqlens ? k.first_group[tile.s] : 0;
      if (thread == 0)
        static_cast<float*>(k.scales.data)[row_offset(k.scales, tile.b, tile.h, first + tile.index)] =
            of_all.scale;
    }
  }
}

template <class Shape>
void launch_shape(const RowReading& rows, const Coding& coding, const Groups& tiles, void* stream) {
  const auto blocks = static_cast<std::uint32_t>(tiles.slots());
  const cudaStream_t on = stream_of(stream);
  RowReading r = rows;
  r.lanes_log2 = 0;
  while ((1 << r.lanes_log2) < Shape::kLanes) ++r.lanes_log2;
  const auto launch = [&](auto* kernel) {
    constexpr int kBytes = sizeof(Ring<Shape>);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<blocks, kThreads, kBytes, on>>>(r, coding, tiles);
  };
  if (rows.hadamard == 0)
    launch(encode_tiles<Shape, Work::multiplied>);
  else if (rows.shift.data)
    launch(encode_tiles<Shape, Work::shifted_and_rotated>);
  else
    launch(encode_tiles<Shape, Work::rotated>);
}

}  // namespace

bool takes_tiles(const RowReading& rows, const Coding& coding) {
  const bool is_16_bit = rows.x.dtype == DType::bf16 || rows.x.dtype == DType::f16;
  const bool has_dim = rows.dim == 32 || rows.dim == 64 || rows.dim == 128 || rows.dim == 256;
  const bool is_work =
      rows.hadamard == 0 ? !rows.shift.data : rows.hadamard == rows.dim && !rows.exponent.data;
  const ScaleMaking& making = coding.making;
  const bool floor_is_far = making.block_floor.octaves > 0 && making.block_floor.amax;
  return is_16_bit && rows.in_vectors && has_dim && rows.channels == rows.dim && is_work &&
         coding.codes.dtype == DType::s8 && coding.in_vectors && !coding.clamps &&
         coding.channel_groups == 1 && !floor_is_far;
}

void launch_encode_tiles(const RowReading& rows, const Coding& coding, void* stream) {
  Groups tiles = coding.groups;
  if (coding.tile == Tile::none) {
    // Several rows a thread, the next one on its way while one is computed, once all processors have some.
    constexpr std::int64_t kTokens = 256, kFewTokens = 64, kManyRows = 65536;
    const Sequences& sequences = rows.order.sequences;
    tiles = Groups(rows.x.shape, sequences.cu_seqlens ? sequences.count : 0,
                   rows.order.rows >= kManyRows ? kTokens : kFewTokens);
  }
  switch (rows.dim) {
    case 32:
      return launch_shape<RowShape<1, 4>>(rows, coding, tiles, stream);
    case 64:
      return launch_shape<RowShape<2, 4>>(rows, coding, tiles, stream);
    case 128:
      return launch_shape<RowShape<4, 4>>(rows, coding, tiles, stream);
    default:
      return launch_shape<RowShape<4, 8>>(rows, coding, tiles, stream);
  }
}

}  // namespace octet::cuda
