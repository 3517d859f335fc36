// Which tokens belong together: the batch entries of a dense tensor, or the packed sequences of a varlen one.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet {

/// The token ranges of one tensor. Dense: sequence s is batch entry s, tokens [0, tokens). Varlen: batch is 1
/// and sequence s is tokens [cu_seqlens[s], cu_seqlens[s + 1]).
struct Sequences {
  std::int64_t count = 0;
  std::int64_t tokens = 0;                   ///< dense: of each sequence; varlen: in total
  const std::int32_t* cu_seqlens = nullptr;  ///< null: dense; in device memory for device code

  OCTET_HD std::int64_t batch(std::int64_t s) const { return cu_seqlens ? 0 : s; }
  OCTET_HD std::int64_t begin(std::int64_t s) const { return cu_seqlens ? cu_seqlens[s] : 0; }
  OCTET_HD std::int64_t length(std::int64_t s) const {
    return cu_seqlens ? cu_seqlens[s + 1] - cu_seqlens[s] : tokens;
  }

  /// Index of sequence s's first group along the group axis of a scale tensor; 0 tokens a group means one
  /// group a sequence.
  std::int64_t first_group(std::int64_t s, std::int64_t tokens_per_group) const {
    if (!cu_seqlens) return 0;
    if (tokens_per_group == 0) return s;
    if (tokens_per_group == 1) return cu_seqlens[s];
    std::int64_t groups = 0;
    for (std::int64_t i = 0; i < s; ++i) groups += (length(i) + tokens_per_group - 1) / tokens_per_group;
    return groups;
  }

  /// Groups along that axis: exact for dense tensors, an upper bound that needs no cu_seqlens for packed
  /// ones.
  static std::int64_t groups(std::int64_t tokens, std::int64_t tokens_per_group,
                             std::int64_t packed_sequences) {
    if (tokens_per_group == 0) return packed_sequences > 0 ? packed_sequences : 1;
    return (tokens + tokens_per_group - 1) / tokens_per_group + packed_sequences;
  }
};

}  // namespace octet
