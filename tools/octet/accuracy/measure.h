// One way to compute attention, and its error on one problem: what every accuracy figure is made of.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/run.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// A scheme as it is run: the row of a table.
struct Variant {
  std::string name;
  Scheme scheme = Scheme::int8;
  std::optional<Recipe> recipe;  ///< the scheme's default unless set
  SchemeOptions options;
  std::int64_t key_block = 128;
  DType output = DType::f32;

  /// `desc`, which poses the problem for any scheme, for this one. Error: no such scheme.
  Result<AttentionDesc> applied_to(AttentionDesc desc) const;
};

/// The scheme's default under its own name, or under `name`.
Variant variant_of(Scheme scheme, std::string name = {});

enum class WithBound { no, yes };

/// One entry for each batch entry.
struct Measured {
  std::vector<ErrorSums> entries;
  bool has_bound = false;

  ErrorSums all() const { return pooled(entries); }
};

/// Plans and runs `desc`, and compares with `exact`, the float64 output of the same problem.
Result<Measured> measure(const AttentionDesc& desc, const ProblemInput& input, const Output& exact,
                         WithBound with_bound, Threads& threads);

}  // namespace octet::tool
