// The verbs of VectorLane, compiled with AVX2.
#include "tests/lanes/verb_checks.h"

namespace octet::lane_check {
namespace {
struct Avx2;
}

Report verbs_of_avx2(int lanes) { return check_verbs<Avx2>(lanes); }

}  // namespace octet::lane_check
