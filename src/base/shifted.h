// A view of other elements of the same memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "octet/dtype.hpp"
#include "octet/types.hpp"

namespace octet {

/// x with every element so many further on, or back; of s4, which are two a byte, an even number.
inline TensorView shifted(TensorView x, std::int64_t elements) {
  const std::int64_t bytes = elements * dtype_bits(x.dtype) / 8;
  x.data = static_cast<std::byte*>(x.data) + bytes;
  return x;
}

}  // namespace octet
