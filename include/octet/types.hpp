// The central types: tensors, recipes, the problem (AttentionDesc) and the data (AttentionArgs). Plain
// values, no code.
#pragma once
#include <array>
#include <cstdint>

namespace octet {

enum class DType : std::int32_t { f32 = 0, f16, bf16, f64, s8, u8, s4, e4m3, e5m2, s32, boolean };
enum class Device : std::int32_t { cpu = 0, cuda = 1 };

/// Every numeric scheme. docs/numerics/<name>.md specifies each; `octet info` prints what each supports.
enum class Scheme : std::int32_t {
  exact = 0,  ///< float64: the oracle
  f32,
  f16,
  bf16,
  fp8,
  fp8_hybrid,
  int8_full,
  int8_half,
  int8,
  int8_shift,
  int8_fp8,
  int8_lut,
  int4,
  qflash,
  integer,
  standard,
  ivit,
  ibert,
  fqvit,
  qattn,  ///< the last five are baselines of the papers, all but qattn for the reference backend only
};
inline constexpr int kSchemes = 20;

/// Non-owning view of a dense tensor in the order (batch, head, token, dim); strides in elements, so BSHD and
/// BHSD are only strides and a broadcast axis has stride 0. s4 packs two codes a byte along dim (low nibble
/// first): its dim stride is 1 and its other strides count codes and are even.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device = Device::cpu;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};
};

/// What shares one scale. `block` is one key block of tokens (AttentionDesc::key_block), all channels;
/// `channel` one channel over all tokens of a head; `block_channel` one channel of one key block.
enum class Granularity : std::int32_t { tensor = 0, head, block, token, channel, block_channel };

/// How K is shifted before it is quantised: exact for softmax, and undone in the LSE.
enum class Smooth : std::int32_t {
  none = 0,
  mean,    ///< the mean over the tokens of the sequence
  anchor,  ///< AttentionArgs::k_anchor or, without one, the sequence's first key: depends on no later token
};

enum class Rotate : std::int32_t { off = 0, on };    ///< Q and K times random signs times Hadamard
enum class Equalise : std::int32_t { off = 0, on };  ///< V's channels times powers of two

/// What the quantiser does. Each scheme has a default (default_recipe) and a set that it accepts.
struct Recipe {
  Granularity q = Granularity::token;
  Granularity k = Granularity::token;
  Granularity v = Granularity::token;
  Smooth smooth = Smooth::none;
  Rotate rotate = Rotate::off;
  Equalise equalise = Equalise::off;
  std::uint64_t rotation_seed = 0x6f63746574;  ///< "octet"; any seed gives an exact rotation
};

/// Choices inside a scheme that papers and codes disagree on. A scheme ignores none silently: a value other
/// than the default is refused by every scheme that has no such choice.
struct SchemeOptions {
  enum class RowSum : std::int32_t { weights = 0, codes };        ///< int8_full: as its code / as its paper
  enum class Table : std::int32_t { direct = 0, linear, range };  ///< int8_lut
  enum class Quotient : std::int32_t { multiply_shift = 0, divide };  ///< qflash, papers.md (15) and (16)
  enum class Rescale : std::int32_t { release = 0, accumulate };      ///< qflash, papers.md (13) and (14)
  RowSum row_sum = RowSum::weights;
  Table table = Table::direct;
  std::int32_t table_bits = 10;  ///< int8_lut: log2 of the table's entries, 3 to 16
  Quotient quotient = Quotient::multiply_shift;
  Rescale rescale = Rescale::release;
};

enum class Mask : std::int32_t {
  none = 0,
  causal
};  ///< causal is aligned bottom-right: query i sees keys <= i + n - m

/// The problem: everything a plan depends on, and no pointers.
struct AttentionDesc {
  Scheme scheme = Scheme::int8;
  std::int64_t batch = 1, heads_q = 1, heads_kv = 1;
  std::int64_t tokens_q = 0, tokens_k = 0;  ///< per batch entry, or in total where varlen
  std::int64_t head_dim = 0, head_dim_v = 0;
  DType input = DType::f32;  ///< of plain q, k, v
  DType output =
      DType::f32;  ///< f32, f16, bf16; f64 for exact; s8 with row scales where the scheme ends in codes
  Mask mask = Mask::none;
  std::int64_t window_left = -1,
               window_right = -1;  ///< keys visible before and after the aligned position, -1: all
  float softmax_scale = 1.0f;      ///< finite and positive
  std::int64_t key_block = 128;    ///< keys per block: part of a scheme's result
  std::int64_t sequences = 0;      ///< 0: dense; else varlen: tokens packed along the token axis, batch is 1
  enum class Bias : std::int32_t { none = 0, boolean, additive } bias = Bias::none;
  bool wants_lse = false;
  Device device = Device::cpu;  ///< where the tensors of a call lie
  Recipe recipe;
  SchemeOptions options;
};

/// A tensor as codes, or plain when scales.data is null. One rule gives the reals:
/// real = code * scale(b, h, t / tokens_per_scale, c / channels_per_scale) * 2^channel_exponent(c), then
/// un-rotated (rotation_seed), then mean(b, h, c) added back. Where sequences are packed (varlen), groups of
/// tokens start anew at each sequence: sequence s's first group is the sum of ceil(length / tokens_per_scale)
/// over the sequences before it.
struct QuantizedTensor {
  TensorView codes;   ///< [batch, head, token, dim]; dim is padded where rotation pads (rotated_dim)
  TensorView scales;  ///< f32 [batch, head, token groups, channel groups], stride 0 where shared
  std::int64_t tokens_per_scale = 0;    ///< 0: all tokens of a sequence
  std::int64_t channels_per_scale = 0;  ///< 0: all channels
  TensorView channel_exponent;          ///< s32 [batch, head, sequence, dim]; data null: none
  TensorView mean;  ///< f32 [batch, head, sequence, dim] taken off K before rotation; data null: none
  Rotate rotate = Rotate::off;
  std::uint64_t rotation_seed = 0;
};

/// Runs body(context, i) for i in [0, count), in any order and on any threads, and returns when all are done.
struct ParallelFor {
  void (*run)(void* pool, std::int64_t count, void (*body)(void* context, std::int64_t i),
              void* context) = nullptr;
  void* pool = nullptr;
};

/// The data of one call. All memory is the caller's.
struct AttentionArgs {
  QuantizedTensor q, k, v;  ///< plain (only .codes set) or quantised beforehand
  TensorView o;             ///< [batch, heads_q, tokens_q, head_dim_v]
  TensorView lse;           ///< f32 [batch, heads_q, tokens_q, 1], natural logarithm; data null: not wanted
  TensorView o_scale;       ///< f32 [batch, heads_q, tokens_q, 1], needed where o is s8
  TensorView
      bias;  ///< boolean (true: visible) or f32/f16/bf16 (added to the scaled score), stride 0 broadcasts
  TensorView k_anchor;  ///< f32 [batch or 1, heads_kv, 1, head_dim] for Smooth::anchor; data null: first key
  TensorView q_anchor;  ///< f32 [batch, heads_q, tokens_q, 1]: softmax_scale * q . (K's mean), which the LSE
                        ///< gets back; set by octet
  bool follows_codes_of_k = false;  ///< whether K's codes are of what octet queued last on `stream`, and V is
                                    ///< not; set by octet
  const std::int32_t* cu_seqlens_q = nullptr;  ///< [sequences + 1] where varlen
  const std::int32_t* cu_seqlens_k = nullptr;
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  void* stream = nullptr;    ///< CUDA stream; null on the CPU
  ParallelFor parallel_for;  ///< run null: octet's own threads (OCTET_THREADS of them)
};

}  // namespace octet
