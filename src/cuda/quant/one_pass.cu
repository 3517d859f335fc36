// Statistics and codes of s8 with a scale a token, from one reading of 16-bit rows of 64 or 128 channels. A
// block of threads a processor, all there at once, has leaves of 128 tokens in a ring in shared memory from
// their arrival until they have become codes, and what is done to them is done by warps of their own:
//   loader     copies leaves into the ring
//   measurers  add up leaves and tell the sums
//   finisher   ends trees: of 8 channels of a unit in every so many units, from what all blocks have told
//   herald     waits for the unit of the next leaf and lays out what its rows are shifted or multiplied by
//   coders     take tiles of 32 segments out of the ring and make codes of them
// Leaves lie in rings in the order of units, and all of a unit fit, so that none waits for what is never
// told.
#include "cuda/quant/one_pass.cuh"

#include <algorithm>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/quant/encode_tokens.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/leaf_sums.cuh"
#include "cuda/quant/one_pass_ring.cuh"
#include "cuda/quant/one_pass_words.cuh"
#include "cuda/quant/segments.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/runtime/launch_together.cuh"
#include "quant/channel_exponent.h"
#include "quant/smooth.h"

namespace octet::cuda {
namespace {

constexpr int kCoders = 11, kMeasurers = 2;
constexpr int kHerald = kCoders, kFinisher = kHerald + 1, kLoader = kFinisher + 1,
              kFirstMeasurer = kLoader + 1;
constexpr int kOnePassThreads = (kFirstMeasurer + kMeasurers) * kWarp;  // 512, of up to 128 registers

template <class Shape, Work kWork>
class OnePass {
 public:
  using Shared = LeafRing<Shape, kCoders>;
  static constexpr bool kIsNorms = kWork == Work::multiplied;
  static constexpr int kDim = Shape::kDim;
  using Ends = TreeEnds<kIsNorms ? 2 : 1>;

  __device__ OnePass(const RowReading& r, const Coding& k, const OnePassPlan& plan, int tiles_of_floor,
                     Shared& shared)
      : r_(r), k_(k), plan_(plan), tiles_of_floor_(tiles_of_floor), shared_(shared) {}

  // --- Leaves into the ring

  __device__ void load() const {
    constexpr int kRowPieces = kDim / kChannels, kRowsAtOnce = kWarp / kRowPieces, kSteps = 16;
    constexpr int kUnderWay = 4;  // times kSteps of the warp's copies, 8 KB
    const int row = lane() / kRowPieces, piece = lane() % kRowPieces;
    const int line = row * Shape::kLanes + piece / 8;
    const std::int64_t step = kRowsAtOnce * r_.x.stride[2];
    for (int n = 0; has_leaf(n); ++n) {
      const int slot = n % Shared::kSlots;
      if (n >= Shared::kSlots) ptx::wait(at(shared_.empty[slot]), parity(n / Shared::kSlots - 1));
      const Leaf leaf = this->leaf(n);
      const std::uint16_t* from = static_cast<const std::uint16_t*>(r_.x.data) +
                                  row_offset(r_.x, leaf.b, leaf.h, leaf.begin + row) + piece * kChannels;
      __builtin_assume(__isGlobal(from));
      // note: a line's place but for what is known here, for the loader's instructions are what a leaf waits
      // for.
      std::uint32_t to = ptx::shared_address(shared_.lines[slot]) + row_place(line, piece % 8);
      int left = leaf.length - row;
#pragma unroll 1
      for (int first = 0; first < leaf.length; first += kSteps * kRowsAtOnce) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          constexpr int kLinesAtOnce = kRowsAtOnce * Shape::kLanes;
          if (i * kRowsAtOnce < left)
            ptx::copy_async((to ^ i * kLinesAtOnce % 8 * 16) + i * kLinesAtOnce * 128, from);
          from += step;
        }
        to += kSteps * kRowsAtOnce * Shape::kLanes * 128, left -= kSteps * kRowsAtOnce;
        // 32 KB under way and no more: what blocks tell each other waits behind.
        ptx::commit_copies();
        ptx::wait_copies<kUnderWay - 1>();
      }
      ptx::arrive_with_copies(at(shared_.full[slot]));
    }
  }

  // --- Sums of leaves

  /// A lane has two channels, a warp a segment of all tokens.
  template <DType kType>
  __device__ void measure(int measurer) const {
    for (int i = measurer; has_leaf(i / Shape::kLanes); i += kMeasurers) {
      const int n = i / Shape::kLanes, segment = i % Shape::kLanes, slot = n % Shared::kSlots;
      ptx::wait(at(shared_.full[slot]), parity(n / Shared::kSlots));
      const SegmentColumns<Shape> columns{shared_.lines[slot][0], segment, leaf(n).length, lane()};
      std::uint32_t* const to = plan_.leaf(number(n)) + segment * Shape::kCount + 2 * lane();
      if constexpr (kIsNorms) {
        const PairSum pair = square_sum<kType>(columns);
        tell(to, bits_of(pair.sum[0]), bits_of(pair.sum[1]));
        tell(to + kDim, pair.range[0], pair.range[1]);
      } else {
        const PairSum pair = factored_sum<kType>(columns, quant::mean_factor(plan_.tokens));
        tell(to, bits_of(pair.sum[0]), bits_of(pair.sum[1]));
      }
      __syncwarp();
      arrive(shared_.summed[slot]);
    }
  }

  // --- Ends of trees

  __device__ void finish() const {
    constexpr std::uint32_t kPartsOfUnit = kDim / Ends::kParts;
    for (std::uint32_t i = blockIdx.x; i < plan_.units * kPartsOfUnit; i += gridDim.x) {
      const std::uint32_t unit = i / kPartsOfUnit;
      const int part = static_cast<int>(i % kPartsOfUnit);
      tell_end(Ends::of(plan_, unit, part, lane()), unit, part * Ends::kParts + lane() % 2 * 4);
    }
  }

  // --- What rows are shifted or multiplied by

  __device__ void herald() const {
    constexpr int kOwn = kDim / kWarp;  // channels of a lane: lane, lane + 32, ...
    std::uint32_t unit = ~0u, word[kOwn];
    for (int n = 0; has_leaf(n); ++n) {
      const int place = n % Shared::kPlaces;
      const Leaf leaf = this->leaf(n);
      if (leaf.unit != unit) {
        unit = leaf.unit;
        find_words(leaf, word);
      }
      if (n >= Shared::kPlaces) ptx::wait(at(shared_.used[place]), parity(n / Shared::kPlaces - 1));
      auto* const words = reinterpret_cast<std::uint32_t*>(shared_.words[place]);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int channel = lane() + i * kWarp;
        words[channel / Shape::kCount * (Shape::kCount + 4) + channel % Shape::kCount] = word[i];
      }
      __syncwarp();
      arrive(shared_.ready[place]);
    }
  }

  // --- Codes

  __device__ void encode(int coder) const {
    const int part = lane() % Shape::kLanes, row = lane() / Shape::kLanes;
    for (int i = coder; has_leaf(i / Shared::kTiles); i += kCoders) {
      const int n = i / Shared::kTiles, tile = i % Shared::kTiles;
      uint4 stored[Shape::kCount / kChannels];
      take_tile(n, tile, stored);
      const int place = n % Shared::kPlaces;
      ptx::wait(at(shared_.ready[place]), parity(n / Shared::kPlaces));
      float v[Shape::kCount];
      if (r_.x.dtype == DType::f16)
        to_numbers<DType::f16>(stored, place, v);
      else
        to_numbers<DType::bf16>(stored, place, v);
      if constexpr (!kIsNorms) rotate_segment<Shape>(v, part);

      const Leaf leaf = this->leaf(n);
      const std::int32_t token = leaf.begin + tile * Shape::kRows;
      const int count = leaf.length - tile * Shape::kRows;
      std::uint32_t peak = largest_bits(v);
#pragma unroll
      for (int distance = 1; distance < Shape::kLanes; distance *= 2)
        peak = max(peak, __shfl_xor_sync(kAllLanes, peak, distance));
      const bool exists = row < count;
      // A row with NaN or Inf is zeros: NaN is, and times 0 all others are.
      const bool is_bad = peak >= kInfBits;
      if (is_bad && exists && k_.non_finite) *k_.non_finite = 1;
      if (is_bad || !exists) peak = 0;
      float floor = 0;
      if (kIsNorms && tiles_of_floor_ > 0) floor = floor_of_block(n, tile, peak);
      const quant::Scale scale = k_.making.of(float_of(peak), floor);
      if (part == 0 && exists)
        static_cast<float*>(k_.scales.data)[row_offset(k_.scales, leaf.b, leaf.h, token + row)] = scale.scale;
      auto* const to = static_cast<std::int8_t*>(k_.codes.data) + row_offset(k_.codes, leaf.b, leaf.h, token);
      write_codes(v, is_bad ? 0.0f : scale.rscale, shared_.codes[coder], to, count);
      arrive(shared_.used[place]);
    }
  }

 private:
  template <class Of>
  __device__ static std::uint32_t at(const Of& of) {
    return ptx::shared_address(&of);
  }
  __device__ static int lane() { return RowSpace<Shape>::lane(); }
  __device__ static std::uint32_t parity(int phase) { return static_cast<std::uint32_t>(phase) % 2; }
  __device__ static void arrive(const std::uint64_t& barrier) {
    if (lane() == 0) ptx::arrive(at(barrier));
  }

  /// The number of the block's leaf n among all.
  __device__ static std::uint32_t number(int n) {
    return blockIdx.x + static_cast<std::uint32_t>(n) * gridDim.x;
  }
  __device__ bool has_leaf(int n) const { return number(n) < plan_.leaves; }
  __device__ Leaf leaf(int n) const { return Leaf(plan_, r_.order, number(n)); }

  /// Of a mean itself. Of norms their orders and the exponents of amax, or why there are none.
  __device__ void tell_end(const TreeEnd& end, std::uint32_t unit, int channel) const {
    const int copy = lane() / 2;
    static_assert(OnePassPlan::kCopies == kWarp / 2, "pairs of lanes have a copy each");
    std::uint32_t* const to = plan_.unit(unit, copy) + channel;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kIsNorms) {
        const SquareSum of = scaled_squares(end.sum[i], end.range[i]);
        const bool is_zero = of.amax == 0;
        tell(to + i, !of.is_good ? kNotFound
                     : is_zero   ? kOfZeros
                                 : as_unsigned(quant::norm_order(__fsqrt_rn(of.sum), of.amax)));
        tell(to + kDim + i, bits_of(of.amax));
      } else {
        tell(to + i, bits_of(quant::mean_of_sum(end.sum[i], plan_.tokens)));
      }
    }
  }

  /// The words of the leaf's unit, of channels lane, lane + 32, ..., as eight_numbers() wants them; by whom
  /// its first leaf has they are written too.
  template <int kOwn>
  __device__ void find_words(const Leaf& leaf, std::uint32_t (&word)[kOwn]) const {
    const std::uint32_t* const from = plan_.unit(leaf.unit, blockIdx.x % OnePassPlan::kCopies) + lane();
    std::uint32_t amax[kOwn];
    bool all;
    do {
      all = true;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        word[i] = look(from + i * kWarp);
        amax[i] = kIsNorms ? look(from + kDim + i * kWarp) : 0;
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) all &= is_told(word[i]) && is_told(amax[i]);
    } while (!__all_sync(kAllLanes, all));
    const bool writes = leaf.begin == 0;
    if constexpr (kIsNorms) {
      std::int32_t largest = as_signed(kOfZeros);
      bool is_bad = false;
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        largest = max(largest, as_signed(word[i])), is_bad |= word[i] == kNotFound;
      largest = __reduce_max_sync(kAllLanes, largest);
      is_bad = __any_sync(kAllLanes, is_bad);
      if (writes && lane() == 0) plan_.marks[leaf.unit] = is_bad ? 1 : 0;
      auto* const exponents =
          static_cast<std::int32_t*>(r_.exponent.data) + row_offset(r_.exponent, leaf.b, leaf.h, 0) + lane();
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        // Any codes will do where the unit is to be done again: they say where NaN and Inf are.
        const std::int32_t exponent =
            is_bad ? 0 : quant::channel_exponent(as_signed(word[i]), largest, float_of(amax[i]));
        if (writes) exponents[i * kWarp] = exponent;
        word[i] = bits_of(power_of_two(-exponent));
      }
    } else {
      float* const mean =
          static_cast<float*>(r_.shift.data) + row_offset(r_.shift, leaf.b, leaf.h, 0) + lane();
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (writes) mean[i * kWarp] = float_of(word[i]);
        word[i] ^= r_.sign[i] >> lane() << 31;
      }
    }
  }

  /// The lane's segment of a tile of leaf n. Room for another leaf is made at once.
  __device__ void take_tile(int n, int tile, uint4 (&stored)[Shape::kCount / kChannels]) const {
    const int slot = n % Shared::kSlots;
    ptx::wait(at(shared_.summed[slot]), parity(n / Shared::kSlots));
    const std::uint32_t lines = ptx::shared_address(shared_.lines[slot][tile * kWarp]);
#pragma unroll
    for (int i = 0; i < Shape::kCount / kChannels; ++i) stored[i] = load_shared(lines + row_place(lane(), i));
    __syncwarp();
    arrive(shared_.empty[slot]);
  }
  template <DType kType>
  __device__ void to_numbers(const uint4 (&stored)[Shape::kCount / kChannels], int place,
                             float (&v)[Shape::kCount]) const {
    const int part = lane() % Shape::kLanes;
    const float4* const words = shared_.words[place][part];
#pragma unroll
    for (int i = 0; i < Shape::kCount / kChannels; ++i)
      eight_numbers<kWork, kType>(stored[i], shared_.flips[part * (Shape::kCount / kChannels) + i],
                                  words + 2 * i, r_.norm, v + i * kChannels);
  }
  /// The floor of the scales of the tile's key block, once all of its tiles' peaks are there.
  __device__ float floor_of_block(int n, int tile, std::uint32_t peak) const {
    const int place = n % Shared::kPlaces, first = tile / tiles_of_floor_ * tiles_of_floor_;
    peak = __reduce_max_sync(kAllLanes, peak);
    if (lane() == 0) shared_.peaks[place][tile] = peak;
    arrive(shared_.measured[place]);
    ptx::wait(at(shared_.measured[place]), parity(n / Shared::kPlaces));
    for (int i = 0; i < tiles_of_floor_; ++i) peak = max(peak, shared_.peaks[place][first + i]);
    // A larger amax has no smaller scale, so the largest scale is that of the largest amax.
    return quant::scale_floor(k_.making.of(float_of(peak), 0).scale, k_.making.block_floor.octaves);
  }
  /// The codes of a tile, whose first row's go `to`.
  __device__ void write_codes(const float (&v)[Shape::kCount], float rscale, uint4 (&memory)[kWarp][4],
                              std::int8_t* to, int count) const {
    constexpr int kPieces = kDim / 16, kRowsAtOnce = kWarp / kPieces, kSteps = Shape::kRows / kRowsAtOnce;
    auto* const space = reinterpret_cast<unsigned char*>(memory);
#pragma unroll
    for (int i = 0; i < Shape::kCount; i += 16)
      *reinterpret_cast<uint4*>(space + code_place(lane(), i / 16)) = {
          four_codes(v + i, rscale), four_codes(v + i + 4, rscale), four_codes(v + i + 8, rscale),
          four_codes(v + i + 12, rscale)};
    __syncwarp();
    const int row = lane() / kPieces, piece = lane() % kPieces, line = row * Shape::kLanes + piece / 4;
    __builtin_assume(__isGlobal(to));
    to += row * k_.codes.stride[2] + piece * 16;
    const std::int64_t step = kRowsAtOnce * k_.codes.stride[2];
    uint4 codes[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      codes[i] = *reinterpret_cast<const uint4*>(
          space + code_place(i * kRowsAtOnce * Shape::kLanes + line, piece % 4));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (i * kRowsAtOnce + row < count) *reinterpret_cast<uint4*>(to) = codes[i];
      to += step;
    }
  }

  const RowReading& r_;
  const Coding& k_;
  const OnePassPlan& plan_;
  const int tiles_of_floor_;
  Shared& shared_;
};

__global__ __launch_bounds__(kThreads) void clear_words(const __grid_constant__ OnePassPlan plan) {
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < plan.told() / 4) reinterpret_cast<uint4*>(plan.of_leaves)[i] = {kUntold, kUntold, kUntold, kUntold};
}

template <class Shape, Work kWork>
__global__ __launch_bounds__(kOnePassThreads,
                             1) void encode_in_one_pass(const __grid_constant__ RowReading r,
                                                        const __grid_constant__ Coding k,
                                                        const __grid_constant__ Signs<Shape> signs,
                                                        const __grid_constant__ OnePassPlan plan,
                                                        int tiles_of_floor) {
#if __CUDA_ARCH__ >= 900  // note: what waits for barriers is in no older code, see is_built()
  extern __shared__ __align__(128) uint4 shared_memory[];  // row_place() counts on it
  auto& shared = *reinterpret_cast<LeafRing<Shape, kCoders>*>(shared_memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const OnePass<Shape, kWork> pass(r, k, plan, tiles_of_floor, shared);
  if (thread == 0) shared.open();
  if (thread < Shape::kDim / kChannels) shared.flips[thread] = signs.flips[thread];
  __syncthreads();
  // note: the rows were complete before clear_words() let this kernel in, so that the first are asked for
  // now.
  if (warp == kLoader) return pass.load();
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  if (warp < kCoders)
    pass.encode(warp);
  else if (warp == kHerald)
    pass.herald();
  else if (warp == kFinisher)
    pass.finish();
  else if (r.x.dtype == DType::f16)
    pass.template measure<DType::f16>(warp - kFirstMeasurer);
  else
    pass.template measure<DType::bf16>(warp - kFirstMeasurer);
#endif
}

/// Whether the current device runs code of the kernel that is more than its name, and lets blocks wait for
/// each other.
bool is_built() {
  constexpr int kLeastPtx = 90;
  cudaFuncAttributes built;
  return cudaFuncGetAttributes(&built, encode_in_one_pass<SegmentShape<128>, Work::multiplied>) ==
             cudaSuccess &&
         built.ptxVersion >= kLeastPtx && runtime::launches_together();
}

Statistic statistic_of(const RowReading& rows) {
  return rows.exponent.data ? Statistic::norms : Statistic::mean;
}

template <class Shape>
void launch_shape(const RowReading& rows, const Coding& coding, const OnePassPlan& plan, void* stream) {
  constexpr int kBytes = sizeof(LeafRing<Shape, kCoders>);
  const int tiles_of_floor =
      coding.making.block_floor.octaves > 0 ? static_cast<int>(coding.groups.tokens) / Shape::kRows : 0;
  const std::int64_t vectors = plan.told() / 4;
  runtime::launch(clear_words, static_cast<std::uint32_t>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                  stream, plan);
  const auto launch = [&](auto* kernel) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    runtime::launch_together(kernel, std::min(plan.leaves, processors()), kOnePassThreads, kBytes, stream,
                             rows, coding, Signs<Shape>(rows), plan, tiles_of_floor);
  };
  if (statistic_of(rows) == Statistic::norms)
    launch(encode_in_one_pass<Shape, Work::multiplied>);
  else
    launch(encode_in_one_pass<Shape, Work::shifted_and_rotated>);
}

std::int64_t leaves_of_unit(const std::array<std::int64_t, 4>& shape) {
  return (shape[2] + kLeafRows - 1) / kLeafRows;
}

bool takes_shape(const std::array<std::int64_t, 4>& shape) {
  return (shape[3] == 64 || shape[3] == 128) && leaves_of_unit(shape) <= TreeEnds<1>::kMostLeaves;
}

/// Whether all leaves of a unit may be in rings at once, for none of them leaves before all are there.
bool has_room(const std::array<std::int64_t, 4>& shape) {
  constexpr std::int64_t kSlots = LeafRing<SegmentShape<128>, kCoders>::kSlots;
  return leaves_of_unit(shape) <= processors() * kSlots;
}

}  // namespace

std::int64_t one_pass_bytes(const std::array<std::int64_t, 4>& shape, Statistic statistic) {
  return takes_shape(shape) ? OnePassPlan(shape, statistic, nullptr).bytes() : 0;
}

bool takes_one_pass(const RowReading& rows, const Coding& coding) {
  const ScaleMaking& making = coding.making;
  // A leaf is whole key blocks, and they are whole tiles.
  constexpr std::int64_t kTileRows = 32;
  const bool is_floor = making.block_floor.octaves == 0 ||
                        (kLeafRows % coding.groups.tokens == 0 && coding.groups.tokens % kTileRows == 0);
  const bool is_work = rows.hadamard > 0 ? rows.shift.data && making.block_floor.octaves == 0
                                         : rows.exponent.data && !rows.shift.data;
  return takes_shape(rows.x.shape) && has_room(rows.x.shape) && !rows.order.sequences.cu_seqlens && is_work &&
         is_floor && making.head_floor.octaves == 0 && runtime::is_hopper() && is_built();
}

const std::uint32_t* launch_one_pass(const RowReading& rows, const Coding& coding, void* scratch,
                                     void* stream) {
  const OnePassPlan plan(rows.x.shape, statistic_of(rows), scratch);
  if (rows.dim == 64)
    launch_shape<SegmentShape<64>>(rows, coding, plan, stream);
  else
    launch_shape<SegmentShape<128>>(rows, coding, plan, stream);
  return plan.marks;
}

}  // namespace octet::cuda
