// Attention of a window from plain numbers to outputs, by one block of threads: two warps find what the rows
// of K and of V have in common while two make Q's codes, then all make those of K and V, and then each has
// sixteen rows of Q. What the quantiser, packing and attention do in launches of their own, without the ways
// between them through memory.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/mma/attend.cuh"
#include "cuda/window/codes.cuh"
#include "lanes/device.h"
#include "lanes/scalar.h"

namespace octet::cuda::window {

inline constexpr mma::Tile kTile = {WindowShape::kDim, kMostWindowTokens};
inline constexpr int kThreads = mma::kMostWarps * kWarp;
static_assert(kOperands <= mma::kMostWarps && kMostWindowTokens <= mma::kMostWarps * mma::kRowsAWarp);

/// The operands of a call, by Of.
struct PlainWindows {
  ShortOperand of[kOperands];
  WindowFactors factors;  ///< of all that are rotated
};

/// Shared memory of a block of threads.
template <template <class> class Scheme, WindowScales kScales>
struct Shared {
  mma::SharedPlan<Scheme<DeviceLane>, kTile> attention;
  WindowSpace<kScales> spaces[kOperands];
  Scales scales[kOperands];
  std::uint32_t largest[2];  ///< bits of the largest number of K's, of each of two warps
};

/// A block of threads' window. Scheme: of the contract (numerics/contract.h), as a template of lanes, for its
/// constants of keys are made by a lane of one, as packing makes them. kScales: what operands may have.
template <template <class> class Scheme, WindowScales kScales>
class Attention : mma::Attention<Scheme<DeviceLane>, kTile> {
  using S = Scheme<DeviceLane>;
  using Base = mma::Attention<S, kTile>;
  using Base::call_, Base::scheme_, Base::thread_;
  using typename Base::Rows;
  using typename Base::Tiles;
  using Shared = window::Shared<Scheme, kScales>;
  static constexpr bool kHasCodesOfV = S::kV == Operand::s8;  ///< or its numbers, in f16
  static_assert(!attn::LongRows<S> && Tiles::kQkRow == ToTiles::kRowBytes &&
                Tiles::kVRow == (kHasCodesOfV ? ToTiles::kSlots : ToTiles::kNumbersRow));

 public:
  __device__ Attention(const Call& call, Shared& shared) : Base(call, shared.attention), shared_(shared) {}

  __device__ __forceinline__ void run(const PlainWindows& windows) {
    make_codes(windows);
    const typename S::Block block = put_constants();
    const std::int32_t first = Base::first_row_of_warp();
    Rows rows;
    float scales[attn::RowScales<S>::kCount];
#pragma unroll
    for (int r = 0; r < attn::kRowsALane; ++r)
      scales[r] = scale_of(Of::q, call_.q, min(first + attn::row_of_lane(r, 0), queries() - 1));
    attn::open_rows(rows, scheme_, scales, first, 0);
    __syncthreads();  // the constants are there

    typename attn::Outputs<S, kTile.head_dim / 8>::Local local;
    attn::Outputs<S, kTile.head_dim / 8> outputs(
        shared_.attention.sums(mma::kMostWarps, static_cast<std::uint32_t>(warp())), local);
    const attn::Visibility visibility{call_, queries(), keys()};
    const attn::HeadBias bias(call_, batch(), head());
    const attn::KeyBlocks blocks(call_, visibility, {batch(), batch(), 0, keys()}, head(), 0, queries());
    const attn::SeenByRows seen(visibility, bias, blocks, kTile.computed, first, mma::kRowsAWarp);
    if (seen.some.has(0)) attend_rows(rows, outputs, block, visibility, bias, seen.whole.has(0));
    __syncthreads();  // nobody reads the tiles any more, whose place the rows take
    if (first < queries()) end(rows, outputs, first);
  }

 private:
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / kWarp); }
  static __device__ __forceinline__ std::int32_t batch() { return static_cast<std::int32_t>(blockIdx.x); }
  static __device__ __forceinline__ std::int32_t head() { return static_cast<std::int32_t>(blockIdx.y); }
  __device__ __forceinline__ std::int32_t queries() const { return call_.queries.tokens; }
  __device__ __forceinline__ std::int32_t keys() const { return call_.keys.tokens; }

  /// What a warp does before the first barrier of codes, and before the last: of K, V or Q 32 rows, or what
  /// all have in common.
  struct Turn {
    Of of;
    int first;  ///< row
    bool finds_common;
  };
  static __device__ __forceinline__ Turn turn_of(int turn) {
    const int number = warp() % 2, half = warp() / 2;
    if (turn == 0) return {half == 0 ? Of{number} : Of::q, half == 0 ? 0 : number * kWarp, half == 0};
    return {Of{number}, half * kWarp, false};
  }

  /// The operands' codes, in their tiles. note: a loop, so that what makes codes is there once.
  __device__ __forceinline__ void make_codes(const PlainWindows& windows) {
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) {
      const auto [of, first, finds_common] = turn_of(turn);
      const ShortOperand& x = windows.of[static_cast<int>(of)];
      const auto tokens = static_cast<int>(x.rows.x.shape[2]);
      WindowSpace<kScales>& space = shared_.spaces[static_cast<int>(of)];
      Scales& scales = shared_.scales[static_cast<int>(of)];
      const ToTiles to(of, tile_of(of), scales);
      Window<kScales, ToTiles> window(x, windows.factors, batch(), head(), space, to);
      if (turn == 0) window.stage(first, finds_common ? tokens : min(tokens, first + kWarp));
      if (finds_common) {
        scales.exponents[ToTiles::lane()] = 0;
        window.find_common();
      } else if (!kHasCodesOfV && of == Of::v) {
        to.numbers(first, tokens - first, lines_of(space, first), x.rows.x.dtype);
      } else if (kScales == WindowScales::of_windows_too && turn > 0) {
        encode_scaled(window, to, first, tokens);
      } else if (first < tokens) {
        window.encode(first);
      }
      if (kHasCodesOfV && of == Of::v && turn > 0) to.turn(first, tokens - first, lines_of(space, first));
      __syncthreads();
    }
  }
  /// Codes of rows that may be scaled late, by the largest number of two warps.
  __device__ __forceinline__ void encode_scaled(const Window<kScales, ToTiles>& window, const ToTiles& to,
                                                int first, int tokens) {
    const bool is_late = window.is_scaled_late(), has_rows = first < tokens;
    WindowRow row;
    if (is_late) {
      const std::uint32_t most = has_rows ? window.take_good_numbers(first, row.of) : 0;
      shared_.largest[first / kWarp] = __reduce_max_sync(kAllLanes, most);
    } else if (has_rows) {
      window.encode(first);
    }
    __syncthreads();
    if (!is_late) return;
    const quant::Scale scale = window.scale_of(float_of(max(shared_.largest[0], shared_.largest[1])));
    if (first == 0) to.scale_of_window(scale.scale, false);
    if (has_rows) window.put_codes(first, row.of, scale.rscale);
  }
  static __device__ __forceinline__ std::uint32_t lines_of(const WindowSpace<kScales>& space, int first) {
    return ptx::shared_address(space.lines) + first * WindowLines::kRowBytes;
  }
  __device__ __forceinline__ std::uint32_t tile_of(Of of) const {
    const auto& tiles = shared_.attention.tiles;
    return ptx::shared_address(of == Of::k ? tiles.k[0] : of == Of::v ? tiles.v[0] : tiles.q);
  }

  /// Scale number i of an operand's rows, or the one of all.
  __device__ __forceinline__ float scale_of(Of of, const DeviceOperand& x, std::int32_t i) const {
    return shared_.scales[static_cast<int>(of)].scales[x.tokens_per_scale == 1 ? i : 0];
  }

  /// Constants of keys and of channels, and the block's, as packing makes them.
  __device__ __forceinline__ typename S::Block put_constants() {
    using Packed = Scheme<ScalarLane>;
    const auto packed = attn::scheme_of<Packed>(call_);
    // Of each key, or of them all, which are one key block.
    const bool in_p = carries_v<S>() && call_.v.tokens_per_scale > 0 && call_.v.channels_per_scale == 0;
    const float of_block = scale_of(Of::k, call_.k, 0);
    typename Packed::Block block;
    if constexpr (requires { packed.block(1.0f, 1.0f); })
      block = packed.block(of_block, in_p ? largest_of_values() : 1.0f);
    else
      block = packed.block(of_block);
    const int i = thread_;
    if constexpr (!std::is_empty_v<typename Packed::Key>) {
      if (i < kTile.keys) {
        typename Packed::Key key{};
        if constexpr (requires { Packed::no_key(); }) key = Packed::no_key();
        const float of_value = in_p ? scale_of(Of::v, call_.v, i) : 1.0f;
        if (i < keys()) key = packed.key({scale_of(Of::k, call_.k, i), of_value}, block);
        attn::put_key(shared_.attention.tiles.keys[0], kTile.keys, i, key);
      }
    }
    // Beside the keys.
    if (const int channel = i - kTile.keys; channel >= 0 && channel < kTile.head_dim) {
      const Scales& of = shared_.scales[static_cast<int>(Of::v)];
      const bool has_scale = call_.v.scales.data && call_.v.tokens_per_scale == 0;
      const float scale = has_scale ? of.scales[channel] : 1.0f;
      shared_.attention.channels[channel] =
          scheme_.channel(ChannelScales<DeviceLane>{scale, of.exponents[channel]});
    }
    if constexpr (std::is_empty_v<typename S::Block>)
      return {};
    else
      return __builtin_bit_cast(typename S::Block, block);
  }
  /// note: scales are not negative, so that their bits are in their order.
  __device__ __forceinline__ float largest_of_values() const {
    std::uint32_t largest = 0;
    for (int i = ToTiles::lane(); i < keys(); i += kWarp)
      largest = max(largest, bits_of(scale_of(Of::v, call_.v, i)));
    return float_of(__reduce_max_sync(kAllLanes, largest));
  }

  template <class Outputs>
  __device__ __forceinline__ void attend_rows(Rows& rows, Outputs& outputs, const typename S::Block& of_block,
                                              const attn::Visibility& visibility, const attn::HeadBias& bias,
                                              bool whole) {
    const attn::KeyBlock block{0, 0, keys(), 0};
    const mma::ReadPlaces places = Base::reads_.get(thread_);
    typename S::Acc acc[Base::kTiles][4];
    attn::PWords<S, Base::kTiles> p;
    mma::multiply_qk<S::kQk, Tiles::kQkRow>(acc, mma::Place<Tiles::kQkRow>(places.q),
                                            Base::address_of_k(block), mma::Place<Tiles::kQkRow>(places.k),
                                            attn::start_of_sums<S>());
    attn::weigh_block<attn::Masses::of_quad, kTile.keys>(acc, p, rows, scheme_, call_,
                                                         shared_.attention.tiles.keys[0], of_block, block,
                                                         visibility, bias, tile::opaque(whole));
    Base::fold_values(rows, outputs, p, block);
  }

  template <class Outputs>
  __device__ __forceinline__ void end(Rows& rows, Outputs& outputs, std::int32_t first) {
    if constexpr (std::is_empty_v<typename S::Bias>) {
      // Where no bias hides keys, what a row saw is known from where it stands.
#pragma unroll
      for (attn::LaneRow<S>& row : rows) {
        const attn::KeyRange seen = attn::Visibility{call_, queries(), keys()}.of(row.token);
        row.blocks_seen = seen.begin < seen.end;
      }
    }
    auto* const staged = shared_.attention.outputs + first;
    const attn::RowStore store(call_, {batch(), batch(), 0, queries()}, head());
    const auto ends = attn::end_rows(scheme_, outputs, rows, shared_.attention.channels, store, staged);
    __syncwarp();
    store.template rows<mma::kRowsAWarp, attn::kWordsTogether<S>>(staged, first, queries(), call_.dim_v);
    attn::store_ends<attn::kRowsALane>(scheme_, rows, ends, store, first, 0, queries());
  }

  Shared& shared_;
};

/// Blocks of threads that a processor's registers hold without a spill.
constexpr int blocks_a_processor(WindowScales scales) {
  return scales == WindowScales::of_windows_too ? 5 : 6;
}

/// Grid: [batch, heads].
template <template <class> class Scheme, WindowScales kScales>
__global__ __launch_bounds__(kThreads, blocks_a_processor(kScales)) void attend(
    const __grid_constant__ Call call, const __grid_constant__ PlainWindows windows) {
  __shared__ Shared<Scheme, kScales> shared;
  Attention<Scheme, kScales>(call, shared).run(windows);
}

}  // namespace octet::cuda::window
