#include "quant/token_rows.h"

#include <cstring>

#include "quant/rows.h"

namespace octet::quant {

Rows TokenRows::at(std::int64_t first, std::int64_t count) {
  const std::int64_t bytes = x_.dtype == DType::f32 ? 4 : 2, channels = x_.shape[3];
  const std::byte* from = static_cast<const std::byte*>(x_.data) +
                          row_offset(x_, range_.b, range_.h, range_.begin + first) * bytes;
  if (x_.stride[3] == 1 || channels == 1) return {from, x_.dtype, x_.stride[2], count, channels};

  copy_.resize(static_cast<std::size_t>(count * channels * bytes));
  std::byte* to = copy_.data();
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < channels; ++c, to += bytes)
      std::memcpy(to, from + (r * x_.stride[2] + c * x_.stride[3]) * bytes, static_cast<std::size_t>(bytes));
  return {copy_.data(), x_.dtype, channels, count, channels};
}

}  // namespace octet::quant
