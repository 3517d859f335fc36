// Rows of a plain tensor's tokens as the row kernels read them.
#pragma once
#include <cstdint>
#include <vector>

#include "octet/types.hpp"
#include "quant/row_kernels.h"

namespace octet::quant {

/// Tokens [begin, begin + length) of batch entry b and head h: one sequence of one head.
struct TokenRange {
  std::int64_t b = 0, h = 0, begin = 0, length = 0;
};

/// Those of a tensor; x null: none.
struct Tokens {
  const TensorView* x = nullptr;
  TokenRange range{};
};

/// Tokens of a range of x, which is f32, f16 or bf16. Where x's channels do not lie one after the other they
/// are copied together first.
class TokenRows {
 public:
  TokenRows(const TensorView& x, const TokenRange& range) : x_(x), range_(range) {}

  /// Tokens that are read after these: rows of equally many are named as next to be asked for, where they lie
  /// in memory as these do.
  void set_next(const Tokens& next) { next_ = has_rows_like(next) ? next : Tokens{}; }

  /// Otherwise what lies so many bytes behind the rows is asked for; 0: nothing.
  void set_ahead(std::int64_t bytes) { ahead_ = bytes; }

  /// Tokens [first, first + count) of the range; valid until the next call.
  Rows at(std::int64_t first, std::int64_t count);

 private:
  bool has_rows_like(const Tokens& other) const;

  TensorView x_;
  TokenRange range_;
  Tokens next_;
  std::int64_t ahead_ = 0;
  std::vector<std::byte> copy_;
};

}  // namespace octet::quant
