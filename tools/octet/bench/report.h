// What people read: a table of one run, and docs/benchmarks.md of the stored ones.
#pragma once
#include <string>
#include <vector>

#include "common/command.h"

namespace octet::tool {

/// The rows of one document as aligned text.
std::string rows_table(const Json& document);

/// docs/benchmarks.md: for each stored run how it was made, the machine's peaks, and by shape speed, share of
/// peak, accuracy and the ratio to peers. The documents must be sound (check_document).
std::string benchmarks_page(const std::vector<Json>& documents);

}  // namespace octet::tool
