// Codes of rows that are read once: what a block's coders do, and what all of its warps know
// (one_pass_roles.cuh).
#pragma once
#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass_ring.cuh"
#include "cuda/quant/one_pass_words.cuh"
#include "cuda/quant/packed_values.cuh"
#include "cuda/quant/segments.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda {

/// Those of whole leaves, whose tiles wait for each other: eleven, of which some leaves have their last tile
/// taken by who is at another leaf, take as long or longer (docs/cuda-measurements.md).
inline constexpr int kCoders = 8;

/// An operand of a launch, K or V.
struct OnePassRows {
  RowReading rows;
  Coding coding;
  OnePassPlan plan;
  int tiles_of_group = 0;    ///< of key blocks that have a scale or are a floor; 0: there are none
  std::uint32_t before = 0;  ///< leaves of the launch's operand before this one
};

template <class Shape, Work kWork>
class OnePassCoders {
 public:
  using Shared = LeafRing<Shape, kCoders>;
  static_assert(kCoders % Shared::kTiles == 0);
  static constexpr bool kIsNorms = kWork == Work::multiplied;
  static constexpr int kDim = Shape::kDim;

  __device__ OnePassCoders(const OnePassRows& of, Shared& shared)
      : r_(of.rows), k_(of.coding), plan_(of.plan), of_(of), shared_(shared) {}

 protected:
  /// The tiles of a coder, of the leaves of the walk from leaf `begin` on.
  __device__ void encode(int coder, int begin) const {
    const int part = lane() % Shape::kLanes, row = lane() / Shape::kLanes;
    for (int i = begin * Shared::kTiles + coder; has_leaf(i / Shared::kTiles); i += kCoders) {
      const int n = i / Shared::kTiles, tile = i % Shared::kTiles;
      if (scales_sequences()) {
        encode_scaled(coder, n, tile);
        continue;
      }
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

      const LeafPlace& leaf = shared_.leaves[place];
      const int count = leaf.length - tile * Shape::kRows;
      const bool exists = row < count;
      auto& codes = is_packed() ? waiting_codes(n, tile) : shared_.codes[coder];
      if (is_packed()) __syncwarp();  // all lanes have their lines
      const bool has_floor = kIsNorms && of_.tiles_of_group > 0;
      const Peak peak(v, exists);
      const bool is_bad = peak.is_bad;
      if (is_bad && exists && k_.non_finite) *k_.non_finite = 1;
      if (scales_key_blocks() || has_floor) tell_peak(n, tile, peak.bits);
      const float amax = scales_key_blocks() ? peak_of_group(n, tile) : float_of(peak.bits);
      quant::Scale scale = k_.making.of(amax, 0);
      stage_codes(v, is_bad ? 0.0f : scale.rscale, codes);
      // note: few rows are below the floor, and the others' peaks come while codes are made.
      if (has_floor && may_be_below_floor(peak.bits, peak_of_group(n, tile))) {
        scale = quant::at_least(scale, floor_of(peak_of_group(n, tile)));
        stage_codes(v, is_bad ? 0.0f : scale.rscale, codes);
      }
      if (scales_key_blocks()) {
        if (lane() == 0 && count > 0 && tile % of_.tiles_of_group == 0)
          leaf.scales[tile / of_.tiles_of_group * k_.scales.stride[2]] = scale.scale;
      } else if (part == 0 && exists) {
        leaf.scales[(tile * Shape::kRows + row) * k_.scales.stride[2]] = scale.scale;
      }
      if (is_packed())
        write_packed([](int line, int piece) { return code_place(line, piece); }, cuda::tile::kept(n), tile,
                     leaf, shared_.codes[coder]);
      else
        write_codes(codes, static_cast<std::int8_t*>(leaf.codes) + tile * Shape::kRows * k_.codes.stride[2],
                    count);
      arrive(shared_.used[place]);
    }
  }

  // --- Of all warps

  template <class Of>
  __device__ static std::uint32_t at(const Of& of) {
    return ptx::shared_address(&of);
  }
  __device__ static int lane() { return RowSpace<Shape>::lane(); }
  __device__ static std::uint32_t parity(int phase) { return static_cast<std::uint32_t>(phase) % 2; }
  /// Of the warp, all lanes: each with what it has read or written itself.
  __device__ static void arrive(const std::uint64_t& barrier) { ptx::arrive(at(barrier)); }

  /// The block's leaves of the operand: it takes those of all operands in turn.
  __device__ LeafWalk whole_walk() const { return {blockIdx.x - of_.before, gridDim.x, plan_.leaves}; }
  /// The number of the first of them among the block's leaves of all operands.
  __device__ int find_first() const {
    return of_.before > blockIdx.x ? static_cast<int>((of_.before - blockIdx.x - 1) / gridDim.x) + 1 : 0;
  }
  __device__ int first() const { return kIsNorms ? shared_.first_of_v : 0; }
  /// The number of the block's leaf n among all of the operand.
  __device__ std::uint32_t number(int n) const { return walk().number(n); }
  __device__ bool has_leaf(int n) const { return number(n) < walk().end; }
  __device__ LeafWalk& walk() const { return shared_.walks[kIsNorms ? 1 : 0]; }
  /// Whether codes go where attention reads V.
  __device__ bool is_packed() const { return kIsNorms && k_.packed.data; }
  /// What has a scale, if not tokens: K's key blocks, V's heads or their channels.
  __device__ bool scales_key_blocks() const { return !kIsNorms && k_.scale_of == ScaleOf::group; }
  __device__ bool scales_sequences() const { return kIsNorms && k_.scale_of == ScaleOf::group; }
  __device__ Leaf leaf(int n) const { return Leaf(plan_, r_.order, number(n)); }

 private:
  /// The same where numbers and words are all that codes follow from, 16 at a time: of as many at once as a
  /// lane has there were more instructions than the processor's cache has room for beside those of the other
  /// roles (docs/cuda-measurements.md).
  __device__ void encode_scaled(int coder, int n, int tile) const {
    const int slot = n % Shared::kSlots, place = n % Shared::kPlaces, part = lane() % Shape::kLanes;
    ptx::wait(at(shared_.summed[slot]), parity(n / Shared::kSlots));
    ptx::wait(at(shared_.ready[place]), parity(n / Shared::kPlaces));
    const std::uint32_t lines = at(shared_.lines[slot][tile * kWarp]);
    const float4* words = shared_.words[place][part];
    const std::uint32_t waiting = is_packed() ? lines : at(shared_.codes[coder]);
    constexpr int kAtOnce = 16;  // codes of 16 bytes
#pragma unroll 1
    for (int i = 0; i < Shape::kCount / kAtOnce; ++i, words += kAtOnce / 4) {
      const uint4 first = ptx::load_shared_16_bytes(lines + row_place(lane(), 2 * i)),
                  second = ptx::load_shared_16_bytes(lines + row_place(lane(), 2 * i + 1));
      float v[kAtOnce];
      const auto to_sixteen = [&]<DType kType>() {
        eight_numbers<kWork, kType>(first, {}, words, 0, v);
        eight_numbers<kWork, kType>(second, {}, words + 2, 0, v + kChannels);
      };
      if (r_.x.dtype == DType::f16)
        to_sixteen.template operator()<DType::f16>();
      else
        to_sixteen.template operator()<DType::bf16>();
      const int to = is_packed() ? own_place(lane(), i) : code_place(lane(), i);
      ptx::store_shared_16_bytes(waiting + to, {four_codes(v, 1), four_codes(v + 4, 1), four_codes(v + 8, 1),
                                                four_codes(v + 12, 1)});
    }
    const LeafPlace& leaf = shared_.leaves[place];
    if (is_packed()) {
      write_packed([](int line, int piece) { return own_place(line, piece); }, cuda::tile::kept(n), tile,
                   leaf, shared_.codes[coder]);
    } else {
      __syncwarp();
      arrive(shared_.empty[slot]);
      write_codes(shared_.codes[coder],
                  static_cast<std::int8_t*>(leaf.codes) + tile * Shape::kRows * k_.codes.stride[2],
                  leaf.length - tile * Shape::kRows);
    }
    arrive(shared_.used[place]);
  }
  /// Of a line's 16 codes, in place of the first half of their numbers.
  __device__ static int own_place(int line, int piece) { return row_place(line, 2 * piece); }

  /// The lane's segment of a tile of leaf n. Room for another leaf is made at once, unless codes wait there.
  __device__ void take_tile(int n, int tile, uint4 (&stored)[Shape::kCount / kChannels]) const {
    const int slot = n % Shared::kSlots;
    ptx::wait(at(shared_.summed[slot]), parity(n / Shared::kSlots));
    const std::uint32_t lines = ptx::shared_address(shared_.lines[slot][tile * kWarp]);
#pragma unroll
    for (int i = 0; i < Shape::kCount / kChannels; ++i)
      stored[i] = ptx::load_shared_16_bytes(lines + row_place(lane(), i));
    if (!is_packed()) arrive(shared_.empty[slot]);
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
  /// The largest |v| of the lane's row as bits, 0 where the row has none that counts; of the warp.
  struct Peak {
    std::uint32_t bits;
    bool is_bad;  ///< A row with NaN or Inf is zeros: NaN is, and times 0 all others are.

    __device__ Peak(const float (&v)[Shape::kCount], bool exists) : bits(largest_bits(v)) {
#pragma unroll
      for (int distance = 1; distance < Shape::kLanes; distance *= 2)
        bits = max(bits, __shfl_xor_sync(kAllLanes, bits, distance));
      is_bad = bits >= kInfBits;
      if (is_bad || !exists) bits = 0;
    }
  };
  /// Barriers that leaves of one operand alone are at: their phases are counted from its first.
  __device__ const std::uint64_t& own_barrier(const std::uint64_t (&of)[2][Shared::kPlaces], int n) const {
    return of[kIsNorms ? 1 : 0][(n - first()) % Shared::kPlaces];
  }
  __device__ void await(const std::uint64_t (&of)[2][Shared::kPlaces], int n) const {
    ptx::wait(at(own_barrier(of, n)), parity((n - first()) / Shared::kPlaces));
  }
  /// The peaks of a tile's rows, to the other tiles of its key block.
  __device__ void tell_peak(int n, int tile, std::uint32_t peak) const {
    peak = __reduce_max_sync(kAllLanes, peak);
    if (lane() == 0) shared_.peaks[n % Shared::kPlaces][tile] = peak;
    arrive(own_barrier(shared_.measured, n));
  }
  /// The largest of the tile's key block, once all of its tiles' peaks are there.
  __device__ float peak_of_group(int n, int tile) const {
    const int first = tile / of_.tiles_of_group * of_.tiles_of_group;
    await(shared_.measured, n);
    std::uint32_t peak = 0;
    for (int i = 0; i < of_.tiles_of_group; ++i)
      peak = max(peak, shared_.peaks[n % Shared::kPlaces][first + i]);
    return float_of(peak);
  }
  /// The floor of the scales of a key block with this peak.
  __device__ float floor_of(float peak) const {
    // A larger amax has no smaller scale, so the largest scale is that of the largest amax.
    return quant::scale_floor(k_.making.of(peak, 0).scale, k_.making.block_floor.octaves);
  }
  /// Whether a row of the warp may have a scale below the floor, which few have.
  __device__ bool may_be_below_floor(std::uint32_t of_row, float of_group) const {
    return __any_sync(kAllLanes, quant::may_be_below_floor(float_of(of_row), of_group,
                                                           k_.making.block_floor.octaves)) != 0;
  }
  __device__ void stage_codes(const float (&v)[Shape::kCount], float rscale,
                              uint4 (&memory)[kWarp][4]) const {
    auto* const space = reinterpret_cast<unsigned char*>(memory);
#pragma unroll
    for (int i = 0; i < Shape::kCount; i += 16)
      *reinterpret_cast<uint4*>(space + code_place(lane(), i / 16)) = {
          four_codes(v + i, rscale), four_codes(v + i + 4, rscale), four_codes(v + i + 8, rscale),
          four_codes(v + i + 12, rscale)};
    __syncwarp();
  }
  /// The codes of a tile, whose first row's go `to`.
  __device__ void write_codes(uint4 (&memory)[kWarp][4], std::int8_t* to, int count) const {
    constexpr int kPieces = kDim / 16, kRowsAtOnce = kWarp / kPieces, kSteps = Shape::kRows / kRowsAtOnce;
    auto* const space = reinterpret_cast<unsigned char*>(memory);
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

  /// Where the codes of a tile of leaf n wait for the others: in the first half of its own lines.
  __device__ uint4 (&waiting_codes(int n, int tile) const)[kWarp][4] {
    return *reinterpret_cast<uint4(*)[kWarp][4]>(shared_.lines[n % Shared::kSlots][tile * kWarp]);
  }
  /// 16 channels of a leaf, a key block, once the codes of all tiles wait; as many tiles have those of all.
  /// What is left for the next round is not written. Then room for another leaf is made.
  template <class Place>
  __device__ void write_packed(const Place& place, int n, int tile, const LeafPlace& leaf,
                               uint4 (&memory)[kWarp][4]) const {
    static_assert(kLeafRows == PackedValues::kPlaces && Shared::kTiles * kSquare == kDim);
    arrive(own_barrier(shared_.coded, n));
    await(shared_.coded, n);
    if (leaf.length > 0) {
      const std::uint32_t codes = ptx::shared_address(waiting_codes(n, 0));
      constexpr int kTileBytes = kWarp * 128;
      const auto row = [&](int key) {
        const int line = key % Shape::kRows * Shape::kLanes + tile / 4;
        return codes + key / Shape::kRows * kTileBytes + place(line, tile % 4);
      };
      const Turn<kLeafRows / kSquare> turn(ptx::shared_address(memory));
      static_assert(sizeof(memory) == turn.kBytes);
      turn.take(row, leaf.length);
      turn.write(static_cast<std::byte*>(leaf.codes) + tile * kSquare * PackedValues::kPlaces);
    }
    arrive(shared_.empty[n % Shared::kSlots]);
  }

 protected:
  const RowReading& r_;
  const Coding& k_;
  const OnePassPlan& plan_;
  const OnePassRows& of_;
  Shared& shared_;
};

}  // namespace octet::cuda
