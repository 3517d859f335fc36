// Codes of the rows that a block of threads holds, s8 with a scale a token, a key block or a sequence: a lane
// has a row, or 64 channels of one, a warp every so many tiles of 32 of these. The steps are those of
// encode_tokens.cu, with the same bits.
#pragma once
#include <cstdint>

#include "cuda/quant/held_rows.cuh"
#include "cuda/quant/packed_values.cuh"
#include "lanes/scalar.h"
#include "numerics/value_words.h"

namespace octet::cuda {

/// Rows that a warp makes codes of at a time.
struct HeldTile {
  int first, count;  ///< of the part's; less than 1: there are none
};

/// kWork: multiplied, or shifted_and_rotated, of which rows without a shift (Q's) are rotated alone. note:
/// one text for both, and a kernel for each kType, for the fewer instructions a kernel has, the sooner those
/// are there that a short call waits for (docs/cuda-measurements.md).
template <class Shape, Work kWork, HeldScales kScales, DType kType>
class HeldSequence : HeldRows<Shape, kWork, kScales, kType> {
  using Base = HeldRows<Shape, kWork, kScales, kType>;

 public:
  using Base::Base;

  /// From rows to codes; of the block.
  __device__ void run() const {
    stage();
    find_words();
    encode();
    if (has_block_scales()) write_group_scales();
    if (constants().data) end_constants();
    if (is_packed()) write_packed();
    if (at_.parts > 1) ptx::wait_for_cluster();  // others may read what this block has
  }

 private:
  using Base::at_, Base::k_, Base::r_, Base::space_;
  using Base::find_words, Base::has_one_scale, Base::lane, Base::stage, Base::tiles;
  using Base::unit_offset, Base::warp, Base::warps;
  static constexpr int kPieces = Shape::kCount / kChannels, kLineBytes = 128;

  __device__ static int part() { return lane() % Shape::kLanes; }
  __device__ static int row_of_tile() { return lane() / Shape::kLanes; }
  __device__ uint4* lines_of_row(int row) const { return space_.lines() + row * Shape::kLanes * kChannels; }
  /// Whether codes go where attention reads V.
  __device__ bool is_packed() const { return kWork == Work::multiplied && k_.packed.data; }
  /// Groups of tokens: whose largest scale is a floor of all, or which have one scale.
  __device__ bool has_floor() const { return kWork == Work::multiplied && k_.making.block_floor.octaves > 0; }
  __device__ bool has_block_scales() const {
    return kWork == Work::shifted_and_rotated && Base::has_group_scales();
  }
  __device__ bool joins_groups() const { return has_floor() || has_block_scales(); }

  // --- Numbers

  __device__ void take_tile(const HeldTile& tile, float (&v)[Shape::kCount]) const {
    if (kWork == Work::shifted_and_rotated && !r_.shift.data)
      take_tile<Work::rotated>(tile, v);
    else
      take_tile<kWork>(tile, v);
  }
  template <Work kOwnWork>
  __device__ void take_tile(const HeldTile& tile, float (&v)[Shape::kCount]) const {
    const std::uint32_t lines = ptx::shared_address(lines_of_row(tile.first));
    const float4* const words = space_.words[part()];
    const int line = min(lane(), (at_.rows - tile.first) * Shape::kLanes - 1);
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      eight_numbers<kOwnWork, kType>(ptx::load_shared_16_bytes(lines + row_place(line, i)),
                                     space_.flips[part() * kPieces + i], words + 2 * i, r_.norm,
                                     v + i * kChannels);
  }
  /// What becomes codes.
  __device__ void take_numbers(const HeldTile& tile, float (&v)[Shape::kCount]) const {
    take_tile(tile, v);
    if constexpr (kWork != Work::multiplied) rotate_segment<Shape>(v, part());
  }
  /// The largest |v| of the lane's row.
  __device__ static std::uint32_t peak_of(const float (&v)[Shape::kCount]) {
    return largest_of_row(largest_bits(v), Shape::kLanes);
  }

  // --- Groups of tokens

  /// Rows of which the block's warps have a tile each at a time: whole groups, where these end with tiles or
  /// halves of tiles, whose codes need no more room than their own lines.
  __device__ int rows_of_turn() const {
    const int most = warps() * Shape::kRows, group = k_.groups.by_tokens;
    if (!joins_groups() || at_.rows <= most || group % (Shape::kRows / 2) != 0 || group > most) return most;
    return most / k_.groups.by_tokens * group;
  }
  /// Whether all tiles of a group are computed in the same turn.
  __device__ bool groups_end_in_turns() const {
    const int rows = rows_of_turn();
    return at_.rows <= rows || rows % k_.groups.by_tokens.divisor == 0;
  }
  __device__ int group_of(int row) const { return row / k_.groups.by_tokens; }
  /// peak: of the lane's row, 0 where it does not count.
  __device__ void join_peak(const HeldTile& tile, std::uint32_t peak) const {
    const int of_first = group_of(tile.first), own = group_of(tile.first + row_of_tile());
    const std::uint32_t most = __reduce_max_sync(kAllLanes, own == of_first ? peak : 0);
    if (lane() == 0) atomicMax(space_.peaks + of_first, most);
    if (own != of_first && peak > 0) atomicMax(space_.peaks + own, peak);
  }
  __device__ quant::Scale scale_of(int group) const { return k_.making.of(float_of(space_.peaks[group]), 0); }
  /// Of the scale of the lane's row, which may be below it where it is not 0. A larger amax has no smaller
  /// scale, so the largest scale is that of the largest amax.
  __device__ float floor_for(bool exists, std::uint32_t peak, int group) const {
    const int octaves = k_.making.block_floor.octaves;
    const bool may_be_below =
        exists && quant::may_be_below_floor(float_of(peak), float_of(space_.peaks[group]), octaves);
    if (!__any_sync(kAllLanes, may_be_below)) [[likely]]
      return 0;
    return quant::scale_floor(scale_of(group).scale, octaves);
  }
  __device__ void write_group_scales() const {
    __syncthreads();
    const int group = static_cast<int>(threadIdx.x);
    if (group > group_of(at_.rows - 1)) return;
    const float scale = scale_of(group).scale;
    static_cast<float*>(k_.scales.data)[row_offset(k_.scales, at_.b, at_.h, group_of(at_.first) + group)] =
        scale;
    if (constants().data) constants().data[first_slot() + group] = scale;
  }

  // --- Constants of keys

  using Of = PackedConstants::Of;
  __device__ const PackedConstants& constants() const { return k_.constants; }
  /// Of the key block that the part begins with.
  __device__ std::int64_t first_slot() const {
    const PackedConstants& to = constants();
    return std::int64_t{at_.h} * to.blocks_per_head + at_.b * to.blocks_of_sequence +
           at_.first / to.key_block;
  }
  /// Whether these are V's, which is multiplied at most, and not K's.
  __device__ bool has_value_words() const {
    return kWork == Work::multiplied && constants().of == Of::values;
  }
  /// The first word of a place of the part's key blocks; those of the other arrays are kPlaces further.
  __device__ float* constants_of(int block, int place) const {
    constexpr int kPlaces = PackedValues::kPlaces;
    const int first = has_value_words() ? kPlaces : 0;
    return constants().data + (first_slot() + block) * constants().words * kPlaces + first + place;
  }
  /// A key's: K's scale, or both words of V's.
  struct OwnWords {
    float first = 0, second = 0;
  };
  __device__ OwnWords words_of(float scale) const {
    if (!has_value_words()) return {scale};
    const ValueWords<float> of_value = value_words<ScalarLane>(scale);
    return {of_value.log2_v, of_value.rv};
  }
  __device__ void put_constants(float* to, const OwnWords& words) const {
    to[0] = words.first;
    if (has_value_words()) to[PackedValues::kPlaces] = words.second;
  }
  /// row: of the part's, which begins with a key block.
  __device__ void write_constants(int row, float scale) const {
    const int block = row / constants().key_block;
    put_constants(constants_of(block, row - block * constants().key_block), words_of(scale));
  }
  /// Zeros behind the last key of each of the part's key blocks.
  __device__ void end_constants() const {
    constexpr int kPlaces = PackedValues::kPlaces;
    const int key_block = constants().key_block;
    const bool are_full = key_block == kPlaces && at_.rows % kPlaces == 0;
    if (constants().of == Of::blocks || are_full) return;
    const int places = (at_.rows + key_block - 1) / key_block * kPlaces;
    for (int i = static_cast<int>(threadIdx.x); i < places; i += static_cast<int>(blockDim.x)) {
      const int block = i / kPlaces, place = i % kPlaces;
      if (place >= key_block || block * key_block + place >= at_.rows)
        put_constants(constants_of(block, place), {});
    }
  }

  // --- Codes

  /// What the warps' turns are for.
  enum class Round { peaks, codes, both };

  /// Where groups do not end with turns, their peaks are found in a round before.
  __device__ void encode() const {
    const int of_turn = rows_of_turn(), own = warp() * Shape::kRows;
    Round round = !joins_groups() ? Round::codes : groups_end_in_turns() ? Round::both : Round::peaks;
    for (int begin = 0;; begin += of_turn) {
      if (begin >= at_.rows) {
        if (round != Round::peaks) return;
        __syncthreads();
        round = Round::codes, begin = 0;
      }
      const HeldTile tile{begin + own, min(Shape::kRows, min(of_turn, at_.rows - begin) - own)};
      const bool exists = row_of_tile() < tile.count;
      float v[Shape::kCount];
      std::uint32_t peak = 0;
      bool is_bad = false;
      if (tile.count > 0) {
        take_numbers(tile, v);
        peak = peak_of(v);
        // A row with NaN or Inf is zeros: NaN is, and times 0 all others are.
        is_bad = peak >= kInfBits;
        if (is_bad && exists && k_.non_finite) *k_.non_finite = 1;
        if (is_bad || !exists) peak = 0;
        if (round != Round::codes) join_peak(tile, peak);
      }
      if (round == Round::both) __syncthreads();
      if (tile.count <= 0 || round == Round::peaks) continue;
      const float rscale = rescaled(tile.first + row_of_tile(), exists, peak, v);
      write_codes(v, is_bad ? 0.0f : rscale, tile);
    }
  }
  /// Writes the row's scale where it has one of its own, and returns what its numbers are multiplied by;
  /// those of one scale or one a channel are multiplied here.
  __device__ float rescaled(int row, bool exists, std::uint32_t peak, float (&v)[Shape::kCount]) const {
    if (kWork == Work::multiplied && has_one_scale()) {
      const float4* const rscales = space_.rscales[part()];
#pragma unroll
      for (int i = 0; i < Shape::kCount; i += 4) {
        const float4 of = rscales[i / 4];
        v[i] = v[i] * of.x, v[i + 1] = v[i + 1] * of.y, v[i + 2] = v[i + 2] * of.z,
        v[i + 3] = v[i + 3] * of.w;
      }
      if (part() == 0 && exists && constants().data) write_constants(row, 1.0f);
      return 1.0f;
    }
    const int group = exists && joins_groups() ? group_of(row) : 0;
    if (has_block_scales()) return scale_of(group).rscale;
    const quant::Scale scale = k_.making.of(float_of(peak), has_floor() ? floor_for(exists, peak, group) : 0);
    if (part() == 0 && exists) {
      static_cast<float*>(k_.scales.data)[row_offset(k_.scales, at_.b, at_.h, at_.first + row)] = scale.scale;
      if (constants().data) write_constants(row, scale.scale);
    }
    return scale.rscale;
  }

  /// By way of the tile's own lines, of which the first half is enough and nobody reads them any more; packed
  /// ones wait there for all others.
  __device__ void write_codes(const float (&v)[Shape::kCount], float rscale, const HeldTile& tile) const {
    constexpr int kOut = Shape::kDim / 16, kRowsAtOnce = kWarp / kOut, kSteps = Shape::kRows / kRowsAtOnce;
    auto* const space = reinterpret_cast<unsigned char*>(lines_of_row(tile.first));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Shape::kCount; i += 16)
      *reinterpret_cast<uint4*>(space + code_place(lane(), i / 16)) = {
          four_codes(v + i, rscale), four_codes(v + i + 4, rscale), four_codes(v + i + 8, rscale),
          four_codes(v + i + 12, rscale)};
    if (is_packed()) return;
    __syncwarp();
    const int row = lane() / kOut, piece = lane() % kOut, line = row * Shape::kLanes + piece / 4;
    auto* to = static_cast<std::int8_t*>(k_.codes.data) +
               row_offset(k_.codes, at_.b, at_.h, at_.first + tile.first + row) + piece * 16;
    const std::int64_t step = kRowsAtOnce * k_.codes.stride[2];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (i * kRowsAtOnce + row < tile.count)
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(
            space + code_place(i * kRowsAtOnce * Shape::kLanes + line, piece % 4));
      to += step;
    }
  }

  /// The codes of the part's key blocks, 16 channels of 64 keys at a time: of 32 or of 128 calls took up to 1
  /// % longer (H200).
  __device__ void write_packed() const {
    using Part = Turn<4>;
    constexpr int kOfRow = Shape::kDim / kSquare, kOfBlock = PackedValues::kPlaces / Part::kKeys;
    __syncthreads();
    // note: two warps' memory is the other half of a tile of the first turn, so some may have none.
    const int of_turn = rows_of_turn(), key_block = k_.packed.key_block;
    const int workers = min(warps(), 2 * (at_.rows <= of_turn ? tiles() : of_turn / Shape::kRows));
    if (warp() >= workers) return;
    const std::uint32_t lines = ptx::shared_address(space_.lines());
    const Part turn(lines + (warp() / 2 * kWarp + kWarp / 2) * kLineBytes + warp() % 2 * Part::kBytes);
    static_assert(2 * Part::kBytes <= kWarp / 2 * kLineBytes);
    std::byte* const to = packed_block(k_.packed, Shape::kDim, at_.b, at_.h, at_.first / key_block);
    const int all = (at_.rows + key_block - 1) / key_block * kOfBlock * kOfRow;
    for (int i = warp(); i < all; i += workers) {
      const auto number = static_cast<unsigned>(i);
      const int piece = number % kOfRow, part = number / kOfRow % kOfBlock,
                block = number / (kOfRow * kOfBlock);
      const int first = block * key_block + part * Part::kKeys;
      const int begin = of_turn % Shape::kRows == 0 ? 0 : first / of_turn * of_turn;  // of the turn
      const auto codes_of = [&](int key) {
        const auto row = static_cast<unsigned>(min(first + key, at_.rows - 1) - begin);
        const unsigned line = row % Shape::kRows * Shape::kLanes + piece / 4;
        return lines + (begin + row / Shape::kRows * Shape::kRows) * Shape::kLanes * kLineBytes +
               code_place(line, piece % 4);
      };
      turn.take(codes_of, min(key_block - part * Part::kKeys, at_.rows - first));
      turn.write(to + (block * Shape::kDim + piece * kSquare) * PackedValues::kPlaces + part * Part::kKeys);
    }
  }
};

}  // namespace octet::cuda
