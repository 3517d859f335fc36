// The quantising pre-pass on the GPU: what quant/quantize.h does, for tensors in device memory, with the same
// bits. docs/numerics/quantisation.md has every step's order. No CUDA header is needed to call it.
//
// Every function here queues its work on `stream` (a cudaStream_t; null: the default stream) and returns:
// none synchronises, none allocates device memory, none reads device memory on the host, so a CUDA graph can
// capture them. A Status says what was wrong with the arguments or that a launch failed; what the data hold
// is never part of it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/divider.h"
#include "base/sequences.h"
#include "octet/status.hpp"
#include "octet/types.hpp"
#include "quant/quantize.h"

namespace octet::cuda {

/// Code channels that the kernels take: what octet's schemes are proved for.
inline constexpr std::int64_t kMostChannels = 256;

/// Words in device memory that quantize() reads or writes where they are given.
struct DeviceWords {
  /// The amax of every group, in place of the recipe's shared_amax (see finite_amax()); null: the recipe's.
  const float* shared_amax = nullptr;
  /// Becomes 1 where the CPU would return Code::non_finite: a row of s8 or s4 codes holds NaN or Inf, or left
  /// the range of f32 on the way. Never set to 0, so that one word serves several calls; null: not wanted.
  std::uint32_t* non_finite = nullptr;
};

/// Bytes of device memory that quantize() needs for its own use, for x of `shape` (batch, head, token, dim);
/// packed_sequences is 0 for dense tensors. Calls one after the other may share the largest.
std::int64_t quantize_scratch_bytes(const std::array<std::int64_t, 4>& shape,
                                    const quant::OperandRecipe& recipe, std::int64_t packed_sequences);

/// quant::quantize() with x, the views of `out`, the recipe's anchor and cu_seqlens in device memory. The
/// same codes, scales, exponents and means, bit for bit; where arithmetic makes a NaN, its sign and payload
/// are the GPU's. Codes have at most kMostChannels channels, and the tensor fewer than 2^30 rows.
///
/// s8 and s4 have no NaN and no Inf: the row of a token that holds one becomes zeros, as on the CPU, but the
/// call returns ok; `words.non_finite` tells. A recipe's anchor that is out.mean itself is taken as it is:
/// f32 [batch, head, 1, dim] of finite numbers (put_anchor()). cu_seqlens is trusted: it begins with 0, never
/// falls, and tokens beyond its last entry are not touched.
///
/// scratch: quantize_scratch_bytes() bytes, aligned to 16, whose content does not matter before and after; of
/// one call at a time.
Status quantize(const TensorView& x, const Sequences& sequences, const quant::OperandRecipe& recipe,
                const QuantizedTensor& out, void* scratch, void* stream, const DeviceWords& words = {});

/// Floors of tokens' scales where a cache has others before them: each at least 2^-octaves of the largest
/// that its head has had so far, and first_floor. For dense tensors and recipes of scales by token, without
/// other floors, rotation and shift.
struct ScaleFloors {
  float* largest = nullptr;  ///< [batch * head][capacity]: the largest so far, of those before and then
                             ///< these; null: no floors
  std::int64_t capacity = 0, before = 0;  ///< tokens of a head in `largest`, and those before x
  int octaves = 0;
  float first_floor = 0;
};

/// Where s8 codes of V may go in place of rows, as attention's kernels read them (attn/call.h): of each head
/// the key blocks of all sequences one after the other, of a block its channels, of a channel kPlaces bytes:
/// its keys in key order (tile/key_order.h), zeros behind the last. For dense sequences.
struct PackedValues {
  static constexpr int kPlaces = 128;
  std::byte* data = nullptr;  ///< null: codes are rows
  std::int32_t blocks_per_head = 0, blocks_of_sequence = 0;
  std::int32_t key_block = 0;  ///< keys of a block, a multiple of 16
};

/// Where constants of keys may go, as attention's kernels read them (attn/call.h), that follow from an
/// operand's own scales (Constants): key blocks as those of PackedValues; of a block arrays of so many words,
/// each kPlaces of them, a word a key, zeros behind the block's last. For dense sequences.
struct PackedConstants {
  enum class Of : std::int32_t {
    keys,    ///< K's scales of tokens, in the first array
    values,  ///< of V's (ValueWords), in the second and the third
    blocks,  ///< K's scales of key blocks: no arrays, a word a block
  };
  float* data = nullptr;  ///< null: nobody asks for any
  Of of = Of::keys;
  std::int32_t words = 0;  ///< of a key
  std::int32_t blocks_per_head = 0, blocks_of_sequence = 0;
  Divider key_block{PackedValues::kPlaces};  ///< as PackedValues'
};

/// One operand of several.
struct PlainOperand {
  TensorView x;
  Sequences sequences;
  quant::OperandRecipe recipe;
  QuantizedTensor out;
  ScaleFloors floors = {};
  PackedValues packed = {};
  /// Becomes true where codes go to `packed`, by kernels that can, and not to out.codes.
  bool* is_packed = nullptr;
  PackedConstants constants = {};
  bool* has_constants = nullptr;  ///< becomes true where these are written
};

enum class Launches : std::int32_t {
  fewest,      ///< operands of short sequences have all their steps in one launch
  one_a_step,  ///< each step its own, which is what long sequences have anyway
};

/// quantize() of each, with the same bits. scratch: as much as all of them need, for they have it beside each
/// other.
Status quantize(std::span<const PlainOperand> operands, void* scratch, void* stream, const DeviceWords& words,
                Launches launches = Launches::fewest);

/// What K is shifted by for good: `anchor`, f32, f16 or bf16 [batch or 1, head, 1, dim], with zeros for NaN
/// and Inf, in `mean`, f32 [batch, head, 1, dim]: what quantize() makes of a recipe's anchor.
Status put_anchor(const TensorView& anchor, const TensorView& mean, void* stream);

/// Bytes of device memory that dequantize() needs for its own use.
std::int64_t dequantize_scratch_bytes(const Sequences& sequences);

/// quant::dequantize() with all tensors and cu_seqlens in device memory, the same bits.
Status dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out, void* scratch,
                  void* stream);

/// *amax, in device memory: the largest finite |element| of all these plain tensors (f32, f16, bf16); 0 where
/// there is none. What qattn scales q, k and v by.
Status finite_amax(std::span<const TensorView> tensors, float* amax, void* stream);

/// out[b, h, t, 0] = softmax_scale * q . mean of K for every query row, in double, in the CPU's order,
/// rounded once: what the LSE gets back. q: plain, [batch, heads, tokens, dim]; mean: f32 [batch, heads_kv,
/// sequence or 1, dim]; out: f32 [batch, heads, tokens, 1]. sequences: of the queries.
Status fill_q_anchor(const TensorView& q, const Sequences& sequences, const TensorView& mean,
                     float softmax_scale, const TensorView& out, void* stream);

}  // namespace octet::cuda
