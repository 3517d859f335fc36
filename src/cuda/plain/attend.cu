#include "cuda/plain/attend.cuh"

#include "cuda/mma/with_tile.cuh"
#include "cuda/plain/attend_parts.cuh"
#include "cuda/plain/launch.cuh"
#include "cuda/runtime/allow.cuh"
#include "cuda/runtime/launch.cuh"
#include "numerics/int8_full.h"

namespace octet::cuda::plain {
namespace {

/// Tiles that kernels are of: those that keep two key blocks, of up to 128 keys and of up to 112, and those
/// that keep three in two parts, and two and five in four.
inline constexpr int kUsual = mma::tile_for(kDim, mma::kMostKeys), kBlocks = 2, kValueBytes = 2, kFew = 112,
                     kWide = mma::keeping_tile(kUsual, kBlocks, mma::kMostKeys, kValueBytes),
                     kNarrow = mma::keeping_tile(kUsual, kBlocks, kFew, kValueBytes),
                     kTwoParts = mma::keeping_parts(kUsual, 2, 3),
                     kFourParts = mma::keeping_parts(kUsual, 4, 2),
                     kOfMore = mma::keeping_parts(kUsual, 4, 5);
static_assert(kWide >= 0 && kNarrow >= 0 && kWide != kNarrow && kTwoParts >= 0 && kFourParts >= 0 &&
              kOfMore >= 0 && kOfMore != kFourParts);

using Kernel = void (*)(Call, PlainSequences);
Kernel kernel_of(int tile) {
  switch (tile) {
    case kTwoParts:
      return attend_parts<Int8HalfScheme, kTwoParts>;
    case kOfMore:
      return attend_parts<Int8HalfScheme, kOfMore>;
    case kFourParts:
      return attend_parts<Int8HalfScheme, kFourParts>;
    case kNarrow:
      return attend<Int8HalfScheme, kNarrow>;
    default:
      return attend<Int8HalfScheme, kWide>;
  }
}

RowsOfHeads rows_of(const TensorView& x) {
  return {static_cast<const std::uint16_t*>(x.data), {x.stride[0], x.stride[1], x.stride[2]}};
}
bool are_plain(const RowReading& r) {
  const bool is_16_bit = r.x.dtype == DType::bf16 || r.x.dtype == DType::f16;
  return is_16_bit && r.in_vectors && r.dim == kDim && r.hadamard == 0 && !r.shift.data && !r.exponent.data &&
         !r.order.sequences.cu_seqlens;
}
/// Whether each row's scale and codes follow from the row alone.
bool become_codes(const ShortOperand& x) {
  return is_of_dense_s8(x) && are_plain(x.rows) && x.coding.scale_of == ScaleOf::token &&
         x.coding.making.rule == quant::ScaleRule::nearest && !x.coding.clamps &&
         x.coding.making.block_floor.octaves == 0 && !x.coding.non_finite;
}
bool become_alike(const ShortOperand& a, const ShortOperand& b) {
  return a.rows.x.dtype == b.rows.x.dtype && a.coding.making.largest_code == b.coding.making.largest_code;
}

}  // namespace

std::int64_t shared_bytes(int tile, std::int32_t warps) {
  std::int64_t bytes = 0;
  mma::with_tile(tile, [&]<int kIndex>() {
    if constexpr (mma::kTileTable[kIndex].kept_blocks > 0)
      bytes = static_cast<std::int64_t>(
          mma::SharedPlan<Int8HalfScheme<DeviceLane>, mma::kTileTable[kIndex]>::bytes(warps));
    return cudaSuccess;
  });
  return bytes;
}

bool has_kernel(Scheme scheme, Form form) { return scheme == Scheme::int8_half && form == Form::general; }

bool launch(int tile, const mma::Grid& grid, const Call& call, const std::array<ShortOperand, 3>& operands,
            void* stream, int& error) {
  const auto& [k, v, q] = operands;
  if (!become_codes(k) || !become_codes(q) || v.coding.scale_of != ScaleOf::nothing || !are_plain(v.rows))
    return false;
  if (!become_alike(k, q)) return false;
  const PlainSequences plain{rows_of(q.rows.x),
                             rows_of(k.rows.x),
                             rows_of(v.rows.x),
                             {k.rows.x.dtype, k.coding.making.largest_code},
                             v.rows.x.dtype};
  const Kernel kernel = kernel_of(tile);
  error = runtime::allow_shared_bytes(reinterpret_cast<const void*>(kernel), grid.shared_bytes);
  if (error != cudaSuccess) return true;
  const dim3 blocks(static_cast<unsigned>(grid.groups), static_cast<unsigned>(grid.heads));
  const dim3 threads(static_cast<unsigned>(grid.warps) * kWarp, mma::kTileTable[tile].key_parts);
  error = runtime::launch(kernel, blocks, threads, static_cast<std::size_t>(grid.shared_bytes), stream, call,
                          plain);
  return true;
}

}  // namespace octet::cuda::plain
