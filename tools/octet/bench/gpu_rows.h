// Documents of the GPU suites: what they must hold, and reading them back.
#pragma once
#include <string>

#include "common/command.h"

namespace octet::tool {

/// OK if the document is one that `octet bench --suite vit`, `llm-prefill` or `decode` writes, or what
/// scripts/bench-gpu makes of both ("gpu"): every field there with its type, figures positive, and each row
/// either measured or skipped with a reason. Errors (io) name the row and the field.
Status check_gpu_document(const Json& document);

/// Reads and checks one file. Errors (io): not there, or not such a document.
Result<Json> load_gpu_document(const std::string& path);

}  // namespace octet::tool
