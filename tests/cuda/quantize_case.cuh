// Inputs of the quantiser for a comparison of GPU and CPU: memory on both sides, poisoned, with margins;
// tensors of any layout and kind of numbers; and recipes, drawn.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "capi/operands.h"
#include "numerics/formats.h"
#include "octet/dtype.hpp"
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

Case long_case(const Shape& shape, bool is_v) {
  Case c;
  c.shape = shape, c.dtype = DType::bf16;
  if (is_v)
    c.recipe.equalise = Equalise::on, c.recipe.block_floor_octaves = 20;
  else
    c.recipe.rotate = Rotate::on, c.recipe.smooth = Smooth::mean;
  return c;
}

}  // namespace
}  // namespace octet
