// What each warp of a block of one_pass.cu does: statistics, scales and codes of s8 from one reading of
// 16-bit rows of 64 or 128 channels. A block has leaves of 128 tokens in a ring in shared memory from their
// arrival until they have become codes.
//   loader     copies leaves into the ring
//   measurers  add up leaves and tell the sums
//   heralds    wait for the unit of the next leaf and lay out what its rows are shifted or multiplied by
//   finishers  end trees: of 8 channels of a unit in every so many units, from what all blocks have told
//   coders     take tiles of 32 segments out of the ring and make codes of them
// Leaves lie in rings in the order of units, and all of a unit fit, so that none waits for what is never
// told.
#pragma once
#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/relaxed.cuh"
#include "cuda/quant/leaf_sums.cuh"
#include "cuda/quant/one_pass_coders.cuh"
#include "cuda/quant/squares_again.cuh"
#include "quant/channel_exponent.h"
#include "quant/mean.h"

namespace octet::cuda {

/// As many as are left of 16 warps, which is what squares_again.cuh wants. Helpers are heralds and finishers.
inline constexpr int kMeasurers = 2, kHelpers = 5;
inline constexpr int kFirstHelper = kCoders, kLoader = kFirstHelper + kHelpers, kFirstMeasurer = kLoader + 1;
inline constexpr int kOnePassThreads = (kFirstMeasurer + kMeasurers) * kWarp;  // 512, of up to 128 registers

template <class Shape, Work kWork>
class OnePass : OnePassCoders<Shape, kWork> {
  using Base = OnePassCoders<Shape, kWork>;

 public:
  using Base::Base, Base::kIsNorms;
  using typename Base::Shared;

  /// The block's leaves, of all units. By one thread.
  __device__ void open() const {
    walk() = whole_walk();
    if (!kIsNorms) return;
    shared_.begin = shared_.next = shared_.first_of_v = Base::find_first();
    shared_.round = Round::first;
    shared_.is_unit_left = 0;
  }
  __device__ bool is_there() const { return plan_.leaves > 0; }

  /// What the warp does for the leaves of the walk.
  __device__ void run() const {
    const int warp = cuda::tile::kept(static_cast<int>(threadIdx.x)) / kWarp;
    const int begin = kIsNorms ? shared_.begin : 0;
    const Round round = kIsNorms ? shared_.round : Round::first;
    if (warp < kCoders)
      encode(warp, begin);
    else if (warp < kFirstHelper + heralds())
      herald(round, begin + warp - kFirstHelper);
    else if (warp < kLoader)
      finish(round, warp - kFirstHelper - heralds());
    else if (warp == kLoader)
      load(begin);
    else if (r_.x.dtype == DType::f16)
      measure<DType::f16>(warp - kFirstMeasurer, begin);
    else
      measure<DType::bf16>(warp - kFirstMeasurer, begin);
  }

  /// Once the walk is done: gives a unit that was left its exponents, and the block a walk through its
  /// leaves. False where there is none (more). Of the block. Units whose tokens share scales get all that
  /// they lack, and nobody walks. note: what it knows lies in shared memory, for registers are short there.
  __device__ bool has_unit_again() const {
    __syncthreads();
    if (shared_.is_unit_left == 0) return false;
    using Again = SquaresAgain<Shape, kOnePassThreads>;
    auto& space = *reinterpret_cast<typename Again::Space*>(shared_.lines);
    while (has_unit_left()) {
      Again::write_exponents(r_, plan_, shared_.left, space);
      if (scales_sequences()) {
        Again::write_scaled(r_, k_, plan_, shared_.left, space);
        continue;
      }
      if (threadIdx.x == 0) start_again();
      __syncthreads();
      return true;
    }
    return false;
  }

 private:
  static constexpr int kDim = Shape::kDim;
  using Places = WordPlaces<kIsNorms ? 2 : 1, kDim>;
  using Ends = TreeEnds<Places>;
  using Base::arrive, Base::at, Base::encode, Base::has_leaf, Base::lane, Base::number, Base::parity;
  using Base::k_, Base::plan_, Base::r_, Base::shared_, Base::walk, Base::whole_walk;
  using Base::scales_key_blocks, Base::scales_sequences;

  /// Where scales follow from norms, one warp takes longer for what a leaf's rows are multiplied by than
  /// coders for their codes.
  __device__ int heralds() const { return scales_sequences() ? 2 : 1; }

  // --- Leaves into the ring

  __device__ void load(int begin) const {
    constexpr int kRowPieces = kDim / kChannels, kRowsAtOnce = kWarp / kRowPieces, kSteps = 16;
    constexpr int kLinesAtOnce = kRowsAtOnce * Shape::kLanes;
    constexpr int kUnderWay = 4;  // times kSteps of the warp's copies, 8 KB
    const int row = lane() / kRowPieces, piece = lane() % kRowPieces;
    const int line = row * Shape::kLanes + piece / 8;
    const std::int64_t step = kRowsAtOnce * r_.x.stride[2];
    for (int n = begin; has_leaf(n); ++n) {
      const int slot = n % Shared::kSlots;
      if (n >= Shared::kSlots) ptx::wait(at(shared_.empty[slot]), parity(n / Shared::kSlots - 1));
      const Leaf leaf = this->leaf(n);
      const std::uint16_t* from = static_cast<const std::uint16_t*>(r_.x.data) +
                                  row_offset(r_.x, leaf.b, leaf.h, leaf.begin + row) + piece * kChannels;
      std::uint32_t to = ptx::shared_address(shared_.lines[slot]) + row_place(line, piece % 8);
      // note: the least instructions that a copy needs, for one warp has no time for more.
      static_assert(kLinesAtOnce == 4 && kLeafRows % (kSteps * kRowsAtOnce) == 0);
      for (int first = 0; first < leaf.length; first += kSteps * kRowsAtOnce) {
        if (leaf.length == kLeafRows) {
          const std::uint32_t odd = to ^ 64;  // row_place() of lines 4, 12, ...
#pragma unroll
          for (int i = 0; i < kSteps; ++i) {
            ptx::copy_async((i % 2 == 0 ? to : odd) + i * kLinesAtOnce * 128, from);
            from = ptx::further(from, step);
          }
        } else {
#pragma unroll 1
          for (int i = 0; i < kSteps; ++i) {
            if (first + i * kRowsAtOnce + row < leaf.length)
              ptx::copy_async((to ^ i * kLinesAtOnce % 8 * 16) + i * kLinesAtOnce * 128, from);
            from = ptx::further(from, step);
          }
        }
        to += kSteps * kLinesAtOnce * 128;
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
  __device__ void measure(int measurer, int begin) const {
    for (int i = begin * Shape::kLanes + measurer; has_leaf(i / Shape::kLanes); i += kMeasurers) {
      const int n = i / Shape::kLanes, segment = i % Shape::kLanes, slot = n % Shared::kSlots;
      ptx::wait(at(shared_.full[slot]), parity(n / Shared::kSlots));
      const SegmentColumns<Shape> columns{shared_.lines[slot][0], segment, this->leaf(n).length, lane()};
      std::uint32_t* const to = Places::leaf(plan_, number(n)) + segment * Shape::kCount + 2 * lane();
      if constexpr (kIsNorms) {
        const PairSum pair = square_sum<kType>(columns);
        ptx::tell(to, bits_of(pair.sum[0]), bits_of(pair.sum[1]));
        ptx::tell(to + kDim, pair.range[0], pair.range[1]);
      } else {
        const PairSum pair = factored_sum<kType>(columns, plan_.mean_factor);
        ptx::tell(to, bits_of(pair.sum[0]), bits_of(pair.sum[1]));
      }
      arrive(shared_.summed[slot]);
    }
  }

  // --- Ends of trees

  __device__ void finish(Round round, int finisher) const {
    if (round == Round::again) return;
    constexpr std::uint32_t kPartsOfUnit = kDim / Ends::kParts;
    const std::uint32_t finishers = kHelpers - heralds();
    for (std::uint32_t i = blockIdx.x + finisher * gridDim.x; i < plan_.units * kPartsOfUnit;
         i += finishers * gridDim.x) {
      const std::uint32_t unit = i / kPartsOfUnit;
      const int part = static_cast<int>(i % kPartsOfUnit);
      tell_end(Ends::of(plan_, unit, part, lane()), unit, part * Ends::kParts + lane() % 2 * 4);
    }
  }

  // --- What rows are shifted or multiplied by

  __device__ void herald(Round round, int begin) const {
    constexpr int kOwn = kDim / kWarp;  // channels of a lane: lane, lane + 32, ...
    std::uint32_t unit = ~0u, word[kOwn];
    bool is_left = false;
    for (int n = begin; has_leaf(n); n += heralds()) {
      const int place = n % Shared::kPlaces;
      const Leaf leaf = this->leaf(n);
      if (leaf.unit != unit) {
        unit = leaf.unit;
        if (round == Round::first)
          is_left = !find_words(leaf, word);
        else
          read_words(leaf, word);
      }
      if (n >= Shared::kPlaces) ptx::wait(at(shared_.used[place]), parity(n / Shared::kPlaces - 1));
      auto* const words = reinterpret_cast<std::uint32_t*>(shared_.words[place]);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int channel = lane() + i * kWarp;
        words[channel / Shape::kCount * (Shape::kCount + 4) + channel % Shape::kCount] = word[i];
      }
      if (lane() == 0) shared_.leaves[place] = place_of(leaf, is_left);
      arrive(shared_.ready[place]);
    }
  }

  /// note: what is left for the next round is not written in this one, for another block might write it
  /// before.
  __device__ LeafPlace place_of(const Leaf& leaf, bool is_left) const {
    void* codes = static_cast<std::int8_t*>(k_.codes.data) + row_offset(k_.codes, leaf.b, leaf.h, leaf.begin);
    if (Base::is_packed()) codes = packed_block(k_.packed, kDim, leaf.b, leaf.h, leaf.begin / kLeafRows);
    const std::int64_t first = scales_key_blocks() ? k_.groups.by_tokens.quotient(leaf.begin) : leaf.begin;
    return {codes, static_cast<float*>(k_.scales.data) + row_offset(k_.scales, leaf.b, leaf.h, first),
            is_left ? 0 : leaf.length};
  }
  /// Of a mean itself. Of norms their orders and the exponents of amax, or why there are none.
  __device__ void tell_end(const TreeEnd& end, std::uint32_t unit, int channel) const {
    const int copy = lane() / 2;
    static_assert(OnePassPlan::kCopies == kWarp / 2, "pairs of lanes have a copy each");
    std::uint32_t* const to = Places::unit(plan_, unit, copy) + channel;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kIsNorms) {
        const SquareSum of = is_equalised() || !is_finite(end.sum[i])
                                 ? scaled_squares(end.sum[i], end.range[i])
                                 : largest_alone(end.range[i]);
        ptx::tell(to + i, of.is_good ? as_unsigned(order_of(of)) : kNotFound);
        ptx::tell(to + kDim + i, bits_of(of.amax));
      } else {
        ptx::tell(to + i, bits_of(quant::mean_of_scaled(end.sum[i], plan_.mean_divisor)));
      }
    }
  }

  /// Whether channels have exponents; else all that follows from norms is the largest of each.
  __device__ bool is_equalised() const { return !scales_sequences() || r_.exponent.data; }
  /// Whether a unit that the block has the first leaf of was left, whose number is then there; of the block.
  __device__ bool has_unit_left() const {
    const LeafWalk whole = whole_walk();
    for (int next = shared_.next; whole.number(next) < whole.end; ++next) {
      const std::uint32_t number = whole.number(next);
      const Leaf leaf(plan_, r_.order, number);
      if (leaf.begin != 0 || !lacks_norms(leaf.unit)) continue;
      if (threadIdx.x == 0) shared_.left = number, shared_.next = next + 1;
      __syncthreads();
      return true;
    }
    return false;
  }
  /// The walk through the leaves of the unit, which follow those of the walk before in the ring; by one
  /// thread.
  __device__ void start_again() const {
    const auto leaves = static_cast<std::uint32_t>(static_cast<std::int32_t>(plan_.leaves_of_unit));
    int begin = shared_.begin;
    while (has_leaf(begin)) ++begin;
    walk() = {shared_.left - static_cast<std::uint32_t>(begin), 1, shared_.left + leaves};
    shared_.begin = begin, shared_.round = Round::again;
  }
  /// Whether norms of the unit were not found; of the block.
  __device__ bool lacks_norms(std::uint32_t unit) const {
    const int channel = static_cast<int>(threadIdx.x);
    return __syncthreads_or(channel < kDim &&
                            ptx::look(Places::unit(plan_, unit, 0) + channel) == kNotFound) != 0;
  }

  /// The words of the leaf's unit, of channels lane, lane + 32, ..., as eight_numbers() wants them; by whom
  /// its first leaf has they are written too. False where norms were not found: words are then none, and the
  /// unit is left for the next round.
  template <int kOwn>
  __device__ bool find_words(const Leaf& leaf, std::uint32_t (&word)[kOwn]) const {
    const std::uint32_t* const from =
        Places::unit(plan_, leaf.unit, blockIdx.x % OnePassPlan::kCopies) + lane();
    std::uint32_t amax[kOwn];
    bool all;
    do {
      all = true;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        word[i] = ptx::look(from + i * kWarp);
        amax[i] = kIsNorms ? ptx::look(from + kDim + i * kWarp) : 0;
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) all &= is_told(word[i]) && is_told(amax[i]);
    } while (!__all_sync(kAllLanes, all));
    const bool writes = leaf.begin == 0;
    if constexpr (kIsNorms) {
      std::int32_t largest = kOrderOfZeros;
      bool is_left = false;
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        largest = max(largest, as_signed(word[i])), is_left |= word[i] == kNotFound;
      if (__any_sync(kAllLanes, is_left)) {
        if (writes && lane() == 0) shared_.is_unit_left = 1;
        return false;
      }
      largest = __reduce_max_sync(kAllLanes, largest);
      std::int32_t* const exponents = this->exponents(leaf);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        std::int32_t exponent = 0;
        if (is_equalised()) {
          exponent = quant::channel_exponent(as_signed(word[i]), largest, float_of(amax[i]));
          if (writes) exponents[i * kWarp] = exponent;
        }
        word[i] = bits_of(power_of_two(-exponent));
      }
      if (scales_sequences()) multiply_by_rscales(leaf, amax, word);
    } else {
      float* const mean =
          static_cast<float*>(r_.shift.data) + row_offset(r_.shift, leaf.b, leaf.h, 0) + lane();
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (writes) mean[i * kWarp] = float_of(word[i]);
        word[i] ^= r_.sign[i] >> lane() << 31;
      }
    }
    return true;
  }
  /// From powers of two to these times what makes codes of the equalised numbers, both in one factor. note:
  /// it is exact, for what is told of norms has no number so small that the factor is too large.
  template <int kOwn>
  __device__ void multiply_by_rscales(const Leaf& leaf, const std::uint32_t (&amax)[kOwn],
                                      std::uint32_t (&word)[kOwn]) const {
    std::uint32_t largest[kOwn], of_all = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      largest[i] = bits_of(float_of(amax[i]) * float_of(word[i]));
      of_all = max(of_all, largest[i]);
    }
    const bool by_channel = k_.channel_groups > 1;
    of_all = __reduce_max_sync(kAllLanes, of_all);
    auto* const scales = static_cast<float*>(k_.scales.data) + row_offset(k_.scales, leaf.b, leaf.h, 0);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const quant::Scale scale = k_.making.of(float_of(by_channel ? largest[i] : of_all), 0);
      const int channel = lane() + i * kWarp;
      if (leaf.begin == 0 && (by_channel || channel == 0))
        scales[channel * k_.scales.stride[3]] = scale.scale;
      word[i] = bits_of(float_of(word[i]) * scale.rscale);
    }
  }
  /// The same of a unit whose exponents the block has written.
  template <int kOwn>
  __device__ void read_words(const Leaf& leaf, std::uint32_t (&word)[kOwn]) const {
    if constexpr (kIsNorms) {
      const std::int32_t* const exponents = this->exponents(leaf);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) word[i] = bits_of(power_of_two(-exponents[i * kWarp]));
    }
  }
  __device__ std::int32_t* exponents(const Leaf& leaf) const {
    return static_cast<std::int32_t*>(r_.exponent.data) + row_offset(r_.exponent, leaf.b, leaf.h, 0) + lane();
  }
};

}  // namespace octet::cuda
