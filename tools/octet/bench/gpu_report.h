// What people read of the GPU suites: tables on a terminal, and the GPU's part of docs/benchmarks.md.
#pragma once
#include <string>

#include "common/command.h"

namespace octet::tool {

/// The rows of one document as aligned text.
std::string gpu_rows_table(const Json& document);
/// What --list prints of list_gpu_workloads().
std::string gpu_shapes_table(const Json& shapes);

/// The part of docs/benchmarks.md: bars, times and ratios to PyTorch's SDPA by group of shapes, energy, and
/// each shape's rows. The document must be sound (check_gpu_document).
std::string gpu_section(const Json& document);

}  // namespace octet::tool
