// The quantiser: a plain tensor to codes and scales. One operand of attention at a time, as a recipe says.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "base/packed_codes.h"
#include "base/sequences.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::quant {

struct Tokens;  // quant/token_rows.h

/// How a group's absolute maximum becomes its scale.
enum class ScaleRule : std::int32_t {
  nearest,  ///< amax / largest_code rounded to f32; never below 2^-126 unless the group is all zero (scale 0,
            ///< codes 0)
  power_of_two,  ///< the smallest power of two >= amax / largest_code (a zero group: as its floor says)
  sixteenths,    ///< the smallest 2^e * 16 / g, g = 16...31, likewise: V of integer
};

/// What to do with one operand.
struct OperandRecipe {
  DType format = DType::s8;  ///< s8, s4, e4m3, e5m2: codes with scales; f16, bf16, f32, f64: converted only
  Granularity granularity = Granularity::token;
  std::int64_t block = 128;  ///< tokens a scale for Granularity::block and block_channel
  float largest_code = 127;  ///< what amax maps to: 127 (s8), 7 (s4), 448 (e4m3), 57344 (e5m2); qattn: 127.5
  float shared_amax = 0;     ///< > 0: the amax of every group (qattn shares one scale among q, k and v)
  ScaleRule rule = ScaleRule::nearest;
  /// A token's scale is at least 2^-octaves of the largest of its key block (block_floor) or head
  /// (head_floor), so that a token whose V is zero keeps its softmax mass; 0: no floor. Scales of blocks have
  /// the head's floor only, coarser ones neither: they are their own reference.
  int block_floor_octaves = 0;  ///< V of int8: 20, of integer: 8
  int head_floor_octaves = 0;
  Smooth smooth = Smooth::none;
  TensorView anchor;  ///< for Smooth::anchor; data null: the sequence's first token
  Rotate rotate = Rotate::off;
  std::uint64_t rotation_seed = 0;
  Equalise equalise = Equalise::off;
};

/// Channels of the codes of a tensor with `dim` channels when it is rotated: more than `dim` where the
/// rotation pads.
std::int64_t rotated_dim(std::int64_t dim);

/// Shapes of what quantize() writes for x of `shape` (batch, head, token, dim): codes, scales,
/// channel_exponent, mean, contiguous and with null data pointers; packed_sequences is 0 for dense tensors.
QuantizedTensor layout(const std::array<std::int64_t, 4>& shape, const OperandRecipe& recipe,
                       std::int64_t packed_sequences);

/// Quantises x as the recipe says into `out`, whose pointers the caller has set (layout() gives shapes and
/// strides; a view that it leaves empty is not needed). x: f32, f16 or bf16, any strides. Codes are rounded
/// to nearest even and clamped symmetrically. NaN and Inf stay in their element (their rotation block, where
/// the recipe rotates) in formats that have them; Inf becomes NaN in e4m3. s8 and s4 have neither:
/// Code::non_finite names the first place, and all else is as if that token were zero. The same bits for any
/// number of threads, and those of a packed sequence alone; docs/numerics/quantisation.md gives every step's
/// order. Reads x and writes out only; allocates scratch of O(tokens + dim) a thread.
Status quantize(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                const QuantizedTensor& out, const ParallelFor& parallel_for);

/// quantize() one sequence of one head at a time, in any order and by any threads, for who has something to
/// do with each while it is in the cache. The arguments outlive it.
class HeadQuantizer {
 public:
  /// Whether heads have nothing to do with each other: scales of Granularity::tensor are shared.
  static bool takes(const OperandRecipe& recipe) { return recipe.granularity != Granularity::tensor; }

  HeadQuantizer(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                const QuantizedTensor& out);
  ~HeadQuantizer();

  /// Where the codes of a head go, not what goes with them: elements further on than where `out` has them,
  /// or, where `packed` has data, there and nowhere else.
  struct Place {
    std::int64_t shift = 0;
    PackedCodes packed;
  };
  /// The tokens of a head, if asking for them while what is read before them becomes codes is worth it; none
  /// behind the last head.
  Tokens ahead(std::int64_t sequence, std::int64_t head) const;
  /// Whether codes can be packed so: by this processor, and as this recipe makes them. Blocks of tokens that
  /// share a scale begin with a column, as key blocks do.
  bool packs(const PackedCodes& packed) const;

  /// Each once. next: what is read after it, of any operand.
  void run(std::int64_t sequence, std::int64_t head, const Place& place, const Tokens& next);
  /// What quantize() would return, once all have run.
  Status status() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Real values of a quantised tensor, f32, in the shape before padding: the rule in QuantizedTensor's
/// description.
Status dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out,
                  const ParallelFor& parallel_for);

}  // namespace octet::quant
