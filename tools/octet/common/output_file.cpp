#include "common/output_file.h"

#include <filesystem>

#include "common/sentence.h"
#include "io/host_tensor.h"

namespace octet::tool {

FileKind file_kind(const std::string& path) {
  if (path.ends_with(".safetensors")) return FileKind::safetensors;
  if (path.ends_with(".npy")) return FileKind::npy;
  return FileKind::unknown;
}

Status check_output_path(const std::string& path) {
  if (file_kind(path) == FileKind::unknown) {
    return broken("--output", in_quotes(path), "its ending names the format",
                  "end the name in .safetensors or .npy");
  }
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  std::error_code ignored;  // what cannot be looked at is not there for us
  if (!std::filesystem::is_directory(directory, ignored)) {
    return broken("--output", in_quotes(path), in_quotes(directory.string()) + " is no directory",
                  "create it, or name a file elsewhere");
  }
  if (std::filesystem::is_directory(path, ignored))
    return broken("--output", in_quotes(path), "it is a directory", "name a file in it");
  return {};
}

}  // namespace octet::tool
