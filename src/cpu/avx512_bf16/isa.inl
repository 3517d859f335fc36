// The instruction set avx512_bf16.
#include "cpu/avx512_bf16/lanes.inl"

namespace octet::cpu {
namespace {

using ThisIsa = Isa512Bf16;

}  // namespace
}  // namespace octet::cpu
