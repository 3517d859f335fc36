// The header of a .npy file: a Python dict literal, parsed by hand, and the same text written.
//
// Source of the format: numpy.lib.format (NumPy 2.4 documentation), versions 1.0, 2.0 and 3.0.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::tool {

enum class IndexOrder { c, fortran };  ///< which index is fastest: the last, or the first

/// What the dict says, checked: a dtype that octet has and a shape that is possible.
struct NpyHeader {
  DType dtype = DType::f32;  ///< of the values in memory
  bool wide = false;         ///< the file holds 64-bit integers ("<i8"), to be narrowed to s32
  IndexOrder order = IndexOrder::c;
  std::vector<std::int64_t> shape;
  std::int64_t data_bytes = 0;  ///< that must follow the header
};

/// Parses the dict that NumPy writes: the keys descr, fortran_order and shape in any order, any spaces,
/// either quote, and Python 2's 3L. `name` is the file's, ready for a message. Errors: invalid_argument (not
/// that dict); unsupported (big-endian, structured, or another dtype: the message names it).
Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& name);

/// The dict for a tensor in C order, as NumPy would write it, with the room NumPy leaves for the first size
/// to grow. No newline, no padding. The dtype must have an `npy_descr`.
std::string npy_header_text(DType dtype, const std::vector<std::int64_t>& shape);

/// "<f4" for f32, and so on; empty for bf16, e4m3, e5m2 and s4, which NumPy does not have.
std::string_view npy_descr(DType dtype);

}  // namespace octet::tool
