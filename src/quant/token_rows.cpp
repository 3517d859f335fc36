#include "quant/token_rows.h"

#include <cstring>

#include "quant/rows.h"

namespace octet::quant {

namespace {

const std::byte* address(const TensorView& x, const TokenRange& range, std::int64_t token) {
  const std::int64_t bytes = bytes_of_number(x.dtype);
  return static_cast<const std::byte*>(x.data) + row_offset(x, range.b, range.h, range.begin + token) * bytes;
}

}  // namespace

bool TokenRows::has_rows_like(const Tokens& other) const {
  return other.x && other.x->dtype == x_.dtype && other.x->shape[3] == x_.shape[3] &&
         other.x->stride[2] == x_.stride[2] && other.x->stride[3] == x_.stride[3];
}

Rows TokenRows::at(std::int64_t first, std::int64_t count) {
  const std::int64_t bytes = bytes_of_number(x_.dtype), channels = x_.shape[3];
  const std::byte* from = address(x_, range_, first);
  if (x_.stride[3] == 1 || channels == 1) {
    const bool has_next = next_.x && first + count <= next_.range.length;
    const std::byte* const ahead = ahead_ > 0 ? from + ahead_ : nullptr;
    return {from,  x_.dtype, x_.stride[2],
            count, channels, has_next ? address(*next_.x, next_.range, first) : ahead};
  }

  copy_.resize(static_cast<std::size_t>(count * channels * bytes));
  std::byte* to = copy_.data();
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < channels; ++c, to += bytes)
      std::memcpy(to, from + (r * x_.stride[2] + c * x_.stride[3]) * bytes, static_cast<std::size_t>(bytes));
  return {copy_.data(), x_.dtype, channels, count, channels};
}

}  // namespace octet::quant
