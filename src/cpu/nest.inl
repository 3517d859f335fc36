// The table entry of a scheme on an instruction set: the nest of attend.inl, and what packing asks of the
// scheme.
#include <cstdint>

#include "cpu/attend.inl"

namespace octet::cpu {
namespace {

/// The table entry of a scheme on an instruction set.
template <template <class> class SchemeOf, class Isa>
struct NestFor {
  using S = SchemeOf<typename Isa::Lane>;
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using Rows = RowsNest<S, Isa>;
  static constexpr bool kHasValue = requires(const S& s) { s.value(F32{}); };
  static constexpr bool kTakesLargest = requires(const S& s) { s.block(1.0f, 1.0f); };
  static constexpr std::int64_t kLanes = Isa::kLanes;
  static constexpr std::int64_t kMembers =
      __is_empty(typename S::Key) ? 0 : static_cast<std::int64_t>(sizeof(typename S::Key)) / (4 * kLanes);

  static void attend(const RowsCall& call) {
    Isa::begin(call.dim_groups);
    Rows(call).run();
    Isa::end();
  }
  static void part(const RowsCall& call) {
    Isa::begin(call.dim_groups);
    Rows(call).part();
    Isa::end();
  }
  static void merge(const RowsCall& call) { Rows(call).merge(); }

  static void key_constants(const Prepare& prepare, const float* k_scale, const float* v_scale,
                            std::int64_t count, float block_k_scale, float v_largest, float* out,
                            std::int64_t stride) {
    if constexpr (kMembers > 0) {
      const S scheme = S::prepare(prepare);
      typename S::Block block;
      if constexpr (kTakesLargest)
        block = scheme.block(block_k_scale, v_largest);
      else
        block = scheme.block(block_k_scale);
      for (std::int64_t j = 0; j < count; j += kLanes) {
        KeyScales<L> scales;
        __builtin_memcpy(&scales.k, k_scale + j, sizeof scales.k);
        __builtin_memcpy(&scales.v, v_scale + j, sizeof scales.v);
        const typename S::Key key = scheme.key(scales, block);
        for (std::int64_t m = 0; m < kMembers; ++m)
          __builtin_memcpy(out + m * stride + j, reinterpret_cast<const char*>(&key) + 4 * kLanes * m,
                           4 * kLanes);
      }
    }
  }

  static void v_values(const Prepare& prepare, float* v, std::int64_t count) {
    if constexpr (kHasValue) {
      const S scheme = S::prepare(prepare);
      for (std::int64_t i = 0; i < count; i += kLanes) {
        F32 values;
        __builtin_memcpy(&values, v + i, sizeof values);
        values = scheme.value(values);
        __builtin_memcpy(v + i, &values, sizeof values);
      }
    }
  }

  static std::int64_t table_entries(const SchemeOptions& options) {
    if constexpr (requires { &S::fill_table; })
      return TableCodes<S, Isa>::table_entries(options);
    else
      return 0;
  }
  static void fill_table(const SchemeOptions& options, float* table) {
    if constexpr (requires { &S::fill_table; }) TableCodes<S, Isa>::fill_table(options, table);
  }

  using FixedConstants = decltype(Nest::fixed_constants);
  static constexpr FixedConstants fixed_constants() {
    if constexpr (Rows::kIntegerWords)
      return IntegerWords<S, Isa>::constants;
    else if constexpr (Rows::kFixed)
      return FixedSoftmax<S, Isa>::constants;
    else
      return nullptr;
  }

  static constexpr Products kQk = products_of<Isa>(S::kQk), kPv = products_of<Isa>(S::kP);
  static constexpr Multiplies kCodes = Isa::kIntegers.multiply;
  static constexpr Nest kNest{{Isa::kLanes, kQk.q, kQk.k, kPv.v, Isa::kRows, Isa::kUnitRows,
                               S::kP == Operand::s8&& kPv.p == Element::u8_bias},
                              &kCodes,
                              S::kOutput,
                              static_cast<std::int32_t>(kMembers),
                              carries_v<S>(),
                              kTakesLargest,
                              Rows::scratch_bytes,
                              table_entries,
                              fill_table,
                              key_constants,
                              fixed_constants(),
                              kHasValue ? v_values : nullptr,
                              attend,
                              Rows::kMerges ? part : nullptr,
                              Rows::kMerges ? merge : nullptr,
                              Rows::state_bytes};
};

/// Null where the instruction set has no nest of the scheme.
template <template <class> class SchemeOf, class Isa>
constexpr const Nest* nest_for() {
  if constexpr (Isa::template kHas<SchemeOf<typename Isa::Lane>>)
    return &NestFor<SchemeOf, typename IsaOfScheme<Isa, SchemeOf<typename Isa::Lane>>::Type>::kNest;
  else
    return nullptr;
}

}  // namespace
}  // namespace octet::cpu
