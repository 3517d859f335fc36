// Arbitrary bytes as the descriptors of the C interface: every call must return a status, whatever they say,
// and touch no memory but the tensors'. Tensors have buffers of exactly the bytes that their shape and
// strides reach, so that the address sanitizer sees every step beyond; one that reaches too far has none.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "octet/octet.h"
#include "tests/fuzz/require.h"

namespace {

using octet::fuzz::require;

constexpr std::int64_t kMaxBytes = 1 << 20;  // of one tensor: far above what small shapes need
constexpr double kMaxWork = 2e6;             // multiplications of one call: a millisecond or so

/// The input, consumed from its front; zeros when it is used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(sizeof value, size_);
    if (n > 0) std::memcpy(&value, data_, n);
    data_ += n, size_ -= n;
    return value;
  }
  std::int64_t below(int count) { return take<std::uint8_t>() % count; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

std::int64_t element_bytes(octet_dtype dtype) {
  switch (dtype) {
    case OCTET_F64:
      return 8;
    case OCTET_F32:
    case OCTET_S32:
      return 4;
    case OCTET_F16:
    case OCTET_BF16:
      return 2;
    default:
      return 1;
  }
}

/// Buffers of one input's tensors.
class Memory {
 public:
  explicit Memory(std::uint32_t seed) : state_(seed) {}

  /// Gives the tensor a buffer of its extent, with numbers in it, or none where that is too large.
  void back(octet_tensor& x) {
    x.data = nullptr;
    std::int64_t low = 0, high = 0;
    for (int a = 0; a < 4; ++a) {
      if (x.shape[a] <= 0 || x.shape[a] > kMaxBytes) return;
      if (x.stride[a] > kMaxBytes || x.stride[a] < -kMaxBytes) return;
      const std::int64_t reach = (x.shape[a] - 1) * x.stride[a];
      (reach < 0 ? low : high) += reach;
    }
    const std::int64_t size = element_bytes(x.dtype);
    const std::int64_t bytes = x.dtype == OCTET_S4 ? (high - low) / 2 + 1 : (high - low + 1) * size;
    if (bytes > kMaxBytes) return;
    std::uint8_t* base = allocate(static_cast<std::size_t>(bytes));
    if (x.dtype == OCTET_F32) fill(reinterpret_cast<float*>(base), static_cast<std::size_t>(bytes / 4));
    // note: two numbers a byte; an odd way down is refused.
    x.data = base - (x.dtype == OCTET_S4 ? low / 2 : low * size);
  }

  std::uint8_t* allocate(std::size_t bytes) {
    void* fresh = nullptr;
    // note: exactly that many, so that the byte behind the last one is poisoned.
    require(posix_memalign(&fresh, 64, bytes) == 0, "the machine has memory");
    owned_.emplace_back(static_cast<std::uint8_t*>(fresh), &std::free);
    std::uint8_t* memory = owned_.back().get();
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::uint8_t>(next() >> 24);
    return memory;
  }

 private:
  std::uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }
  void fill(float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(next() >> 8) / 8388608.0f - 1.0f;
  }

  std::uint32_t state_;
  std::vector<std::unique_ptr<std::uint8_t, decltype(&std::free)>> owned_;
};

/// Contiguous f32 or what `dtype` says.
octet_tensor plain(octet_dtype dtype, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) {
  octet_tensor x{};
  x.dtype = dtype;
  const std::int64_t shape[4] = {b, h, t, d};
  std::int64_t stride = 1;
  for (int a = 3; a >= 0; --a) {
    x.shape[a] = shape[a], x.stride[a] = stride;
    stride *= shape[a];
  }
  return x;
}

/// Overwrites some of the struct's bytes with the input's: `changes` times, 1, 4 or 8 bytes each.
template <class Struct>
void spoil(Bytes& bytes, Struct& s, std::int64_t changes) {
  auto* memory = reinterpret_cast<std::uint8_t*>(&s);
  for (; changes > 0; --changes) {
    const std::size_t width = std::size_t{1} << (bytes.below(3) == 0 ? 0 : 2 + bytes.below(2));
    const std::size_t at = bytes.take<std::uint16_t>() % sizeof s / width * width;
    const auto value = bytes.take<std::uint64_t>();
    std::memcpy(memory + at, &value, std::min(width, sizeof s - at));
  }
}

/// A problem that is nearly right, then changed.
octet_attention_desc problem(Bytes& bytes) {
  octet_attention_desc d{};
  d.struct_size = sizeof d;
  const auto heads_kv = 1 + bytes.below(2);
  const octet_tensor q = plain(OCTET_F32, 1 + bytes.below(2), heads_kv * (1 + bytes.below(2)),
                               bytes.below(20), 1 + bytes.below(40));
  const octet_tensor k = plain(OCTET_F32, q.shape[0], heads_kv, bytes.below(40), q.shape[3]);
  const octet_tensor v = plain(OCTET_F32, q.shape[0], heads_kv, k.shape[2], 1 + bytes.below(40));
  const octet_status made =
      octet_attention_desc_init(&d, static_cast<octet_scheme>(bytes.below(octet_scheme_count())), &q, &k, &v);
  require(made == OCTET_OK, "fitting tensors make a problem");
  d.mask = static_cast<octet_mask>(bytes.below(2));
  d.wants_lse = static_cast<std::int32_t>(bytes.below(2));
  d.bias = static_cast<octet_bias>(bytes.below(3));
  d.key_block = 16 * (1 + bytes.below(4));
  octet_scheme_info info{};
  info.struct_size = sizeof info;
  require(octet_scheme_describe(d.scheme, &info) == OCTET_OK, "every scheme has its row");
  constexpr octet_dtype kInputs[] = {OCTET_F32, OCTET_F16, OCTET_BF16};
  d.input = bytes.below(3) == 0 ? info.qk : kInputs[bytes.below(3)];
  if (bytes.below(4) == 0) d.output = info.output_codes != OCTET_OUTPUT_VALUES ? OCTET_S8 : OCTET_BF16;
  if (bytes.below(4) == 0) {
    d.sequences = 1 + bytes.below(4);
    d.batch = 1, d.bias = OCTET_BIAS_NONE;
  }
  spoil(bytes, d, bytes.below(4));
  return d;
}

bool is_small(const octet_attention_desc& d) {
  return static_cast<double>(d.batch) * static_cast<double>(d.heads_q) * static_cast<double>(d.tokens_q + 1) *
                 static_cast<double>(d.tokens_k + 1) * static_cast<double>(d.head_dim + d.head_dim_v) <
             kMaxWork &&
         d.batch * (d.heads_q + d.heads_kv) < 1000 && d.sequences < 100 && d.batch < 1000;
}

/// An operand as the plan wants it: plain, or codes in the plan's layout with arbitrary contents.
octet_quantized_tensor operand(const octet_plan* plan, const octet_attention_desc& d, octet_operand which) {
  const std::int64_t heads = which == OCTET_Q ? d.heads_q : d.heads_kv;
  const std::int64_t tokens = which == OCTET_Q ? d.tokens_q : d.tokens_k;
  octet_quantized_tensor x{};
  x.codes = plain(d.input, d.batch, heads, tokens, which == OCTET_V ? d.head_dim_v : d.head_dim);
  if (d.input == OCTET_F32 || d.input == OCTET_F16 || d.input == OCTET_BF16) return x;
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  require(octet_operand_recipe_of(plan, which, &recipe) == OCTET_OK, "a plan has recipes");
  const octet_status laid = octet_quantized_layout(x.codes.shape, &recipe, d.sequences, &x);
  require(laid == OCTET_OK, "a plan's recipe has a layout");
  return x;
}

/// Running lengths; the last one is the token count unless the input says otherwise.
const std::int32_t* offsets(Bytes& bytes, Memory& memory, std::int64_t sequences, std::int64_t tokens) {
  if (sequences == 0) return nullptr;
  auto* cu = reinterpret_cast<std::int32_t*>(memory.allocate(static_cast<std::size_t>(sequences + 1) * 4));
  for (std::int64_t s = 0; s <= sequences; ++s)
    cu[s] =
        static_cast<std::int32_t>(s == 0 ? 0 : std::min<std::int64_t>(cu[s - 1] + bytes.below(12), tokens));
  cu[sequences] = static_cast<std::int32_t>(tokens);
  if (bytes.below(8) == 0) cu[bytes.below(static_cast<int>(sequences) + 1)] = bytes.take<std::int32_t>();
  return cu;
}

void check_status(octet_status status) {
  require(status >= OCTET_OK && status < OCTET_INTERNAL, "a status is one of ours and nobody's bug");
  if (status != OCTET_OK)
    octet::fuzz::require_sentence({static_cast<octet::Code>(status), octet_last_error()});
}

void attend(Bytes& bytes) {
  const octet_attention_desc d = problem(bytes);
  octet_plan* made = nullptr;
  check_status(octet_plan_create(&made, &d, nullptr));
  const std::unique_ptr<octet_plan, decltype(&octet_plan_destroy)> plan(made, &octet_plan_destroy);
  if (!plan || !is_small(d)) return;
  Memory memory(bytes.take<std::uint32_t>());
  octet_attention_args args{};
  args.struct_size = sizeof args;
  args.q = operand(made, d, OCTET_Q), args.k = operand(made, d, OCTET_K), args.v = operand(made, d, OCTET_V);
  args.o = plain(d.output, d.batch, d.heads_q, d.tokens_q, d.head_dim_v);
  if (d.wants_lse) args.lse = plain(OCTET_F32, d.batch, d.heads_q, d.tokens_q, 1);
  if (d.output == OCTET_S8) args.o_scale = plain(OCTET_F32, d.batch, d.heads_q, d.tokens_q, 1);
  if (d.bias != OCTET_BIAS_NONE) {
    args.bias = plain(d.bias == OCTET_BIAS_BOOLEAN ? OCTET_BOOLEAN : OCTET_F32, bytes.below(2) ? d.batch : 1,
                      bytes.below(2) ? d.heads_q : 1, d.tokens_q, bytes.below(2) ? d.tokens_k : 1);
  }
  octet_tensor* const tensors[] = {&args.q.codes, &args.q.scales, &args.k.codes,  &args.k.scales,
                                   &args.k.mean,  &args.v.codes,  &args.v.scales, &args.v.channel_exponent,
                                   &args.o,       &args.lse,      &args.o_scale,  &args.bias};
  for (std::int64_t changes = bytes.below(3); changes > 0; --changes)
    spoil(bytes, *tensors[static_cast<std::size_t>(bytes.below(12))], 1);
  for (octet_tensor* x : tensors) memory.back(*x);
  args.cu_seqlens_q = offsets(bytes, memory, d.sequences, d.tokens_q);
  args.cu_seqlens_k = offsets(bytes, memory, d.sequences, d.tokens_k);
  args.workspace_bytes = octet_plan_workspace_bytes(made) - (bytes.below(16) == 1 ? 1 : 0);
  if (args.workspace_bytes > 64 * kMaxBytes) return;
  args.workspace = memory.allocate(static_cast<std::size_t>(std::max<std::int64_t>(args.workspace_bytes, 0)));
  check_status(octet_attend(made, &args));
  if (bytes.below(2) == 0) return;
  const octet_status packed = octet_pack(made, &args);
  check_status(packed);
  if (packed == OCTET_OK) check_status(octet_attend_packed(made, &args));
}

void quantize(Bytes& bytes) {
  octet_tensor x = plain(static_cast<octet_dtype>(bytes.below(3)), 1 + bytes.below(2), 1 + bytes.below(2),
                         bytes.below(30), 1 + bytes.below(40));
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  recipe.format = static_cast<octet_dtype>(bytes.below(11));
  recipe.granularity = static_cast<octet_granularity>(bytes.below(6));
  recipe.block = 1 + bytes.below(20);
  recipe.smooth = static_cast<octet_smooth>(bytes.below(3));
  recipe.rotate = static_cast<std::int32_t>(bytes.below(2));
  recipe.equalise = static_cast<std::int32_t>(bytes.below(2));
  spoil(bytes, recipe, bytes.below(3));
  Memory memory(bytes.take<std::uint32_t>());
  recipe.anchor.data = nullptr;  // note: the bytes may have made a pointer of it
  octet_packing packing{};
  if (bytes.below(3) == 0) {
    x.shape[0] = 1;
    packing.sequences = bytes.below(4);
    packing.cu_seqlens = offsets(bytes, memory, packing.sequences, x.shape[2]);
  }
  octet_quantized_tensor out{};
  const octet_status laid = octet_quantized_layout(x.shape, &recipe, packing.sequences, &out);
  check_status(laid);
  if (laid != OCTET_OK) return;
  octet_tensor* const parts[] = {&out.codes, &out.scales, &out.channel_exponent, &out.mean};
  const octet_tensor before = x;
  if (bytes.below(2)) spoil(bytes, x, 1);
  if (bytes.below(2)) spoil(bytes, *parts[static_cast<std::size_t>(bytes.below(4))], 1);
  memory.back(x);
  for (octet_tensor* part : parts) memory.back(*part);
  const octet_status quantized = octet_quantize(&x, &recipe, &packing, &out, nullptr);
  check_status(quantized);
  octet_tensor real = before;
  real.dtype = OCTET_F32;
  if (bytes.below(2)) spoil(bytes, out.tokens_per_scale, 1);
  memory.back(real);
  check_status(octet_dequantize(&out, &packing, &real, nullptr));
}

void merge(Bytes& bytes) {
  Memory memory(bytes.take<std::uint32_t>());
  octet_tensor x[6];
  const std::int64_t h = bytes.below(3), t = bytes.below(5), d = bytes.below(5);
  for (int i = 0; i < 6; ++i) x[i] = plain(OCTET_F32, 1, h, t, i % 2 ? 1 : d);
  for (std::int64_t changes = bytes.below(3); changes > 0; --changes)
    spoil(bytes, x[static_cast<std::size_t>(bytes.below(6))], 1);
  for (octet_tensor& each : x) memory.back(each);
  check_status(octet_merge_states(&x[0], &x[1], &x[2], &x[3], &x[4], &x[5]));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return setenv("OCTET_THREADS", "1",
                1);  // note: threads for microseconds of work would be all that it measures
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  switch (bytes.below(4)) {
    case 0:
      quantize(bytes);
      break;
    case 1:
      merge(bytes);
      break;
    default:
      attend(bytes);
  }
  return 0;
}
