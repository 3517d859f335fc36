// Memory that is asked for while the products run, which leave it idle: whoever comes to it later would wait
// for each of its lines.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "cpu/kernel.h"

namespace octet::cpu {
namespace {

/// Asks for rows a few lines at a time, for a processor has only some two dozen of them on their way, into
/// the second-level cache. note: lines to be written must be asked for as such (prefetchw): one that came to
/// be read is asked for again before it is written.
template <bool kToWrite>
class Asked {
 public:
  /// times: of ask(), after which all lines are asked for.
  Asked(const WantedRows& rows, std::int64_t times)
      : rows_(rows), row_lines_((rows.bytes + kLine - 1) / kLine), left_(rows.count * row_lines_) {
    if (left_ > 0) lines_ = (left_ + times - 1) / times;
  }

  OCTET_HOST void ask() {
    for (std::int64_t i = 0; i < lines_ && left_ > 0; ++i, --left_) {
      __builtin_prefetch(rows_.data + line_ * kLine, kToWrite, kSecondLevel);
      if (++line_ == row_lines_) line_ = 0, rows_.data += rows_.stride;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr int kSecondLevel = 2;

  WantedRows rows_;
  std::int64_t row_lines_, left_, lines_ = 0, line_ = 0;
};

}  // namespace
}  // namespace octet::cpu
