// wgmma: D = A B (+ D) of a warpgroup, 64 rows, in the formats that attention's products have. sm_90a.
//
// A warp has sixteen of the rows; its fragments of A and D are those of mma.sync one after the other
// (ptx/mma.cuh), so that softmax and outputs are the same text. B, and A where it is not in registers, are
// rows in shared memory, 128 bytes or less of the summed axis each, or of B's columns where A is in registers
// and both have 16 bits, in the places of tile/lines.cuh. A product is under way from its issue on: between
// begin_products() and wait_products() nobody touches its accumulators, operands in registers or tiles.
#pragma once
#include <cstdint>

#include "numerics/contract.h"

namespace octet::cuda::ptx {

/// Before the first product that reads registers or tiles as they now are.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of products.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kGroups of the warpgroup's groups are under way.
template <int kGroups>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

/// Numbers that a product writes, of which the compiler must not move reads or writes across this.
template <int kTiles>
__device__ __forceinline__ void pin(std::int32_t (&d)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(d[i][e])::"memory");
}
template <int kTiles>
__device__ __forceinline__ void pin(float (&d)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(d[i][e])::"memory");
}

// clang-format off
#define OCTET_TILE(constraint, t) "+" constraint((t)[0]), "+" constraint((t)[1]), "+" constraint((t)[2]), "+" constraint((t)[3])
#define OCTET_TILES4(constraint, d, i) \
  OCTET_TILE(constraint, d[i]), OCTET_TILE(constraint, d[i + 1]), OCTET_TILE(constraint, d[i + 2]), OCTET_TILE(constraint, d[i + 3])
#define OCTET_TILES8(constraint, d, i) OCTET_TILES4(constraint, d, i), OCTET_TILES4(constraint, d, i + 4)
/// 64 columns, A in registers. `scales`: of floats alone, that A and B are as they are; of 16 bits, whether
/// they are turned.
#define OCTET_WGMMA_64_REGISTERS(formats, scales, constraint, d, a, b, adds)                           \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n64" formats " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "  \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "{%32, %33, %34, %35}, %36, adds" scales ";\n}"                                   \
      : OCTET_TILES8(constraint, d, 0)              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))
/// 128 columns, A in registers.
#define OCTET_WGMMA_128_REGISTERS(formats, scales, constraint, d, a, b, adds)                           \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n128" formats " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "  \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
      "%59, %60, %61, %62, %63}, " \
      "{%64, %65, %66, %67}, %68, adds" scales ";\n}"                                              \
      : OCTET_TILES8(constraint, d, 0), OCTET_TILES8(constraint, d, 8)              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))
/// 128 columns, A at a descriptor.
#define OCTET_WGMMA_128_SHARED(formats, scales, constraint, d, a, b, adds)                              \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n128" formats " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "  \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
      "%59, %60, %61, %62, %63}, " \
      "%64, %65, adds" scales ";\n}"                                                              \
      : OCTET_TILES8(constraint, d, 0), OCTET_TILES8(constraint, d, 8)              \
      : "l"(a), "l"(b), "r"(adds))
// clang-format on

/// d = A B + d, or A B where it does not add. A in shared memory.
enum class Start : std::int32_t { zero, sums };

#define OCTET_WGMMA(columns, where, d, a, b, adds)                                                  \
  if constexpr (kA == Operand::u8)                                                                  \
    OCTET_WGMMA_##columns##_##where("k32.s32.u8.s8", "", "r", d, a, b, adds);                       \
  else if constexpr (kA == Operand::s8)                                                             \
    OCTET_WGMMA_##columns##_##where("k32.s32.s8.s8", "", "r", d, a, b, adds);                       \
  else if constexpr (kA == Operand::e4m3)                                                           \
    OCTET_WGMMA_##columns##_##where("k32.f32.e4m3.e4m3", ", 1, 1", "f", d, a, b, adds);             \
  else if constexpr (kA == Operand::f16)                                                            \
    OCTET_WGMMA_##columns##_##where("k16.f32.f16.f16", OCTET_##where##_SCALES, "f", d, a, b, adds); \
  else                                                                                              \
    OCTET_WGMMA_##columns##_##where("k16.f32.bf16.bf16", OCTET_##where##_SCALES, "f", d, a, b, adds)
#define OCTET_SHARED_SCALES ", 1, 1, 0, 0"
#define OCTET_REGISTERS_SCALES ", 1, 1, 1"

template <Operand kA, int kTiles, class D>
__device__ __forceinline__ void multiply_shared(D (&d)[kTiles][4], std::uint64_t a, std::uint64_t b,
                                                Start start) {
  static_assert(kTiles == 16, "tiles of 128 keys");
  OCTET_WGMMA(128, SHARED, d, a, b, static_cast<std::int32_t>(start));
}
/// The same of rows of A in registers, the fragments of each warp. B of 16 bits has rows of the summed axis,
/// which are turned (tile::TurnedLines).
template <Operand kA, int kTiles, class D>
__device__ __forceinline__ void multiply_registers(D (&d)[kTiles][4], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, Start start) {
  static_assert(kTiles == 8 || kTiles == 16, "64 or 128 channels at a time");
  if constexpr (kTiles == 8) {
    OCTET_WGMMA(64, REGISTERS, d, a, b, static_cast<std::int32_t>(start));
  } else {
    OCTET_WGMMA(128, REGISTERS, d, a, b, static_cast<std::int32_t>(start));
  }
}

#undef OCTET_TILE
#undef OCTET_TILES4
#undef OCTET_TILES8
#undef OCTET_WGMMA_64_REGISTERS
#undef OCTET_WGMMA_128_REGISTERS
#undef OCTET_WGMMA_128_SHARED
#undef OCTET_WGMMA
#undef OCTET_SHARED_SCALES
#undef OCTET_REGISTERS_SCALES

}  // namespace octet::cuda::ptx
