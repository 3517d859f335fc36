// Codes of P from a table of codes, for schemes whose weights are entries of a table as they are: a code is a
// byte, and 64 of them come from registers at once, where a gather reads numbers one by one (Zen 5: AVX2,
// whose registers hold no such table, takes its gathers, for bytes read one by one took 3 % longer). Part of
// attend.inl's nest.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/table_row.h"
#include "cpu/visit.inl"
#include "numerics/contract.h"
#include "numerics/exp_table.h"

namespace octet::cpu {
namespace {

/// The codes lie behind the scheme's own numbers. The last one is 0: of all that is far, and of hidden keys,
/// whose scores are the least.
template <class S, class Isa>
class TableCodes {
  using L = typename Isa::Lane;
  using Step = typename S::Step;

 public:
  static constexpr bool kHas = requires(const SchemeOptions& options, const TableRow& row) {
    S::entries_as_they_are(options);
    Isa::look_up(row);
  };

  /// Numbers of the scheme's table with the codes behind them, and what is in them.
  static std::int64_t table_entries(const SchemeOptions& options) {
    const std::int64_t numbers = S::table_entries(options);
    if constexpr (kHas)
      if (looks_up(options)) return numbers + TableRow::kEntries / 4;
    return numbers;
  }
  static void fill_table(const SchemeOptions& options, float* table) {
    S::fill_table(options, table);
    if constexpr (kHas) {
      if (!looks_up(options)) return;
      const std::int64_t count = S::entries_as_they_are(options);
      Prepare prepare{};
      prepare.options = options, prepare.table = table;
      const auto scheme = S::prepare(prepare);
      auto* const code = reinterpret_cast<std::uint8_t*>(table + S::table_entries(options));
      std::fill_n(code, TableRow::kEntries, std::uint8_t{0});
      constexpr std::int64_t kLanes = Isa::kLanes;
      for (std::int64_t i = 0; i < count; i += kLanes) {
        float entry[kLanes] = {};
        std::copy_n(table + i, std::min(kLanes, count - i), entry);
        Isa::store_codes(reinterpret_cast<std::byte*>(code + i), scheme.code_of_entry(L::load(entry)));
      }
    }
  }

  explicit TableCodes(const Prepare& prepare) {
    if (Isa::looks_up() && looks_up(prepare.options))
      codes_ = reinterpret_cast<const std::uint8_t*>(prepare.table + S::table_entries(prepare.options));
  }
  /// Whether there are any.
  bool any() const { return codes_ != nullptr; }

  /// Codes of whole vectors of scores; returns their sum.
  std::int32_t look_up(const S& scheme, const Step& step, const std::byte* scores, std::int64_t count,
                       std::byte* p) const {
    return Isa::look_up({reinterpret_cast<const float*>(scores), count, step.origin[0],
                         scheme.entries_per_octave(), scheme.last_entry(), codes_, p});
  }

 private:
  static bool looks_up(const SchemeOptions& options) {
    const std::int64_t entries = S::entries_as_they_are(options);
    return entries > 0 && entries <= TableRow::kEntries;
  }

  const std::uint8_t* codes_ = nullptr;
};

/// Of any other scheme.
struct NoTableCodes {
  explicit NoTableCodes(const Prepare& /*without a table*/) {}
};

}  // namespace
}  // namespace octet::cpu
