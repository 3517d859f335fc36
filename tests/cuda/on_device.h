// Calls on a GPU: tensors go there, outputs come back, and what lies around them is looked at.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "tests/attention/calls.h"

namespace octet::testing {

/// Why there is no GPU to test on; empty: there is one.
std::string no_device();

/// How operands reach the kernel.
enum class Operands {
  codes,  ///< quantised on the host
  plain,  ///< as numbers, f32
  bf16,   ///< as numbers, bf16, rounded where the call's are others
};

/// Runs a call with a scheme on the mma kernels. Outputs lie between margins of NaN, and in memory that holds
/// NaN: a margin that changed is an error.
Output run_on_device(const Call& call, Scheme scheme, Operands operands);

/// The same from codes, with the keys of a row cut in parts or by Hopper's kernels, whatever the call: by the
/// cut of that number among those. Code::unsupported where there are not so many.
struct OutputOfCut : Output {
  bool has_ranges = false;  ///< whether the keys of a row were cut in ranges
};
OutputOfCut run_by_cut(const Call& call, Scheme scheme, std::size_t cut);

/// A suite of calls on a GPU; skipped, with the reason, where there is none.
class OnDevice : public ::testing::TestWithParam<Scheme> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

}  // namespace octet::testing
