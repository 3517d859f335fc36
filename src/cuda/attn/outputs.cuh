// What a lane carries of its two rows' outputs from key block to key block.
#pragma once
#include <cstdint>

#include "cuda/attn/softmax.cuh"

namespace octet::cuda::attn {

/// Numbers that are in registers. kTiles: of eight channels each.
template <class S, int kTiles>
class Outputs {
 public:
  using Out = typename S::Out;
  static constexpr int kCount = kTiles;

  /// What is done before the sums of a key block are folded in.
  __device__ __forceinline__ void open(const S&, const LaneRow<S> (&)[kRowsALane]) {}

  /// Sums of P V of the channels of tiles first ... first + kSome - 1, of which channel_of(tile, c) has the
  /// constants.
  template <int kSome, class ChannelOf>
  __device__ __forceinline__ void fold(const S& scheme, int first, const typename S::PvAcc (&pv)[kSome][4],
                                       const LaneRow<S> (&rows)[kRowsALane], const ChannelOf& channel_of) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if (!rows[r].sees) continue;
#pragma unroll
      for (int i = 0; i < kSome; ++i) {
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e)
          scheme.fold(out_[first + i][e], pv[i][e], rows[r].step, channel_of(first + i, e & 1));
      }
    }
  }

  __device__ __forceinline__ Out at(int tile, int e) const { return out_[tile][e]; }

 private:
  Out out_[kTiles][4] = {};
};

/// 64-bit sums in bins, of which most rows use one or two: in local memory, which the first-level cache
/// keeps, for three of them do not fit the registers and the bin of a row is known at run time.
template <class S, int kTiles>
requires requires { typename S::Into; }
class Outputs<S, kTiles> {
 public:
  using Out = typename S::Out;
  static constexpr int kCount = kTiles;

  __device__ __forceinline__ void open(const S& scheme, const LaneRow<S> (&rows)[kRowsALane]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      into_[r] = {};
      if (!rows[r].sees) continue;
      into_[r] = scheme.into(rows[r].step);
      if (!into_[r].opens) continue;
#pragma unroll 1
      for (int i = 0; i < kTiles; ++i) {
        for (int c = 0; c < 2; ++c) {
          Out out = at(i, 2 * r + c);
          scheme.make_room(out, into_[r]);
          for (int b = 0; b < kBins; ++b) bin_[b][i * 4 + 2 * r + c] = out.bin[b];
        }
      }
    }
  }

  template <int kSome, class ChannelOf>
  __device__ __forceinline__ void fold(const S&, int first, const typename S::PvAcc (&pv)[kSome][4],
                                       const LaneRow<S> (&rows)[kRowsALane], const ChannelOf&) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if (!rows[r].sees) continue;
      std::int64_t* bin = bin_[into_[r].bin];
#pragma unroll
      for (int i = 0; i < kSome; ++i) {
#pragma unroll
        for (int c = 0; c < 2; ++c)
          bin[(first + i) * 4 + 2 * r + c] += std::int64_t{pv[i][2 * r + c]} * into_[r].factor;
      }
    }
  }

  __device__ __forceinline__ Out at(int tile, int e) const {
    Out out;
    for (int b = 0; b < kBins; ++b) out.bin[b] = bin_[b][tile * 4 + e];
    return out;
  }

 private:
  static constexpr int kBins = sizeof(Out) / sizeof(std::int64_t);
  typename S::Into into_[kRowsALane];
  std::int64_t bin_[kBins][kTiles * 4];
};

}  // namespace octet::cuda::attn
