// The checks of VectorLane, once for each instruction set: the verbs (tests/lanes) and the schemes
// (tests/numerics).
#pragma once

namespace octet::lane_check {

/// What a unit found: how much was compared, how much differed, and the first difference in words.
struct Report {
  long compared = 0, different = 0;
  char first[256] = "";
};

Report verbs_of_avx2(int lanes);  ///< of 8 or 16 values
Report verbs_of_avx512(int lanes);

Report schemes_of_avx2();
Report schemes_of_avx512();

}  // namespace octet::lane_check
