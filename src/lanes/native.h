// What one register can do: the verbs of lanes/scalar.h for the compiler's own vectors. Plain vector code
// where both compilers translate it well, intrinsics where they do not; each has a form that needs no
// particular instruction set. Every function here is compiled once for each instruction set and always
// inlined.
#pragma once
#include "lanes/native_f32.h"
#include "lanes/native_i32.h"
#include "lanes/native_i64.h"
#include "lanes/native_memory.h"
#include "lanes/native_register.h"
#include "lanes/native_u16.h"
#include "lanes/native_widths.h"
