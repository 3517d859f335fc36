#include "cpu/ahead.h"

#include <algorithm>

#include "base/ask_for.h"
#include "base/cpu_features.h"

namespace octet::cpu {
namespace {

std::int64_t bytes_of_element(DType dtype) {
  return dtype == DType::f32 ? 4 : dtype == DType::f16 || dtype == DType::bf16 ? 2 : 1;
}

/// Tokens [begin, end) of the unit's sequence, in its first head.
WantedRows rows_of(const TensorView& x, const call::Problem& problem, const Unit& unit, std::int64_t begin,
                   std::int64_t end) {
  const std::int64_t bytes = bytes_of_element(x.dtype);
  const std::int64_t at = problem.q.batch(unit.sequence) * x.stride[0] + unit.head * x.stride[1] +
                          (problem.q.begin(unit.sequence) + begin) * x.stride[2];
  return {static_cast<const std::byte*>(x.data) + at * bytes, x.stride[2] * bytes, x.shape[3] * bytes,
          end - begin};
}

}  // namespace

Ahead ahead_of_few_rows() {
  // Granite Rapids: 8 KiB without the first level take 3 to 5 % longer, 2 KiB with it 1 to 9. Zen 5: 4 KiB
  // take int8's four rows 7 % longer than 8, 2 KiB 10; 12 and 16 are alike with four rows and up to 3 %
  // slower with one.
  constexpr std::int64_t kFirstLevel = 512, kSecondLevel = 4096, kNear = 8192;
  static const Ahead ahead = !gains_by_asking()    ? Ahead{}
                             : asks_second_level() ? Ahead{kFirstLevel, kSecondLevel}
                                                   : Ahead{kNear, 0};
  return ahead;
}

bool asks_for_rows(const call::Problem& problem) {
  constexpr std::int64_t kSecondLevelBytes = 1 << 20;
  const AttentionDesc& d = problem.desc;
  const std::int64_t tokens = d.sequences > 0 ? d.tokens_q : d.batch * d.tokens_q;
  static const bool asks = gains_by_asking();
  return asks &&
         d.heads_q * tokens * d.head_dim_v * bytes_of_element(problem.args.o.dtype) > kSecondLevelBytes;
}

void want_rows(const call::Problem& problem, const Unit& unit, RowsCall& call) {
  constexpr std::int64_t kLeastKeys = 128;  // fewer leave no time: 49 took 3 to 5 % longer
  const TensorView &q = problem.args.q.codes, &o = problem.args.o;
  if (unit.heads != 1 || q.stride[3] != 1 || o.stride[3] != 1) return;
  if (call.seen_by_any.last - call.seen_by_any.first < kLeastKeys) return;
  const std::int64_t next = std::min(unit.end + unit.tokens(), problem.q.length(unit.sequence));
  call.to_read = rows_of(q, problem, unit, unit.end, next);
  call.to_write = rows_of(o, problem, unit, unit.begin, unit.end);
}

}  // namespace octet::cpu
