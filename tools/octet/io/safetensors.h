// Safetensors files: named tensors and text metadata.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/host_tensor.h"
#include "octet/status.hpp"

namespace octet::tool {

/// What a safetensors file holds.
struct TensorFile {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
  bool operator==(const TensorFile&) const = default;
};

/// Reads a file: F64, F32, F16, BF16, I8, U8, I32, BOOL, F8_E4M3, F8_E5M2, and I64 whose values fit in 32
/// bits (they become s32). Nothing is trusted: every claim is checked before it is used, and nothing is
/// allocated that the file does not back with bytes. Values are not looked at, so NaN and Inf pass. Errors:
/// io (cannot be read), invalid_argument (breaks the format), unsupported (dtype), out_of_memory. One
/// sentence each.
Result<TensorFile> read_safetensors(const std::string& path);

/// The same from memory; `name` stands for the file in messages.
Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes, std::string_view name);

/// The bytes of a file. Tensors are placed by dtype, widest first, then by name: the order of the format's
/// own library, so equal content gives equal bytes. Errors: invalid_argument, unsupported (s4),
/// out_of_memory.
Result<std::string> encode_safetensors(const TensorFile& file);

/// Writes a file whole or not at all (write_file_atomically), without a second copy in memory.
Status write_safetensors(const std::string& path, const TensorFile& file);

}  // namespace octet::tool
