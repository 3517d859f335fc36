// What the loop of key blocks asks for once a block: in registers, or parked in shared memory.
#pragma once
#include <cstdint>

#include "cuda/attn/key_block.cuh"
#include "cuda/mma/tile.h"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::mma {

/// Of a thread: where its parts of K and V go in their tiles, and from where its rows of K of block 0 come,
/// of V too where these are keys.
template <bool kValuesByKeys>
struct alignas(16) CopyPlaces {
  std::uint32_t k, v;
  const std::byte* k_rows;
};
template <>
struct alignas(16) CopyPlaces<true> {
  std::uint32_t k, v;
  const std::byte *k_rows, *v_rows;
};

/// Of a lane: where its fragments lie in the tiles of the operands; q: a shared address.
struct alignas(16) ReadPlaces {
  std::uint32_t q, k, v;
};

/// Of a warp. first_slot, keys: of the sequence's key blocks, of which the block of threads has numbers first
/// ... end - 1; begin: its first row; some, whole: of the blocks (attn/key_block.cuh, SeenByRows); batch,
/// first_token, queries: of the queries' sequence, which has `queries` tokens.
struct alignas(16) Known {
  std::int32_t first_slot, keys, end, begin;
  attn::BlockRange some, whole;
  std::int32_t first, batch, first_token, queries;
};

/// Scores, outputs and what makes the one of the other take nearly all registers of some kernels. What these
/// then lack the compiler spills: it waits for local memory where the word is used. Parked words are read by
/// the loop itself, those of copies before it waits for a key block.
enum class Keeps { in_registers, in_shared_memory };

/// A T of each of kPlaces threads or warps; place: the one that asks.
template <class T, Keeps kKeeps, int kPlaces>
class Parked {
 public:
  struct Shared {};
  __device__ __forceinline__ explicit Parked(Shared&) {}
  __device__ __forceinline__ void set(int, const T& value) { value_ = value; }
  __device__ __forceinline__ const T& get(int) const { return value_; }

 private:
  T value_;
};

template <class T, int kPlaces>
class Parked<T, Keeps::in_shared_memory, kPlaces> {
 public:
  using Shared = T[kPlaces];
  __device__ __forceinline__ explicit Parked(Shared& shared) : of_(shared) {}
  __device__ __forceinline__ void set(int place, const T& value) { of_[place] = value; }
  /// note: read anew each time, of which the compiler cannot tell that it is the same.
  __device__ __forceinline__ const T& get(int place) const { return of_[tile::kept(place)]; }

 private:
  Shared& of_;
};

}  // namespace octet::cuda::mma
