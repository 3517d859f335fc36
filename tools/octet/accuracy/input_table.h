// octet accuracy --input: what every scheme does to one file's Q, K and V.
#pragma once
#include <string>

#include "common/problem_input.h"
#include "common/problem_options.h"

namespace octet::tool {

struct InputTableOptions {
  InputOptions input;
  ProblemOptions problem;  ///< its scheme, recipe, option and output_dtype are not used: each row has its own
  std::string schemes;     ///< names with commas between; empty: all
  bool by_batch = false, json = false;
  int threads = 0;
};

/// Prints a row a scheme; a scheme that refuses the problem is listed with its reason. Errors: those of
/// reading the input; an unknown scheme; no scheme takes the problem.
Status print_input_table(const InputTableOptions& options);

}  // namespace octet::tool
