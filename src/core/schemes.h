// What each scheme is, accepts and supports: the one table behind validation, `octet info` and the support
// matrix.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// A set of granularities as bits.
using GranularitySet = std::uint32_t;
constexpr GranularitySet set_of(Granularity g) { return 1u << static_cast<int>(g); }
template <class... Gs>
constexpr GranularitySet set_of(Granularity first, Gs... rest) {
  return set_of(first) | set_of(rest...);
}
constexpr bool contains(GranularitySet set, Granularity g) { return (set & set_of(g)) != 0; }

/// Options of SchemeOptions that a scheme has; every other one must keep its default.
struct OptionSet {
  bool row_sum = false, table = false, quotient = false, rescale = false;
};

/// How V's and the output's rows end.
enum class OutputCodes : std::int32_t {
  none,       ///< values only
  one_scale,  ///< int8 codes times one scale (V's, or the tensor's own)
  row_scale,  ///< int8 codes times a power of two a row
};

/// One row of the scheme table.
struct SchemeInfo {
  Scheme scheme;
  std::string_view name;
  std::string_view summary;            ///< one line for people
  DType qk;                            ///< format of Q's and K's codes in the kernel
  DType v;                             ///< format of V's codes in the kernel
  Recipe recipe;                       ///< the default
  GranularitySet q_set, k_set, v_set;  ///< accepted granularities; 0: the operand has no scales
  bool smooths, rotates, equalises;    ///< whether the recipe's options are accepted
  bool additive_bias;  ///< boolean masks, causal, windows, GQA, varlen and LSE are offered by every scheme
  bool baseline;       ///< of the papers' comparisons: reference backend only
  OutputCodes output_codes;
  OptionSet options;
  std::string_view source;                 ///< paper, equation or design page
  std::int64_t max_tokens_k = 0x7fffffff;  ///< most keys that the scheme's ranges are proved for
};

std::span<const SchemeInfo> all_schemes();
const SchemeInfo& scheme_info(Scheme scheme);
Result<Scheme> scheme_by_name(std::string_view name);

}  // namespace octet
