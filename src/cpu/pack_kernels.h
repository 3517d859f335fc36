// Codes and numbers to packed operands, once for each width of the nests' vectors.
#pragma once
#include <cstddef>
#include <cstdint>

#include "numerics/narrow_row.h"

namespace octet::cpu {

/// [row]: of a row's codes, and of their absolute values.
struct RowSums {
  std::int32_t *sum, *size;
};

/// Codes of tokens, `stride` bytes apart.
struct CodeRows {
  const std::byte* data;
  std::int64_t stride;
};

struct PackKernels {
  /// Of `count` rows of `bytes` codes each, one after another; whole groups of 4.
  void (*sums)(const std::byte* rows, std::int64_t bytes, std::int64_t count, const RowSums& out);
  /// A row as u8 with code + 128.
  void (*to_u8)(const std::int8_t* codes, std::int64_t count, std::uint8_t* out);
  /// K: rows of `groups` 4-byte groups, as many rows as a vector has lanes, to a vector for each group;
  /// `runs` of such rows, one after another. Each group is written with the bits `flip` changed. Rows are
  /// readable up to the next multiple of 16 bytes.
  void (*columns)(const CodeRows& rows, std::int64_t groups, std::uint32_t flip, std::int64_t runs,
                  std::byte* out);
  /// V: a group of every channel of four keys, zeros for channels [channels, padded); `runs` of four keys.
  void (*quads)(const CodeRows& keys, std::int64_t channels, std::int64_t padded, std::int64_t runs,
                std::byte* out);
  /// bf16 codes of numbers that bf16 holds.
  void (*halves)(const float* numbers, std::int64_t count, std::uint16_t* out);
  /// V in bf16: a group of every channel of two keys.
  void (*pairs)(const std::uint16_t* first, const std::uint16_t* second, std::int64_t channels,
                std::byte* out);
  /// sums[c] += the codes of channel c of `count` keys.
  void (*add)(const CodeRows& keys, std::int64_t count, std::int64_t channels, std::int32_t* sums);
  /// Whether any of the numbers in whole vectors is NaN or infinite.
  bool (*any_non_finite_f32)(const std::byte* numbers, std::int64_t bytes);
  bool (*any_non_finite_bf16)(const std::byte* numbers, std::int64_t bytes);
  NarrowRows narrow;  ///< rows of the output
  WideRow widen;      ///< rows of K, V and Q
};

/// lanes: 8 or 16, those of a nest that the CPU can run.
const PackKernels& pack_kernels(std::int32_t lanes);

/// The two.
const PackKernels& pack_kernels_8();
const PackKernels& pack_kernels_16();

}  // namespace octet::cpu
