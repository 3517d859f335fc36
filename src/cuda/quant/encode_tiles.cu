// Codes of s8 from 16-bit rows whose channels are 32, 64, 128 or 256, aligned, and with one scale a key block
// or sequence (encode_tokens.cu: a token). A block of threads has a tile of tokens of one sequence and head,
// so that what belongs to these is loaded once.
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/encode_tiles.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/runtime/launch.cuh"

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

/// Of which each processor has so many blocks at once: 24 warps of 80 registers.
constexpr int kTileBlocksOfProcessor = 3;

/// What is done to rows before they become codes: more than where a warp has them (segments.cuh).
enum class TileWork { multiplied, shifted, rotated, shifted_and_rotated };
constexpr bool is_shifted(TileWork work) {
  return work == TileWork::shifted || work == TileWork::shifted_and_rotated;
}
constexpr bool is_rotated(TileWork work) {
  return work == TileWork::rotated || work == TileWork::shifted_and_rotated;
}

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
        ptx::copy_async(ptx::shared_address(&vectors[i % kRows][j][threadIdx.x]),
                        from + j * Shape::kLanes * kChannels);
    }
    ptx::commit_copies();
  }
  __device__ RawRow<std::uint16_t, Shape::kVectors> take(int i) const {
    ptx::wait_copies<kRows - 2>();
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

/// The codes of a thread's channels of a row; no code is beyond +-127.
template <class Shape>
__device__ void write_row(const float (&v)[Shape::kCount], float rscale, std::int8_t* to) {
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    float at[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) at[i] = v[j * kChannels + i] * rscale;
    *reinterpret_cast<uint2*>(to + j * Shape::kLanes * kChannels) = codes_in_words(at);
  }
}

/// What all threads of a block know and seldom need, in shared memory, for registers are short: the group's
/// first row, its codes and scale, which comes from scratch memory or is the tile's.
struct Common {
  const std::uint16_t* from;
  std::int8_t* codes;
  float* scale;
  float rscale;
};

/// The group's first token.
__device__ Place place_of(const TokenGroup& group, const Sequences& sequences) {
  Place place;
  place.b = group.b, place.h = group.h, place.s = group.s, place.t = group.begin;
  place.begin = static_cast<std::int32_t>(sequences.begin(group.s)), place.exists = true;
  return place;
}

/// What all rows of a sequence and head have in common, a word a channel.
template <class Shape>
struct Words {
  float4 factors[Shape::kDim / 4], shifts[Shape::kDim / 4];

  /// Of the block; there after its next barrier.
  template <TileWork kWork>
  __device__ void put(const RowReading& r, const Place& place) {
    const int channel = static_cast<int>(threadIdx.x);
    if (channel >= Shape::kDim) return;
    float factor = 1;
    if (is_rotated(kWork))
      factor = r.factor(channel);
    else if (r.exponent.data)
      factor = power_of_two(
          -static_cast<const std::int32_t*>(r.exponent.data)[r.unit_offset(r.exponent, place) + channel]);
    reinterpret_cast<float*>(factors)[channel] = factor;
    if (is_shifted(kWork))
      reinterpret_cast<float*>(shifts)[channel] =
          static_cast<const float*>(r.shift.data)[r.unit_offset(r.shift, place) + channel];
  }
};

/// From a row's elements to the numbers that become codes; the largest of them, 0 of a row that does not
/// exist. Of the warp.
template <class Shape, TileWork kWork>
__device__ std::uint32_t transformed(const RowReading& r, const Coding& k, const Words<Shape>& words,
                                     int lane, bool exists, float (&v)[Shape::kCount]) {
  const int channel = lane * kChannels;
  if constexpr (is_shifted(kWork))
    for_fours<Shape>([&](int at, int c) {
      const float4 x = words.shifts[(channel + c) / 4];
      v[at] = v[at] - x.x, v[at + 1] = v[at + 1] - x.y;
      v[at + 2] = v[at + 2] - x.z, v[at + 3] = v[at + 3] - x.w;
    });
  if constexpr (kWork != TileWork::shifted)
    for_fours<Shape>([&](int at, int c) {
      const float4 x = words.factors[(channel + c) / 4];
      v[at] = v[at] * x.x, v[at + 1] = v[at + 1] * x.y;
      v[at + 2] = v[at + 2] * x.z, v[at + 3] = v[at + 3] * x.w;
    });
  if constexpr (is_rotated(kWork)) rotate<Shape>(v, lane);
  std::uint32_t peak = largest_bits(v);
#pragma unroll
  for (int distance = 1; distance < Shape::kLanes; distance *= 2)
    peak = max(peak, __shfl_xor_sync(kAllLanes, peak, distance));
  return confined(r, exists ? peak : 0, Shape::kLanes, v, k.non_finite);
}

template <class Shape, TileWork kWork>
__global__ __launch_bounds__(kThreads, kTileBlocksOfProcessor) void encode_tiles(
    const __grid_constant__ RowReading r, const __grid_constant__ Coding k,
    const __grid_constant__ Groups groups) {
  constexpr int kCount = Shape::kCount, kRowsAtOnce = Shape::kRowsAtOnce, kAhead = Ring<Shape>::kRows - 1;
  __shared__ Words<Shape> words;
  __shared__ Common common;
  __shared__ std::uint32_t tile_peak;
  OCTET_DYNAMIC_SHARED(ring_memory, 16);
  auto& ring = *reinterpret_cast<Ring<Shape>*>(ring_memory);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % Shape::kLanes,
            row = thread / Shape::kLanes, channel = lane * kChannels;
  const Sequences& sequences = r.order.sequences;
  const auto heads = static_cast<std::int32_t>(r.x.shape[1]);
  const Begun begun(r.begin);
  const TokenGroup group = group_at(groups, sequences, r.order.heads, blockIdx.x);
  if (group.length == 0) return;

  const std::uint16_t* const begin =
      static_cast<const std::uint16_t*>(r.x.data) + row_offset(r.x, group.b, group.h, group.begin);
  const std::uint16_t* from = begin + row * r.x.stride[2] + channel;  // of the row that is asked for next
  const auto ask_for_next = [&](int i) {
    ring.ask_for(i, from, i * kRowsAtOnce + row < group.length);
    from += kRowsAtOnce * r.x.stride[2];
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ask_for_next(i);

  const Place place = place_of(group, sequences);
  if (thread == 0) tile_peak = 0;
  words.template put<kWork>(r, place);
  if (thread == 0) {
    common.from = begin;
    common.codes =
        static_cast<std::int8_t*>(k.codes.data) + row_offset(k.codes, group.b, group.h, group.begin);
    if (k.tile == Tile::scale) {
      const std::int64_t index = (sequences.cu_seqlens ? k.first_group[group.s] : 0) + group.index;
      common.scale = static_cast<float*>(k.scales.data) + row_offset(k.scales, group.b, group.h, index);
    } else {
      common.rscale = k.rscale[k.groups.slot(sequences, heads, place)];
    }
  }
  __syncthreads();

  std::uint32_t most = 0;  // of the thread's rows
  // Once, and again where the tile has a scale of its own.
  for (int round = 0;; ++round) {
    const bool only_looks = k.tile == Tile::scale && round == 0;
    for (int i = 0; i * kRowsAtOnce < group.length; ++i) {
      const int t = i * kRowsAtOnce + row;
      const bool exists = t < group.length;
      float v[kCount];
      if (round == 0) {
        to_floats(ring.take(i), r.x.dtype, v);
        ask_for_next(i + kAhead);
      } else {
        RawRow<std::uint16_t, Shape::kVectors> raw{};
        if (exists) {
          const std::uint16_t* again = common.from + t * r.x.stride[2] + channel;
#pragma unroll
          for (int j = 0; j < Shape::kVectors; ++j)
            raw.v[j].v[0] = __ldg(reinterpret_cast<const uint4*>(again + j * Shape::kLanes * kChannels));
        }
        to_floats(raw, r.x.dtype, v);
      }

      const std::uint32_t peak = transformed<Shape, kWork>(r, k, words, lane, exists, v);
      if (k.tile != Tile::none) most = max(most, peak);
      if (only_looks || !exists) continue;
      write_row<Shape>(v, common.rscale, common.codes + t * k.codes.stride[2] + channel);
    }
    if (k.tile == Tile::none || round == 1) return;
    most = __reduce_max_sync(kAllLanes, most);
    if (thread % kWarp == 0) atomicMax(&tile_peak, most);
    __syncthreads();
    if (thread == 0) {
      const TokenGroup same = group_at(groups, sequences, r.order.heads, blockIdx.x);
      const float floor = measured_floor(r, k.making, place_of(same, sequences));
      const quant::Scale scale = k.making.of(float_of(tile_peak), floor);
      common.rscale = scale.rscale, *common.scale = scale.scale;
    }
    __syncthreads();
  }
}

/// Turns in which a block of threads has the rows of a key block, and so large blocks of a processor: 128
/// registers a thread, of which 128 channels take 115.
constexpr int kTurnsOfKeyBlock = 2, kBlocksOfKeyBlocks = 2;
/// 128 channels by four threads a row; rows of 64 have room for as many tokens.
constexpr std::int64_t kMostOfKeyBlock = kTurnsOfKeyBlock * RowShape<4, 4>::kRowsAtOnce;

/// Whether encode_key_blocks() takes what takes_tiles() does.
bool takes_key_blocks(const RowReading& rows, const Coding& coding) {
  return (rows.dim == 64 || rows.dim == 128) && rows.shift.data && coding.tile == Tile::scale &&
         coding.groups.tokens <= kMostOfKeyBlock;
}

/// Codes of key blocks with a scale each, whose rows stay in registers from their amax to their codes: K of
/// 64 or 128 channels, shifted, and rotated or not. What encode_tiles() does twice is the most of its time.
template <class Shape, TileWork kWork>
__global__ __launch_bounds__(kThreads, kBlocksOfKeyBlocks) void encode_key_blocks(
    const __grid_constant__ RowReading r, const __grid_constant__ Coding k,
    const __grid_constant__ Groups groups) {
  constexpr int kTurns = kTurnsOfKeyBlock, kRowsAtOnce = Shape::kRowsAtOnce;
  __shared__ Words<Shape> words;
  __shared__ std::uint32_t tile_peak;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % Shape::kLanes,
            row = thread / Shape::kLanes, channel = lane * kChannels;
  const Sequences& sequences = r.order.sequences;
  const Begun begun(r.begin);
  const TokenGroup group = group_at(groups, sequences, r.order.heads, blockIdx.x);
  if (group.length == 0) return;

  RawRow<std::uint16_t, Shape::kVectors> raw[kTurns] = {};
  const auto exists = [&](int turn) { return turn * kRowsAtOnce + row < group.length; };
  const std::uint16_t* from = static_cast<const std::uint16_t*>(r.x.data) +
                              row_offset(r.x, group.b, group.h, group.begin + row) + channel;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (exists(turn)) {
#pragma unroll
      for (int j = 0; j < Shape::kVectors; ++j)
        raw[turn].v[j].v[0] = __ldg(reinterpret_cast<const uint4*>(from + j * Shape::kLanes * kChannels));
    }
    from += kRowsAtOnce * r.x.stride[2];
  }
  const Place place = place_of(group, sequences);
  if (thread == 0) tile_peak = 0;
  words.template put<kWork>(r, place);
  const float floor = measured_floor(r, k.making, place);
  __syncthreads();

  float v[kTurns][Shape::kCount];
  std::uint32_t most = 0;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    to_floats(raw[turn], r.x.dtype, v[turn]);
    most = max(most, transformed<Shape, kWork>(r, k, words, lane, exists(turn), v[turn]));
  }
  most = __reduce_max_sync(kAllLanes, most);
  if (thread % kWarp == 0) atomicMax(&tile_peak, most);
  __syncthreads();
  const quant::Scale scale = k.making.of(float_of(tile_peak), floor);
  if (thread == 0) {
    const std::int64_t index = (sequences.cu_seqlens ? k.first_group[group.s] : 0) + group.index;
    static_cast<float*>(k.scales.data)[row_offset(k.scales, group.b, group.h, index)] = scale.scale;
  }
  std::int8_t* to = static_cast<std::int8_t*>(k.codes.data) +
                    row_offset(k.codes, group.b, group.h, group.begin + row) + channel;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (exists(turn)) write_row<Shape>(v[turn], scale.rscale, to);
    to += kRowsAtOnce * k.codes.stride[2];
  }
}

template <class Shape>
void launch_tiles_of(const RowReading& rows, const Coding& coding, void* stream) {
  // note: of several tiles a block, V's codes took 7 us of 35 more (16k tokens of 16 heads, H200), for its
  // blocks' ends then fall together.
  constexpr std::int64_t kRowsOfThread = 4;  // the later ones on their way while the first is computed
  const Sequences& sequences = rows.order.sequences;
  const std::int64_t tokens =
      coding.tile == Tile::none ? kRowsOfThread * Shape::kRowsAtOnce : coding.groups.tokens;
  const Groups groups(rows.x.shape, sequences.cu_seqlens ? sequences.count : 0, tokens);
  const auto blocks = static_cast<std::uint32_t>(groups.slots());
  RowReading r = rows;
  r.lanes_log2 = 0;
  while ((1 << r.lanes_log2) < Shape::kLanes) ++r.lanes_log2;
  const auto launch = [&](auto* kernel) {
    constexpr int kBytes = sizeof(Ring<Shape>);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    runtime::launch(kernel, blocks, kThreads, kBytes, stream, r, coding, groups);
  };
  if constexpr (Shape::kDim == 64 || Shape::kDim == 128) {
    if (takes_key_blocks(rows, coding)) {
      auto* const kernel = rows.hadamard > 0 ? encode_key_blocks<Shape, TileWork::shifted_and_rotated>
                                             : encode_key_blocks<Shape, TileWork::shifted>;
      runtime::launch(kernel, blocks, kThreads, 0, stream, r, coding, groups);
      return;
    }
  }
  if (rows.hadamard == 0)
    launch(encode_tiles<Shape, TileWork::multiplied>);
  else if (rows.shift.data)
    launch(encode_tiles<Shape, TileWork::shifted_and_rotated>);
  else
    launch(encode_tiles<Shape, TileWork::rotated>);
}

}  // namespace

bool takes_tiles(const RowReading& rows, const Coding& coding) {
  const bool is_16_bit = rows.x.dtype == DType::bf16 || rows.x.dtype == DType::f16;
  const bool has_dim = rows.dim == 32 || rows.dim == 64 || rows.dim == 128 || rows.dim == 256;
  const bool is_work = rows.hadamard > 0 ? rows.hadamard == rows.dim && !rows.exponent.data
                       : rows.shift.data ? !rows.exponent.data && takes_key_blocks(rows, coding)
                                         : true;
  return is_16_bit && rows.in_vectors && has_dim && rows.channels == rows.dim && is_work &&
         coding.codes.dtype == DType::s8 && coding.in_vectors && !coding.clamps &&
         coding.channel_groups == 1 && coding.scale_of == ScaleOf::group;
}

void launch_encode_tiles(const RowReading& rows, const Coding& coding, void* stream) {
  switch (rows.dim) {
    case 32:
      return launch_tiles_of<RowShape<1, 4>>(rows, coding, stream);
    case 64:
      return launch_tiles_of<RowShape<2, 4>>(rows, coding, stream);
    case 128:
      return launch_tiles_of<RowShape<4, 4>>(rows, coding, stream);
    default:
      return launch_tiles_of<RowShape<4, 8>>(rows, coding, stream);
  }
}

}  // namespace octet::cuda
