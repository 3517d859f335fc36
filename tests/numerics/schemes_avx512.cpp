// The schemes in VectorLane, compiled with AVX-512 (F, BW, DQ, VL).
#include "tests/numerics/scheme_lanes.h"

namespace octet::lane_check {
namespace {
struct Avx512;
}

Report schemes_of_avx512() { return check_schemes<VectorLane<16, Avx512>>(); }

}  // namespace octet::lane_check
