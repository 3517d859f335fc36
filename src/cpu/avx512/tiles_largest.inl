// Q K^T whose sums are stored with the largest of each row and lane beside them: two columns at a time, in
// two sets of sums by turns (woven.inl). While one set is multiplied, the other is stored and compared. The
// largest sums of five rows have registers, the sixth row's stay in memory: with each row's group from memory
// twice, for its two products, a register would be left for all six, and the loads take longer than the
// products (Zen 5).
#pragma once
#include "cpu/avx512/tiles.inl"
#include "cpu/avx512/woven.inl"

namespace octet::cpu::avx512 {
namespace {

// Laid out as it runs.
// clang-format off
#define OCTET_SPARE_ROW(ADDRESS, S0, S1)                    \
  "vpbroadcastd " ADDRESS ", %%zmm28\n\t"                   \
  "vpdpbusd %%zmm28, %%zmm24, %%zmm" S0 "\n\t"              \
  "vpdpbusd %%zmm28, %%zmm25, %%zmm" S1 "\n\t"
// A step of the sums S0...S11; W0...W3 go between its rows.
#define OCTET_SPARE_STEP(S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, W0, W1, W2, W3) \
  "vmovdqu64 (%[b]), %%zmm24\n\t"                                                           \
  "vmovdqu64 (%[b],%[column]), %%zmm25\n\t"                                                 \
  OCTET_SPARE_ROW("(%[a])", S0, S1)                                                         \
  OCTET_SPARE_ROW("(%[a],%[row])", S2, S3) W0                                               \
  OCTET_SPARE_ROW("(%[a],%[row],2)", S4, S5) W1                                             \
  OCTET_SPARE_ROW("(%[a3])", S6, S7)                                                        \
  OCTET_SPARE_ROW("(%[a3],%[row])", S8, S9) W2                                              \
  OCTET_SPARE_ROW("(%[a3],%[row],2)", S10, S11) W3                                          \
  "add %[step], %[b]\n\tadd $4, %[a]\n\tadd $4, %[a3]\n\t"
#define OCTET_KEEP(OFFSET, SUM) "vmovdqu64 %%zmm" SUM ", " OFFSET "(%[out])\n\t"
#define OCTET_COMPARE(MOST, SUM) "vpmaxsd %%zmm" SUM ", %%zmm" MOST ", %%zmm" MOST "\n\t"
#define OCTET_COMPARE_BOTH(MOST, E0, E1) OCTET_COMPARE(MOST, E0) OCTET_COMPARE(MOST, E1)
// The sixth row's, whose sums are stored: they are there no more.
#define OCTET_COMPARE_LAST(MOST, E0, E1)                                                            \
  OCTET_COMPARE(E0, E1) "vpmaxsd " MOST "(%[largest]), %%zmm" E0 ", %%zmm" E0 "\n\t"               \
  "vmovdqu64 %%zmm" E0 ", " MOST "(%[largest])\n\t"
#define OCTET_KEEP_STEP(COMPARE, MOST, E0, E1, ...)                                                  \
  OCTET_SPARE_STEP(__VA_ARGS__, OCTET_KEEP("0", E0), OCTET_KEEP("64", E1), COMPARE(MOST, E0, E1),    \
                   "add %[out_row], %[out]\n\t")
#define OCTET_KEEP_ROW(COMPARE, MOST, E0, E1)                                                        \
  OCTET_KEEP("0", E0) OCTET_KEEP("64", E1) COMPARE(MOST, E0, E1) "add %[out_row], %[out]\n\t"
#define OCTET_KEPT_6(E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, ...) \
  OCTET_KEEP_STEP(OCTET_COMPARE_BOTH, "26", E0, E1, __VA_ARGS__)             \
  OCTET_KEEP_STEP(OCTET_COMPARE_BOTH, "27", E2, E3, __VA_ARGS__)             \
  OCTET_KEEP_STEP(OCTET_COMPARE_BOTH, "29", E4, E5, __VA_ARGS__)             \
  OCTET_KEEP_STEP(OCTET_COMPARE_BOTH, "30", E6, E7, __VA_ARGS__)             \
  OCTET_KEEP_STEP(OCTET_COMPARE_BOTH, "31", E8, E9, __VA_ARGS__)             \
  OCTET_KEEP_STEP(OCTET_COMPARE_LAST, "320", E10, E11, __VA_ARGS__)
#define OCTET_KEPT(...) OCTET_KEPT_6(__VA_ARGS__)
#define OCTET_SPARE_REST(LABEL, ...)                                                                     \
  "mov %[rest], %[from]\n\ttest %[from], %[from]\n\tjz 2" LABEL "f\n\t.p2align 5\n1" LABEL ":\n\t"       \
  OCTET_SPARE_STEP(__VA_ARGS__, "", "", "", "") "dec %[from]\n\tjnz 1" LABEL "b\n2" LABEL ":\n\t"
#define OCTET_SPARE_REST_OF(...) OCTET_SPARE_REST(__VA_ARGS__)
#define OCTET_KEEP_LAST_6(E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11) \
  OCTET_KEEP_ROW(OCTET_COMPARE_BOTH, "26", E0, E1)                           \
  OCTET_KEEP_ROW(OCTET_COMPARE_BOTH, "27", E2, E3)                           \
  OCTET_KEEP_ROW(OCTET_COMPARE_BOTH, "29", E4, E5)                           \
  OCTET_KEEP_ROW(OCTET_COMPARE_BOTH, "30", E6, E7)                           \
  OCTET_KEEP_ROW(OCTET_COMPARE_BOTH, "31", E8, E9)                           \
  OCTET_KEEP_ROW(OCTET_COMPARE_LAST, "320", E10, E11)
#define OCTET_KEEP_LAST(...) OCTET_KEEP_LAST_6(__VA_ARGS__)
#define OCTET_NEXT_SUMS "sub %[out_back], %[out]\n\t"
// The least number in each register: what the first set finds in the other, and where comparing begins.
#define OCTET_LEAST(REGISTER) "vmovdqa64 %%zmm24, %%zmm" REGISTER "\n\t"
#define OCTET_LEAST_12(S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11)                         \
  OCTET_LEAST(S0) OCTET_LEAST(S1) OCTET_LEAST(S2) OCTET_LEAST(S3) OCTET_LEAST(S4) OCTET_LEAST(S5) \
  OCTET_LEAST(S6) OCTET_LEAST(S7) OCTET_LEAST(S8) OCTET_LEAST(S9) OCTET_LEAST(S10) OCTET_LEAST(S11)
#define OCTET_LEAST_OF(...) OCTET_LEAST_12(__VA_ARGS__)
#define OCTET_STORE_LARGEST(OFFSET, MOST) "vmovdqu64 %%zmm" MOST ", " OFFSET "(%[largest])\n\t"

__attribute__((noinline)) void tiles_with_largest(const Tile& t, std::byte* largest, std::int64_t pairs) {
  const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;
  std::byte* out = t.out;
  const std::int64_t a_back = 4 * t.steps, b_next = 2 * t.b_column - t.steps * t.b_step,
                     out_back = kTileRows * t.out_row - 2 * kVector, out_all = kTileRows * t.out_row,
                     rest = t.steps - kWovenSteps;
  std::int64_t from;
  asm volatile(
      "vpternlogd $255, %%zmm24, %%zmm24, %%zmm24\n\tvpslld $31, %%zmm24, %%zmm24\n\t"
      OCTET_LEAST("26") OCTET_LEAST("27") OCTET_LEAST("29") OCTET_LEAST("30") OCTET_LEAST("31")
      OCTET_STORE_LARGEST("320", "24")
      OCTET_LEAST_OF(OCTET_SET_B)
      OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)
      OCTET_KEPT(OCTET_SET_B, OCTET_SET_A)
      OCTET_SPARE_REST_OF("0", OCTET_SET_A)
      OCTET_NEXT_PAIR
      "sub %[out_all], %[out]\n\t"
      "jmp 7f\n"
      "6:\n\t"
      OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)
      OCTET_KEPT(OCTET_SET_B, OCTET_SET_A)
      OCTET_SPARE_REST_OF("3", OCTET_SET_A)
      OCTET_NEXT_PAIR
      OCTET_NEXT_SUMS
      "7:\n\t"
      "decq %[pairs]\n\t"
      "jz 8f\n\t"
      OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_B)
      OCTET_KEPT(OCTET_SET_A, OCTET_SET_B)
      OCTET_SPARE_REST_OF("4", OCTET_SET_B)
      OCTET_NEXT_PAIR
      OCTET_NEXT_SUMS
      "decq %[pairs]\n\t"
      "jnz 6b\n\t"
      OCTET_KEEP_LAST(OCTET_SET_B)
      "jmp 9f\n"
      "8:\n\t"
      OCTET_KEEP_LAST(OCTET_SET_A)
      "9:\n\t"
      OCTET_STORE_LARGEST("0", "26") OCTET_STORE_LARGEST("64", "27") OCTET_STORE_LARGEST("128", "29")
      OCTET_STORE_LARGEST("192", "30") OCTET_STORE_LARGEST("256", "31")
      : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [from] "=&r"(from), [pairs] "+m"(pairs)
      : [row] "r"(t.a_row), [column] "r"(t.b_column), [out_row] "r"(t.out_row), [largest] "r"(largest), [step] "m"(t.b_step),
        [start] "m"(t.start), [rest] "m"(rest), [a_back] "m"(a_back), [b_next] "m"(b_next),
        [out_back] "m"(out_back), [out_all] "m"(out_all)
      : OCTET_VECTORS, "xmm29", "xmm30", "xmm31");
}
// clang-format on

}  // namespace
}  // namespace octet::cpu::avx512
