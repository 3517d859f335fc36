// The inputs that accuracy is stated on: q [heads * group, queries, dim], k and v [heads, keys, dim], f32.
//
// Every number comes from a counter-based generator keyed by (kind, seed, head, role), so that a role's
// numbers do not depend on how many another role drew, and the first keys are the same at every length.
// Formulas in double, rounded once; log, cos and sin are the platform's, so another libm may change a last
// bit.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octet/status.hpp"

namespace octet::tool {

/// N is a standard normal number, drawn anew at each place.
enum class Distribution : std::int32_t {
  normal,    ///< N
  sharp,     ///< Q times 4: scores four times as spread
  outlier,   ///< FlashAttention-3's: N + 10 N with probability 0.001, in all three
  bias_k,    ///< K + 4 N per channel
  sink,      ///< key 0 scores `sink_nats` for every query, all others keep mean 0; its V times 0.05
  mixed,     ///< K's tokens times e^(N/2), + 2 N per channel; V's tokens times e^N, V_0 times 0.05
  vtoken,    ///< V's tokens times e^(1.5 N): norms over more than two decades
  vchannel,  ///< V's channels times e^(1.5 N)
  uniform,   ///< U(-0.5, 0.5)
  u4,        ///< U(-4, 4), QFlash's benchmark
  tiny,      ///< 0.02 N, 0.05 N, 0.001 N
  huge,      ///< 30 N, 300 N, 10000 N
  needle,    ///< one key scores 12.5 nats (18 octaves) for every query, all others about 0
  // Of single papers' protocols, not of the table of distributions:
  positive,  ///< U(0, 1): what INT-FlashAttention's published script draws
  spread,    ///< Q and K as normal, multiplied by `scale`
};
inline constexpr int kDistributions = 13;  ///< of the table: normal ... needle

struct DataSpec {
  Distribution kind = Distribution::normal;
  std::int64_t heads = 1, queries = 128, keys = 8192, dim = 64;
  std::int64_t group = 1;  ///< query heads of each of the (key and value) heads
  std::uint64_t seed = 1;
  double sink_nats = 8;  ///< of `sink`
  double scale = 1;      ///< of `spread`
  bool as_f16 = false;   ///< round every value to f16, as a model would hand it over
};

struct Data {
  std::vector<float> q, k, v;
};

std::string_view name_of(Distribution kind);
Result<Distribution> distribution_by_name(std::string_view name);

/// All heads of `spec`, each with numbers of its own. heads, queries, keys and dim are 1 and more.
Data generate(const DataSpec& spec);

}  // namespace octet::tool
