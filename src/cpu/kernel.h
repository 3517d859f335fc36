// What the driver (views, strides, packing, threads; compiled for the baseline) and the nests (one
// translation unit for each instruction set and scheme, with flags of their own) agree on. Plain pointers and
// function pointers only: nothing inline is shared across the flags, or the linker might keep the wrong copy.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cpu/tile.h"
#include "numerics/contract.h"
#include "octet/types.hpp"

namespace octet::cpu {

/// How the elements of a packed operand are stored. Both products read an operand in groups of 4 bytes along
/// the summed axis: 4 elements, 2 or 1.
enum class Element : std::int32_t {
  s8,       ///< 4 a group
  u8_bias,  ///< 4 a group, code + 128: the unsigned side of a u8 x s8 product
  bf16,     ///< 2 a group
  f32,      ///< 1 a group
};

/// Query rows of a unit of work, at most: their outputs and a key block's operands share L2, and a call of a
/// few hundred tokens still has work for several threads.
struct UnitRows {
  static constexpr std::int64_t kNarrow = 64;

  std::int32_t few;     ///< of a call whose units are few
  std::int32_t many;    ///< of one that has work for every processor all the same
  std::int32_t narrow;  ///< the same of rows of up to kNarrow channels
};

/// Packed layouts of a nest. K: [token / lanes][dim groups][lanes] groups; V: [token groups][dim, padded to
/// lanes] groups; Q: [row][dim groups] groups.
struct Packing {
  std::int32_t lanes;  ///< keys of a column of K; V's dim is padded to a multiple
  Element q, k, v;
  std::int32_t rows;  ///< query rows of a group: packed Q is padded to a multiple
  UnitRows unit;
  bool p_bias;  ///< P is stored as code + 128: the nest takes 128 * sum of V's codes off again
};

/// The same of a key block. Of `integer` k_largest alone is set, to 1.
struct FixedBlock {
  float reference;    ///< log2 of the block's largest V scale
  float mass_unit;    ///< what a unit of w r adds to the row sum
  float k_largest;    ///< of K's scales; 0 where the block does not fit the form
  float k_one_scale;  ///< K's scale where all of its keys share one, else 0
};

/// Constants of the softmax in words; null where the scheme has none.
struct FixedKeys {
  /// [token], 4 bytes each: in f32 128 (log2 of V's scale - the block's reference) + 2^15
  /// (numerics/fixed16.h), or in u16 and the order of the nest's words a distance (cpu/integer_words.inl).
  const std::byte* level;
  const std::uint16_t* mass;  ///< [token], in the order of the nest's words
  const FixedBlock* blocks;
};

/// One head of packed keys and values, with what is constant for a key, a key block or a channel.
struct PackedHead {
  const std::byte* k;
  const std::byte* v;
  const float* keys;                ///< members of Key, [member][key_stride]
  std::int64_t key_stride;          ///< tokens, padded
  const float* block_k_scale;       ///< [block]: K's scale of its first token
  const float* block_v_largest;     ///< [block]: largest of V's scales that P carries there
  const float* block_channel;       ///< [block][dim_v, padded]: V's scale folded in there; null: 1
  const std::int32_t* block_v_sum;  ///< [block][dim_v, padded]: sum of V's codes; null unless p_bias
  const std::uint8_t* non_finite;   ///< [block]: 1 where V holds NaN or Inf; null: V's codes have none
  FixedKeys fixed;
  std::int64_t tokens;
};

/// Bias or mask of the rows of a call.
struct BiasRows {
  const void* data;  ///< null: there is none
  DType type;        ///< f32, f16 or bf16, added to the scaled score, -inf hiding the key; boolean: whether
                     ///< the key is visible, a byte each
  std::int64_t key_stride;  ///< elements from a key to the next
  const std::int64_t* row;  ///< [row]: the element of its key 0
};

/// States of the ranges that a row's keys are cut into.
struct Parts {
  std::byte* state;  ///< of the first range, aligned to 64; null: the rows' keys are one piece
  std::int64_t count, stride;
};

/// Keys [first, last).
struct KeySpan {
  std::int64_t first, last;
};

/// What comes in rows goes so far beyond the last padding row: a group's rows are read in whole vectors.
inline constexpr std::int64_t kRowsBeyond = 16;

/// Rows of memory that are wanted soon; count 0: none.
struct WantedRows {
  const std::byte* data;
  std::int64_t stride, bytes, count;  ///< from a row to the next, of a row
};

/// One block of query rows against all of its keys, or a range of them. Rows of several heads may share it
/// where these share K and V.
struct RowsCall {
  Prepare prepare;
  const Multiplies* code_products;  ///< of the nest
  PackedHead head;
  BiasRows bias;
  std::int64_t rows, dim_groups, dim_v;  ///< dim_v: padded
  const std::byte* q;
  const std::int32_t* q_size;  ///< [row]: sum of |q|; padding rows too, and kRowsBeyond numbers more
  const std::int32_t* q_sum;   ///< [row]: sum of q's codes; padding rows too
  const float* q_scale;        ///< [row]; padding rows too, and kRowsBeyond numbers more
  const std::int64_t* first;   ///< [row]: visible keys [first, last); null: all rows see the same
  const std::int64_t* last;
  KeySpan seen_by_any, seen_by_all;  ///< from the first that one row sees to the last; keys that all rows see
  const float* channel;              ///< [dim_v, padded]: V's scale of a channel at the end
  const std::int32_t* channel_exponent;  ///< the same: 2^exponent
  Parts parts;
  Ahead ahead;          ///< Tile::ahead
  WantedRows to_read;   ///< Q of the call that likely comes next
  WantedRows to_write;  ///< where the results go in the end
  std::byte* scratch;   ///< scratch_bytes() of them, aligned to 64
  // Results, [row][dim_v] or [row].
  float* values;            ///< where the scheme ends in values, or its codes are wanted as such; else null
  std::int64_t values_row;  ///< from one row's values to the next
  std::int8_t* codes;       ///< where codes are wanted as they are
  float* scale;             ///< of a row's codes
  float* lse;               ///< natural logarithm, -inf for a row that saw no key; null: nobody asked
};

/// What is known of a key block's keys: their scales, and the members of Key, [member][stride].
struct KeyConstants {
  const float *k_scale, *v_scale;
  const float* members;
  std::int64_t stride;
};

/// A scheme's nest for one instruction set.
struct Nest {
  Packing packing;
  /// The products of codes. They come with the call, so that sets whose lanes are the same share the code of
  /// a nest: compiling it is a twentieth of the build's time.
  const Multiplies* code_products;
  Output output;
  std::int32_t key_members;  ///< 4-byte constants of a key
  bool v_in_p;               ///< carries_v()
  bool v_largest;            ///< whether block() takes V's largest scale
  std::int64_t (*scratch_bytes)(std::int64_t rows, std::int64_t key_block, std::int64_t dim_v);
  std::int64_t (*table_entries)(const SchemeOptions& options);  ///< null: no table
  void (*fill_table)(const SchemeOptions& options, float* table);
  /// Members of Key of `count` keys (whole vectors) of one key block, [member][stride].
  void (*key_constants)(const Prepare& prepare, const float* k_scale, const float* v_scale,
                        std::int64_t count, float block_k_scale, float v_largest, float* out,
                        std::int64_t stride);
  /// The constants of one key block of `count` keys for the softmax in words; null where the scheme has none.
  void (*fixed_constants)(const KeyConstants& keys, std::int64_t count, std::byte* level, std::uint16_t* mass,
                          FixedBlock* block);
  void (*v_values)(const Prepare& prepare, float* v, std::int64_t count);  ///< null: V's codes as they are
  void (*attend)(const RowsCall& call);
  /// One range of a row's keys, whole key blocks, into parts.state; and the end of rows whose ranges are all
  /// there. Null where the scheme's keys are not to be cut.
  void (*part)(const RowsCall& call);
  void (*merge)(const RowsCall& call);
  std::int64_t (*state_bytes)(std::int64_t rows, std::int64_t dim_v);
};

/// The nest of a scheme, or null where the instruction set has none. Generated from cmake/instances.cmake.
using NestOf = const Nest* (*)(Scheme scheme);

}  // namespace octet::cpu
