// What tiles of Q K^T share that go two columns at a time, in two sets of 12 sums by turns: while one set is
// multiplied, the other becomes what it is wanted as, a row beside each of the first six steps.
#pragma once

namespace octet::cpu::avx512 {
namespace {

constexpr int kWovenSteps = 6;  ///< of a set, at least: one for each row

// Laid out as it runs.
// clang-format off
#define OCTET_SET_A "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"
#define OCTET_SET_B "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23"
// Rows of a tile, and of one of 12 rows its other half.
#define OCTET_FIRST_ROWS "0", "1", "2", "3", "4", "5"
#define OCTET_OTHER_ROWS "6", "7", "8", "9", "10", "11"
#define OCTET_START_ROW(ROW, S0, S1) \
  "vpbroadcastd 4*" ROW "(%[from]), %%zmm" S0 "\n\tvmovdqa64 %%zmm" S0 ", %%zmm" S1 "\n\t"
#define OCTET_START_12(R0, R1, R2, R3, R4, R5, S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11) \
  "mov %[start], %[from]\n\t" OCTET_START_ROW(R0, S0, S1) OCTET_START_ROW(R1, S2, S3)             \
      OCTET_START_ROW(R2, S4, S5) OCTET_START_ROW(R3, S6, S7) OCTET_START_ROW(R4, S8, S9)         \
          OCTET_START_ROW(R5, S10, S11)
#define OCTET_START_SET(...) OCTET_START_12(__VA_ARGS__)
// From the first half of 12 rows to the other, the same columns: the pointers of the sums.
#define OCTET_OTHER_HALF "sub %[b_back], %[b]\n\tadd %[a_other], %[a]\n\tadd %[a_other], %[a3]\n\t"
// On to the next two columns.
#define OCTET_NEXT_PAIR "add %[b_next], %[b]\n\tsub %[a_back], %[a]\n\tsub %[a_back], %[a3]\n\t"
// clang-format on

}  // namespace
}  // namespace octet::cpu::avx512
