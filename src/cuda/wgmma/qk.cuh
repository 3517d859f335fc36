// Q K^T of a warpgroup: a warp's rows of Q on their way into shared memory, and the products.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/attn/key_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace octet::cuda::wgmma {

using namespace attn;

/// kRowsAWarp rows from first_row on, padded by zeros; rows beyond the sequence's `tokens` are
/// zeros. address, tile: of the warpgroup's rows, of which they are numbers `place` and on. What was copied
/// is there after a wait for copies.
template <class S, class Tiles>
__device__ __forceinline__ void load_q(const Call& call, const HeadOperand& q, std::int32_t first_row,
                                       std::int32_t tokens, int place, std::uint32_t address,
                                       std::byte* tile) {
  constexpr int kBytes = Element<S::kQk>::kBytes, kElements = 16 / kBytes, kChunks = Tiles::kQkRow / 16;
  constexpr int kLanes = 32, kRowsATurn = kLanes / kChunks;
  const DeviceOperand& x = q.operand();
  const int lane = static_cast<int>(threadIdx.x % kLanes), row = lane / kChunks, chunk = lane % kChunks;
  const std::int32_t first = chunk * kElements;
  if (call.q_in_chunks) [[likely]] {
    const auto* from = static_cast<const std::byte*>(x.codes.data) +
                       q.offset(first_row + row, min(first, x.dim - kElements)) * kBytes;
    const std::int32_t rows = first < x.dim ? tokens - first_row - row : 0;
#pragma unroll 4
    for (int turn = 0; turn < kRowsAWarp; turn += kRowsATurn) {
      ptx::copy_async_or_zeros(address + Tiles::Q::offset(place + row + turn, chunk), from,
                               turn < rows ? 16 : 0);
      from += kRowsATurn * kBytes * x.codes.stride[2];
    }
    return;
  }
#pragma unroll 1
  for (int turn = 0; turn < kRowsAWarp; turn += kRowsATurn) {
    const std::int32_t token = first_row + row + turn;
    Elements<S::kQk, 16> element{};
#pragma unroll 1
    for (int c = 0; c < kElements && first + c < x.dim && token < tokens; ++c)
      element.of[c] = element_of<S::kQk>(q.number(token, first + c));
    *reinterpret_cast<uint4*>(tile + Tiles::Q::offset(place + row + turn, chunk)) =
        __builtin_bit_cast(uint4, element);
  }
}

/// Begins acc = Q K^T of a key block. q, k: low words of the tiles.
template <class S, class Tiles, int kTiles>
__device__ __forceinline__ void begin_qk(typename S::Acc (&acc)[kTiles][4], std::uint32_t q,
                                         std::uint32_t k) {
  constexpr auto kStart = start_of_sums<S>();
  if constexpr (kStart != 0) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][e] = kStart;
  }
  ptx::pin(acc);
  ptx::begin_products();
#pragma unroll
  for (int step = 0; step < Tiles::kQkRow / 32; ++step)
    ptx::multiply_shared<S::kQk>(acc, Tiles::Q::descriptor(q + Tiles::Q::step(0, step)),
                                 Tiles::K::descriptor(k + Tiles::K::step(0, step)),
                                 step == 0 && kStart == 0 ? ptx::Start::zero : ptx::Start::sums);
  ptx::commit_products();
}

}  // namespace octet::cuda::wgmma
