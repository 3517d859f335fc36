// What the host needs of one scheme's kernels: one table a scheme, found by Scheme.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/mma/tile.h"

namespace octet::cuda::mma {

/// How many blocks of threads a launch has, and of what size.
struct Grid {
  std::int32_t groups = 0;  ///< tiles of query rows, or key blocks, of all sequences
  std::int32_t heads = 0;
  std::int32_t ranges = 1;          ///< of keys (cuda/ranges.h)
  std::int32_t warps = 1;           ///< of a block, each with rows of its own; pack has its own
  std::int64_t shared_bytes = 0;    ///< of a block: what it needs or more; pack asks for its own
  bool ranges_are_cluster = false;  ///< those of a tile of rows (attn/merge_in_cluster.cuh)
};

/// Asynchronous on the stream (a cudaStream_t); a cudaError_t, 0 for success.
using Launch = int (*)(const Call& call, int tile, const Grid& grid, void* stream);

struct Kernels {
  Launch pack, attend;
  std::int64_t (*shared_bytes)(int tile, std::int32_t warps);   ///< of a block of attend; 0: no such tile
  std::int64_t (*clusters)(int tile, const Grid& grid);         ///< that run at once on the current device
  std::int32_t k_bytes, v_bytes;                                ///< of an element in the products
  std::int32_t key_bytes, block_bytes, channel_bytes;           ///< of constants; 0: none
  bool multiplies_e4m3;                                         ///< which not all devices do
  bool carries_v;                                               ///< whether P carries V's scales by token
  bool takes_packed_v;                                          ///< whether V may be packed before the rest
  Constants constants;                                          ///< what key_bytes and block_bytes hold
  bool merges_ranges;                                           ///< whether keys may be cut (cuda/ranges.h)
  bool reads_rows_of_v;                                         ///< whether V's rows may be the caller's
  DType k_dtype, v_dtype;                                       ///< whose tensors are read as they are
  std::int64_t (*table_entries)(const SchemeOptions& options);  ///< null: no table
  void (*fill_table)(const SchemeOptions& options, float* table);
};

/// Null where the scheme has no such form, or the family none of its kernels. Of forms that Hopper's kernels
/// alone have, they pack.
const Kernels* kernels_of(Scheme scheme, Form form);

}  // namespace octet::cuda::mma
