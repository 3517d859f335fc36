// Which kernels a problem is computed by, and how they cut it: the choices of cuda.h's Cut.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/cuda.h"
#include "cuda/mma/launch.h"

namespace octet::cuda {

/// Groups of `size` tokens, and those of all sequences with room for a part of one in each
/// (attn/sequence.cuh).
std::int64_t groups_of_sequence(std::int64_t tokens, std::int64_t size);
std::int64_t groups_of(const AttentionDesc& desc, std::int64_t tokens, std::int64_t size);
/// Key blocks of a row; of packed sequences, whose lengths the host does not see, were all as long.
std::int64_t key_blocks_of(const AttentionDesc& desc);
AttentionDesc with_keys(AttentionDesc desc, std::int64_t tokens_k);

/// The fastest form that the problem allows and the scheme has for a family of kernels, of keys that are
/// packed for any call the one that has all. Hopper's read what mma's pack.
Form form_of(const AttentionDesc& desc, Family family, E4m3 e4m3, PackedFor packed_for);

/// The smallest tile of mma's table that holds the problem.
int tile_of(const AttentionDesc& desc);
/// The kernels of a problem's scheme: those that pack, and attend if they are of mma.sync.
const mma::Kernels& kernels_for(const AttentionDesc& desc, const Cut& cut);
/// Blocks of threads of a call by mma.sync.
std::int64_t blocks_of(const AttentionDesc& desc, std::int32_t warps);
/// Warps of a block of threads that have so many rows of a head.
std::int32_t warps_of_rows(std::int64_t rows);
/// Whether a cut by mma.sync fits the current device's shared memory.
bool fits(const AttentionDesc& desc, const Cut& cut);

/// Rows of outputs that ranges leave at most: of f32 16 MiB at 256 channels.
inline constexpr std::int64_t kMostRangeRows = 16384;

/// The cut that a call takes.
Cut usual_cut(const AttentionDesc& desc);
/// That of a call from plain rows of short sequences to outputs (plain/attend.cuh); tile -1: there is none.
Cut plain_cut(const AttentionDesc& desc);
/// What keys with room for so many tokens are packed for, and the cut of a call against some of them.
Cut kept_packing(const AttentionDesc& desc, std::int64_t capacity);
Cut kept_cut(const AttentionDesc& desc, std::int64_t capacity);

}  // namespace octet::cuda
