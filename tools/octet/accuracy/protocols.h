// The experiments of each part of the suite: which data, which variants, how many seeds.
#pragma once
#include <cstdint>
#include <vector>

#include "accuracy/experiment.h"

namespace octet::tool {

/// How much is measured. Tests make everything small; the published pages use the defaults.
struct SuiteSize {
  int seeds = 16;
  std::int64_t queries = 128;
  std::int64_t longest = 131072;  ///< keys; longer experiments are left out
};

/// Every scheme and named variant on 13 distributions, 8192 keys, d = 64 and 128: "<kind>/d<dim>".
std::vector<Experiment> distribution_experiments(const SuiteSize& size);

/// The same rows against length, d = 64: "<kind>/n<keys>". 128 query rows a point, over 16 seeds up to 2048
/// keys and over 4 beyond (a long row averages over more keys by itself).
std::vector<Experiment> length_experiments(const SuiteSize& size);

/// The papers' own protocols, "<paper>/<what>", and N(0, 1) by length and head dim for the bars.
std::vector<Experiment> protocol_experiments(const SuiteSize& size);

/// What published code gets wrong or leaves out, for every scheme on U(-4, 4), d = 64: "features/causal",
/// "features/gqa" and "features/n<keys>" at lengths that are no multiple of a key block, and
/// "features/whole<keys>", lengths that are one, to hold them against.
std::vector<Experiment> feature_experiments(const SuiteSize& size);

/// All schemes with their default recipes but the oracle, and the named variants of the design page.
std::vector<Variant> table_variants();

}  // namespace octet::tool
