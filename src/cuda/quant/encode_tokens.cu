// Codes of what int8 spends its time on: s8 of 16-bit rows whose channels are 32, 64, 128 or 256, aligned,
// and with a scale a token. A lane has a row, or 64 channels of one: of the butterfly's stages most are
// within lanes, and what is done once a row is done once or a few times. Warps go through the tensor on their
// own; their next rows are on the way to shared memory while these are computed.
#include "cuda/quant/encode_tokens.cuh"

#include <algorithm>

#include "cuda/ptx/shared.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/segments.cuh"
#include "cuda/runtime/launch.cuh"
#include "quant/codes.h"

namespace octet::cuda {
namespace {

constexpr int kWarps = 4, kTokenThreads = kWarps * kWarp;

/// Of a processor at once: 16 warps of up to 128 registers, of which a segment takes 64. 16,384 tokens of 16
/// heads are then 7.8 turns of each warp on an H200; by five blocks they are 6.2, and the last turn is almost
/// empty.
constexpr int kTokenBlocksOfProcessor = 4;

/// What a warp reads and writes in one turn: some rows of a tile.
struct Turn {
  const std::uint16_t* from;
  const void* words;
  std::int8_t* codes;
  float* scales;
  float floor;
  int count;  ///< of rows; negative: there is no such turn
};

/// Of a warp. Turns are found out 32 at a time, by a lane each, for that is a long way from a tile's number
/// to addresses; in shared memory, for all registers are a row's.
template <class Shape>
struct Space {
  static constexpr int kTurns = 2 * kWarp;
  RowSpace<Shape> rows;
  Turn turns[kTurns];
};

template <class Shape, Work kWork>
class Encoder {
 public:
  __device__ Encoder(const RowReading& r, const Coding& k, const Signs<Shape>& signs, const GroupWalk& tiles,
                     int turns_of_tile, Space<Shape>& space, std::uint32_t (&peaks)[3])
      : r_(r),
        k_(k),
        signs_(signs),
        tiles_(tiles),
        turns_of_tile_(turns_of_tile),
        space_(space.rows),
        turns_(space.turns),
        peaks_(peaks) {}

  __device__ void run() {
    // note: where statistics are before this kernel, its first rows are on their way while those end.
    if (k_.rows_are_there) ask_for_first_rows();
    const Begun begun(r_.begin);
    if (!k_.rows_are_there) ask_for_first_rows();
    ask_for_words(0);
    float tile_floor = 0, least = float_of(kF32Inf);
    std::uint32_t most = 0;
    bool again = false;  // once more, for the tile's largest element raised its floor
    int tiles_done = 0;
    for (int i = 0; turn(i).count >= 0; ++i) {
      if ((i + 1) % kWarp == 0) find_turns(i + 1);
      ptx::wait_copies<0>();
      if (kWork != Work::rotated && words_are_new_) {
        if constexpr (kWork == Work::multiplied) make_equalisers();
        if constexpr (kWork == Work::shifted_and_rotated) turn_shifts();
        words_are_new_ = false;
      }
      __syncwarp();
      float v[Shape::kCount];
      if (r_.x.dtype == DType::f16)
        take<DType::f16>(v);
      else
        take<DType::bf16>(v);
      __syncwarp();
      ask_for(i + 1);

      if constexpr (kWork != Work::multiplied) rotate_segment<Shape>(v, part());
      std::uint32_t peak = largest_bits(v);
#pragma unroll
      for (int distance = 1; distance < Shape::kLanes; distance *= 2)
        peak = max(peak, __shfl_xor_sync(kAllLanes, peak, distance));
      const Turn& now = turn(i);
      const bool exists = row() < now.count;
      // A row with NaN or Inf is zeros: NaN is, and times 0 all others are.
      const bool is_bad = peak >= kInfBits;
      if (is_bad && exists && k_.non_finite) *k_.non_finite = 1;
      if (is_bad || !exists) peak = 0;
      const quant::Scale scale = k_.making.of(float_of(peak), fmaxf(now.floor, tile_floor));
      if (part() == 0 && exists) now.scales[row() * k_.scales.stride[2]] = scale.scale;
      write_codes(v, is_bad ? 0.0f : scale.rscale, now);

      if (!has_floor()) continue;
      most = max(most, peak);
      if (exists) least = fminf(least, scale.scale);
      if ((i + 1) % turns_of_tile_ != 0) continue;
      if (!again) {
        tile_floor = floor_of_tile(most, tiles_done++);
        again = __any_sync(kAllLanes, least < tile_floor);
        if (again) {  // the tile's turns are still known
          i -= turns_of_tile_;
          ptx::wait_copies<0>();
          __syncwarp();
          ask_for(i + 1);
        }
      } else {
        again = false;
      }
      if (!again) tile_floor = 0;
      most = 0, least = float_of(kF32Inf);
    }
  }

 private:
  __device__ bool has_floor() const { return kWork == Work::multiplied && k_.tile == Tile::floor; }
  __device__ static int lane() { return RowSpace<Shape>::lane(); }
  /// Of the lane: its row among the warp's, and its segment of that.
  __device__ int row() const { return lane() / Shape::kLanes; }
  __device__ int part() const { return lane() % Shape::kLanes; }
  __device__ const Turn& turn(int i) const { return turns_[i % Space<Shape>::kTurns]; }

  // --- Turns: tiles are the warp's, or the block's where a tile has a floor

  /// Turns first, ..., first + 31.
  __device__ void find_turns(int first) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp, i = first + lane(), nth = i / turns_of_tile_;
    const std::uint32_t block = blockIdx.x, blocks = gridDim.x;
    const std::uint32_t tile = has_floor() ? block + static_cast<std::uint32_t>(nth) * blocks
                                           : (block + static_cast<std::uint32_t>(nth) * blocks) * kWarps +
                                                 static_cast<std::uint32_t>(warp);
    const int row = has_floor() ? ((i - nth * turns_of_tile_) * kWarps + warp) * Shape::kRows : 0;
    Turn t{};
    t.count = -1;
    if (tile < tiles_.count) {
      // From the last to the first: the cache still has what the statistics read last.
      const std::uint32_t slot = tiles_.slot(tiles_.count - 1 - tile);
      const TokenGroup group = group_at(tiles_.groups, r_.order.sequences, r_.order.heads, slot);
      Place p;
      p.b = group.b, p.h = group.h, p.s = group.s, p.t = group.begin + row, p.begin = group.begin;
      t.count = max(min(group.length - row, Shape::kRows), 0);
      t.from = static_cast<const std::uint16_t*>(r_.x.data) + row_offset(r_.x, p.b, p.h, p.t);
      t.codes = static_cast<std::int8_t*>(k_.codes.data) + row_offset(k_.codes, p.b, p.h, p.t);
      t.scales = static_cast<float*>(k_.scales.data) + row_offset(k_.scales, p.b, p.h, p.t);
      if (kWork == Work::shifted_and_rotated)
        t.words = static_cast<const float*>(r_.shift.data) + r_.unit_offset(r_.shift, p);
      if (kWork == Work::multiplied && r_.exponent.data)
        t.words = static_cast<const std::int32_t*>(r_.exponent.data) + r_.unit_offset(r_.exponent, p);
      if (k_.making.head_floor.octaves > 0 && t.count > 0) t.floor = measured_floor(r_, k_.making, p);
    }
    turns_[i % Space<Shape>::kTurns] = t;
    __syncwarp();
  }

  // --- Rows in

  __device__ void ask_for_first_rows() {
    find_turns(0);
    ask_for_rows(0);
  }
  __device__ void ask_for_rows(int i) {
    const Turn& of = turn(i);
    space_.ask_for_rows(of.from, r_.x.stride[2], of.count);
  }
  /// Unless the warp has them, or they are on their way.
  __device__ void ask_for_words(int i) {
    const Turn& of = turn(i);
    if (kWork != Work::rotated && of.count > 0 && of.words != words_) {
      space_.ask_for_words(of.words);
      words_ = of.words, words_are_new_ = true;
    }
    ptx::commit_copies();
  }
  __device__ void ask_for(int i) {
    ask_for_rows(i);
    ask_for_words(i);
  }
  /// Exponents become what channels are multiplied by; each lane's own.
  __device__ void make_equalisers() {
    space_.for_own_words([&](std::uint32_t& word, int) {
      word = r_.exponent.data ? bits_of(power_of_two(-as_signed(word))) : bits_of(1.0f);
    });
  }

  /// Shifts as eight_numbers() wants them; each lane's own.
  __device__ void turn_shifts() {
    space_.for_own_words([&](std::uint32_t& word, int i) { word ^= r_.sign[i] >> lane() << 31; });
  }

  template <DType kType>
  __device__ void take(float (&v)[Shape::kCount]) const {
    const int own = lane(), first_channel = own % Shape::kLanes * Shape::kCount;
#pragma unroll
    for (int at = 0; at < Shape::kCount; at += kChannels)
      eight_numbers<kWork, kType>(space_.rows[own][at / kChannels],
                                  signs_.flips[(first_channel + at) / kChannels],
                                  space_.words + (first_channel + at) / 4, r_.norm, v + at);
  }

  // --- Codes out, and the floor of a tile

  __device__ void write_codes(const float (&v)[Shape::kCount], float rscale, const Turn& now) {
    space_.wait_until_codes_left();
    uint4* const own = space_.codes[lane()];
#pragma unroll
    for (int at = 0; at < Shape::kCount; at += 16)
      own[at / 16] = {four_codes(v + at, rscale), four_codes(v + at + 4, rscale),
                      four_codes(v + at + 8, rscale), four_codes(v + at + 12, rscale)};
    space_.send_codes(now.codes, k_.codes.stride[2], now.count);
  }

  /// The floor of the tile's scales, from the largest bits that each thread of the block saw; of the block.
  __device__ float floor_of_tile(std::uint32_t most, int turn) {
    most = __reduce_max_sync(kAllLanes, most);
    if (lane() == 0) atomicMax(&peaks_[turn % 3], most);
    // note: the next turn's word; who read it two turns ago has passed the barrier of the last.
    if (threadIdx.x == 0) peaks_[(turn + 1) % 3] = 0;
    __syncthreads();
    // A larger amax has no smaller scale, so the largest scale is that of the largest amax. Few tokens have
    // smaller ones than its floor, if any.
    return quant::scale_floor(k_.making.of(float_of(peaks_[turn % 3]), 0).scale,
                              k_.making.block_floor.octaves);
  }

  const RowReading& r_;
  const Coding& k_;
  const Signs<Shape>& signs_;
  const GroupWalk& tiles_;
  const int turns_of_tile_;
  RowSpace<Shape>& space_;
  Turn (&turns_)[Space<Shape>::kTurns];
  std::uint32_t (&peaks_)[3];
  const void* words_ = nullptr;  // that are in space_, or on their way there
  bool words_are_new_ = true;    // and not yet what rows are shifted or multiplied by
};

template <class Shape, Work kWork>
__global__ __launch_bounds__(kTokenThreads, kTokenBlocksOfProcessor) void encode_tokens(
    const __grid_constant__ RowReading r, const __grid_constant__ Coding k,
    const __grid_constant__ Signs<Shape> signs, const __grid_constant__ GroupWalk tiles, int turns_of_tile) {
  OCTET_DYNAMIC_SHARED(space_memory, 16);
  __shared__ std::uint32_t peaks[3];
  __shared__ uint4 sign_memory[sizeof(Signs<Shape>) / sizeof(uint4)];
  auto& signs_here = *reinterpret_cast<Signs<Shape>*>(sign_memory);
  auto* spaces = reinterpret_cast<Space<Shape>*>(space_memory);
  if (threadIdx.x < 3) peaks[threadIdx.x] = 0;
  if (kWork != Work::multiplied)
    for (unsigned i = threadIdx.x; i < Shape::kDim / kChannels; i += kTokenThreads)
      signs_here.flips[i] = signs.flips[i];
  __syncthreads();
  Encoder<Shape, kWork>(r, k, signs_here, tiles, turns_of_tile, spaces[threadIdx.x / kWarp], peaks).run();
}

template <class Shape>
void launch_tokens_of(const RowReading& rows, const Coding& coding, void* stream) {
  const Sequences& sequences = rows.order.sequences;
  const bool has_floor = coding.tile == Tile::floor;
  // Tiles of tokens, which warps (or, with floors of key blocks, blocks of threads) take in turn.
  const GroupWalk tiles(Groups(rows.x.shape, sequences.cu_seqlens ? sequences.count : 0,
                               has_floor ? coding.groups.tokens : Shape::kRows),
                        rows.x);
  const Signs<Shape> signs(rows);
  constexpr int kBytes = kWarps * sizeof(Space<Shape>);
  constexpr int kRowsAtOnce = kWarps * Shape::kRows;
  const int turns_of_tile =
      has_floor ? (static_cast<int>(tiles.groups.tokens) + kRowsAtOnce - 1) / kRowsAtOnce : 1;
  const std::uint32_t wanted = has_floor ? tiles.count : (tiles.count + kWarps - 1) / kWarps;
  const std::uint32_t blocks = std::min(wanted, processors() * kTokenBlocksOfProcessor);
  if (blocks == 0) return;
  const auto launch = [&](auto* kernel) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    runtime::launch(kernel, blocks, kTokenThreads, kBytes, stream, rows, coding, signs, tiles, turns_of_tile);
  };
  if (rows.hadamard == 0)
    launch(encode_tokens<Shape, Work::multiplied>);
  else if (rows.shift.data)
    launch(encode_tokens<Shape, Work::shifted_and_rotated>);
  else
    launch(encode_tokens<Shape, Work::rotated>);
}

}  // namespace

bool takes_tokens(const RowReading& rows, const Coding& coding) {
  const bool is_16_bit = rows.x.dtype == DType::bf16 || rows.x.dtype == DType::f16;
  const bool has_dim = rows.dim == 32 || rows.dim == 64 || rows.dim == 128 || rows.dim == 256;
  const bool is_work =
      rows.hadamard == 0 ? !rows.shift.data : rows.hadamard == rows.dim && !rows.exponent.data;
  const ScaleMaking& making = coding.making;
  // Floors of key blocks are for V, which is not rotated.
  const bool has_floor = making.block_floor.octaves > 0;
  const bool is_floor = !has_floor || (!making.block_floor.amax && rows.hadamard == 0);
  constexpr std::int64_t kBytes = 16;
  return is_16_bit && rows.in_vectors && has_dim && rows.channels == rows.dim && is_work &&
         coding.scale_of == ScaleOf::token && coding.codes.dtype == DType::s8 &&
         is_multiple(coding.codes, kBytes, kBytes) && !coding.clamps && is_floor;
}

void launch_encode_tokens(const RowReading& rows, const Coding& coding, void* stream) {
  switch (rows.dim) {
    case 32:
      return launch_tokens_of<SegmentShape<32>>(rows, coding, stream);
    case 64:
      return launch_tokens_of<SegmentShape<64>>(rows, coding, stream);
    case 128:
      return launch_tokens_of<SegmentShape<128>>(rows, coding, stream);
    default:
      return launch_tokens_of<SegmentShape<256>>(rows, coding, stream);
  }
}

}  // namespace octet::cuda
