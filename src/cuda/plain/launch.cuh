// The launch of attention from plain rows of short sequences.
#pragma once
#include <array>
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/mma/launch.h"
#include "cuda/mma/tile.h"
#include "cuda/quant/short_sequences.cuh"
#include "octet/types.hpp"

namespace octet::cuda::plain {

/// Channels of Q, K and V, and the rows of one that a warp has at a time.
inline constexpr std::int32_t kDim = 64, kRowsAtOnce = 16;

/// Warps of a processor where tiles of rows have a warp for each part of the keys, as many as registers hold.
/// More than three key blocks leave it room for one block of threads, else it has two.
inline constexpr std::int32_t kWarpsByParts = 16;
constexpr std::int32_t blocks_by_parts(const mma::Tile& tile) { return tile.kept_blocks > 3 ? 1 : 2; }
constexpr std::int32_t warps_by_parts(const mma::Tile& tile) { return kWarpsByParts / blocks_by_parts(tile); }

/// [batch, head, token, channel] of 16 bits, channels beside each other and rows at 16 bytes.
struct RowsOfHeads {
  const std::uint16_t* data = nullptr;
  std::int64_t stride[3] = {};  ///< in elements
};

/// What Q and K become: s8, with the nearest scale of a row, which follows from the row alone.
struct Coded {
  DType dtype = DType::bf16;  ///< of the rows
  float largest_code = 127;
};

/// The operands of a call: of what ShortOperand has as much as kernels ask for, for a launch brings
/// parameters to a processor a line at a time.
struct PlainSequences {
  RowsOfHeads q, k, v;
  Coded coded;
  DType dtype_v = DType::bf16;
};

/// Of a block of threads of a tile's kernel, with so many tiles of rows at a time.
std::int64_t shared_bytes(int tile, std::int32_t warps);

/// Whether the scheme has kernels that take rows as they come.
bool has_kernel(Scheme scheme, Form form);

/// Queues attention of K, V and Q as they come, of such a scheme, if they are rows that become codes each by
/// itself; whether they are. V has no coding. tile: of plain_cut(). error: a cudaError_t of the launch.
bool launch(int tile, const mma::Grid& grid, const Call& call, const std::array<ShortOperand, 3>& operands,
            void* stream, int& error);

}  // namespace octet::cuda::plain
