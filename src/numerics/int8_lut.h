// Scheme `int8_lut`: both products in INT8 and the exponential from a table (direct, linear or range-reduced,
// of 2^table_bits segments). P is u8 against the running maximum and the row sum adds the codes.
// Source: the LUT appendix. Specification: docs/numerics/int8_lut.md.
#pragma once
#include <cstdint>

#include "numerics/exp_table.h"
#include "numerics/scaled.h"

namespace octet {

/// The weight that stands for 1: the largest u8 code.
inline constexpr float kLutUnit = 255.0f;

template <class L>
struct Int8LutScheme : ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}> {
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}>;
  using typename Base::F32, typename Base::I32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;
  using Table = SchemeOptions::Table;
  static constexpr bool kPlainFold = true;  ///< as in numerics/folded_u8.h, and only()

  Table kind;
  std::int32_t bits;   ///< log2 of the table's segments
  const float* table;  ///< table_entries() numbers, the caller's

  /// Numbers that the caller provides for the table, and what is in them.
  static OCTET_HOST std::int64_t table_entries(const SchemeOptions& options) {
    switch (options.table) {
      case Table::direct:
        return direct_table_entries(options.table_bits);
      case Table::linear:
        return linear_table_entries(options.table_bits);
      default:
        return range_table_entries(options.table_bits);
    }
  }
  static OCTET_HOST void fill_table(const SchemeOptions& options, float* table) {
    switch (options.table) {
      case Table::direct:
        return build_direct_table(table, options.table_bits);
      case Table::linear:
        return build_linear_table(table, options.table_bits);
      default:
        return build_range_table(table, options.table_bits);
    }
  }

  static OCTET_HD Int8LutScheme prepare(const Prepare& p) {
    return {{p.softmax_scale * kLog2E}, p.options.table, p.options.table_bits, p.table};
  }
  OCTET_HD F32 only(I32 pv, const State&) const { return L::to_f32(pv); }
  /// Rescaling has the accurate exponential: once a row and key block, not once a score.
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    return Online<L>::against_running_maximum(state, peak);
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return kLutUnit * look_up(step.origin - score); }
  /// body(a scheme whose weight() knows its table): for loops that would ask of each key which it is.
  template <class Body>
  OCTET_HD void with_weights(const Body& body) const {
    switch (kind) {
      case Table::direct:
        return body(OfTable<Table::direct>{*this});
      case Table::linear:
        return body(OfTable<Table::linear>{*this});
      default:
        return body(OfTable<Table::range>{*this});
    }
  }
  /// Where weights are entries as they are, their codes can be looked up as well: the number of entries, 0
  /// where they are not. The entry of a distance is nearest(distance * entries_per_octave()), the last one
  /// for all beyond; factors that are powers of two make no other product than direct_table_exp()'s.
  static OCTET_HOST std::int64_t entries_as_they_are(const SchemeOptions& options) {
    return options.table == Table::direct ? direct_table_entries(options.table_bits) : 0;
  }
  OCTET_HD float entries_per_octave() const { return kLn2 * (1.0f / kTableReach) * power_of_two(bits); }
  OCTET_HD std::int32_t last_entry() const { return (std::int32_t{1} << bits) - 1; }
  OCTET_HD I32 code_of_entry(F32 entry) const { return code(kLutUnit * entry); }
  /// 0...255: no entry is above 1, and interpolation stays between two entries.
  OCTET_HD I32 code(F32 weight) const { return L::nearest_i32(weight); }
  OCTET_HD Sum mass(F32 /*weight*/, I32 code, const Key&) const { return L::to_f32(code); }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kLutUnit); }

 private:
  /// 2^-distance, which is in octaves. The direct and the linear table are in nats, as the appendix has them.
  template <Table kKind>
  OCTET_HD F32 look_up_in(F32 distance) const {
    if constexpr (kKind == Table::direct)
      return direct_table_exp<L>(table, bits, distance * kLn2);
    else if constexpr (kKind == Table::linear)
      return linear_table_exp<L>(table, bits, distance * kLn2);
    else
      return range_table_exp2<L>(table, bits, distance);
  }
  OCTET_HD F32 look_up(F32 distance) const {
    switch (kind) {
      case Table::direct:
        return look_up_in<Table::direct>(distance);
      case Table::linear:
        return look_up_in<Table::linear>(distance);
      default:
        return look_up_in<Table::range>(distance);
    }
  }
  template <Table kKind>
  struct OfTable {
    const Int8LutScheme& scheme;
    OCTET_HD F32 weight(Score score, const Step& step) const {
      return kLutUnit * scheme.template look_up_in<kKind>(step.origin - score);
    }
    OCTET_HD I32 code(F32 weight) const { return scheme.code(weight); }
    OCTET_HD Sum mass(F32 weight, I32 code, const Key& key) const { return scheme.mass(weight, code, key); }
  };
};

}  // namespace octet
