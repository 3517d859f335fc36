// V's s8 codes from rows in shared memory to where attention's kernels read them: dim-major, in key order.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/quant/quantize.h"
#include "cuda/quant/row_space.cuh"
#include "cuda/tile/key_order.h"

namespace octet::cuda {

/// Keys whose codes of a channel are 16 bytes: an order of their own among themselves (tile/key_order.h).
inline constexpr int kGroupKeys = 16;

/// Where the codes of a key block of a head go, those of its first channel.
__device__ inline std::byte* packed_block(const PackedValues& to, int dim, std::int32_t b, std::int32_t h,
                                          std::int32_t block) {
  const std::int64_t slot = h * to.blocks_per_head + b * to.blocks_of_sequence + block;
  return to.data + slot * dim * PackedValues::kPlaces;
}

/// The memory of a warp whose lanes exchange words. Planes lie so far apart that lanes meet in no bank.
struct TurnSpace {
  uint4 planes[4][10];
};

/// Two squares of 16 keys and 16 channels, as words of a lane: w[2 i] and w[2 i + 1] have of square i, by
/// bytes, channels 2 (lane / 4) and the next one, of keys 2 (lane % 4) and the next one, and of those 8
/// behind them. row: the shared memory of key lane % 16 of square lane / 16. Of the warp.
struct Squares {
  std::uint32_t w[4];

  __device__ explicit Squares(std::uint32_t row) { ptx::load_matrices_turned(w, row); }
  __device__ explicit Squares(const std::uint32_t (&words)[4]) : w{words[0], words[1], words[2], words[3]} {}

  /// Of both, of which `count[i]` keys exist and zeros stand for others: the 16 codes in key order of channel
  /// lane / 2 of square lane % 2. Of the warp.
  __device__ uint4 of_channels(const int (&count)[2], TurnSpace& space) const {
    // Slots 4 t ... 4 t + 3 are keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: what lane t of four has.
    static_assert(tile::key_of_slot(5, 1) == 3 && tile::key_of_slot(6, 1) == 10);
    constexpr unsigned kFirstChannel = 0x6420, kSecondChannel = 0x7531;
    const int lane = RowSpace<SegmentShape<64>>::lane();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t exist = count[i] < kGroupKeys ? existing(lane % 4 * 2, count[i]) : ~0u;
      words(space, i)[lane] = __byte_perm(w[2 * i], w[2 * i + 1], kFirstChannel) & exist;
      words(space, 2 + i)[lane] = __byte_perm(w[2 * i], w[2 * i + 1], kSecondChannel) & exist;
    }
    __syncwarp();
    return space.planes[lane / 2 % 2 * 2 + lane % 2][lane / 4];
  }

 private:
  __device__ static std::uint32_t* words(TurnSpace& space, int plane) {
    return reinterpret_cast<std::uint32_t*>(space.planes[plane]);
  }
  /// Ones for the keys of a word that exist.
  __device__ static std::uint32_t existing(int key, int count) {
    const auto byte = [&](int of, int at) { return of < count ? 0xffu << at : 0u; };
    return byte(key, 0) | byte(key + 1, 8) | byte(key + 8, 16) | byte(key + 9, 24);
  }
};

}  // namespace octet::cuda
