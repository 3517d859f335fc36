// Writing a row of the output in the dtype that was asked for.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numerics/formats.h"
#include "octet/types.hpp"

namespace octet::call {

inline void store(const TensorView& x, std::int64_t offset, double value) {
  switch (x.dtype) {
    case DType::f64:
      static_cast<double*>(x.data)[offset] = value;
      break;
    case DType::f32:
      static_cast<float*>(x.data)[offset] = static_cast<float>(value);
      break;
    case DType::f16:
      static_cast<std::uint16_t*>(x.data)[offset] = f16_from_f32(static_cast<float>(value));
      break;
    case DType::bf16:
      static_cast<std::uint16_t*>(x.data)[offset] = bf16_from_f32(static_cast<float>(value));
      break;
    case DType::s8:
      static_cast<std::int8_t*>(x.data)[offset] = static_cast<std::int8_t>(value);
      break;
    default:
      break;
  }
}

/// One row of o, its scale where o is codes, and its LSE.
class RowWriter {
 public:
  RowWriter(const AttentionArgs& args, std::int64_t batch, std::int64_t head, std::int64_t token)
      : args_(args), batch_(batch), head_(head), token_(token) {}

  void value(std::int64_t channel, double v) const {
    store(args_.o, at(args_.o) + channel * args_.o.stride[3], v);
  }
  /// A row of values, one by one where they are not f32.
  void values(const float* v, std::int64_t count) const {
    if (args_.o.dtype == DType::f32 && args_.o.stride[3] == 1) {
      std::memcpy(static_cast<float*>(args_.o.data) + at(args_.o), v,
                  static_cast<std::size_t>(count) * sizeof *v);
      return;
    }
    row(count, [v](std::int64_t c) { return v[c]; });
  }
  /// A row of codes with the scale that makes them numbers.
  void codes(const std::int8_t* code, std::int64_t count, float scale) const {
    if (args_.o.dtype == DType::s8)
      row(count, [code](std::int64_t c) { return code[c]; });
    else
      row(count, [code, scale](std::int64_t c) { return static_cast<float>(code[c]) * scale; });
  }
  /// A code and the scale that makes it a number: kept apart where o is s8.
  void code(std::int64_t channel, std::int32_t code, float scale) const {
    value(channel, args_.o.dtype == DType::s8 ? code : static_cast<float>(code) * scale);
  }
  void scale(float s) const {
    if (args_.o_scale.data) store(args_.o_scale, at(args_.o_scale), s);
  }
  void lse(double natural) const {
    if (args_.lse.data) store(args_.lse, at(args_.lse), natural);
  }
  /// What q . mean(K) adds to every score of the row that K's smoothing took away.
  double lse_shift() const {
    return args_.q_anchor.data ? static_cast<const float*>(args_.q_anchor.data)[at(args_.q_anchor)] : 0.0;
  }

 private:
  std::int64_t at(const TensorView& x) const {
    return batch_ * x.stride[0] + head_ * x.stride[1] + token_ * x.stride[2];
  }

  /// One loop for each dtype: a choice an element would cost more than the element.
  template <class Of>
  void row(std::int64_t count, const Of& of) const {
    const auto loop = [&]<class T>(T* to, const auto& as) {
      const std::int64_t step = args_.o.stride[3];
      if (step == 1)
        for (std::int64_t c = 0; c < count; ++c) to[c] = as(of(c));
      else
        for (std::int64_t c = 0; c < count; ++c) to[c * step] = as(of(c));
    };
    const std::int64_t offset = at(args_.o);
    switch (args_.o.dtype) {
      case DType::f32:
        return loop(static_cast<float*>(args_.o.data) + offset, [](auto x) { return static_cast<float>(x); });
      case DType::f16:
        return loop(static_cast<std::uint16_t*>(args_.o.data) + offset, f16_from_f32);
      case DType::bf16:
        return loop(static_cast<std::uint16_t*>(args_.o.data) + offset, bf16_from_f32);
      case DType::s8:
        return loop(static_cast<std::int8_t*>(args_.o.data) + offset,
                    [](auto x) { return static_cast<std::int8_t>(x); });
      default:
        for (std::int64_t c = 0; c < count; ++c) value(c, of(c));
    }
  }

  const AttentionArgs& args_;
  std::int64_t batch_, head_, token_;
};

}  // namespace octet::call
