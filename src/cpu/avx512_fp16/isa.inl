// The instruction set avx512_fp16.
#include "cpu/avx512_fp16/lanes.inl"

namespace octet::cpu {
namespace {

using ThisIsa = Isa512Fp16;

}  // namespace
}  // namespace octet::cpu
