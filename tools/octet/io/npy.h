// NumPy's .npy files: one array each.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "io/host_tensor.h"
#include "octet/status.hpp"

namespace octet::tool {

/// Reads a file of version 1.0, 2.0 or 3.0: f2, f4, f8, i1, u1, i4, b1, and i8 whose values fit in 32 bits
/// (they become s32); little-endian. Fortran order is turned into C order. The file must end where the array
/// does. As with safetensors, nothing is allocated that the file does not back with bytes. Errors: io (cannot
/// be read), invalid_argument (breaks the format), unsupported (dtype, version), out_of_memory.
Result<HostTensor> read_npy(const std::string& path);

/// The same from memory; `name` stands for the file in messages.
Result<HostTensor> parse_npy(std::span<const std::byte> bytes, std::string_view name);

/// The bytes of a file, version 1.0: those that numpy.save writes for the array in C order.
/// Errors: invalid_argument; unsupported for bf16, e4m3, e5m2 and s4, which NumPy does not have;
/// out_of_memory.
Result<std::string> encode_npy(const HostTensor& tensor);

/// Writes a file whole or not at all (write_file_atomically), without a second copy in memory.
Status write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace octet::tool
