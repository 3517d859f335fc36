// The schemes in VectorLane, compiled with AVX2.
#include "tests/numerics/scheme_lanes.h"

namespace octet::lane_check {
namespace {
struct Avx2;
}

Report schemes_of_avx2() { return check_schemes<VectorLane<8, Avx2>>(); }

}  // namespace octet::lane_check
