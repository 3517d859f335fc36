/* octet: 8-bit fused attention. The C interface (C11), and the binary interface that every other language
 * uses.
 *
 * Rules for all of it
 *  - Every function that can fail returns an octet_status; octet_last_error() then holds one sentence
 * (argument, value, rule, remedy) for the calling thread. No exception and no abort leaves the library.
 *  - Structs that are passed by pointer and may grow begin with struct_size: set it to sizeof of the struct.
 *    Zero is every other field's neutral value: `octet_attention_args args = {.struct_size = sizeof args};`
 *  - Memory is the caller's. Sizes and strides are 64 bits; strides count elements, not bytes.
 *  - Strings that the library returns are UTF-8, end in NUL, and live as long as the library, or as the plan
 *    that they were asked of.
 *  - A plan is immutable: any number of threads may use one, each with a workspace of its own.
 */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OCTET_API __attribute__((visibility("default")))
#else
#define OCTET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------- */

typedef int32_t octet_status;
enum {
  OCTET_OK = 0,
  OCTET_INVALID_ARGUMENT = 1, /* an argument breaks a rule */
  OCTET_UNSUPPORTED = 2,      /* the scheme, backend or machine does not offer what was asked */
  OCTET_NON_FINITE = 3,       /* NaN or Inf where the scheme's quantiser needs numbers */
  OCTET_OUT_OF_MEMORY = 4,
  OCTET_IO = 5,
  OCTET_INTERNAL = 6 /* the library's own mistake: please report it */
};

/* "1.2.3". */
OCTET_API const char* octet_version(void);

/* "ok", "invalid_argument", ...; "unknown" for any other number. */
OCTET_API const char* octet_status_name(octet_status status);

/* The sentence of the calling thread's last failed call; empty before the first one. Valid until the thread's
 * next failure; a call that succeeds leaves it as it is. */
OCTET_API const char* octet_last_error(void);

/* ---- Enumerations --------------------------------------------------------------------------------------
 * Fields hold them as int32_t, so that the layout of a struct depends on no compiler option. Every name (as
 * in "int8_half", "block_channel") can be had both ways: octet_enum_name, octet_enum_value. */

typedef int32_t octet_dtype;
enum {
  OCTET_F32 = 0,
  OCTET_F16,
  OCTET_BF16,
  OCTET_F64,
  OCTET_S8,
  OCTET_U8,
  OCTET_S4, /* two codes a byte along dim, the first in the low four bits */
  OCTET_E4M3,
  OCTET_E5M2,
  OCTET_S32,
  OCTET_BOOLEAN /* one byte; 0 is false */
};

typedef int32_t octet_device;
enum { OCTET_CPU = 0, OCTET_CUDA };

typedef int32_t octet_scheme; /* docs/numerics/<name>.md specifies each */
enum {
  OCTET_SCHEME_EXACT = 0,
  OCTET_SCHEME_F32,
  OCTET_SCHEME_F16,
  OCTET_SCHEME_BF16,
  OCTET_SCHEME_FP8,
  OCTET_SCHEME_FP8_HYBRID,
  OCTET_SCHEME_INT8_FULL,
  OCTET_SCHEME_INT8_HALF,
  OCTET_SCHEME_INT8,
  OCTET_SCHEME_INT8_SHIFT,
  OCTET_SCHEME_INT8_FP8,
  OCTET_SCHEME_INT8_LUT,
  OCTET_SCHEME_INT4,
  OCTET_SCHEME_QFLASH,
  OCTET_SCHEME_INTEGER,
  OCTET_SCHEME_STANDARD,
  OCTET_SCHEME_IVIT,
  OCTET_SCHEME_IBERT,
  OCTET_SCHEME_FQVIT,
  OCTET_SCHEME_QATTN
};

typedef int32_t octet_granularity; /* what shares one scale */
enum {
  OCTET_PER_TENSOR = 0,
  OCTET_PER_HEAD,
  OCTET_PER_BLOCK, /* one key block of tokens, all channels */
  OCTET_PER_TOKEN,
  OCTET_PER_CHANNEL,      /* one channel over all tokens of a head */
  OCTET_PER_BLOCK_CHANNEL /* one channel of one key block */
};

typedef int32_t octet_smooth; /* how K is shifted before it is quantised; undone in the LSE */
enum {
  OCTET_SMOOTH_NONE = 0,
  OCTET_SMOOTH_MEAN,  /* by the mean over the sequence's tokens */
  OCTET_SMOOTH_ANCHOR /* by octet_attention_args.k_anchor or, without one, the sequence's first key */
};

enum { OCTET_OFF = 0, OCTET_ON }; /* of rotate and equalise */

typedef int32_t octet_mask;
enum {
  OCTET_MASK_NONE = 0,
  OCTET_MASK_CAUSAL /* aligned bottom-right: query i sees keys <= i + tokens_k - tokens_q */
};

typedef int32_t octet_bias;
enum {
  OCTET_BIAS_NONE = 0,
  OCTET_BIAS_BOOLEAN, /* true: the key is visible */
  OCTET_BIAS_ADDITIVE /* added to the scaled score */
};

/* octet_scheme_options.row_sum, table, quotient, rescale */
enum { OCTET_ROW_SUM_WEIGHTS = 0, OCTET_ROW_SUM_CODES };
enum { OCTET_TABLE_DIRECT = 0, OCTET_TABLE_LINEAR, OCTET_TABLE_RANGE };
enum { OCTET_QUOTIENT_MULTIPLY_SHIFT = 0, OCTET_QUOTIENT_DIVIDE };
enum { OCTET_RESCALE_RELEASE = 0, OCTET_RESCALE_ACCUMULATE };

enum { OCTET_OUTPUT_VALUES = 0, OCTET_OUTPUT_ONE_SCALE, OCTET_OUTPUT_ROW_SCALE };   /* output_codes */
enum { OCTET_SCALE_NEAREST = 0, OCTET_SCALE_POWER_OF_TWO, OCTET_SCALE_SIXTEENTHS }; /* scale_rule */

/* Which enumeration, for the three functions below. */
typedef int32_t octet_enum;
enum {
  OCTET_ENUM_STATUS = 0,
  OCTET_ENUM_DTYPE,
  OCTET_ENUM_DEVICE,
  OCTET_ENUM_SCHEME,
  OCTET_ENUM_GRANULARITY,
  OCTET_ENUM_SMOOTH,
  OCTET_ENUM_ROTATE,
  OCTET_ENUM_EQUALISE,
  OCTET_ENUM_MASK,
  OCTET_ENUM_BIAS,
  OCTET_ENUM_ROW_SUM,
  OCTET_ENUM_TABLE,
  OCTET_ENUM_QUOTIENT,
  OCTET_ENUM_RESCALE,
  OCTET_ENUM_OUTPUT_CODES,
  OCTET_ENUM_SCALE_RULE
};

/* Number of values of an enumeration: they are 0 ... count - 1. 0 for an unknown enumeration. */
OCTET_API int32_t octet_enum_count(octet_enum which);

/* Name of a value; NULL where the enumeration or the value is unknown. */
OCTET_API const char* octet_enum_name(octet_enum which, int32_t value);

/* Value of a name. invalid_argument lists the names that there are. */
OCTET_API octet_status octet_enum_value(octet_enum which, const char* name, int32_t* value);

/* ---- Tensors and recipes (their layout is fixed within one SONAME) --------------------------------------
 */

/* Non-owning view in the order (batch, head, token, dim). Strides in elements: BSHD and BHSD are only
 * strides, and a broadcast axis has stride 0. s4: the dim stride is 1, the others count codes and are even.
 */
typedef struct octet_tensor {
  void* data;
  octet_dtype dtype;
  octet_device device;
  int64_t shape[4];
  int64_t stride[4];
} octet_tensor;

/* What the quantiser does with Q, K and V; octet_default_recipe gives each scheme's own. */
typedef struct octet_recipe {
  octet_granularity q, k, v;
  octet_smooth smooth;
  int32_t rotate;   /* Q and K times random signs times Hadamard */
  int32_t equalise; /* V's channels times powers of two */
  uint64_t rotation_seed;
} octet_recipe;

/* Choices inside a scheme. A value other than the default (0; table_bits 10) is refused by a scheme that has
 * no such choice: octet_scheme_info says which has. */
typedef struct octet_scheme_options {
  int32_t row_sum;
  int32_t table;
  int32_t table_bits; /* log2 of the table's entries, 3 to 16 */
  int32_t quotient;
  int32_t rescale;
} octet_scheme_options;

/* Codes and what makes them numbers, or a plain tensor when scales.data is NULL:
 *   real = code * scale(b, h, t / tokens_per_scale, c / channels_per_scale) * 2^channel_exponent(c),
 * then un-rotated, then mean(b, h, c) added back. Where sequences are packed, groups of tokens start anew at
 * each sequence. octet_quantized_layout gives the shapes. */
typedef struct octet_quantized_tensor {
  octet_tensor codes;            /* [batch, head, token, dim]; dim is longer where the rotation pads */
  octet_tensor scales;           /* f32 [batch, head, token groups, channel groups], stride 0 where shared */
  int64_t tokens_per_scale;      /* 0: all tokens of a sequence */
  int64_t channels_per_scale;    /* 0: all channels */
  octet_tensor channel_exponent; /* s32 [batch, head, 1, dim]; data NULL: none */
  octet_tensor mean;             /* f32 [batch, head, sequence, dim]; data NULL: none */
  int32_t rotate;
  uint64_t rotation_seed;
} octet_quantized_tensor;

/* Runs body(context, i) for i in [0, count), in any order and on any threads, and returns when all are done.
 */
typedef struct octet_parallel_for {
  void (*run)(void* pool, int64_t count, void (*body)(void* context, int64_t i), void* context);
  void* pool;
} octet_parallel_for;

/* ---- Schemes ------------------------------------------------------------------------------------------ */

/* One row of the support matrix. Every scheme offers boolean masks, causal, windows, GQA, varlen and the LSE.
 */
typedef struct octet_scheme_info {
  uint64_t struct_size;
  octet_scheme scheme;
  const char* name;
  const char* summary;
  const char* source; /* paper, equation or design page */
  octet_dtype qk;     /* format of Q's and K's codes in the kernel */
  octet_dtype v;
  octet_recipe recipe; /* the default */
  uint32_t q_granularities, k_granularities,
      v_granularities;                 /* bit g: granularity g is accepted; 0: no scales */
  int32_t smooths, rotates, equalises; /* 1: the recipe's option is accepted */
  int32_t additive_bias;               /* 1: an additive bias is accepted */
  int32_t baseline;                    /* 1: a paper's, beside which schemes are measured */
  int32_t output_codes;                /* whether o may be s8, and with which scales */
  int32_t has_row_sum, has_table, has_quotient, has_rescale; /* 1: the scheme has that option */
  int64_t max_tokens_k;                                      /* most keys that the scheme is proved for */
} octet_scheme_info;

/* The schemes are 0 ... octet_scheme_count() - 1. */
OCTET_API int32_t octet_scheme_count(void);

/* Fills info, whose struct_size is set. invalid_argument: no such scheme. */
OCTET_API octet_status octet_scheme_describe(octet_scheme scheme, octet_scheme_info* info);

OCTET_API octet_status octet_default_recipe(octet_scheme scheme, octet_recipe* recipe);

/* Backends in the order in which they are tried; the last is "reference". NULL outside 0 ... count - 1. */
OCTET_API int32_t octet_backend_count(void);
OCTET_API const char* octet_backend_name(int32_t i);

/* ---- The problem and the plan ---------------------------------------------------------------------------
 */

/* Everything that a plan depends on, and no pointers. */
typedef struct octet_attention_desc {
  uint64_t struct_size;
  octet_scheme scheme;
  octet_dtype
      input; /* of q, k and v: f32, f16, bf16; or the scheme's own code format for quantised operands */
  octet_dtype output; /* f32, f16, bf16; f64 (exact); s8 with scales (schemes that end in codes) */
  octet_mask mask;
  octet_bias bias;
  int32_t wants_lse;   /* 0 or 1 */
  octet_device device; /* where the tensors of a call lie: that of q in octet_attention_desc_init */
  int64_t batch, heads_q, heads_kv;  /* heads_q: a multiple of heads_kv */
  int64_t tokens_q, tokens_k;        /* of each batch entry; the total where varlen */
  int64_t head_dim, head_dim_v;      /* 1 to 256 */
  int64_t window_left, window_right; /* keys visible before and after the aligned position; -1: all */
  int64_t key_block; /* keys a block, part of a scheme's result: a multiple of 16 up to 1024, on a GPU 128 */
  int64_t sequences; /* 0: dense; else varlen: tokens packed along the token axis, batch 1 */
  float softmax_scale;
  octet_recipe recipe;
  octet_scheme_options options;
} octet_attention_desc;

/* Fills desc, whose struct_size is set, for q [b, heads_q, m, d], k [b, heads_kv, n, d] and v [b, heads_kv,
 * n, d_v] (data may be NULL): shapes and input format from the tensors, f32 output, softmax_scale 1 /
 * sqrt(d), key block 128, no mask, the scheme's default recipe and options. invalid_argument where the three
 * do not fit. */
OCTET_API octet_status octet_attention_desc_init(octet_attention_desc* desc, octet_scheme scheme,
                                                 const octet_tensor* q, const octet_tensor* k,
                                                 const octet_tensor* v);

typedef struct octet_plan octet_plan;

/* Validates desc, chooses a kernel and lays out its workspace. backend: NULL or "" for the first of the list
 * that takes the problem, or a name. *plan is NULL after a failure. */
OCTET_API octet_status octet_plan_create(octet_plan** plan, const octet_attention_desc* desc,
                                         const char* backend);
OCTET_API void octet_plan_destroy(octet_plan* plan); /* NULL is allowed */

/* Like octet_plan_create, without a plan: OCTET_OK, or why not, also written to reason (cut to reason_bytes
 * with its NUL; NULL: not wanted). */
OCTET_API octet_status octet_supported(const octet_attention_desc* desc, const char* backend, char* reason,
                                       size_t reason_bytes);

/* Bytes that octet_attend needs in args.workspace, 64-byte aligned. -1 for NULL. */
OCTET_API int64_t octet_plan_workspace_bytes(const octet_plan* plan);

OCTET_API const char* octet_plan_kernel(const octet_plan* plan);  /* <backend>/<scheme>/d<dim>/<mask> */
OCTET_API const char* octet_plan_backend(const octet_plan* plan); /* NULL for a NULL plan, both */

/* The problem as planned. */
OCTET_API octet_status octet_plan_desc(const octet_plan* plan, octet_attention_desc* desc);

/* Kernels that were tried first and refused the problem, and why. NULL outside 0 ... count - 1. */
OCTET_API int32_t octet_plan_refusal_count(const octet_plan* plan);
OCTET_API const char* octet_plan_refusal_kernel(const octet_plan* plan, int32_t i);
OCTET_API const char* octet_plan_refusal_reason(const octet_plan* plan, int32_t i);

/* Everything above as text for people, a few lines. NULL for a NULL plan. */
OCTET_API const char* octet_plan_explain(const octet_plan* plan);

/* ---- Running it -----------------------------------------------------------------------------------------
 */

/* The data of one call. */
typedef struct octet_attention_args {
  uint64_t struct_size;
  octet_quantized_tensor q, k, v; /* plain (only codes set), any strides, or quantised beforehand */
  octet_tensor o;        /* [batch, heads_q, tokens_q, head_dim_v]; overlaps neither itself nor the rest */
  octet_tensor lse;      /* f32 [batch, heads_q, tokens_q, 1], natural logarithm; set if wants_lse */
  octet_tensor o_scale;  /* f32 [batch, heads_q, tokens_q, 1]; set if o is s8 */
  octet_tensor bias;     /* boolean, or f32/f16/bf16; each axis the problem's or 1: [b, heads_q, m, n] */
  octet_tensor k_anchor; /* f32 [batch or 1, heads_kv, 1, head_dim] for OCTET_SMOOTH_ANCHOR, or unset */
  const int32_t* cu_seqlens_q; /* [sequences + 1] where varlen: 0, ..., tokens_q, never falling */
  const int32_t* cu_seqlens_k;
  void* workspace;
  int64_t workspace_bytes;
  void* stream;                    /* CUDA stream; NULL on the CPU */
  octet_parallel_for parallel_for; /* run NULL: the library's own threads (OCTET_THREADS of them) */
} octet_attention_args;

/* o = softmax(softmax_scale * q k' + bias) v in the plan's scheme, and the LSE. A row that sees no key gives
 * zero and -inf. Quantises plain operands into the workspace first. Inputs are never written. NaN and Inf
 * stay in the rows that use them (but on a GPU those of a hidden key's V: docs/api.md); an integer scheme's
 * quantiser returns non_finite instead, and o is then undefined. Cost: O(tokens_q * tokens_k * dim); no
 * memory but the workspace and a small scratch a thread. */
OCTET_API octet_status octet_attend(const octet_plan* plan, const octet_attention_args* args);

/* The two halves of octet_attend, for keys that serve many queries: cross-attention, many steps against one
 * prompt. octet_pack quantises K and V and lays them out in the workspace as the kernel reads them;
 * octet_attend_packed then computes args.q against them, as often as one likes, with the bits of
 * octet_attend (but on a GPU, where that takes plain windows of up to 64 tokens of 32 channels, or
 * int8_half's short sequences of 64, to outputs in one launch: there the two differ by roundings of float32,
 * or of int8_half's weights to f16, docs/cuda.md). Both take the args of octet_attend; plan, k, v, k_anchor,
 * cu_seqlens_k and workspace must be the same in both and their contents unchanged between (a kernel may read
 * k and v again; those of the SIMD backends do not). unsupported: qattn with plain operands, whose one scale
 * depends on q. */
OCTET_API octet_status octet_pack(const octet_plan* plan, const octet_attention_args* args);
OCTET_API octet_status octet_attend_packed(const octet_plan* plan, const octet_attention_args* args);

/* An a-priori bound on |o - exact| for each element, f32 [batch, heads_q, tokens_q, head_dim_v] into bound,
 * of the call that args describes; args.o, lse and o_scale may be unset. Needs plain q, k and v (the
 * quantisation error is part of the bound). Derivation: docs/numerics/error-bounds.md. Cost: about that of
 * octet_attend. */
OCTET_API octet_status octet_error_bound(const octet_plan* plan, const octet_attention_args* args,
                                         const octet_tensor* bound);

/* Merges the outputs of two disjoint sets of keys: lse = log(e^lse1 + e^lse2), o = o1 e^(lse1 - lse) + o2
 * e^(lse2 - lse). o*: f32 of one shape [b, h, m, d]; lse*: f32 [b, h, m, 1]. Evaluated in double and rounded
 * once. A state with lse -inf is the identity. o and lse may be o1 and lse1, or o2 and lse2, themselves. */
OCTET_API octet_status octet_merge_states(const octet_tensor* o1, const octet_tensor* lse1,
                                          const octet_tensor* o2, const octet_tensor* lse2,
                                          const octet_tensor* o, const octet_tensor* lse);

/* ---- Keys and values across calls -----------------------------------------------------------------------
 *
 * A cache keeps K and V as codes, laid out as the kernel reads them, so that a call against it neither
 * quantises nor packs them. What a token becomes depends on the tokens before it at most: appended one by
 * one, in chunks or all at once the cache is the same, and so are the bits of every call. One thread at a
 * time may change a cache; any number may attend to it meanwhile nobody does. */

typedef struct octet_kv_cache octet_kv_cache;

/* Everything zero is the default. */
typedef struct octet_kv_cache_options {
  uint64_t struct_size;
  float k_amax,
      v_amax; /* where the recipe's scale is the head's or the tensor's: the largest absolute value that it is
                 for, for good; larger ones are clamped to it. 0: tokens have scales of their own */
  octet_tensor k_anchor; /* f32 [batch or 1, heads_kv, 1, head_dim] for OCTET_SMOOTH_ANCHOR; data NULL: the
                            first key that is appended */
} octet_kv_cache_options;

/* An empty cache for the plan's problem, whose tokens_k is its capacity. The cache keeps what it needs of the
 * plan. options: NULL for the default. Memory: about that of the codes, taken from the system as the cache
 * fills; of a plan for a GPU about one and a half times that, on the current device, all of it here, for
 * which the call waits for the default stream; every other call is made while that device is current.
 * unsupported: the recipe makes a token's codes depend on later tokens (mean, equalise, scales that are
 * neither a token's nor fixed), or the backend keeps no keys. out_of_memory. *cache is NULL after a failure.
 */
OCTET_API octet_status octet_kv_cache_create(octet_kv_cache** cache, const octet_plan* plan,
                                             const octet_kv_cache_options* options);
OCTET_API void octet_kv_cache_destroy(octet_kv_cache* cache); /* NULL is allowed */

/* Of a cache on a GPU: the stream (a cudaStream_t) that append queues its work on from now on;
 * NULL, as it is made: the default stream. Nothing orders it with what was queued on another one, nor with
 * calls of octet_kv_cache_attend on args.stream. invalid_argument: a stream for a cache on the CPU. */
OCTET_API octet_status octet_kv_cache_set_stream(octet_kv_cache* cache, void* stream);

/* Appends k [batch, heads_kv, n, head_dim] and v [batch, heads_kv, n, head_dim_v], f32, f16 or bf16, any
 * strides; n may be 0. parallel_for may be NULL. After a failure (no room for n tokens, non_finite,
 * out_of_memory) the cache is unchanged. A V token's scale is at least 2^-20 of the largest that its head has
 * had so far. On a GPU the tensors are in device memory, the call queues its work and returns, and NaN or Inf
 * in operands of an integer format make their token zero; a graph that captures it appends at the length that
 * the cache had then. */
OCTET_API octet_status octet_kv_cache_append(octet_kv_cache* cache, const octet_tensor* k,
                                             const octet_tensor* v, const octet_parallel_for* parallel_for);

/* Keeps the first `length` tokens, as if no others had been appended; 0 empties it. Allocates nothing. On a
 * GPU it queues nothing: what is packed anew for it is packed by the calls that follow. */
OCTET_API octet_status octet_kv_cache_truncate(octet_kv_cache* cache, int64_t length);

OCTET_API int64_t octet_kv_cache_length(const octet_kv_cache* cache); /* tokens; -1 for NULL, all three */
OCTET_API int64_t octet_kv_cache_capacity(const octet_kv_cache* cache);
OCTET_API int64_t octet_kv_cache_bytes(const octet_kv_cache* cache); /* of a full cache */

/* Bytes that octet_kv_cache_attend needs in args.workspace, 64-byte aligned, at any length of the cache. -1
 * where the plan does not fit the cache: octet_last_error() says why. */
OCTET_API int64_t octet_kv_cache_workspace_bytes(const octet_kv_cache* cache, const octet_plan* plan);

/* octet_attend of args.q against the cache's keys, so many as it holds; args.k, v and k_anchor are unset.
 * plan: the cache's own or one that differs in tokens_q, heads_q, masks, bias, input, output and wants_lse
 * only; its tokens_k is the capacity, while masks and the shape of a bias count the keys that there are. */
OCTET_API octet_status octet_kv_cache_attend(const octet_kv_cache* cache, const octet_plan* plan,
                                             const octet_attention_args* args);

/* A step of decoding: octet_kv_cache_append of k and v on args.parallel_for or args.stream, then
 * octet_kv_cache_attend, with the bits of the two calls; on a GPU in fewer launches. After a failure of
 * either the cache is unchanged. */
OCTET_API octet_status octet_kv_cache_step(octet_kv_cache* cache, const octet_tensor* k,
                                           const octet_tensor* v, const octet_plan* plan,
                                           const octet_attention_args* args);

/* ---- One operand ----------------------------------------------------------------------------------------
 */

/* How one operand becomes codes. octet_operand_recipe_of fills it as a plan would. */
typedef struct octet_operand_recipe {
  uint64_t struct_size;
  octet_dtype format; /* s8, s4, e4m3, e5m2: codes with scales; f16, bf16, f32, f64: converted only */
  octet_granularity granularity;
  int64_t block;      /* tokens a scale, for block and block_channel: 1 and more */
  float largest_code; /* what the largest absolute value maps to; 0: 127 (s8), 7 (s4), 448 (e4m3), 57344
                         (e5m2) */
  float shared_amax;  /* > 0: the largest absolute value of every group; 0: each group's own */
  int32_t scale_rule;
  int32_t block_floor_octaves; /* a token's scale is at least 2^-octaves of its key block's largest; 0: no
                                  floor */
  int32_t head_floor_octaves;  /* the same of its head's largest */
  octet_smooth smooth;
  int32_t rotate;
  int32_t equalise;
  uint64_t rotation_seed;
  octet_tensor
      anchor; /* f32 [batch or 1, head, 1, dim] for OCTET_SMOOTH_ANCHOR; data NULL: the first token */
} octet_operand_recipe;

/* Packed sequences of one operand: all zero for a dense tensor. */
typedef struct octet_packing {
  int64_t sequences;
  const int32_t* cu_seqlens; /* [sequences + 1] */
} octet_packing;

typedef int32_t octet_operand;
enum { OCTET_Q = 0, OCTET_K, OCTET_V };

/* The recipe by which the plan makes codes of one operand; recipe->struct_size is set. */
OCTET_API octet_status octet_operand_recipe_of(const octet_plan* plan, octet_operand operand,
                                               octet_operand_recipe* recipe);

/* The shapes and contiguous strides of what octet_quantize writes for x of `shape`; data pointers are NULL,
 * and tensors with shape 0 are not written. packed_sequences: 0 for dense. */
OCTET_API octet_status octet_quantized_layout(const int64_t shape[4], const octet_operand_recipe* recipe,
                                              int64_t packed_sequences, octet_quantized_tensor* layout);

/* Bytes of a tensor whose strides are contiguous (s4: half a byte a code). -1 where the shape or dtype is
 * wrong. */
OCTET_API int64_t octet_tensor_bytes(const octet_tensor* tensor);

/* Codes of x (f32, f16 or bf16, any strides) into out, whose pointers the caller has set. Codes are rounded
 * to nearest, ties to even, and clamped symmetrically. parallel_for and packing may be NULL. non_finite: NaN
 * or Inf in x and the format has none. Scratch: O(tokens + dim) a thread. */
OCTET_API octet_status octet_quantize(const octet_tensor* x, const octet_operand_recipe* recipe,
                                      const octet_packing* packing, const octet_quantized_tensor* out,
                                      const octet_parallel_for* parallel_for);

/* Real values of x into out: f32, in the shape before padding. */
OCTET_API octet_status octet_dequantize(const octet_quantized_tensor* x, const octet_packing* packing,
                                        const octet_tensor* out, const octet_parallel_for* parallel_for);

/* ---- What the processor can do --------------------------------------------------------------------------
 */

/* Measures for about `seconds` (0 to 60; 0.02 is enough) how often in a second the calling thread's processor
 * does `what`, in units of 1e9: what a kernel's speed is a share of. Threads that measure at once get what
 * each of them has.
 *
 * Operations (a multiplication and an addition count one each) of independent instructions
 * on registers: "tdpbusd", "tdpbf16ps" (AMX), "vpdpbusd_zmm", "vpdpbusd_ymm" (VNNI), "vpmaddwd_ymm" (with
 * vpaddd: the exact product of 8-bit codes on AVX2), "vdpbf16ps_zmm", "fma_f16_zmm", "fma_f32_zmm",
 * "fma_f32_ymm".
 *
 * Bytes: "read", of 256 MiB of memory.
 *
 * unsupported: this processor has no such instruction. invalid_argument lists the names. */
OCTET_API octet_status octet_peak_rate(const char* what, double seconds, double* giga_per_second);

#ifdef __cplusplus
}
#endif
#endif
