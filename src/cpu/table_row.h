// A row of scores whose codes of P are looked up (table_codes.inl), as instruction sets take it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet::cpu {

/// The code of a score is codes[min(nearest(min((origin - score) * factor, last + 1)), last)].
struct TableRow {
  static constexpr std::int64_t kEntries = 1024;  ///< of the table

  const float* scores;
  std::int64_t count;  ///< whole vectors of them
  float origin, factor;
  std::int32_t last;
  const std::uint8_t* codes;  ///< [kEntries]
  std::byte* p;
};

}  // namespace octet::cpu
