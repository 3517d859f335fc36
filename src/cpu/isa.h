// The nests that the CPU backend has for each instruction set.
#pragma once
#include "base/isa.h"
#include "cpu/kernel.h"

namespace octet::cpu {

using octet::Isa;
using octet::kIsas;
using octet::name_of;
using octet::refusal;

/// The nests of an instruction set.
const Nest* nest_of(Isa isa, Scheme scheme);

}  // namespace octet::cpu
