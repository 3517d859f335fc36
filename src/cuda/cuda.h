// The CUDA backend: fused attention on tensors in device memory. No CUDA header, so that the layers above are
// compiled by any compiler.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/quant/quantize.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::cuda {

/// Why the backend does not take the problem, or there is no device to compute it on; empty: it does.
std::string refusal(const AttentionDesc& desc);

/// The kernels that a problem which is not refused takes on the current device: "mma" or "wgmma".
std::string_view family_of(const AttentionDesc& desc);

/// Bytes of args.workspace, device memory aligned to 64, that attend() needs: packed K and V of all heads, if
/// these have to be.
std::int64_t workspace_bytes(const AttentionDesc& desc);

/// o, lse and o_scale of q, k, v given in the scheme's formats. cu_seqlens are in device memory too, and are
/// not checked. Asynchronous on args.stream of the current device; allocates nothing, synchronises with
/// nothing, and can be captured in a graph. Code::internal where a launch fails.
Status attend(const AttentionDesc& desc, const AttentionArgs& args);

/// Where pack() would write V's codes, for a quantiser that knows how to; data is null where packed V is not
/// such codes. workspace: of args to come, whose v.codes.data is that address where they are there.
PackedValues packed_values(const AttentionDesc& desc, void* workspace);

/// Where pack() would write constants of keys, for a quantiser that knows how to: what follows from K's
/// scales, and from V's; data is null where nothing does. Where these are all there, args to come have
/// k.data's address as that of k.scales, and V's codes are packed.
struct ConstantsOfKeys {
  PackedConstants k, v;
};
ConstantsOfKeys packed_constants(const AttentionDesc& desc, void* workspace);

/// attend() of plain operands with all that makes their codes, in one launch: false where the problem has no
/// such kernel, and then nothing is queued. operands: k, v and q, but for v whose numbers are multiplied as
/// they come. args: as of attend(), whose codes and scales are not written.
Result<bool> attend_plain(const AttentionDesc& desc, const AttentionArgs& args,
                          std::span<const PlainOperand> operands);

/// Packed keys that stay from call to call, in device memory of their own, aligned to 64: room for `capacity`
/// keys of each batch entry, of which a call's desc.tokens_k are there, and so many tokens from one head to
/// the next have args.k and args.v. Dense sequences only.
struct KeptKeys {
  std::byte* packed = nullptr;
  std::int64_t capacity = 0;
};
/// Bytes of KeptKeys::packed; desc.tokens_k: the capacity. k: K's codes, whose data will be aligned to 16.
std::int64_t kept_bytes(const AttentionDesc& desc, const TensorView& k);
/// Bytes of args.workspace that attend_kept() needs for up to desc.tokens_k keys.
std::int64_t kept_workspace_bytes(const AttentionDesc& desc);
/// Packs the key blocks of keys `first` ... desc.tokens_k - 1, and all of the block that it begins in.
/// first 0: what keys of all blocks share, too.
Status pack_kept(const AttentionDesc& desc, const AttentionArgs& args, const KeptKeys& kept,
                 std::int64_t first);
/// attend() against the first desc.tokens_k keys.
Status attend_kept(const AttentionDesc& desc, const AttentionArgs& args, const KeptKeys& kept);

/// The two halves of attend(): packed keys serve any number of calls with the same k, v and workspace.
Status pack(const AttentionDesc& desc, const AttentionArgs& args);
Status attend_packed(const AttentionDesc& desc, const AttentionArgs& args);

/// Kernels of mma.sync, for all GPUs, and those of wgmma, for long calls on Hopper.
enum class Family : std::int32_t { mma, wgmma };

/// How operands of e4m3 are multiplied: as such, where the device has units that do, or as f16, which holds
/// their numbers.
enum class E4m3 : std::int32_t { as_it_is, as_f16 };

/// What packed keys are for: the call that has them packed, in the fastest form that it allows, or any call
/// of their scheme, with a bias or not, by either family.
enum class PackedFor : std::int32_t { this_call, any_call };

/// By whom the ranges of a row are merged: a kernel behind theirs, or their blocks of threads, which are a
/// cluster then (by mma.sync, on sm_90 and newer).
enum class Merging : std::int32_t { by_kernel, in_cluster };

/// How the kernels cut a problem: a row of their table of tiles (mma/tile.h), which says too whether keys are
/// cut in parts, and warps of a block of threads that have rows of their own. Kernels of wgmma take what is
/// packed for that tile. ranges: of the keys of a sequence, at most, each with blocks of threads of its own
/// (cuda/ranges.h), by mma.sync with query heads that share keys computed together; 0: neither.
/// last_rows: by wgmma, query rows of small tiles; 0: there are none. last_heads: by wgmma, the last so many
/// of the heads of all batch entries, which alone have ranges or small tiles; 0: all of them. row_tiles: that
/// a block of threads computes one after the other against keys that stay, by tiles that keep them. merging:
/// of the ranges.
struct Cut {
  std::int32_t tile = 0, warps = 1;
  Family family = Family::mma;
  E4m3 e4m3 = E4m3::as_it_is;
  std::int32_t ranges = 0, last_heads = 0, last_rows = 0, row_tiles = 1;
  PackedFor packed_for = PackedFor::this_call;
  Merging merging = Merging::by_kernel;
  bool operator==(const Cut&) const = default;
};
/// Those that hold a problem that is not refused, and fit the current device; attend() takes the first.
std::vector<Cut> cuts_of(const AttentionDesc& desc);

/// The same by one of these, for who measures or tests them. What was packed for a cut serves those of its
/// tile's size, its family and its products alone.
std::int64_t workspace_bytes(const AttentionDesc& desc, const Cut& cut);
Status pack(const AttentionDesc& desc, const AttentionArgs& args, const Cut& cut);
Status attend_packed(const AttentionDesc& desc, const AttentionArgs& args, const Cut& cut);

}  // namespace octet::cuda
