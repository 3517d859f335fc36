// octet bench --suite vit, llm-prefill, decode: time and accuracy, in one row, on the shapes of models.
#pragma once
#include <string>

#include "octet/status.hpp"

namespace octet::tool {

inline constexpr const char* kShapeSuites = "vit, llm-prefill, decode";

/// Texts as the user wrote them.
struct ShapesOptions {
  std::string suite;               ///< one of kShapeSuites
  std::string schemes, workloads;  ///< empty: the usual ones, all
  std::string backend;
  std::string groups = "5", group_ms = "100", seed = "199";  // QFlash's seed
  bool json = false;
  int threads = 0;
};

/// Measures and prints.
Status run_shapes(const ShapesOptions& options);

}  // namespace octet::tool
