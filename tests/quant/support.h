// Inputs, guarded outputs and reading helpers for the quantiser's tests.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quant/quantize.h"

namespace octet::quant::testing {

using Shape = std::array<std::int64_t, 4>;

std::int64_t bytes_of(const TensorView& x);

/// Memory of exactly the bytes that a view needs, between poisoned margins.
class Guarded {
 public:
  explicit Guarded(TensorView& view) : bytes_(bytes_of(view)), memory_(bytes() + 2 * kMargin, kPoison) {
    view.data = bytes_ ? memory_.data() + kMargin : nullptr;
  }
  bool intact() const;
  std::vector<unsigned char> content() const;

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr unsigned char kPoison = 0xa5;
  std::size_t bytes() const { return static_cast<std::size_t>(bytes_); }
  std::int64_t bytes_;
  std::vector<unsigned char> memory_;
};

/// A quantised tensor with memory of its own.
struct Output {
  explicit Output(const QuantizedTensor& empty);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool intact() const;
  std::vector<std::vector<unsigned char>> content() const;

  QuantizedTensor tensor;
  Guarded codes, scales, exponent, mean;
};

/// A contiguous f32 tensor of values that one seed determines.
struct Input {
  Input(const Shape& shape, std::vector<float> content);
  float& at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    return values[static_cast<std::size_t>(b * view.stride[0] + h * view.stride[1] + t * view.stride[2] + c)];
  }
  Sequences dense() const { return {view.shape[0], view.shape[2], nullptr}; }

  std::vector<float> values;
  TensorView view;
};

Input normal_input(const Shape& shape, unsigned seed, float size = 1.0f);

OperandRecipe recipe_of(DType format, Granularity granularity);

/// Code (b, h, t, c) as a number.
double code_at(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c);

/// Scale of token t (counted from its sequence's begin) of sequence s, channel c, by the rule of types.hpp.
double scale_at(const QuantizedTensor& x, const Sequences& sequences, std::int64_t s, std::int64_t h,
                std::int64_t t, std::int64_t c);

std::string name(DType format);

std::string name(Granularity g);

inline constexpr DType kCodeFormats[] = {DType::s8, DType::s4, DType::e4m3, DType::e5m2};
inline constexpr Granularity kGranularities[] = {Granularity::tensor,  Granularity::head,
                                                 Granularity::block,   Granularity::token,
                                                 Granularity::channel, Granularity::block_channel};

}  // namespace octet::quant::testing
