// The GPU's quantiser against the CPU's: every byte of codes, scales, exponents and means, over formats,
// granularities, smoothing, rotation, equalisation, rules, floors, dtypes, strides, lengths, dims and packed
// sequences, each step in its own launch and short sequences in one; then dequantising, the shared amax, q's
// products with K's mean, and several operands in one call. Prints a line a group and the
// first difference with its place; where there is no GPU it says so and does nothing.
//   quantize_device [--cases N] [--seed N]    N inputs for each recipe
//   quantize_device --time                    GB/s of int8's default recipe beside a plain copy's
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "capi/operands.h"
#include "cuda/quant/quantize.h"
#include "numerics/formats.h"
#include "octet/dtype.hpp"
#include "quant/quantize.h"
#include "quant/rows.h"

namespace octet {
namespace {

using Shape = std::array<std::int64_t, 4>;
using Bytes = std::vector<unsigned char>;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s failed: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

using capi::span_bytes;

// --- Memory: a view's bytes on both sides, poisoned, with margins

constexpr std::int64_t kMargin = 256;
constexpr unsigned char kPoison = 0xa5;

class Buffer {
 public:
  /// shift: bytes that the first element lies beyond an aligned address.
  explicit Buffer(std::int64_t bytes, std::int64_t shift = 0)
      : shift_(kMargin + shift), host_(static_cast<std::size_t>(bytes + 2 * kMargin + shift), kPoison) {
    check(cudaMalloc(&device_, host_.size()), "cudaMalloc");
    upload();
  }
  ~Buffer() { cudaFree(device_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* host() { return host_.data() + shift_; }
  void* device() { return device_ + shift_; }
  void upload() { check(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice), "upload"); }
  /// All that the device holds, margins too.
  Bytes download() const {
    Bytes bytes(host_.size());
    check(cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost), "download");
    return bytes;
  }
  const Bytes& content() const { return host_; }
  std::int64_t shift() const { return shift_; }

 private:
  std::int64_t shift_;
  Bytes host_;
  unsigned char* device_ = nullptr;
};

/// One view with memory on both sides.
struct Twin {
  TensorView host, device;
  Buffer buffer;

  explicit Twin(const TensorView& view, std::int64_t shift = 0)
      : host(view), device(view), buffer(span_bytes(view), shift) {
    if (span_bytes(view) == 0) return;
    host.data = buffer.host(), device.data = buffer.device(), device.device = Device::cuda;
  }
};

bool is_nan_code(DType dtype, const unsigned char* at) {
  const auto word = [&](auto of) {
    std::memcpy(&of, at, sizeof(of));
    return of;
  };
  switch (dtype) {
    case DType::e4m3:
      return (*at & 0x7f) == 0x7f;
    case DType::e5m2:
      return (*at & 0x7f) > 0x7c;
    case DType::f16:
      return (word(std::uint16_t{}) & 0x7fff) > 0x7c00;
    case DType::bf16:
      return (word(std::uint16_t{}) & 0x7fff) > 0x7f80;
    case DType::f32:
      return std::isnan(word(0.0f));
    case DType::f64:
      return std::isnan(word(0.0));
    default:
      return false;
  }
}

/// The first byte that differs, other than between two NaNs, or -1.
std::int64_t first_difference(const Twin& twin) {
  const Bytes device = twin.buffer.download();
  const Bytes& host = twin.buffer.content();
  if (device == host) return -1;
  const auto element = static_cast<std::size_t>(std::max(dtype_bits(twin.host.dtype) / 8, 1));
  const auto shift = static_cast<std::size_t>(twin.buffer.shift());
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (host[i] == device[i]) continue;
    const std::size_t at = i < shift ? i : shift + (i - shift) / element * element;
    const bool is_inside = i >= shift && at + element <= host.size();
    if (is_inside && is_nan_code(twin.host.dtype, &host[at]) && is_nan_code(twin.host.dtype, &device[at]))
      continue;
    std::printf("    byte %zd: host %02x, device %02x\n",
                static_cast<std::ptrdiff_t>(i) - twin.buffer.shift(), host[i], device[i]);
    return static_cast<std::int64_t>(i) - twin.buffer.shift();
  }
  return -1;
}

/// Where a byte offset of a view lies.
std::string place_of(const TensorView& x, std::int64_t byte) {
  std::int64_t left = byte * 8 / dtype_bits(x.dtype);
  if (byte < 0 || byte >= span_bytes(x)) return "outside of it, byte " + std::to_string(byte);
  std::array<std::size_t, 4> axes{0, 1, 2, 3};
  std::sort(axes.begin(), axes.end(), [&](auto a, auto b) { return x.stride[a] > x.stride[b]; });
  Shape at{};
  for (const std::size_t a : axes)
    if (x.stride[a] > 0) at[a] = std::min(left / x.stride[a], x.shape[a] - 1), left -= at[a] * x.stride[a];
  return shape_text(at);
}

// --- Cases

struct Case {
  Shape shape{};
  DType dtype = DType::f32;
  std::vector<std::int32_t> cu_seqlens;  // empty: dense
  quant::OperandRecipe recipe;
  int input_layout = 0;   // 0: as the shape is; 1: tokens before heads; 2: dim stride 2; 3: unaligned rows
  int output_layout = 0;  // 0: layout()'s; 1: tokens before heads, rows apart, odd address
  int data = 0;
  bool has_anchor = false;
  bool device_amax = false;
  unsigned seed = 0;

  std::string text() const {
    std::string t =
        "shape " + shape_text(shape) + " " + dtype_name(dtype) + " to " + dtype_name(recipe.format) +
        ", granularity " + std::to_string(static_cast<int>(recipe.granularity)) + ", block " +
        std::to_string(recipe.block) + ", rule " + std::to_string(static_cast<int>(recipe.rule)) +
        ", floors " + std::to_string(recipe.block_floor_octaves) + " " +
        std::to_string(recipe.head_floor_octaves) + ", smooth " +
        std::to_string(static_cast<int>(recipe.smooth)) + (has_anchor ? " given" : "") +
        (recipe.rotate == Rotate::on ? ", rotated" : "") +
        (recipe.equalise == Equalise::on ? ", equalised" : "") + ", amax " +
        std::to_string(recipe.shared_amax) + (device_amax ? " on the device" : "") + ", largest " +
        std::to_string(recipe.largest_code) + ", layouts " + std::to_string(input_layout) + " " +
        std::to_string(output_layout) + ", data " + std::to_string(data) + ", seed " + std::to_string(seed);
    if (!cu_seqlens.empty()) {
      t += ", cu_seqlens";
      for (const auto c : cu_seqlens) t += " " + std::to_string(c);
    }
    return t;
  }
};

TensorView input_view(const Case& c) {
  const auto [b, h, t, d] = c.shape;
  switch (c.input_layout) {
    case 1:
      return {nullptr, c.dtype, Device::cpu, c.shape, {t * h * d, d, h * d, 1}};
    case 2:
      return {nullptr, c.dtype, Device::cpu, c.shape, {h * t * d * 2, t * d * 2, d * 2, 2}};
    case 3:
      return {nullptr, c.dtype, Device::cpu, c.shape, {h * t * (d + 3), t * (d + 3), d + 3, 1}};
    default:
      return {nullptr, c.dtype, Device::cpu, c.shape, {h * t * d, t * d, d, 1}};
  }
}

/// data 0: normal; 1: with outlying channels and zeros among tokens and channels; 2: of all sizes, the
/// smallest and largest too; 3: as 1, with NaN and Inf; 4: zeros.
void fill(const Case& c, const TensorView& x) {
  std::mt19937 generator(c.seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const auto [b, h, t, d] = c.shape;
  for (std::int64_t i = 0; i < b * h * t * d; ++i) {
    const std::int64_t channel = i % d, token = i / d % t, head = i / d / t % h, batch = i / d / t / h;
    float v = normal(generator);
    if (c.data == 1 || c.data == 3) {
      if (channel % 5 == 1) v = v * 30 + 8;
      if (channel % 7 == 3) v *= 0x1p-20f;
      if (token % 11 == 4 || (channel == 2 && head == 0)) v = 0;
    }
    if (c.data == 2) v = std::ldexp(v, static_cast<int>(generator() % 240) - 122);
    if (c.data == 2 && token % 3 == 1) v = std::ldexp(v, -60);
    if (c.data == 3 && generator() % 997 == 0)
      v = generator() % 3 == 0 ? std::nanf("") : generator() % 2 ? HUGE_VALF : -HUGE_VALF;
    // A channel of zeros with a NaN: its largest number is none, its row counts for no channel.
    if (c.data == 3 && head == 0 && channel == 2 && token % 50 == 7) v = std::nanf("");
    if (c.data == 4) v = 0;
    const std::int64_t at = quant::row_offset(x, batch, head, token) + channel * x.stride[3];
    if (c.dtype == DType::f32)
      static_cast<float*>(x.data)[at] = v;
    else
      static_cast<std::uint16_t*>(x.data)[at] = c.dtype == DType::f16 ? f16_from_f32(v) : bf16_from_f32(v);
  }
}

/// The strides of an output in another order, and rows further apart.
TensorView spread(TensorView x, int output_layout) {
  if (output_layout == 0 || x.shape == Shape{}) return x;
  const auto [b, h, t, d] = x.shape;
  std::int64_t row = d + (x.dtype == DType::s4 ? 4 + d % 2 : 3);
  if (x.stride[2] == 0) return x;
  return {nullptr, x.dtype, x.device, x.shape, {t * h * row, row, h * row, x.stride[3]}};
}

bool same(const char* what, const Twin& twin, const Case& c) {
  const std::int64_t byte = first_difference(twin);
  if (byte == -1) return true;
  std::printf("  %s differ at %s\n    %s\n", what, place_of(twin.host, byte).c_str(), c.text().c_str());
  return false;
}

bool is_ok(const Status& status, const Case& c) {
  if (status.ok()) return true;
  std::printf("  refused: %s\n    %s\n", status.message().c_str(), c.text().c_str());
  return false;
}

bool packs_alike(std::vector<cuda::PlainOperand>& operands, std::size_t of_v, const Case& c,
                 const TensorView& as_rows, Buffer& scratch, int& packed);

/// packed: counts V whose codes were packed, in a second run; null: it is not asked for.
bool runs(Case c, cuda::Launches launches, int* packed_values = nullptr) {
  const bool packed = !c.cu_seqlens.empty();
  const auto count = packed ? static_cast<std::int64_t>(c.cu_seqlens.size()) - 1 : c.shape[0];
  Twin x(input_view(c));
  fill(c, x.host);
  x.buffer.upload();
  Buffer lengths(static_cast<std::int64_t>(c.cu_seqlens.size() * 4)), words(8), scratch(0);
  std::memcpy(lengths.host(), c.cu_seqlens.data(), c.cu_seqlens.size() * 4);
  lengths.upload();
  const Sequences sequences{count, c.shape[2], packed ? c.cu_seqlens.data() : nullptr};
  const Sequences on_device{count, c.shape[2],
                            packed ? static_cast<const std::int32_t*>(lengths.device()) : nullptr};

  Twin anchor({nullptr, DType::f32, Device::cpu, {1, c.shape[1], 1, c.shape[3]}, {0, c.shape[3], 0, 1}});
  for (std::int64_t i = 0; i < c.shape[1] * c.shape[3]; ++i)
    static_cast<float*>(anchor.host.data)[i] = i == 5 ? HUGE_VALF : std::sin(static_cast<float>(i));
  anchor.buffer.upload();
  quant::OperandRecipe for_host = c.recipe, for_device = c.recipe;
  if (c.has_anchor) for_host.anchor = anchor.host, for_device.anchor = anchor.device;
  cuda::DeviceWords device_words;
  if (c.device_amax) {
    std::memcpy(words.host(), &c.recipe.shared_amax, 4);
    for_device.shared_amax = 0;
    device_words.shared_amax = static_cast<const float*>(words.device());
  }
  std::memset(static_cast<char*>(words.host()) + 4, 0, 4);
  words.upload();
  device_words.non_finite = static_cast<std::uint32_t*>(words.device()) + 1;

  const QuantizedTensor shapes = quant::layout(c.shape, c.recipe, packed ? count : 0);
  Twin codes(spread(shapes.codes, c.output_layout),
             c.output_layout * std::max(dtype_bits(c.recipe.format) / 8, 1)),
      scales(spread(shapes.scales, c.output_layout)),
      exponent(spread(shapes.channel_exponent, c.output_layout)), mean(spread(shapes.mean, c.output_layout));
  QuantizedTensor host = shapes, device = shapes;
  host.codes = codes.host, host.scales = scales.host, host.channel_exponent = exponent.host,
  host.mean = mean.host;
  device.codes = codes.device, device.scales = scales.device, device.channel_exponent = exponent.device,
  device.mean = mean.device;
  const Status expected = quant::quantize(x.host, sequences, for_host, host, {});
  const std::int64_t bytes = cuda::quantize_scratch_bytes(c.shape, for_device, packed ? count : 0);
  Buffer work(bytes);
  const cuda::PlainOperand operand{x.device, on_device, for_device, device};
  if (!is_ok(cuda::quantize({&operand, 1}, work.device(), nullptr, device_words, launches), c)) return false;
  check(cudaDeviceSynchronize(), c.text().c_str());
  bool good = same("codes", codes, c);
  good &= same("scales", scales, c);
  good &= same("exponents", exponent, c);
  good &= same("means", mean, c);
  const Bytes after = words.download(), scratch_after = work.download();
  const bool found = after[static_cast<std::size_t>(words.shift()) + 4] != 0;
  if (found != (expected.code() == Code::non_finite) || (!expected.ok() && !found)) {
    std::printf("  non_finite is %d, but the CPU says: %s\n    %s\n", found, expected.message().c_str(),
                c.text().c_str());
    good = false;
  }
  for (std::int64_t i = 0; i < kMargin; ++i) {
    if (scratch_after[static_cast<std::size_t>(i)] == kPoison &&
        scratch_after[scratch_after.size() - 1 - static_cast<std::size_t>(i)] == kPoison)
      continue;
    std::printf("  scratch was left\n    %s\n", c.text().c_str());
    good = false;
    break;
  }
  if (c.shape[2] == 0 || !good) return good;
  if (packed_values) {
    std::vector<cuda::PlainOperand> again{operand};
    good &= packs_alike(again, 0, c, host.codes, work, *packed_values);
  }

  // The GPU's own codes, which are the CPU's, and back.
  TensorView real{nullptr, DType::f32, Device::cpu, c.shape, {}};
  real.stride = {c.shape[1] * c.shape[2] * c.shape[3], c.shape[2] * c.shape[3], c.shape[3], 1};
  Twin numbers(spread(real, c.output_layout));
  if (!quant::dequantize(host, sequences, numbers.host, {}).ok()) return true;
  Buffer more(cuda::dequantize_scratch_bytes(on_device));
  if (!is_ok(cuda::dequantize(device, on_device, numbers.device, more.device(), nullptr), c)) return false;
  check(cudaDeviceSynchronize(), c.text().c_str());
  return same("dequantised numbers", numbers, c);
}

/// An input for a recipe, all of it drawn.
void draw(Case& c, std::mt19937& generator) {
  const auto pick = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[generator() % sizeof...(choices)];
  };
  quant::OperandRecipe& r = c.recipe;
  const auto length = pick(1, 49, 63, 64, 65, 127, 128, 197, 256, 300, 1000, 0);
  const auto dim = pick(8, 32, 40, 64, 80, 128, 256, 1, 7, 20, 49);
  c.shape = {pick(1, 1, 2, 3), pick(1, 2, 3), length, dim};
  c.dtype = pick(DType::f32, DType::f16, DType::bf16);
  c.input_layout = pick(0, 0, 1, 1, 2, 3);
  c.output_layout = pick(0, 0, 1);
  c.data = pick(0, 0, 1, 1, 2, 3, 4);
  c.has_anchor = r.smooth == Smooth::anchor && pick(true, false);
  c.seed = generator();
  r.block = pick(16, 64, 128, 128, 100, 1, 512);
  r.rotation_seed = pick(std::uint64_t{0x6f63746574}, std::uint64_t{7});
  r.rule = pick(quant::ScaleRule::nearest, quant::ScaleRule::nearest, quant::ScaleRule::power_of_two,
                quant::ScaleRule::sixteenths);
  r.largest_code = capi::largest_code(r.format);
  if (r.format == DType::s8 && pick(0, 0, 0, 1)) r.largest_code = 127.5f;
  r.block_floor_octaves = pick(0, 0, 3, 8, 20);
  r.head_floor_octaves = pick(0, 0, 0, 5);
  if (pick(0, 0, 0, 1)) r.shared_amax = pick(0.5f, 3.0f, 0x1p-130f), c.device_amax = pick(true, false);
  c.cu_seqlens.clear();
  if (pick(true, false)) {
    c.shape[0] = 1;
    c.cu_seqlens = {0};
    for (int s = 0, sequences = pick(1, 2, 5, 40); s < sequences; ++s)
      c.cu_seqlens.push_back(c.cu_seqlens.back() + pick(0, 1, 15, 16, 49, 64, 127, 128, 129, 197, 300));
    c.shape[2] = c.cu_seqlens.back();
  } else if (generator() % 16 == 0) {
    c.shape[2] = 5000;  // sums over tokens of several blocks of threads
  }
}

struct Options {
  int cases = 6;
  unsigned seed = 1;
  std::string only;  ///< one part, as sanitizers want; empty: all
  bool times = false;
};

int compare_recipes(const Options& options) {
  const DType formats[] = {DType::s8,  DType::s4,   DType::e4m3, DType::e5m2,
                           DType::f16, DType::bf16, DType::f32,  DType::f64};
  const char* granularities[] = {"tensor", "head", "block", "token", "channel", "block_channel"};
  std::mt19937 generator(options.seed);
  int failed = 0;
  for (const DType format : formats)
    for (int granularity = 0; granularity < 6; ++granularity) {
      const bool has_scales =
          format == DType::s8 || format == DType::s4 || format == DType::e4m3 || format == DType::e5m2;
      if (!has_scales && granularity != 3) continue;
      int bad = 0, ran = 0;
      for (const Smooth smooth : {Smooth::none, Smooth::mean, Smooth::anchor})
        for (const Rotate rotate : {Rotate::off, Rotate::on})
          for (const Equalise equalise : {Equalise::off, Equalise::on})
            for (int i = 0; i < options.cases; ++i) {
              Case c;
              c.recipe.format = format;
              c.recipe.granularity = static_cast<Granularity>(granularity);
              c.recipe.smooth = smooth, c.recipe.rotate = rotate, c.recipe.equalise = equalise;
              draw(c, generator);
              ++ran;
              for (const cuda::Launches launches : {cuda::Launches::fewest, cuda::Launches::one_a_step})
                if (bad < 3 && !runs(c, launches)) ++bad;
            }
      std::printf("%-5s %-13s %d of %d inputs differ\n", dtype_name(format).c_str(),
                  has_scales ? granularities[granularity] : "converted", bad, ran);
      std::fflush(stdout);
      failed += bad;
    }
  return failed;
}

// --- What is computed of several operands

double number_at(const TensorView& x, std::int64_t at) {
  if (x.dtype == DType::f32) return static_cast<const float*>(x.data)[at];
  const std::uint16_t code = static_cast<const std::uint16_t*>(x.data)[at];
  return x.dtype == DType::f16 ? f32_from_f16(code) : f32_from_bf16(code);
}

/// The CPU's order (capi/prepass.cpp): four sums beside each other.
float q_anchor(const TensorView& q, std::int64_t q_at, const TensorView& mean, std::int64_t mean_at,
               float scale) {
  double sum[4] = {};
  const std::int64_t dim = q.shape[3], fours = dim / 4 * 4;
  for (std::int64_t c = 0; c < dim; ++c)
    sum[c < fours ? c % 4 : 0] += number_at(q, q_at + c * q.stride[3]) * number_at(mean, mean_at + c);
  return static_cast<float>(double{scale} * ((sum[0] + sum[1]) + (sum[2] + sum[3])));
}

int compare_q_anchor(unsigned seed) {
  int bad = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t dim : {1, 7, 64, 80, 128})
      for (const bool packed : {false, true}) {
        Case c;
        c.shape = {packed ? 1 : 2, 6, 131, dim};
        c.dtype = dtype, c.data = 1, c.seed = seed, c.input_layout = 1;
        if (packed) c.cu_seqlens = {0, 31, 31, 131};
        const std::int64_t sequences = packed ? 3 : 1, count = packed ? 3 : 2;
        Twin q(input_view(c));
        fill(c, q.host);
        q.buffer.upload();
        Twin mean({nullptr,
                   DType::f32,
                   Device::cpu,
                   {c.shape[0], 2, sequences, dim},
                   {2 * sequences * dim, sequences * dim, dim, 1}});
        for (std::int64_t i = 0; i < c.shape[0] * 2 * sequences * dim; ++i)
          static_cast<float*>(mean.host.data)[i] = std::sin(static_cast<float>(i) * 1.7f);
        mean.buffer.upload();
        Twin out({nullptr, DType::f32, Device::cpu, {c.shape[0], 6, 131, 1}, {6 * 131, 131, 1, 1}});
        Buffer lengths(16);
        std::memcpy(lengths.host(), c.cu_seqlens.data(), c.cu_seqlens.size() * 4);
        lengths.upload();
        const Sequences on_host{count, 131, packed ? c.cu_seqlens.data() : nullptr};
        const Sequences on_device{count, 131,
                                  packed ? static_cast<const std::int32_t*>(lengths.device()) : nullptr};
        for (std::int64_t s = 0; s < count; ++s)
          for (std::int64_t h = 0; h < 6; ++h)
            for (std::int64_t t = 0; t < on_host.length(s); ++t) {
              const std::int64_t b = on_host.batch(s), token = on_host.begin(s) + t;
              static_cast<float*>(out.host.data)[quant::row_offset(out.host, b, h, token)] =
                  q_anchor(q.host, quant::row_offset(q.host, b, h, token), mean.host,
                           quant::row_offset(mean.host, b, h / 3, packed ? s : 0), 0.0884f);
            }
        if (!is_ok(cuda::fill_q_anchor(q.device, on_device, mean.device, 0.0884f, out.device, nullptr), c) ||
            !same("products with K's mean", out, c))
          ++bad;
      }
  std::printf("q_anchor: %d of 30 inputs differ\n", bad);
  return bad;
}

/// What quantize() writes, in memory of its own.
struct Written {
  Twin codes, scales, exponent, mean;
  QuantizedTensor out;

  explicit Written(const QuantizedTensor& layout)
      : codes(layout.codes),
        scales(layout.scales),
        exponent(layout.channel_exponent),
        mean(layout.mean),
        out(layout) {
    out.codes = codes.device, out.scales = scales.device, out.channel_exponent = exponent.device,
    out.mean = mean.device;
  }
  bool operator==(const Written& other) const {
    return codes.buffer.download() == other.codes.buffer.download() &&
           scales.buffer.download() == other.scales.buffer.download() &&
           exponent.buffer.download() == other.exponent.buffer.download() &&
           mean.buffer.download() == other.mean.buffer.download();
  }
  /// Where the first byte is that another one has otherwise.
  std::string difference_from(const Written& other) const {
    const std::pair<const char*, const Twin Written::*> parts[] = {{"codes", &Written::codes},
                                                                   {"scales", &Written::scales},
                                                                   {"exponents", &Written::exponent},
                                                                   {"means", &Written::mean}};
    for (const auto& [name, member] : parts) {
      const Twin& own = this->*member;
      const Bytes a = own.buffer.download(), b = (other.*member).buffer.download();
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i]) continue;
        const std::int64_t byte = static_cast<std::int64_t>(i) - own.buffer.shift();
        return std::string(name) + " differ at " + place_of(own.host, byte) + ": " + std::to_string(a[i]) +
               " and " + std::to_string(b[i]);
      }
    }
    return "nothing differs";
  }
};

/// V's codes as rows and where attention reads them.
class PackedTwin {
 public:
  /// codes: of the host. Packed by the key's place here: in the slots of its 16, four lanes' keys of two
  /// eights.
  PackedTwin(const Case& c, const TensorView& codes)
      : case_(c),
        blocks_((c.shape[2] + c.recipe.block - 1) / c.recipe.block),
        twin_({nullptr,
               DType::s8,
               Device::cpu,
               {c.shape[1], c.shape[0] * blocks_, c.shape[3], kPlaces},
               {c.shape[0] * blocks_ * c.shape[3] * kPlaces, c.shape[3] * kPlaces, kPlaces, 1}}) {
    std::memset(twin_.host.data, 0, static_cast<std::size_t>(span_bytes(twin_.host)));
    const auto* const from = static_cast<const std::int8_t*>(codes.data);
    auto* const to = static_cast<std::int8_t*>(twin_.host.data);
    const auto [batch, heads, tokens, dim] = c.shape;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < tokens; ++t) {
          const std::int64_t slot = (h * batch + b) * blocks_ + t / c.recipe.block;
          const std::int64_t key = t % c.recipe.block, of_16 = key % 16;
          const std::int64_t place = key - of_16 + of_16 % 8 / 2 * 4 + of_16 / 8 * 2 + of_16 % 2;
          for (std::int64_t d = 0; d < dim; ++d)
            to[(slot * dim + d) * kPlaces + place] =
                from[quant::row_offset(codes, b, h, t) + d * codes.stride[3]];
        }
  }
  cuda::PackedValues where() const {
    cuda::PackedValues packed;
    packed.data = static_cast<std::byte*>(twin_.device.data);
    packed.blocks_per_head = static_cast<std::int32_t>(case_.shape[0] * blocks_);
    packed.blocks_of_sequence = static_cast<std::int32_t>(blocks_);
    packed.key_block = static_cast<std::int32_t>(case_.recipe.block);
    return packed;
  }
  bool is_same() const { return same("packed codes", twin_, case_); }

 private:
  static constexpr std::int64_t kPlaces = cuda::PackedValues::kPlaces;
  const Case& case_;
  std::int64_t blocks_;
  Twin twin_;
};

/// The same operands once more, of which V's codes (`as_rows`, of the host) may be packed; counts those that
/// are.
bool packs_alike(std::vector<cuda::PlainOperand>& operands, std::size_t of_v, const Case& c,
                 const TensorView& as_rows, Buffer& scratch, int& packed) {
  const quant::OperandRecipe& recipe = c.recipe;
  if (recipe.format != DType::s8 || recipe.rotate == Rotate::on || recipe.smooth != Smooth::none ||
      recipe.block % 16 != 0 || recipe.block > cuda::PackedValues::kPlaces)
    return true;
  const PackedTwin twin(c, as_rows);
  bool is_packed = false;
  operands[of_v].packed = twin.where(), operands[of_v].is_packed = &is_packed;
  const bool good = is_ok(cuda::quantize(operands, scratch.device(), nullptr, {}), c);
  check(cudaDeviceSynchronize(), "packed values");
  packed += is_packed;
  return good && (!is_packed || twin.is_same());
}

Case long_case(const Shape& shape, bool is_v) {
  Case c;
  c.shape = shape, c.dtype = DType::bf16;
  if (is_v)
    c.recipe.equalise = Equalise::on, c.recipe.block_floor_octaves = 20;
  else
    c.recipe.rotate = Rotate::on, c.recipe.smooth = Smooth::mean;
  return c;
}

/// K, V and Q as graphs on streams of their own, at the same time and over and over: the bytes of a run
/// alone. The kernels of K and V want all processors, which they have from each other and from Q's.
bool runs_beside_others(unsigned seed) {
  constexpr int kReplays = 100;
  struct Running {
    Case c;
    Twin x;
    Written alone, beside;
    Buffer scratch;
    cudaStream_t stream = nullptr;
    cudaGraphExec_t ready = nullptr;

    explicit Running(const Case& of)
        : c(of),
          x(input_view(of)),
          alone(quant::layout(of.shape, of.recipe, 0)),
          beside(quant::layout(of.shape, of.recipe, 0)),
          scratch(cuda::quantize_scratch_bytes(of.shape, of.recipe, 0)) {
      fill(c, x.host);
      x.buffer.upload();
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    void queue(const Written& to, void* on) {
      is_ok(
          cuda::quantize(x.device, {c.shape[0], c.shape[2], nullptr}, c.recipe, to.out, scratch.device(), on),
          c);
    }
  };
  Case of_k = long_case({1, 16, 9000, 128}, false), of_v = long_case({1, 16, 9000, 128}, true), of_q = of_k;
  of_q.recipe.smooth = Smooth::none;
  of_k.seed = seed, of_v.seed = seed + 1, of_q.seed = seed + 2;
  Running k(of_k), v(of_v), q(of_q);
  for (Running* of : {&k, &v, &q}) {
    of->queue(of->alone, nullptr);
    check(cudaDeviceSynchronize(), "alone");
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(of->stream, cudaStreamCaptureModeGlobal), "capture");
    of->queue(of->beside, of->stream);
    check(cudaStreamEndCapture(of->stream, &graph), "capture");
    check(cudaGraphInstantiate(&of->ready, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
  }
  for (int i = 0; i < kReplays; ++i)
    for (const Running* of : {&k, &v, &q}) check(cudaGraphLaunch(of->ready, of->stream), "cudaGraphLaunch");
  check(cudaDeviceSynchronize(), "beside each other");
  bool good = true;
  for (const Running* of : {&k, &v, &q}) {
    if (!(of->alone == of->beside))
      std::printf("  replays differ\n    %s\n", of->c.text().c_str()), good = false;
    cudaGraphExecDestroy(of->ready), cudaStreamDestroy(of->stream);
  }
  return good;
}

/// Operands that are read once (one_pass.cu): lengths that do not fill their leaves, more and fewer leaves
/// than processors, all dtypes and dims that it takes, and numbers that it leaves to others. And widths
/// that it does not take, of many leaves.
int compare_long(const Options& options) {
  int bad = 0, ran = 0, packed = 0;
  for (const Shape& shape :
       {Shape{1, 5, 14001, 64}, Shape{2, 18, 2000, 128}, Shape{1, 9, 15001, 128}, Shape{2, 24, 3001, 256}})
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const bool is_v : {false, true}) {
        // The largest ones take their time.
        if ((shape[2] == 15001 || shape[3] == 256) && data % 2 == 0) continue;
        Case c = long_case(shape, is_v);
        c.data = data, c.seed = options.seed + static_cast<unsigned>(ran);
        c.dtype = ran / 2 % 2 == 0 ? DType::bf16 : DType::f16;
        if (shape[3] == 256 && data == 3) c.dtype = DType::f32;
        c.input_layout = ran / 4 % 2;
        if (is_v) {
          c.recipe.block_floor_octaves = ran / 3 % 3 * 8;
          c.recipe.block = ran % 4 < 2 ? 128 : 64;
          if (ran % 7 == 3) c.recipe.rule = quant::ScaleRule::sixteenths;
        }
        ++ran;
        if (bad < 5 && !runs(c, cuda::Launches::fewest, &packed)) ++bad;
        // The same with scales of K's key blocks, and of V's heads or their channels.
        if (shape[2] == 15001 || shape[3] == 256) continue;
        c.recipe.block_floor_octaves = 0;
        c.recipe.granularity = !is_v       ? Granularity::block
                               : data == 1 ? Granularity::head
                                           : Granularity::channel;
        c.recipe.block = is_v ? 128 : std::int64_t{128} >> data % 3;
        if (is_v && (data + shape[3] / 64) % 2 == 0) c.recipe.equalise = Equalise::off;
        ++ran;
        if (bad < 5 && !runs(c, cuda::Launches::fewest, &packed)) ++bad;
      }
  // note: not where few inputs are asked for, as by sanitizers, under which kernels hardly run at once.
  if (options.cases > 1) bad += !runs_beside_others(options.seed), ++ran;
  std::printf("long operands: %d of %d inputs differ, %d with packed values\n", bad, ran, packed);
  std::fflush(stdout);
  return bad;
}

/// What has kernels of its own where scales are shared: V that is equalised, with a scale of all, of heads or
/// of their channels, or none (plain_rows.cu), and K by key block, shifted, and rotated or not
/// (encode_tiles.cu). Tokens that fill blocks of threads and that do not, and all kinds of numbers.
int compare_shared_scales(unsigned seed) {
  int bad = 0, ran = 0;
  const auto compare = [&](Case c) {
    c.seed = seed + static_cast<unsigned>(ran);
    c.dtype = ran % 2 == 0 ? DType::bf16 : DType::f16;
    c.input_layout = ran / 2 % 2;
    ++ran;
    if (bad < 5 && !runs(c, cuda::Launches::one_a_step)) ++bad;
  };
  for (const std::int64_t tokens : {1, 128, 197, 3001})
    for (int data = 0; data < 5; ++data) {
      Case c;
      c.data = data, c.recipe.equalise = Equalise::on;
      for (const std::int64_t dim : {8, 64, 256}) {
        c.shape = {2, 3, tokens, dim};
        for (const DType format : {DType::s8, DType::e4m3}) {
          c.recipe.format = format, c.recipe.largest_code = capi::largest_code(format);
          for (const Granularity of : {Granularity::tensor, Granularity::head, Granularity::channel})
            c.recipe.granularity = of, compare(c);
        }
        c.recipe.format = DType::f16, c.recipe.granularity = Granularity::token, compare(c);
      }
      Case k;
      k.data = data, k.recipe.smooth = Smooth::mean, k.recipe.granularity = Granularity::block;
      for (const Rotate rotate : {Rotate::on, Rotate::off})
        for (const std::int64_t dim : {64, 128})
          for (const std::int64_t block : {64, 100, 128, 129}) {
            k.shape = {2, 3, tokens, dim};
            k.recipe.rotate = rotate, k.recipe.block = block, compare(k);
          }
    }
  std::printf("shared scales: %d of %d inputs differ\n", bad, ran);
  std::fflush(stdout);
  return bad;
}

/// Q, K and V of one call in the fewest launches against each step of each operand in its own. Others'
/// numbers become codes at the same places just before, so that a step which began too early would take
/// theirs.
bool runs_together(const Case (&c)[3], int* packed_values = nullptr) {
  std::vector<std::unique_ptr<Twin>> x, others;
  std::vector<std::unique_ptr<Written>> together, apart;
  std::vector<cuda::PlainOperand> operands, before;
  std::int64_t bytes = 0;
  for (const Case& of : c) {
    x.push_back(std::make_unique<Twin>(input_view(of)));
    fill(of, x.back()->host);
    x.back()->buffer.upload();
    Case other = of;
    other.data = (of.data + 1) % 5, other.seed += 7;
    others.push_back(std::make_unique<Twin>(input_view(other)));
    fill(other, others.back()->host);
    others.back()->buffer.upload();
    const QuantizedTensor layout = quant::layout(of.shape, of.recipe, 0);
    together.push_back(std::make_unique<Written>(layout));
    apart.push_back(std::make_unique<Written>(layout));
    operands.push_back(
        {x.back()->device, {of.shape[0], of.shape[2], nullptr}, of.recipe, together.back()->out});
    before.push_back(operands.back());
    before.back().x = others.back()->device;
    bytes += cuda::quantize_scratch_bytes(of.shape, of.recipe, 0);
  }
  Buffer scratch(bytes);
  bool good = is_ok(cuda::quantize(before, scratch.device(), nullptr, {}), c[0]);
  good &= is_ok(cuda::quantize(operands, scratch.device(), nullptr, {}), c[0]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i].out = apart[i]->out;
    good &= is_ok(
        cuda::quantize({&operands[i], 1}, scratch.device(), nullptr, {}, cuda::Launches::one_a_step), c[i]);
  }
  check(cudaDeviceSynchronize(), "three operands");
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (*together[i] == *apart[i]) continue;
    std::printf("  operand %zu: %s\n    %s\n", i, together[i]->difference_from(*apart[i]).c_str(),
                c[i].text().c_str());
    good = false;
  }
  if (!packed_values || !good) return good;
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i].out = together[i]->out;
  Twin rows(apart[2]->codes.host);
  const Bytes codes = apart[2]->codes.buffer.download();
  std::memcpy(rows.host.data, codes.data() + apart[2]->codes.buffer.shift(),
              static_cast<std::size_t>(span_bytes(rows.host)));
  return packs_alike(operands, 2, c[2], rows.host, scratch, *packed_values);
}

/// Heads, tokens and dims of their own, so that some share a launch, some have another kernel and some are
/// too long for any.
int compare_together(unsigned seed) {
  int bad = 0, ran = 0;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::int64_t dim : {32, 64, 80, 128})
      for (const std::int64_t keys : {1, 49, 197, 600, 1500, 2300})
        for (const Granularity of_k :
             {Granularity::token, Granularity::block, Granularity::channel, Granularity::tensor}) {
          Case c[3];
          for (int i = 0; i < 3; ++i) {
            const std::int64_t queries = keys < 600 ? 33 : keys + 33;
            c[i].shape = {2, i == 0 ? 6 : 3, i == 0 ? queries : keys, i == 2 ? 64 : dim};
            c[i].dtype = dtype, c[i].data = ran % 5, c[i].seed = seed + static_cast<unsigned>(i);
            c[i].recipe.largest_code = 127, c[i].recipe.block = 64;
          }
          c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on;
          c[1].recipe.smooth = Smooth::mean, c[1].recipe.granularity = of_k;
          c[2].recipe.equalise = Equalise::on, c[2].recipe.block_floor_octaves = 8;
          if (of_k == Granularity::tensor)  // qflash's recipe: one scale of each operand, and nothing else
            for (Case& of : c) {
              of.recipe.granularity = of_k, of.recipe.rotate = Rotate::off;
              of.recipe.smooth = Smooth::none, of.recipe.equalise = Equalise::off;
              of.recipe.block_floor_octaves = 0;
            }
          ++ran;
          bad += !runs_together(c);
        }
  std::printf("three operands: %d of %d inputs differ\n", bad, ran);
  std::fflush(stdout);
  return bad;
}

/// K and V that are read once, by one kernel (one_pass.cu), beside Q of as many tokens and without it: scales
/// of tokens, with floors and without, of K's key blocks and of V's channels and heads, of all kinds of
/// numbers. Then V of other channels than K, which has a kernel of its own.
int compare_long_together(const Options& options) {
  int bad = 0, ran = 0, packed = 0;
  for (const Shape& keys : {Shape{2, 18, 2000, 128}, Shape{2, 18, 4500, 64}, Shape{1, 9, 8100, 64}})
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const bool is_of_tokens : {true, false}) {
        Case c[3];
        for (int i = 0; i < 3; ++i) {
          c[i].shape = keys, c[i].data = data, c[i].seed = options.seed + static_cast<unsigned>(3 * ran + i);
          c[i].dtype = ran % 3 == 0 ? DType::f16 : DType::bf16, c[i].input_layout = ran / 4 % 2;
          c[i].recipe.largest_code = 127, c[i].recipe.block = 128;
        }
        if ((data % 2 == 0) == is_of_tokens) c[0].shape[2] = 40;  // which others take, before or after
        if (keys[1] == 9) c[2].shape[3] = 128;
        c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on, c[1].recipe.smooth = Smooth::mean;
        c[2].recipe.equalise = Equalise::on;
        if (is_of_tokens) {
          c[2].recipe.block_floor_octaves = data % 3 * 10;
        } else {
          c[1].recipe.granularity = Granularity::block, c[1].recipe.block = std::int64_t{128} >> data % 3;
          c[2].recipe.granularity = data % 2 == 0 ? Granularity::channel : Granularity::head;
          if (data == 3) c[2].recipe.equalise = Equalise::off;
        }
        ++ran;
        if (bad < 5 && !runs_together(c, &packed)) ++bad;
      }
  std::printf("long operands together: %d of %d inputs differ, %d with packed values\n", bad, ran, packed);
  bad += packed == 0;
  std::fflush(stdout);
  return bad;
}

/// int8's operands that blocks of threads hold (held_sequences.cu): one block a sequence, of one leaf to
/// four, and clusters of up to eight; floors of groups that end with a block's turns, that do not, and none.
int compare_held(const Options& options) {
  struct Lengths {
    std::int64_t batch, heads, heads_kv, queries, keys, dim;
  };
  int bad = 0, ran = 0, packed = 0;
  // Five kinds of recipes, and as many kinds of numbers: each kind with each.
  for (const Lengths& of :
       {Lengths{2, 6, 3, 600, 600, 64}, Lengths{1, 8, 2, 1024, 1024, 128}, Lengths{1, 8, 2, 1, 2048, 128},
        Lengths{1, 4, 4, 4096, 4000, 64}, Lengths{1, 4, 2, 300, 1999, 64}, Lengths{1, 2, 2, 513, 513, 128},
        Lengths{30, 3, 3, 197, 197, 64}, Lengths{30, 3, 3, 130, 257, 64}, Lengths{23, 4, 4, 512, 511, 64},
        Lengths{45, 2, 2, 77, 128, 128}, Lengths{45, 2, 2, 200, 250, 128}, Lengths{130, 2, 1, 2, 127, 64}})
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const std::int64_t block : {128, 112}) {
        Case c[3];
        for (int i = 0; i < 3; ++i) {
          c[i].shape = {of.batch, i == 0 ? of.heads : of.heads_kv, i == 0 ? of.queries : of.keys, of.dim};
          c[i].dtype = ran % 2 == 0 ? DType::bf16 : DType::f16, c[i].data = data;
          c[i].seed = options.seed + static_cast<unsigned>(3 * ran + i), c[i].input_layout = ran / 2 % 2;
          c[i].recipe.largest_code = 127;
          c[i].recipe.block = block == 128 && ran % 3 == 0 ? 32 : block;
          if (block == 112 && ran % 4 == 3) c[i].recipe.block = ran % 8 == 3 ? 100 : 48;
        }
        const int kind = (ran + data) % 5;
        c[2].recipe.equalise = Equalise::on;
        if (kind != 2)
          c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on, c[1].recipe.smooth = Smooth::mean;
        if (kind > 2) {
          c[1].recipe.granularity = Granularity::block;
          c[2].recipe.granularity = kind == 3 ? Granularity::channel : Granularity::head;
          if (ran % 2 == 1) c[2].recipe.equalise = Equalise::off;
        } else {
          c[2].recipe.block_floor_octaves = ran % 4 * 5;
        }
        ++ran;
        if (bad < 5 && !runs_together(c, &packed)) ++bad;
      }
  std::printf("held sequences: %d of %d inputs differ, %d with packed values\n", bad, ran, packed);
  bad += packed == 0;
  std::fflush(stdout);
  return bad;
}

int compare_amax(unsigned seed) {
  int bad = 0;
  for (int data = 0; data < 5; ++data) {
    Case c;
    c.shape = {2, 3, 197, 64}, c.data = data, c.seed = seed, c.dtype = DType::bf16;
    Twin x(input_view(c));
    fill(c, x.host);
    c.dtype = DType::f32, c.shape = {1, 2, 49, 32}, c.input_layout = 3, ++c.seed;
    Twin y(input_view(c));
    fill(c, y.host);
    x.buffer.upload(), y.buffer.upload();
    float expected = 0;
    for (const Twin* twin : {&x, &y})
      for (std::int64_t i = 0; i < twin->host.shape[0] * twin->host.shape[1] * twin->host.shape[2]; ++i)
        for (std::int64_t d = 0; d < twin->host.shape[3]; ++d) {
          const TensorView& v = twin->host;
          const std::int64_t t = i % v.shape[2], h = i / v.shape[2] % v.shape[1],
                             b = i / v.shape[2] / v.shape[1];
          const auto a = static_cast<float>(std::fabs(number_at(v, quant::row_offset(v, b, h, t) + d)));
          if (std::isfinite(a)) expected = std::max(expected, a);
        }
    Twin out({nullptr, DType::f32, Device::cpu, {1, 1, 1, 1}, {1, 1, 1, 1}});
    *static_cast<float*>(out.host.data) = expected;
    const TensorView tensors[] = {x.device, y.device};
    if (!is_ok(cuda::finite_amax(tensors, static_cast<float*>(out.device.data), nullptr), c) ||
        !same("amax", out, c))
      ++bad;
  }
  std::printf("amax of several tensors: %d of 5 inputs differ\n", bad);
  return bad;
}

// --- Time

/// Microseconds of what `queue` puts on a stream, captured as a graph: the median of several replays.
template <class Queue>
double microseconds(const Queue& queue) {
  constexpr int kReplays = 15;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  queue(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  std::vector<float> times;
  for (int i = 0; i < kReplays; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i > 2) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(ready), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return 1000.0 * times[times.size() / 2];
}

/// One operand of the timed case with its memory.
struct Timed {
  quant::OperandRecipe recipe;
  TensorView x;
  QuantizedTensor out;
  void* scratch = nullptr;

  Timed(const Shape& shape, bool tokens_first, const quant::OperandRecipe& how) : recipe(how) {
    const auto [b, h, t, d] = shape;
    x = {nullptr, DType::bf16, Device::cuda, shape, {h * t * d, t * d, d, 1}};
    if (tokens_first) x.stride = {t * h * d, d, h * d, 1};
    out = quant::layout(shape, recipe, 0);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(b * h * t * d));
    std::mt19937 generator(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<std::uint16_t> some(65537);
    for (auto& v : some) v = bf16_from_f32(normal(generator));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
    check(cudaMalloc(&x.data, values.size() * 2), "cudaMalloc");
    check(cudaMemcpy(x.data, values.data(), values.size() * 2, cudaMemcpyHostToDevice), "upload");
    for (TensorView* view : {&out.codes, &out.scales, &out.channel_exponent, &out.mean})
      if (view->shape != Shape{})
        check(cudaMalloc(&view->data, static_cast<std::size_t>(span_bytes(*view))), "cudaMalloc");
    check(cudaMalloc(&scratch, static_cast<std::size_t>(cuda::quantize_scratch_bytes(shape, recipe, 0)) + 16),
          "cudaMalloc");
  }
  void queue(void* stream) const {
    const Status status = cuda::quantize(x, {x.shape[0], x.shape[2], nullptr}, recipe, out, scratch, stream);
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
  }
  double elements() const { return static_cast<double>(x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]); }
};

void time_default_recipe(bool tokens_first) {
  const Shape shape{1, 16, 16384, 128};
  quant::OperandRecipe q, k, v;
  q.rotate = k.rotate = Rotate::on;
  k.smooth = Smooth::mean;
  v.equalise = Equalise::on, v.block_floor_octaves = 20;
  quant::OperandRecipe k_codes = k, v_codes = v;
  k_codes.smooth = Smooth::none, v_codes.equalise = Equalise::off;
  quant::OperandRecipe of_block = q, of_tensor = q, half;
  of_block.granularity = Granularity::block, of_tensor.granularity = Granularity::tensor;
  of_block.rotate = of_tensor.rotate = Rotate::off;
  half.format = DType::f16;
  const Timed of_q(shape, tokens_first, q), of_k(shape, tokens_first, k), of_v(shape, tokens_first, v),
      of_k_codes(shape, tokens_first, k_codes), of_v_codes(shape, tokens_first, v_codes);
  const double n = of_q.elements(), row = n / 128;
  void *from = nullptr, *to = nullptr;
  const std::size_t copied = static_cast<std::size_t>(n) * 2;
  check(cudaMalloc(&from, 3 * copied), "cudaMalloc");
  check(cudaMalloc(&to, 3 * copied), "cudaMalloc");
  const double copy_us = microseconds([&](cudaStream_t s) {
    check(cudaMemcpyAsync(to, from, 3 * copied, cudaMemcpyDeviceToDevice, s), "copy");
  });
  const double copy = 6.0 * static_cast<double>(copied) / copy_us * 1e-3;
  std::printf("%s, 16 heads of 128, 16384 tokens, bf16; a copy: %.0f GB/s\n",
              tokens_first ? "[batch, token, head, dim]" : "[batch, head, token, dim]", copy);
  const auto say = [&](const char* what, double us, double bytes) {
    std::printf("  %-44s %7.1f us  %6.0f GB/s  %5.1f %%\n", what, us, bytes / us * 1e-3,
                100 * bytes / us * 1e-3 / copy);
  };
  // Input 2 bytes, codes 1 byte an element; scales 4 bytes a token. Statistics read the input once more.
  const double codes = 3 * n + 4 * row, statistics = 2 * n;
  // Between the calls the other tensors pass through the cache, as in a call of attention.
  const auto flushed = [&](const Timed& what) {
    const double all = microseconds([&](cudaStream_t s) {
      check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice, s), "copy");
      what.queue(s);
    });
    const double without = microseconds([&](cudaStream_t s) {
      check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice, s), "copy");
    });
    return all - without;
  };
  say("Q: rotate, token codes", flushed(of_q), codes);
  say("K: codes alone (rotate)", flushed(of_k_codes), codes);
  say("K: mean, then rotate, token codes", flushed(of_k), codes + statistics);
  say("V: codes alone (block floor)", flushed(of_v_codes), codes);
  say("V: channel norms, then token codes", flushed(of_v), codes + statistics);
  const double all = microseconds([&](cudaStream_t s) { of_q.queue(s), of_k.queue(s), of_v.queue(s); });
  say("Q, K and V: int8's default recipe", all, 3 * codes + 2 * statistics);
  for (const auto& [name, recipe] :
       {std::pair{"s8 per block, plain", of_block}, std::pair{"s8 per tensor, plain", of_tensor}}) {
    const Timed of(shape, tokens_first, recipe);
    say(name, flushed(of), codes);
  }
  const Timed of_half(shape, tokens_first, half);
  say("to f16", flushed(of_half), 4 * n);
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  octet::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--time") options.times = true;
    if (argument == "--cases" && i + 1 < argc) options.cases = std::atoi(argv[++i]);
    if (argument == "--seed" && i + 1 < argc) options.seed = static_cast<unsigned>(std::atoi(argv[++i]));
    if (argument == "--only" && i + 1 < argc) options.only = argv[++i];
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: this machine has no CUDA device");
    return 0;
  }
  if (options.times) {
    octet::time_default_recipe(false);
    octet::time_default_recipe(true);
    return 0;
  }
  std::printf("seed %u, %d inputs a recipe\n", options.seed, options.cases);
  const std::pair<const char*, int (*)(const octet::Options&)> parts[] = {
      {"long",
       [](const octet::Options& o) { return octet::compare_long(o) + octet::compare_long_together(o); }},
      {"shared", [](const octet::Options& o) { return octet::compare_shared_scales(o.seed); }},
      {"held", [](const octet::Options& o) { return octet::compare_held(o); }},
      {"amax", [](const octet::Options& o) { return octet::compare_amax(o.seed); }},
      {"together", [](const octet::Options& o) { return octet::compare_together(o.seed); }},
      {"anchor", [](const octet::Options& o) { return octet::compare_q_anchor(o.seed); }},
      {"recipes", [](const octet::Options& o) { return octet::compare_recipes(o); }}};
  int failed = 0, ran = 0;
  for (const auto& [name, compare] : parts)
    if (options.only.empty() || options.only == name) failed += compare(options), ++ran;
  if (ran == 0) {
    std::printf("--only is %s; choose long, shared, held, amax, together, anchor or recipes\n",
                options.only.c_str());
    return 2;
  }
  std::printf("%d inputs failed\n", failed);
  return failed != 0;
}
