// All steps of short sequences in one launch, for their launches take longer than their work: a block of
// threads has a sequence of a head in shared memory, finds its mean or its channels' exponents, and makes
// codes of a part of its rows. Blocks that share a sequence each find these for themselves. The steps are
// those of sums.cu, exponents.cu and encode.cu, with the same bits.
//
// What a warp does it does once, at about five cycles an instruction: few instructions one after the other
// count, and that many warps share them.
#include "cuda/quant/short_sequences.cuh"

#include <algorithm>
#include <limits>

#include "base/divided_up.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/short_codes.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda {
namespace {

struct ShortOperands {
  ShortOperand of[kMostTogether];
};

/// Threads of a block at most, and so large blocks of a processor: 72 registers a thread, which hold two
/// vectors, and 96.
constexpr int most_threads(VectorsLog2 vectors) { return vectors == VectorsLog2::of_most ? 128 : 448; }
constexpr int least_blocks(VectorsLog2 vectors) { return vectors == VectorsLog2::of_most ? 5 : 2; }

template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2, GroupScales kGroupScales = GroupScales::measured>
__global__ __launch_bounds__(most_threads(kVectorsLog2), least_blocks(kVectorsLog2)) void short_sequences(
    const __grid_constant__ ShortOperands operands) {
  using Sequence = ShortSequence<kRowVectorsLog2, kVectorsLog2, kGroupScales>;
  OCTET_DYNAMIC_SHARED(space_memory, 16);
  __shared__ Factors factors;
  const ShortOperand& x = operands.of[blockIdx.z];
  factors.put(x.rows, Sequence::kWidth);  // the rows' barrier is behind it
  Sequence sequence(x, reinterpret_cast<std::uint32_t*>(space_memory));
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  if (sequence.has_rows()) sequence.run(factors.of);
}

/// Of a block of threads with room for so many rows.
std::int64_t bytes_of(const ShortOperand& x, int rows) {
  const ShortSpace plan(rows, kChannels << x.rows.lanes_log2, group_words(x.coding));
  return std::int64_t{4} * plan.end;
}
std::int64_t bytes_of_sequence(const ShortOperand& x) {
  return bytes_of(x, static_cast<int>(x.rows.x.shape[2]));
}

/// Whether all operands of a launch have scales by token, which take their threads' time row by row.
enum class TokenScales : std::int32_t { not_all, all };

constexpr int kLeastRowVectorsLog2 = 2, kMostRowVectorsLog2 = 4;
using Kernel = void (*)(ShortOperands);

template <VectorsLog2 kVectors>
Kernel kernel_of_width(int row_vectors_log2) {
  constexpr Kernel kKernels[] = {short_sequences<2, kVectors>, short_sequences<3, kVectors>,
                                 short_sequences<4, kVectors>};
  return kKernels[row_vectors_log2 - kLeastRowVectorsLog2];
}
Kernel kernel_of(const ShortOperand& x, VectorsLog2 vectors) {
  using enum VectorsLog2;
  const int log2 = x.rows.lanes_log2;
  if (x.coding.making.is_shared()) {
    constexpr Kernel kOfShared[] = {short_sequences<2, of_many, GroupScales::shared>,
                                    short_sequences<3, of_many, GroupScales::shared>,
                                    short_sequences<4, of_many, GroupScales::shared>};
    return kOfShared[log2 - kLeastRowVectorsLog2];
  }
  if (vectors == of_few) return kernel_of_width<of_few>(log2);
  if (vectors == of_many) return kernel_of_width<of_many>(log2);
  return log2 == 2 ? short_sequences<2, of_most> : short_sequences<3, of_most>;
}
/// Whether one kernel takes both.
bool share_a_kernel(const ShortOperand& a, const ShortOperand& b) {
  return a.rows.lanes_log2 == b.rows.lanes_log2 && a.coding.making.is_shared() == b.coding.making.is_shared();
}

/// Measured on an H200, in sequences a processor (docs/cuda-measurements.md). Of rows that all threads take
/// in one turn 4.4 are better off as few; 8.7 as most where tokens have scales, else as many. Of others 0.3
/// and more as many, less too where tokens have scales; 17 as most.
VectorsLog2 vectors_for(int row_vectors_log2, std::uint32_t tokens, std::uint32_t sequences,
                        TokenScales scales) {
  using enum VectorsLog2;
  constexpr std::uint32_t kFewOfOneTurn = 6, kMost = 12, kProcessorsOfFew = 4;
  const std::uint32_t all = processors();
  const bool of_tokens = scales == TokenScales::all,
             in_one_turn = tokens << row_vectors_log2 <= static_cast<std::uint32_t>(most_threads(of_few));
  if (in_one_turn ? sequences <= kFewOfOneTurn * all : !of_tokens && kProcessorsOfFew * sequences <= all)
    return of_few;
  const std::uint32_t most = in_one_turn && of_tokens ? kFewOfOneTurn : kMost;
  return row_vectors_log2 < kMostRowVectorsLog2 && sequences >= most * all ? of_most : of_many;
}

/// Bytes of a sequence's rows and what is made of them, at most: more where an operand's sequences are half
/// as many as processors or less (docs/cuda-measurements.md).
std::int64_t most_bytes(std::uint32_t sequences) {
  constexpr std::int64_t kStatic = sizeof(Factors) + 512;  // what the kernel has besides, and some room
  if (2 * sequences > processors()) return ShortSpace::kMostOfMany;
  const auto most = std::min<std::int64_t>(ShortSpace::kMostBytes, runtime::shared_bytes() - kStatic);
  return std::max<std::int64_t>(most, ShortSpace::kMostOfMany);
}

/// Whether an operand's rows have a mean or exponents in common, which each block of threads finds for
/// itself.
bool has_statistic(const ShortOperand& x) {
  return (x.rows.shift.data && !x.has_shift) || x.rows.exponent.data;
}

/// Blocks of threads that share a sequence, of operands with and without a statistic.
struct Parts {
  std::uint32_t measured = 1, plain = 1;
};

/// So many as give each processor one, and two where some processors would have two sequences and most of
/// them one. Codes take about half as long again as statistics, which more blocks do not shorten.
Parts parts_for(std::uint32_t measured, std::uint32_t plain) {
  constexpr float kCodes = 1.5f;  // of a sequence, in statistics of it
  const std::uint32_t all = processors(), sequences = measured + plain;
  if (sequences > all) return 5 * sequences <= 6 * all ? Parts{2, 2} : Parts{};
  if (measured == 0 || plain == 0) return {all / sequences, all / sequences};
  Parts best;
  float least = 1 + kCodes;
  for (std::uint32_t of_plain = 1; measured + plain * of_plain <= all; ++of_plain) {
    const Parts parts{(all - plain * of_plain) / measured, of_plain};
    const float time =
        std::max(1 + kCodes / static_cast<float>(parts.measured), kCodes / static_cast<float>(parts.plain));
    if (time < least) least = time, best = parts;
  }
  return best;
}

/// Turns of a block of threads, of so many rows each, at most: what it holds leaves room for two more on a
/// processor.
std::uint32_t most_turns(const ShortOperand& x, std::uint32_t rows) {
  if (reads_more_rows(x)) return std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t row_bytes = kChannels << x.rows.lanes_log2 << 1;
  return std::max<std::uint32_t>(ShortSpace::kMostOfMany / (rows * row_bytes), 1);
}

/// Operands that are alike.
void launch_together(std::span<const ShortOperand> operands, void* stream) {
  ShortOperands all{};
  std::uint32_t units = 0, sequences = 0, measured = 0, tokens = 0;
  bool reads_more = false;
  auto scales = TokenScales::all;
  for (const ShortOperand& x : operands) {
    if (x.coding.scale_of != ScaleOf::token) scales = TokenScales::not_all;
    sequences += units_of(x.rows);
    if (has_statistic(x)) measured += units_of(x.rows);
    units = std::max(units, units_of(x.rows));
    tokens = std::max(tokens, static_cast<std::uint32_t>(x.rows.x.shape[2]));
    reads_more = reads_more || reads_more_rows(x);
  }
  const int width_log2 = operands[0].rows.lanes_log2;
  const VectorsLog2 vectors = operands[0].coding.making.is_shared()
                                  ? VectorsLog2::of_many
                                  : vectors_for(width_log2, tokens, sequences, scales);
  const int lanes_log2 = width_log2 - static_cast<int>(vectors);
  // As many threads as rows take, in rounds of which none has many more than another.
  const std::uint32_t of_rows = tokens << lanes_log2,
                      rounds = divided_up(of_rows, static_cast<std::uint32_t>(most_threads(vectors))),
                      threads = std::max<std::uint32_t>(divided_up(of_rows, rounds * kWarp) * kWarp,
                                                        kChannels << width_log2),
                      at_once = threads >> lanes_log2;
  // Rows by themselves are shared out among as many blocks as run at once.
  const std::uint32_t at_a_time = static_cast<std::uint32_t>(least_blocks(vectors)) * processors();
  const Parts wanted = reads_more ? parts_for(measured, sequences - measured)
                                  : Parts{1, std::max<std::uint32_t>(at_a_time / sequences, 1)};
  std::uint32_t parts = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ShortOperand& x = all.of[i] = operands[i];
    const std::uint32_t turns = divided_up(static_cast<std::uint32_t>(x.rows.x.shape[2]), at_once),
                        wanted_turns = divided_up(turns, has_statistic(x) ? wanted.measured : wanted.plain),
                        turns_of_part = std::min(wanted_turns, most_turns(x, at_once));
    x.rows_of_part = static_cast<int>(turns_of_part * at_once);
    bytes = std::max(bytes, bytes_of(x, rows_in_space(x)));
    parts = std::max(parts, divided_up(turns, turns_of_part));
  }
  const dim3 blocks(units, parts, static_cast<unsigned>(operands.size()));
  // The first processors that are free would take as many blocks as fit, and leave others without: each asks
  // for so much shared memory that none has more than its share (docs/cuda-measurements.md).
  const auto bytes_for = [](std::int64_t blocks_a_processor) {
    return runtime::bytes_of_blocks(blocks_a_processor) - static_cast<std::int64_t>(sizeof(Factors));
  };
  bytes = std::max(bytes, bytes_for(divided_up(blocks.x * blocks.y * blocks.z, processors())));
  const Kernel kernel = kernel_of(operands[0], vectors);
  cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(std::max({bytes, std::int64_t{ShortSpace::kMostOfMany}, bytes_for(1)})));
  runtime::launch(kernel, blocks, threads, static_cast<std::size_t>(bytes), stream, all);
}

/// Whether kernels know what becomes of the rows, and take no longer than a launch for each step.
bool have_kernel(const ShortOperand& operand) {
  const RowReading& r = operand.rows;
  const Coding& k = operand.coding;
  constexpr std::int64_t kMostGroupWords = 1024;
  const bool is_16_bit = r.x.dtype == DType::bf16 || r.x.dtype == DType::f16;
  const bool has_width = r.lanes_log2 >= kLeastRowVectorsLog2 && r.lanes_log2 <= kMostRowVectorsLog2;
  if (!is_16_bit || !has_width || r.order.sequences.cu_seqlens || r.x.shape[2] > ShortSpace::kMostBytes ||
      units_of(operand.rows) == 0)
    return false;
  if (k.making.head_floor.octaves > 0 || (k.making.is_shared() && k.scale_of != ScaleOf::group)) return false;
  // Where there are many more sequences than processors, launches take little of their time.
  constexpr std::int64_t kMostWithoutSteps = 16;  // of a processor; 12 take 0.6 of the time, 47 1.05
  const bool is_of_all = k.groups.is_one || k.making.is_shared();
  if (is_of_all && units_of(operand.rows) > kMostWithoutSteps * processors()) return false;
  // The one scale of a tensor is of its rows as they are read: means and exponents are made here.
  if (k.groups.is_one && !k.making.is_shared() && (r.shift.data || r.exponent.data)) return false;
  if (has_groups(k) && k.groups.per_head * k.channel_groups > kMostGroupWords) return false;
  if (r.exponent.data && (r.shift.data || r.hadamard > 0 || r.confine != Confine::row)) return false;
  // Rows that are converted alone have kernels of their own, which are faster from some tokens on: of 50
  // these take 5 % less, of 197 and more those up to 17 % (H200, docs/cuda-measurements.md).
  constexpr std::int64_t kMostConverted = 128;
  const bool is_converted = k.scale_of == ScaleOf::nothing && r.hadamard == 0 && !reads_more_rows(operand);
  return !is_converted || r.x.shape[2] <= kMostConverted;
}

}  // namespace

bool takes_short_sequences(const ShortOperand& operand) {
  return have_kernel(operand) && bytes_of_sequence(operand) <= most_bytes(units_of(operand.rows));
}

bool takes_parts_of_sequences(const ShortOperand& operand) {
  return have_kernel(operand) && !reads_more_rows(operand);
}

bool is_of_dense_s8(const ShortOperand& x) {
  const RowReading& r = x.rows;
  const Coding& k = x.coding;
  constexpr std::int64_t kBytes = 16;
  const bool is_16_bit = r.x.dtype == DType::bf16 || r.x.dtype == DType::f16;
  const bool has_own_scales = k.scale_of != ScaleOf::nothing && !k.groups.is_one && !k.making.is_shared() &&
                              k.making.largest_code <= 127 && k.making.head_floor.octaves == 0;
  return is_16_bit && r.in_vectors && r.channels == r.dim && units_of(r) > 0 &&
         !r.order.sequences.cu_seqlens && !x.has_shift && k.codes.dtype == DType::s8 &&
         is_multiple(k.codes, kBytes, kBytes) && has_own_scales;
}

void launch_short_sequences(std::span<const ShortOperand> operands, void* stream) {
  bool is_launched[kMostTogether] = {};
  for (std::size_t first = 0; first < operands.size(); ++first) {
    if (is_launched[first]) continue;
    ShortOperand alike[kMostTogether];
    std::size_t count = 0;
    for (std::size_t i = first; i < operands.size(); ++i)
      if (!is_launched[i] && share_a_kernel(operands[first], operands[i]))
        alike[count++] = operands[i], is_launched[i] = true;
    launch_together({alike, count}, stream);
  }
}

}  // namespace octet::cuda
