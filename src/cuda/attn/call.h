// A call as kernels see it: plain values, given to every kernel of the call in its parameters.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/divider.h"
#include "numerics/contract.h"
#include "octet/types.hpp"

namespace octet::cuda {

/// Forms of a scheme's arithmetic, the faster ones for calls without a bias.
enum class Form : std::int32_t {
  general,
  native,   ///< e4m3 is multiplied as it is (numerics/native_e4m3.h), and as f16 elsewhere
  uniform,  ///< all keys of a block have one scale, and V's do not vary along tokens (numerics/uniform_u8.h,
            ///< native_e4m3.h)
  late,     ///< V's scales do not vary along tokens, K's may (numerics/late_u8.h)
};

/// A tensor in device memory; strides in elements.
struct DeviceTensor {
  void* data = nullptr;
  std::int64_t stride[4] = {};
  DType dtype = DType::f32;

  /// Elements from the first to number `index` of an axis. Indices are not negative, which saves the words of
  /// their signs: two instructions instead of four.
  OCTET_HD std::int64_t along(int axis, std::int32_t index) const {
    return stride[axis] * static_cast<std::uint32_t>(index);
  }
};

/// An operand with what makes numbers of its codes; scales.data null: none.
struct DeviceOperand {
  DeviceTensor codes;
  std::int32_t dim = 0;  ///< of the codes
  Divider tokens_per_scale{0}, channels_per_scale{0};
  DeviceTensor scales, exponent;
};

/// The token ranges of queries or keys. Dense: sequence s is batch entry s. Packed: tokens [cu_seqlens[s],
/// cu_seqlens[s + 1]) of batch entry 0, the offsets in device memory. groups: of a dense sequence, as a
/// launch numbers its blocks of threads: tiles of queries' rows, or key blocks.
struct DeviceSequences {
  const std::int32_t* cu_seqlens = nullptr;
  std::int32_t tokens = 0, count = 0;
  Divider groups;
  Divider rows_a_token{1};  ///< query heads whose rows are computed as one head's (cuda/ranges.h)
};

/// K and V as the attention kernels read them, of every head and key block; written by pack (mma/pack.cuh).
/// A sequence's first key block is number cu_seqlens[s] / key_block + s, or s * ceil(tokens / key_block):
/// an upper bound of the blocks before it that needs no running sum.
struct PackedKeys {
  std::byte* k = nullptr;         ///< [head][block][key][dim]: null where kernels read the caller's
  std::byte* v = nullptr;         ///< [head][block][channel][slot], in key order (tile/key_order.h); of 16
                                  ///< bits [head][block][key][dim], null where kernels read the caller's
  std::byte* keys = nullptr;      ///< [head][block][key] constants of keys, the scheme's Key
  std::byte* blocks = nullptr;    ///< [head][block] constants of blocks, the scheme's Block
  std::byte* channels = nullptr;  ///< [head][block][channel] the scheme's Channel, of the key block's scales
                                  ///< of V; null where V's scales do not vary along tokens, or P carries them
  float* table = nullptr;         ///< the scheme's table
  std::int32_t blocks_per_head = 0;
};

/// Ranges that the keys of a sequence are cut into, each for blocks of threads of its own, by blockIdx.z
/// (cuda/ranges.h). Outputs are rows of all heads of a token that share keys, those of a range behind those
/// of the range before.
struct KeyRanges {
  Divider most{1};                ///< of a sequence
  std::int32_t least_blocks = 1;  ///< key blocks of one that is not the last
  /// From a range's outputs to the next one's: entries of the batch axis for mma.sync's kernels, heads for
  /// Hopper's, which may have some heads of an entry. (mma.sync's of sm_80 spill by heads.)
  std::int32_t stride = 0;
  /// Whether the blocks of threads of a tile of rows are a cluster, which merges these itself
  /// (attn/merge_in_cluster.cuh). The largest clusters there are have kMostOfCluster.
  bool are_cluster = false;
  static constexpr std::int32_t kMostOfCluster = 16;
};

/// Key blocks of each sequence that a packing launch has where it has not all: `count`, from number `first`
/// on.
struct PackedPart {
  Divider count{1};
  std::int32_t first = 0;
};

/// When the call lets the next kernel on the stream start: as soon as its own blocks of threads have done so,
/// or when these are done with their keys.
enum class NextStarts : std::uint8_t { early, late };

/// When the call's blocks of threads touch memory: behind every kernel before it on the stream, or beside
/// those before of the same call, the first of which waited for all before itself, and each lets the next one
/// start early. Packing does so for V alone, where it is packed and none of these has made it.
enum class Begins : std::uint8_t { behind_all, beside_own };

/// What every call reads stands together: a launch brings its parameters to a processor a line at a time, and
/// warps wait for each. So what seldom is there is asked of a flag.
struct Call {
  Prepare prepare;                   ///< its scales are read on the device: below
  bool tensor_scales[3] = {};        ///< of q, k, v: whether the one scale goes into prepare
  bool is_placed_by_memory = false;  ///< whether tensor_scales or cu_seqlens are read before all else
  bool has_ranges = false;           ///< whether keys are cut: `ranges`
  bool packs_part = false;           ///< whether packing has some key blocks only: `part`
  bool has_packed_v = false;         ///< whether packing finds V's codes packed
  NextStarts next_starts = NextStarts::late;
  Begins begins = Begins::behind_all;
  bool q_in_chunks = false, o_in_chunks = false;  ///< rows lie as the products take them; as they are stored
  bool wants_lse = false, wants_o_scale = false;
  std::int32_t hides_keys = 0;  ///< 1 where mask or windows may hide keys of a query's own sequence
  std::int32_t row_tiles = 1;   ///< of a block of threads, which has the keys of a sequence once for them all
  Divider group{1};             ///< query heads a key head, as the launch counts heads
  std::int32_t dim_v = 0;
  Divider key_block{128};
  Mask mask = Mask::none;
  std::int32_t window_left = -1, window_right = -1;
  AttentionDesc::Bias bias_kind = AttentionDesc::Bias::none;
  DeviceSequences queries, keys;
  PackedKeys packed;
  std::int64_t k_row_bytes = 0, k_block_bytes = 0;  ///< from a row of K to the next, packed or the caller's
  std::int64_t v_row_bytes = 0, v_block_bytes = 0;  ///< the same of V whose rows are keys
  DeviceOperand q, k, v;
  DeviceTensor o, lse, o_scale, q_anchor;  ///< data null: none
  DeviceTensor bias;                       ///< strides 0 where an axis is broadcast
  KeyRanges ranges;
  PackedPart part;
};

}  // namespace octet::cuda
