// The instruction set avx512_vnni.
#include "cpu/avx512/lanes.inl"

namespace octet::cpu {
namespace {

using ThisIsa = Isa512;

}  // namespace
}  // namespace octet::cpu
