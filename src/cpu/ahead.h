// What is asked of memory before it is needed.
#pragma once
#include <cstdint>

#include "call/problem.h"
#include "cpu/kernel.h"
#include "cpu/units.h"

namespace octet::cpu {

/// How far few rows ask memory for K and V before they read them: Tile::ahead.
Ahead ahead_of_few_rows();

/// Whether queries and the lines of outputs are asked for during the products: where a call's outputs push
/// each other out of the second-level cache. Else asking for what is there costs 1 to 2 % at 197 tokens.
bool asks_for_rows(const call::Problem& problem);

/// Fills what `call`, which is on the unit's rows, asks for meanwhile: Q of the tokens behind the unit's, and
/// the lines that its results go to.
void want_rows(const call::Problem& problem, const Unit& unit, RowsCall& call);

}  // namespace octet::cpu
