// The options that pose a problem: scheme, masks, recipe, and where it runs.
#pragma once
#include <string>

#include "common/command.h"
#include "common/problem_input.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// Texts as the user wrote them; an empty one leaves the library's default.
struct ProblemOptions {
  std::string scheme = "int8";
  bool causal = false;
  std::string window, softmax_scale, key_block, recipe, option, output_dtype, backend;
};

/// --scheme, --recipe, --option, --key-block: all that quantising depends on.
void add_recipe_options(Arguments& command, ProblemOptions& options);

/// Those, and --causal, --window, --softmax-scale, --output-dtype, --backend.
void add_problem_options(Arguments& command, ProblemOptions& options);

/// What `options` make of the shapes, mask and sequences of `input` (whose data may be null), with the LSE if
/// wanted. The plan checks the rest.
enum class Lse { not_wanted, wanted };
Result<AttentionDesc> make_desc(const ProblemOptions& options, const ProblemInput& input, Lse lse);

/// --threads; OCTET_THREADS where it is not given.
void add_threads_option(Arguments& command, int& threads);

}  // namespace octet::tool
