// V's s8 codes from rows in shared memory to where attention's kernels read them: dim-major, in key order.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/quantize.h"
#include "cuda/quant/row_space.cuh"
#include "cuda/tile/key_order.h"

namespace octet::cuda {

/// Keys whose codes of a channel are 16 bytes, with an order among themselves (tile/key_order.h), and
/// channels whose codes of a key are.
inline constexpr int kSquare = 16;

/// Where the codes of a key block of a head go, those of its first channel.
__device__ inline std::byte* packed_block(const PackedValues& to, int dim, std::int32_t b, std::int32_t h,
                                          std::int32_t block) {
  const std::int64_t slot = h * to.blocks_per_head + b * to.blocks_of_sequence + block;
  return to.data + slot * dim * PackedValues::kPlaces;
}

/// Ones for the keys of a word of codes that exist: `key`, the next one, and those 8 behind them, of the
/// `count` of their square.
__device__ inline std::uint32_t existing_keys(unsigned key, int count) {
  const auto byte = [&](unsigned of, int at) { return static_cast<int>(of) < count ? 0xffu << at : 0u; };
  return byte(key, 0) | byte(key + 1, 8) | byte(key + 8, 16) | byte(key + 9, 24);
}

/// The codes of 16 channels of so many squares of keys, turned around; of the warp. row(key): the shared
/// memory of a key's 16 codes, asked for of all of them. put(square, c, word): of channel 2 (lane / 4) + c
/// the slots 4 t ... 4 t + 3 of a square, t = lane % 4, zeros for keys from `count` on.
template <int kSquares, class Row, class Put>
__device__ __forceinline__ void turn_codes(const Row& row, int count, const Put& put) {
  const auto lane = [] { return static_cast<unsigned>(ptx::lane()); };  // no register has room for it
  // Slots 4 t ... 4 t + 3 are keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: what lane t of four has.
  static_assert(tile::key_of_slot(5) == 3 && tile::key_of_slot(6) == 10);
  constexpr unsigned kFirstChannel = 0x6420, kSecondChannel = 0x7531;
#pragma unroll
  for (int first = 0; first < kSquares; first += 2) {
    // Words 2 i and 2 i + 1 have, by bytes, channels 2 (lane / 4) and the next one of keys 2 t and the next
    // one of square i, and of those 8 behind them.
    std::uint32_t words[4];
    ptx::load_matrices_turned(words, row(first * kSquare + ptx::lane()));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int left = count - (first + i) * kSquare;
      const std::uint32_t exist = left < kSquare ? existing_keys(lane() % 4 * 2, left) : ~0u;
      const std::uint32_t a = words[2 * i], b = words[2 * i + 1];
      put(first + i, 0, __byte_perm(a, b, kFirstChannel) & exist);
      put(first + i, 1, __byte_perm(a, b, kSecondChannel) & exist);
    }
  }
}

/// 16 channels of so many squares of keys on their way from rows to channels, by a warp and its shared
/// memory. There the codes of the first channels of all pairs lie together, and those of the second, and
/// begin with another pair in each square, so that lanes meet in no bank.
template <int kSquares>
class Turn {
 public:
  static constexpr int kKeys = kSquares * kSquare, kBytes = kKeys * kSquare;

  /// memory: kBytes, at a multiple of 128.
  __device__ explicit Turn(std::uint32_t memory) {
    const unsigned lane = number(), square = lane % kSquares, channel = lane / kSquares;
    put_ = memory + lane * 4;
    get_ = memory + plane_offset(channel % 2 * kSquares + square) + channel / 2 * 16;
    get_ ^= turned(channel % 2 * kSquares + square);
    of_lane_ = channel * PackedValues::kPlaces + square * kSquare;
  }

  /// Takes the codes of all keys, and zeros for those from `count` on; of the warp. row(key): the shared
  /// memory of a key's 16 codes, asked for of all of them.
  template <class Row>
  __device__ void take(const Row& row, int count) const {
    __syncwarp();
    turn_codes<kSquares>(row, count, [&](int square, int c, std::uint32_t word) {
      put(static_cast<unsigned>(c * kSquares + square), word);
    });
    __syncwarp();
  }
  /// Writes them, the first channel's to `to`; of the warp.
  __device__ void write(std::byte* to) const {
    constexpr int kAtOnce = kWarp / kSquares;  // channels
#pragma unroll
    for (int i = 0; i < kSquare / kAtOnce; ++i)
      *reinterpret_cast<uint4*>(to + of_lane_ + i * kAtOnce * PackedValues::kPlaces) =
          ptx::load_shared_16_bytes(get_ ^ i * (kAtOnce / 2) * 16);
  }

 private:
  __device__ static unsigned number() { return static_cast<unsigned>(RowSpace<SegmentShape<64>>::lane()); }
  /// Planes are the squares of first channels, then those of second ones.
  __device__ static constexpr unsigned plane_offset(unsigned plane) { return plane * kSquare / 2 * 16; }
  __device__ static constexpr unsigned turned(unsigned plane) {
    constexpr unsigned kFurther = kSquares > 2 ? 1 : 2;
    return plane * kFurther % (kSquare / 2) * 16;
  }
  __device__ void put(unsigned plane, std::uint32_t word) const {
    ptx::store_shared_word((put_ ^ turned(plane)) + plane_offset(plane), word);
  }

  std::uint32_t put_, get_, of_lane_;
};

}  // namespace octet::cuda
