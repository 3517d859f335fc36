// ldmatrix: four 8 x 16-byte matrices from shared memory into the fragments of mma.sync.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// The address of shared memory in the 32 bits that instructions take.
__device__ __forceinline__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

/// Lane 8 i + r gives the address of row r of matrix i, 16 bytes; word i of a lane is then the 4 bytes from
/// byte 4 (lane % 4) on of its row lane / 4.
__device__ __forceinline__ void load_matrices(std::uint32_t (&words)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// The same of matrices of pairs of bytes, each turned around: word i of a lane is then pair lane / 4 of rows
/// 2 (lane % 4) and the next one, that of the first row in the lower half.
__device__ __forceinline__ void load_matrices_turned(std::uint32_t (&words)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

}  // namespace octet::cuda::ptx
