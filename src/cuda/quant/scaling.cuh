// From rows to groups' amax, scales and codes: what the kernels of encode.cu are told.
#pragma once
#include <cstdint>

#include "cuda/quant/quantize.h"
#include "cuda/quant/rows.cuh"
#include "quant/scales.h"

namespace octet::cuda {

/// The largest finite |x| of groups, as bits in scratch memory that begins with zeros.
struct GroupAmax {
  std::uint32_t* bits = nullptr;  ///< [slot][channel group]; null: nobody asks
  Groups groups;
  int channel_groups = 1;  ///< 1, or the channels
};

/// Rows of an operand, whose groups are measured.
struct MeasuredRows {
  RowReading rows;
  GroupAmax amax;
};

inline constexpr std::size_t kMostTogether = 3;  ///< operands of a launch

/// The floor that a group of GroupAmax, a key block or a head, is for its tokens' (or blocks') scales.
struct Floor {
  const std::uint32_t* amax = nullptr;  ///< null: none
  Groups groups;
  int octaves = 0;
};

/// How amax becomes a scale.
struct ScaleMaking {
  quant::ScaleRule rule = quant::ScaleRule::nearest;
  float largest_code = 127;
  float shared_amax = 0;                      ///< > 0: of every group
  const float* device_shared_amax = nullptr;  ///< the same in device memory, null: the number above
  Floor head_floor, block_floor;

  OCTET_HD bool is_shared() const { return device_shared_amax || shared_amax > 0; }
  __device__ float shared() const { return device_shared_amax ? *device_shared_amax : shared_amax; }
  __device__ quant::Scale of(float amax, float floor) const {
    return quant::group_scale(amax, floor, rule, largest_code);
  }
};

/// Which scale a row's codes have.
enum class ScaleOf : std::int32_t { nothing, token, group };

/// What a block of threads has to do with the tokens of a group of its own, beside their codes.
enum class Tile : std::int32_t {
  none,   ///< blocks have rows as they come
  floor,  ///< tokens have scales, and the group's largest is the floor of all
  scale,  ///< the group has one scale
};

/// How rows become codes.
struct Coding {
  TensorView codes, scales;
  PackedValues packed;        ///< of kernels that know it: where codes go in place of rows
  PackedConstants constants;  ///< of held sequences' kernels: what they write beside scales
  bool in_vectors = false;    ///< eight codes at once
  bool clamps = false;        ///< s8: some |x| * rscale may be 127.5 or more
  ScaleOf scale_of = ScaleOf::nothing;
  ScaleMaking making;
  const float* rscale = nullptr;  ///< [slot][channel group] for ScaleOf::group
  Groups groups;                  ///< of rscale, or the tiles
  int channel_groups = 1;
  Tile tile = Tile::none;
  const std::int64_t* first_group = nullptr;  ///< as in ScaleWriting, for Tile::scale
  int rows_of_block = 0;                      ///< for Tile::none
  std::uint32_t* non_finite = nullptr;
  /// The rows were complete before the kernel that is before this one on the stream began; that one writes
  /// shifts or exponents, which are waited for.
  bool rows_are_there = false;
};

__device__ inline float floor_of(const ScaleMaking& making, const Floor& floor, std::int64_t slot) {
  if (floor.octaves == 0) return 0;
  const float amax = making.is_shared() ? making.shared() : float_of(floor.amax[slot]);
  return quant::scale_floor(making.of(amax, 0).scale, floor.octaves);
}

/// The floor of a token's scale that is in scratch memory.
__device__ inline float measured_floor(const RowReading& r, const ScaleMaking& making, const Place& p) {
  const auto heads = static_cast<std::int32_t>(r.x.shape[1]);
  float floor = 0;
  if (making.head_floor.octaves > 0)
    floor = floor_of(making, making.head_floor, making.head_floor.groups.slot(r.order.sequences, heads, p));
  if (making.block_floor.octaves > 0 && making.block_floor.amax)
    floor = fmaxf(floor, floor_of(making, making.block_floor,
                                  making.block_floor.groups.slot(r.order.sequences, heads, p)));
  return floor;
}

/// Where the scales of groups go.
struct ScaleWriting {
  RowOrder order;
  Groups groups;
  int channel_groups = 1;
  const std::uint32_t* amax = nullptr;  ///< of each group; null where all share one
  float* rscale = nullptr;
  TensorView scales;
  const std::int64_t* first_group = nullptr;  ///< [sequence] of packed tensors, for groups of some tokens
  Begin begin = Begin::after_all;             ///< of the kernel
};

/// Scales of sequences of heads, or of their channels, that follow from the channels' largest.
struct SequenceScaling {
  ScaleMaking making;
  Groups groups;
  int channel_groups = 1;
  float* rscale = nullptr;  ///< null: nobody asks
  TensorView scales;
};

}  // namespace octet::cuda
