// Where results go: which kind of file a path means, and what can be checked before the work.
#pragma once
#include <string>

#include "octet/status.hpp"

namespace octet::tool {

enum class FileKind { safetensors, npy, unknown };
FileKind file_kind(const std::string& path);  ///< by its ending

/// OK if the path ends in .safetensors or .npy and its directory is there. Other failures (no permission, a
/// full disk) show when the file is written, which leaves the old file or the whole new one.
Status check_output_path(const std::string& path);

}  // namespace octet::tool
