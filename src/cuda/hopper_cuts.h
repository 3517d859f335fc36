// Which problems Hopper's kernels take, and how they cut them.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/wgmma/launch.h"

namespace octet::cuda {

/// Hopper's kernels for a tile; null where there are none for it, for a bias, or the current device is no
/// Hopper.
const wgmma::Kernels* hopper_kernels_for(const AttentionDesc& desc, int tile,
                                         PackedFor packed_for = PackedFor::this_call);
/// Whether those may have ranges.
bool hopper_may_have_ranges(const AttentionDesc& desc, int tile, PackedFor packed_for = PackedFor::this_call);
/// Query rows of a block of threads of those.
std::int32_t hopper_rows(const AttentionDesc& desc, int tile, PackedFor packed_for = PackedFor::this_call);

/// Bytes that the outputs of ranges by Hopper's kernels have at most, on any device.
std::int64_t hopper_range_bytes(const AttentionDesc& desc);

/// Hopper's own kernels have one block of threads a processor, and take a while to begin: a call is for them
/// where it keeps most processors busy to its end, and its rows have many keys. Up to 64 channels mma.sync is
/// not as far behind, least of all where keys share their scales and it has the products. Rows of fewer keys
/// are for them where they fill their tiles (wgmma/fill.h).
bool suits_hopper(const AttentionDesc& desc);

/// The cut by Hopper's kernels, without ranges.
Cut hopper_cut(const AttentionDesc& desc, int tile, PackedFor packed_for = PackedFor::this_call);
/// With ranges or small tiles where the last ones would leave processors without one.
Cut usual_hopper_cut(const AttentionDesc& desc, int tile, PackedFor packed_for);
/// What mma.sync would do with a call: cut its keys into ranges, or not.
enum class Otherwise : std::int32_t { whole_rows, ranges };
/// The cut by Hopper's kernels of a call that begins all of its tiles at once, or whose last ones are shared
/// out (wgmma/shares.h); none: it is neither, its rows are few, or mma.sync, which multiplies some half as
/// fast, keeps processors busier.
std::optional<Cut> shared_hopper_cut(const AttentionDesc& desc, Otherwise otherwise);

/// Cuts by Hopper's kernels with ranges or small tiles: of all heads, and of those that fill no turn of all
/// processors, or half of them.
std::vector<Cut> shared_hopper_cuts(const AttentionDesc& desc, int tile);

}  // namespace octet::cuda
