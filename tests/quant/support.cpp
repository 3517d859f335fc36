#include "tests/quant/support.h"

#include <random>
#include <utility>

#include "numerics/formats.h"

namespace octet::quant::testing {

std::int64_t bytes_of(const TensorView& x) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    if (x.shape[i] == 0) return 0;
    last += (x.shape[i] - 1) * x.stride[i];
  }
  switch (x.dtype) {
    case DType::s4:
      return last / 2 + 1;
    case DType::s8:
    case DType::e4m3:
    case DType::e5m2:
      return last + 1;
    case DType::f16:
    case DType::bf16:
      return 2 * (last + 1);
    case DType::f64:
      return 8 * (last + 1);
    default:
      return 4 * (last + 1);
  }
}

bool Guarded::intact() const {
  for (std::size_t i = 0; i < kMargin; ++i) {
    if (memory_[i] != kPoison || memory_[memory_.size() - 1 - i] != kPoison) return false;
  }
  return true;
}

std::vector<unsigned char> Guarded::content() const {
  return {memory_.begin() + kMargin, memory_.end() - static_cast<std::ptrdiff_t>(kMargin)};
}

Output::Output(const QuantizedTensor& empty)
    : tensor(empty),
      codes(tensor.codes),
      scales(tensor.scales),
      exponent(tensor.channel_exponent),
      mean(tensor.mean) {}

bool Output::intact() const {
  return codes.intact() && scales.intact() && exponent.intact() && mean.intact();
}

std::vector<std::vector<unsigned char>> Output::content() const {
  return {codes.content(), scales.content(), exponent.content(), mean.content()};
}

Input::Input(const Shape& shape, std::vector<float> content) : values(std::move(content)) {
  const auto [b, h, t, c] = shape;
  view = {values.data(), DType::f32, Device::cpu, {b, h, t, c}, {h * t * c, t * c, c, 1}};
}

Input normal_input(const Shape& shape, unsigned seed, float size) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, size);
  std::vector<float> values(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
  for (float& v : values) v = normal(generator);
  return {shape, std::move(values)};
}

OperandRecipe recipe_of(DType format, Granularity granularity) {
  OperandRecipe recipe;
  recipe.format = format;
  recipe.granularity = granularity;
  recipe.block = 16;
  switch (format) {
    case DType::s4:
      recipe.largest_code = 7;
      break;
    case DType::e4m3:
      recipe.largest_code = 448;
      break;
    case DType::e5m2:
      recipe.largest_code = 57344;
      break;
    default:
      recipe.largest_code = 127;
  }
  return recipe;
}

double code_at(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
  const std::int64_t i = b * x.stride[0] + h * x.stride[1] + t * x.stride[2] + c * x.stride[3];
  const auto* bytes = static_cast<const std::uint8_t*>(x.data);
  switch (x.dtype) {
    case DType::s8:
      return static_cast<const std::int8_t*>(x.data)[i];
    case DType::s4:
      return i % 2 ? s4_high(bytes[i / 2]) : s4_low(bytes[i / 2]);
    case DType::e4m3:
      return f32_from_e4m3(bytes[i]);
    case DType::e5m2:
      return f32_from_e5m2(bytes[i]);
    case DType::f16:
      return f32_from_f16(static_cast<const std::uint16_t*>(x.data)[i]);
    case DType::bf16:
      return f32_from_bf16(static_cast<const std::uint16_t*>(x.data)[i]);
    case DType::f64:
      return static_cast<const double*>(x.data)[i];
    case DType::s32:
      return static_cast<const std::int32_t*>(x.data)[i];
    default:
      return static_cast<const float*>(x.data)[i];
  }
}

double scale_at(const QuantizedTensor& x, const Sequences& sequences, std::int64_t s, std::int64_t h,
                std::int64_t t, std::int64_t c) {
  const std::int64_t group =
      sequences.first_group(s, x.tokens_per_scale) + (x.tokens_per_scale ? t / x.tokens_per_scale : 0);
  return code_at(x.scales, sequences.batch(s), h, group, x.channels_per_scale ? c / x.channels_per_scale : 0);
}

std::string name(DType format) {
  switch (format) {
    case DType::s8:
      return "s8";
    case DType::s4:
      return "s4";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    default:
      return "f32";
  }
}

std::string name(Granularity g) {
  const char* names[] = {"tensor", "head", "block", "token", "channel", "block_channel"};
  return names[static_cast<int>(g)];
}

}  // namespace octet::quant::testing
