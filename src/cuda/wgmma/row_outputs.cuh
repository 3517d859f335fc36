// What a warp carries of its rows' outputs from key block to key block, and the products that make it.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/attn/outputs.cuh"
#include "cuda/attn/p_words.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/lines.cuh"

namespace octet::cuda::wgmma {

using namespace attn;

/// Begins sums = P V of kTiles tiles of channels from `first` on. v: the low word of V's tile.
template <class S, class V, ptx::Start kStart = ptx::Start::zero, int kKeyTiles, int kTiles, class Sum>
__device__ __forceinline__ void begin_pv(Sum (&sums)[kTiles][4], const PWords<S, kKeyTiles>& p,
                                         std::uint32_t v, int first) {
  ptx::pin(sums);
  ptx::begin_products();
#pragma unroll
  for (int step = 0; step < PWords<S, kKeyTiles>::kSteps; ++step)
    ptx::multiply_registers<S::kP>(sums, p.word[step], V::descriptor(v + V::step(first * 8, step)),
                                   step == 0 ? kStart : ptx::Start::sums);
  ptx::commit_products();
}

/// Numbers in registers, into which the sums of each key block are folded, so many channels at a time as
/// leave room for the rest.
template <class S, int kTiles, int kKept, int kSome>
class RowOutputs {
  using Numbers = Outputs<S, kTiles, kKept>;

 public:
  using Shared = typename Numbers::Shared;
  __device__ __forceinline__ explicit RowOutputs(Shared& shared) : numbers_(shared, local_) {}

  /// of_channels: the key block's constants of channels; null: V's scales do not vary along tokens.
  template <class V, int kKeyTiles>
  __device__ __forceinline__ void add(const S& scheme, const LaneRow<S> (&rows)[kRowsALane],
                                      const PWords<S, kKeyTiles>& p, std::uint32_t v,
                                      const typename S::Channel* of_channels) {
    numbers_.open(scheme, rows);
#pragma unroll
    for (int first = 0; first < kTiles; first += kSome) {
      Sums pv;
      begin_pv<S, V>(pv, p, v, first);
      fold<0>(scheme, rows, pv, first, of_channels);
    }
  }

  /// add() of what one product makes, in three steps: others may be begun between begin() and end(), which
  /// leaves kGroups of them under way.
  using Sums = typename S::PvAcc[kSome][4];
  static constexpr bool kIsOneProduct = kTiles == kSome;
  __device__ __forceinline__ void open(const S& scheme, const LaneRow<S> (&rows)[kRowsALane]) {
    numbers_.open(scheme, rows);
  }
  template <class V, int kKeyTiles>
  static __device__ __forceinline__ void begin(Sums& pv, const PWords<S, kKeyTiles>& p, std::uint32_t v) {
    begin_pv<S, V>(pv, p, v, 0);
  }
  template <int kGroups>
  __device__ __forceinline__ void end(const S& scheme, const LaneRow<S> (&rows)[kRowsALane], Sums& pv,
                                      const typename S::Channel* of_channels) {
    fold<kGroups>(scheme, rows, pv, 0, of_channels);
  }
  /// P V added to the outputs as it is made: of sums whose factor is 1, where V's scales do not vary along
  /// tokens. Until pin(), which follows the wait for the products, nobody touches the outputs.
  template <class V, int kKeyTiles>
  __device__ __forceinline__ void begin_adding(const PWords<S, kKeyTiles>& p, std::uint32_t v) {
    begin_pv<S, V, ptx::Start::sums>(numbers_.in_registers(), p, v, 0);
  }
  __device__ __forceinline__ void pin() { ptx::pin(numbers_.in_registers()); }
  __device__ __forceinline__ typename S::Out at(int tile, int e) const { return numbers_.at(tile, e); }

 private:
  template <int kGroups>
  __device__ __forceinline__ void fold(const S& scheme, const LaneRow<S> (&rows)[kRowsALane], Sums& pv,
                                       int first, const typename S::Channel* of_channels) {
    ptx::wait_products<kGroups>();
    ptx::pin(pv);
    const typename S::Channel unit = scheme.channel({});
    if (tile::opaque(of_channels != nullptr)) [[unlikely]] {
      numbers_.fold(scheme, first, pv, rows, [&](int tile, int c) {
        return of_channels[tile * 8 + static_cast<int>(threadIdx.x % 4) * 2 + c];
      });
      if constexpr (kGroups > 0) numbers_.pin();  // note: else both branches' sums are added behind them
    } else {
      numbers_.fold(scheme, first, pv, rows, [&](int, int) { return unit; });
    }
  }

  typename Numbers::Local local_;
  Numbers numbers_;
};

}  // namespace octet::cuda::wgmma
