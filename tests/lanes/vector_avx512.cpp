// The verbs of VectorLane, compiled with AVX-512 (F, BW, DQ, VL).
#include "tests/lanes/verb_checks.h"

namespace octet::lane_check {
namespace {
struct Avx512;
}

Report verbs_of_avx512(int lanes) { return check_verbs<Avx512>(lanes); }

}  // namespace octet::lane_check
