// A row on its way to codes: loaded as f32, shifted, rotated, equalised. Quantiser and statistics read rows
// through this, so both see the same bits.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "quant/quantize.h"
#include "quant/rotate.h"
#include "quant/rows.h"
#include "quant/smooth.h"

namespace octet::quant {

/// Why a row cannot become integers.
struct BadElement {
  std::int64_t token = -1;  ///< in the tensor, -1: none
  std::int64_t channel = 0;
  float value = 0;  ///< the input's; finite where shifting or rotating it left the range of f32
};

/// Channels of the codes that `recipe` makes of `dim` channels.
std::int64_t code_dim(std::int64_t dim, Rotate rotate);

/// So many tokens at a time that each of them begins a column of packed codes (base/packed_codes.h), at least
/// one.
constexpr std::int64_t whole_columns(std::int64_t tokens) {
  constexpr std::int64_t kMostTokens = 16;  // of a column
  return std::max(tokens / kMostTokens, std::int64_t{1}) * kMostTokens;
}

/// Whether a statistic reads the rows before their own codes are made.
bool reads_twice(const OperandRecipe& recipe);

/// The rows of one sequence of one head, several at once. Its rows lie in the thread's scratch, so a thread
/// has one reader at a time.
class RowReader {
 public:
  /// rotation: of x's channels, for recipes that rotate. Takes back the thread's scratch.
  RowReader(const TensorView& x, const TokenRange& range, const OperandRecipe& recipe,
            const Rotation& rotation);

  /// What is taken off every token: x.shape[3] floats, found by smooth.h. Without this, nothing is.
  void set_shift(const float* shift);
  /// Exponents found by equalise.h, one a code channel; |exponent| <= 64. Without this, nothing is equalised.
  void set_exponents(const std::int32_t* exponent);

  /// Tokens that are read after these: asked for while these become codes.
  void set_next(const Tokens& next) { tokens_.set_next(next); }

  /// Tokens that read() takes at once, at most.
  std::int64_t capacity() const { return capacity_; }

  /// Reads tokens [first, first + count) of the range, unless they are those read last. Afterwards row()
  /// holds the code_dim channels of each: (x - shift) rotated, times 2^-exponent. s8 and s4: a row with NaN
  /// or Inf becomes zeros, and bad() is the first such place. e4m3: Inf becomes NaN, for it has no Inf.
  void read(std::int64_t first, std::int64_t count);

  /// Finds what read() would give as factored(): numbers that are only to be multiplied stay where they are.
  void read_factored(std::int64_t first, std::int64_t count);

  /// The tokens as read() would give them but for NaN and Inf, and without a copy where nothing is done to
  /// them. Valid until the next read() or look().
  FloatRows look(std::int64_t first, std::int64_t count);

  /// Whether the tokens are read for what they are, and what they are then.
  bool is_plain() const { return recipe_.rotate == Rotate::off && !shift_ && !equaliser_; }
  Rows stored(std::int64_t first, std::int64_t count) { return tokens_.at(first, count); }

  const TokenRange& range() const { return range_; }
  std::int64_t channels() const { return channels_; }
  const RowKernels& kernels() const { return kernels_; }

  /// Of the rows that were read, counted from the first of them.
  FloatRows rows() const { return {tile_, stride_, count_, channels_}; }
  const float* row(std::int64_t r) const { return tile_ + r * stride_; }
  struct Factored {
    Rows rows;
    const float* factor;  ///< [channel]: what they are still to be multiplied by; null: nothing
  };
  const Factored& factored() const { return factored_; }
  /// The largest finite |x| of each row, where tokens have scales of their own, after either read.
  void copy_amax(float* to) const {
    std::memcpy(to, largest_, static_cast<std::size_t>(count_) * sizeof(float));
  }
  /// Of all rows.
  float peak() const { return std::bit_cast<float>(peak_); }
  const BadElement& bad() const { return bad_; }

 private:
  /// As what the tokens are there that were asked for last.
  enum class Held { nothing, factored, rows };

  bool holds(std::int64_t first, std::int64_t count, Held at_least) const {
    return held_ >= at_least && first == first_ && count == count_;
  }
  /// Whether tokens are multiplied at most.
  bool is_factored() const { return recipe_.rotate == Rotate::off && !shift_; }
  std::uint32_t* row_peaks() const { return tokens_have_scales_ ? largest_ : nullptr; }
  void confine();
  void confine(std::int64_t r);
  void note_bad(std::int64_t token);

  const TensorView& x_;
  TokenRange range_;
  const OperandRecipe& recipe_;
  const RowKernels& kernels_;
  TokenRows tokens_;
  const Rotation& rotation_;
  float *shift_ = nullptr, *equaliser_ = nullptr;  // in the thread's scratch; null: none
  std::int64_t channels_, stride_, capacity_;
  float* tile_;             // [capacity][stride]
  std::uint32_t* largest_;  // [row]: of its finite values, as bits
  bool tokens_have_scales_;
  Factored factored_{};
  std::uint32_t peak_ = 0;  // of largest_
  Held held_ = Held::nothing;
  std::int64_t first_ = 0, count_ = 0;  // of the rows that are held
  BadElement bad_;
};

}  // namespace octet::quant
