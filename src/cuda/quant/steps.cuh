// The steps of one operand, each of which needs what the one before it has written. Those of several operands
// are queued in turns (quantize.cu).
#pragma once
#include <cstdint>

#include "base/sequences.h"
#include "cuda/quant/begin.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/quantize.h"
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// One operand of a call.
struct OperandCall {
  const PlainOperand& operand;
  const DeviceWords& words;
  ScratchPlan plan;
  unsigned char* scratch;  ///< plan.bytes of its own
  void* stream;
  RowReading rows;  ///< as they come

  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  const quant::OperandRecipe& recipe() const { return operand.recipe; }
  const QuantizedTensor& out() const { return operand.out; }
  bool is_shared() const { return words.shared_amax || recipe().shared_amax > 0; }
  /// Whether what K is shifted by is where it goes already.
  bool has_shift() const;
  /// Whether codes wait for something that is found of all rows of a sequence: a mean, an anchor or
  /// exponents.
  bool has_statistic() const { return recipe().smooth != Smooth::none || recipe().equalise == Equalise::on; }
};

/// What is done with NaN and Inf on the way to a format.
Confine confine_of(DType format);
/// What of the coding the recipe says.
Coding coding_of(const OperandCall& call);

/// What is left to do of an operand. launches: whether its steps run beside those of others (fewest), which
/// decides whether its statistic and codes come from one reading.
class OperandSteps {
 public:
  OperandSteps(const OperandCall& call, Launches launches);

  bool are_done() const { return next_ == count_; }
  /// Zeros that some of the steps begin with: before the first step of any operand, for what is queued after
  /// a cudaMemsetAsync() waits until all before it is done.
  void clear() const;
  /// Queues the next step, a kernel or more, the first of which begins as said or later.
  void queue(Begin begin);
  /// Whether one launch takes this operand's next step and the same one of another operand, for which that
  /// may have words to clear yet. Queues it then; false where it was not, and both have other steps now.
  bool can_share_with(const OperandSteps& other) const;
  bool queue_shared(OperandSteps& other);

 private:
  enum class Step : std::int32_t {
    clear_one_pass,
    one_pass,        ///< the statistic and the codes that follow from it, from one reading
    mean_of_leaves,  ///< sums that K's mean is made of
    mean,
    anchor,
    squares,  ///< sums of squares that V's exponents are made of
    exponents,
    amax,          ///< of groups that have a scale or are a floor
    first_groups,  ///< of packed sequences
    scales,        ///< of groups
    codes,         ///< and tokens' scales
  };
  void add(Step step) { steps_[count_++] = step; }
  void add_single_steps();
  RowReading transformed_rows() const;
  bool tries_one_pass(Launches launches) const;
  bool is_at(Step step) const { return !are_done() && steps_[next_] == step; }
  OnePassOperand one_pass() const;
  void note_packed() const;
  Coding coding_of_one_pass() const;
  RowReading rows_of_one_pass() const;
  Coding full_coding() const;
  void queue_amax(RowReading rows);
  bool scales_follow_exponents() const;
  SequenceScaling sequence_scaling() const;

  static constexpr int kMost = 10;
  OperandCall call_;
  Tile tile_;
  ScaleMaking making_;
  bool measures_groups_ = false, measures_heads_ = false, measures_blocks_ = false;
  bool scales_follow_ = false;  ///< are written with exponents
  Step steps_[kMost] = {};
  int next_ = 0, count_ = 0;
};

}  // namespace octet::cuda
