// All steps of short sequences in one launch, for their launches take longer than their work: a block of
// threads has a sequence of a head in shared memory, finds its mean or its channels' exponents, and makes
// codes of a part of its rows. Blocks that share a sequence each find these for themselves. The steps are
// those of sums.cu and encode.cu, with the same bits.
//
// What a warp does it does once, at about five cycles an instruction: few instructions one after the other
// count, and that many warps share them.
#include "cuda/quant/short_sequences.cuh"

#include <algorithm>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/runtime/launch.cuh"
#include "cuda/tile/kept.cuh"
#include "quant/channel_exponent.h"
#include "quant/smooth.h"
#include "quant/tree.h"

namespace octet::cuda {
namespace {

constexpr int kLeaf = static_cast<int>(quant::TreeSum::kLeafTokens);
constexpr int kMostBytes = 64 * 1024;  ///< of shared memory: three blocks a processor
constexpr int kAtOnce = 16;            ///< rows whose elements a thread that sums has on their way

/// Vectors of a row that a thread turns into codes.
enum class VectorsLog2 : std::int32_t {
  of_few = 0,   ///< sequences are few, and one warp's instructions one after the other count
  of_many = 1,  ///< all warps' together: what a row takes by itself is shared by fewer threads
  of_most = 2,  ///< still more so: the card takes them in many waves; of up to 64 channels
};
/// Threads of a block at most, and so large blocks of a processor: 72 registers a thread, which hold two
/// vectors, and 96.
constexpr int most_threads(VectorsLog2 vectors) { return vectors == VectorsLog2::of_most ? 128 : 448; }
constexpr int least_blocks(VectorsLog2 vectors) { return vectors == VectorsLog2::of_most ? 5 : 2; }

struct ShortOperands {
  ShortOperand of[kMostTogether];
};

/// What a block of threads has in shared memory behind the rows, as offsets in words of 4 bytes.
struct SpacePlan {
  int words, largest, leaves, peaks, rscales, end;

  /// width: channels, with those beyond the row's that its threads have; groups: words that scales or floors
  /// of a sequence take.
  OCTET_HD SpacePlan(int tokens, int width, int groups) {
    int at = (tokens + kAtOnce - 1) / kAtOnce * kAtOnce * width / 2;
    const auto take = [&](int count) {
      const int offset = at;
      at += count;
      return offset;
    };
    words = take(width);
    largest = take(width);
    leaves = take((tokens + kLeaf - 1) / kLeaf * width);
    peaks = take(groups);
    rscales = take(groups);
    end = at;
  }
};

OCTET_HD bool has_groups(const Coding& k) {
  return k.scale_of == ScaleOf::group || (k.scale_of == ScaleOf::token && k.making.block_floor.octaves > 0);
}
OCTET_HD int group_words(const Coding& k) {
  return has_groups(k) ? static_cast<int>(k.groups.per_head) * k.channel_groups : 0;
}

/// kRowVectorsLog2: of the vectors of a row. note: bf16 and f16 are one kernel, which is half as much to
/// compile; a warp asks which once a vector or more.
template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2>
class ShortSequence {
  static constexpr int kLanesLog2 = kRowVectorsLog2 - static_cast<int>(kVectorsLog2);
  static constexpr int kVectors = 1 << static_cast<int>(kVectorsLog2);

 public:
  static constexpr int kWidth = kChannels << kRowVectorsLog2;

  __device__ ShortSequence(const ShortOperand& x, std::uint32_t* memory)
      : r_(x.rows),
        k_(x.coding),
        lane_(kLanesLog2),
        wide_(kRowVectorsLog2),
        dtype_(x.rows.x.dtype),
        tokens_(static_cast<int>(x.rows.x.shape[2])),
        plan_(tokens_, kWidth, group_words(x.coding)),
        memory_(memory) {
    const auto unit = static_cast<std::int32_t>(blockIdx.x);
    b_ = unit / r_.order.heads, h_ = unit - b_ * r_.order.heads;
    first_ = static_cast<int>(blockIdx.y) * x.rows_of_part;
    end_ = min(first_ + x.rows_of_part, tokens_);
    look_ = {first_, end_};
    if (has_groups(k_)) {
      const int of_group = k_.groups.tokens > 0 ? static_cast<int>(k_.groups.tokens) : tokens_;
      first_group_ = group_of(first_);
      groups_ = group_of(end_ - 1) + 1 - first_group_;
      look_.begin = first_group_ * of_group;
      look_.end = min(look_.begin + groups_ * of_group, tokens_);
    }
    staged_ = r_.shift.data || r_.exponent.data ? Rows{0, tokens_} : look_;
    from_ = tile::kept(static_cast<const std::uint16_t*>(r_.x.data) +
                       row_offset(r_.x, b_, h_, staged_.begin + wide_.row));
    to_ = tile::kept(ptx::shared_address(vectors() + own_place(staged_.begin + wide_.row)));
    from_step_ = tile::kept(wide_.rows_at_once * r_.x.stride[2]);
  }

  __device__ bool has_rows() const { return b_ < r_.x.shape[0] && first_ < end_; }

  /// factor: of all channels (Factors).
  __device__ void run(const float* factor) {
    stage();
    if (r_.shift.data) find_mean();
    if (r_.exponent.data) find_exponents();
    if (has_groups(k_)) {
      find_peaks(factor);
      find_scales();
    }
    encode(factor);
  }

 private:
  static constexpr int kLanes = 1 << kLanesLog2, kRowVectors = kLanes * kVectors;
  static constexpr int kCount = kChannels * kVectors;

  struct Rows {
    int begin, end;
  };

  __device__ const std::uint16_t* halves() { return reinterpret_cast<std::uint16_t*>(memory_); }
  __device__ float* words() { return reinterpret_cast<float*>(memory_ + plan_.words); }
  __device__ std::uint32_t* largest() { return memory_ + plan_.largest; }
  __device__ float* leaves() { return reinterpret_cast<float*>(memory_ + plan_.leaves); }
  __device__ std::uint32_t* peaks() { return memory_ + plan_.peaks; }
  __device__ float* rscales() { return reinterpret_cast<float*>(memory_ + plan_.rscales); }
  __device__ uint4* vectors() { return reinterpret_cast<uint4*>(memory_); }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  /// Vector number `vector` of a row among the vectors of all: places are exchanged so that eight threads
  /// that read theirs of rows beside each other, or of one row, meet no bank twice.
  __device__ static int place(int row, int vector) { return row * kRowVectors + (vector ^ exchanged(row)); }
  __device__ static constexpr int exchanged(int row) {
    constexpr int kOfLine = 8, kRowsOfLine = kRowVectors < kOfLine ? kOfLine / kRowVectors : 1;
    constexpr int kPlaces = kLanes * kRowsOfLine < kOfLine ? kOfLine / (kLanes * kRowsOfLine) : 1;
    return row / kRowsOfLine % kPlaces * kLanes;
  }
  /// Of the thread's vector of rows that are read.
  __device__ int own_place(int row) const { return place(row, wide_.first / kChannels); }
  __device__ int group_of(int row) const { return k_.groups.tokens > 0 ? row / k_.groups.by_tokens : 0; }
  __device__ int leaf_count() const { return (tokens_ + kLeaf - 1) / kLeaf; }
  __device__ std::int64_t unit_offset(const TensorView& of) const { return row_offset(of, b_, h_, 0); }
  /// One block of those that share the sequence tells what all of them found.
  __device__ bool tells() const { return first_ == 0; }

  /// code: 16 bits each.
  template <int kCount>
  __device__ void numbers_of(const std::uint32_t (&code)[kCount], float (&x)[kCount]) const {
    if (dtype_ == DType::bf16) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = float_of(code[i] << 16);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = number_of_f16(code[i]);
    }
  }

  /// Rows into shared memory, zeros beyond their channels; and zeros into what is maximised.
  __device__ void stage() {
    const std::uint16_t* own = from_;
    const bool copies = r_.in_vectors && wide_.first + kChannels <= r_.dim;
    if (copies) own += wide_.first;
    // note: places of rows so far apart are exchanged alike.
    std::uint32_t to = to_;
    for (int row = staged_.begin + wide_.row; row < staged_.end; row += wide_.rows_at_once) {
      if (copies)
        ptx::copy_async(to, own);
      else
        vectors()[own_place(row)] = load_vector(r_, own, wide_.first).v[0];
      own += from_step_, to += threads() * static_cast<int>(sizeof(uint4));
    }
    ptx::commit_copies();
    for (int i = thread(); i < groups_ * k_.channel_groups; i += threads()) peaks()[i] = 0;
    if (thread() < kWidth) largest()[thread()] = 0;
    ptx::wait_copies<0>();
    __syncthreads();
  }

  // --- What a sequence's rows have in common

  /// The sum of term(x) over a channel of a leaf.
  template <class Term>
  __device__ float sum_of_leaf(int leaf, int channel, const Term& term) {
    const int end = min((leaf + 1) * kLeaf, tokens_);
    float sum = -0.0f;  // -0 + x is x for every x
    for (int row = leaf * kLeaf; row < end; row += kAtOnce) {
      const std::uint16_t* from = halves() + row * kWidth;
      std::uint32_t code[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)  // beyond the end too, where memory is
        code[i] = from[i * kWidth + (channel ^ kChannels * exchanged(i))];
      float x[kAtOnce];
      numbers_of(code, x);
      if (row + kAtOnce <= end) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sum = sum + term(x[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (row + i < end) sum = sum + term(x[i]);
      }
    }
    return sum;
  }
  /// The sums of all leaves and channels, a thread each: sum(leaf, channel).
  template <class Sum>
  __device__ void for_leaves(const Sum& sum) {
    for (int i = thread(); i < leaf_count() * kWidth; i += threads())
      leaves()[i] = sum(i / kWidth, i % kWidth);
    __syncthreads();
  }
  __device__ float sum_of_leaves(int channel) {
    constexpr int kMostLeaves = kMostBytes / (kWidth * 2 * kLeaf);
    return sum_of_few<kMostLeaves>(leaf_count(), [&](int i) { return leaves()[i * kWidth + channel]; });
  }

  /// The mean of each channel, in words().
  __device__ void find_mean() {
    const float factor = quant::mean_factor(tokens_);
    for_leaves([&](int leaf, int channel) {
      const float sum = sum_of_leaf(leaf, channel, [&](float x) { return x * factor; });
      if (is_finite(sum)) return sum;
      // NaN and Inf are rare: where a sum comes out neither, none was there.
      return sum_of_leaf(leaf, channel, [&](float x) { return (is_finite(x) ? x : 0.0f) * factor; });
    });
    if (const int c = thread(); c < kWidth) {
      const float mean = c < r_.dim ? quant::mean_of_sum(sum_of_leaves(c), tokens_) : 0.0f;
      words()[c] = mean;
      if (tells() && c < r_.dim) static_cast<float*>(r_.shift.data)[unit_offset(r_.shift) + c] = mean;
    }
    __syncthreads();
  }

  /// What each channel is multiplied by, in words(); rows are neither shifted nor rotated.
  __device__ void find_exponents() {
    __shared__ std::int64_t orders[kWarp];  // of warps
    if (__syncthreads_or(find_largest())) {
      clear_bad_rows();
      find_largest();
      __syncthreads();
    }
    for_leaves([&](int leaf, int channel) {
      const float factor = quant::square_factor(float_of(largest()[channel]));
      return sum_of_leaf(leaf, channel, [&](float x) {
        const float y = x * factor;
        return y * y;
      });
    });
    const int channel = thread();
    const float amax = channel < r_.channels ? float_of(largest()[channel]) : 0.0f;
    const std::int64_t order =
        amax > 0 ? quant::norm_order(__fsqrt_rn(sum_of_leaves(channel)), amax) : INT64_MIN;
    const std::int64_t most_order = largest_of_block(order, orders, kWidth / kWarp);
    if (channel < kWidth) {
      const std::int32_t exponent = quant::channel_exponent(order, most_order, amax);
      words()[channel] = channel < r_.channels ? power_of_two(-exponent) : 0.0f;
      if (tells() && channel < r_.channels)
        static_cast<std::int32_t*>(r_.exponent.data)[unit_offset(r_.exponent) + channel] = exponent;
    }
    __syncthreads();
  }

  /// The bits of each channel's largest |x| in largest(), which begins with zeros. Whether the thread saw NaN
  /// or Inf, which are larger than all numbers.
  __device__ bool find_largest() {
    constexpr int kPairs = kChannels / 2;
    constexpr std::uint32_t kSizes = 0x7fff7fffu;  // of 16-bit numbers these order as their codes do
    std::uint32_t most[kPairs] = {};
    for (int row = wide_.row; row < tokens_; row += wide_.rows_at_once) {
      const uint4 v = vectors()[place(row, wide_.first / kChannels)];
      const std::uint32_t pairs[kPairs] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < kPairs; ++i) most[i] = __vmaxu2(most[i], pairs[i] & kSizes);
    }
#pragma unroll
    for (int distance = kRowVectors; distance < kWarp; distance *= 2)
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        most[i] = __vmaxu2(most[i], __shfl_xor_sync(kAllLanes, most[i], distance));
    if (thread() % kWarp >= kRowVectors) return false;
    float largest_of[kChannels];
    to_floats(Raw<std::uint16_t>{{{most[0], most[1], most[2], most[3]}}}, dtype_, largest_of);
    bool is_bad = false;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const std::uint32_t bits = bits_of(largest_of[i]);
      is_bad |= bits >= kInfBits;
      atomicMax(largest() + wide_.first + i, bits);
    }
    return is_bad;
  }

  /// Rows with NaN or Inf are zeros from now on, and largest() too.
  __device__ void clear_bad_rows() {
    for (int begin = 0; begin < tokens_; begin += wide_.rows_at_once) {
      const int row = begin + wide_.row;
      const int at = place(row, wide_.first / kChannels);
      Raw<std::uint16_t> raw{};
      if (row < tokens_) raw.v[0] = vectors()[at];
      float v[kChannels];
      to_floats(raw, dtype_, v);
      const std::uint32_t peak = largest_of_row(largest_bits(v), kRowVectors);
      if (peak < kInfBits || row >= tokens_) continue;
      vectors()[at] = {};
      if (k_.non_finite) *k_.non_finite = 1;
    }
    if (thread() < kWidth) largest()[thread()] = 0;
    __syncthreads();
  }

  // --- Rows

  /// body(row) for the rows of [begin, end) that the thread's warp has; the thread's own may lie behind them.
  template <class Body>
  __device__ static void for_rows(const Lane& lane, int begin, int end, const Body& body) {
    for (int row = begin + lane.row; __any_sync(kAllLanes, row < end); row += lane.rows_at_once) body(row);
  }

  /// v[i] = join(v[i], what words() has for its channel).
  template <int kCount, class Join>
  __device__ void join_words(const Lane& lane, float (&v)[kCount], const Join& join) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 of = *reinterpret_cast<const float4*>(words() + lane.channel(i));
      v[i] = join(v[i], of.x), v[i + 1] = join(v[i + 1], of.y);
      v[i + 2] = join(v[i + 2], of.z), v[i + 3] = join(v[i + 3], of.w);
    }
  }
  /// The numbers that become codes, and the largest of the row; of the warp.
  template <int kOfThread>
  __device__ std::uint32_t transformed(const Lane& lane, int row, bool exists, const float* factor,
                                       float (&v)[kOfThread * kChannels]) {
    constexpr int kLanesOfRow = kRowVectors / kOfThread;
    RawRow<std::uint16_t, kOfThread> raw{};
    if (exists) {
#pragma unroll
      for (int j = 0; j < kOfThread; ++j)
        raw.v[j].v[0] = vectors()[place(row, lane.first / kChannels + j * kLanesOfRow)];
    }
    to_floats(raw, dtype_, v);
    if (r_.shift.data) join_words(lane, v, [](float x, float shift) { return x - shift; });
    rotate<kOfThread>(r_, lane, factor, v);
    if (r_.exponent.data) join_words(lane, v, [](float x, float down) { return x * down; });
    if (k_.scale_of == ScaleOf::nothing) return 0;
    return confined(r_, largest_of_row(largest_bits(v), kLanesOfRow), kLanesOfRow, v, k_.non_finite);
  }

  /// The largest of each group, in peaks().
  __device__ void find_peaks(const float* factor) {
    if (k_.channel_groups == 1)
      find_row_peaks(factor);
    else
      find_channel_peaks(factor);
    __syncthreads();
  }
  __device__ void find_row_peaks(const float* factor) {
    std::uint32_t most = 0;
    int group = 0;  // of it
    const auto flush = [&] {
      if (lane_.first == 0 && most > 0) atomicMax(peaks() + group, most);
      most = 0;
    };
    for_rows(lane_, look_.begin, look_.end, [&](int row) {
      const bool exists = row < look_.end;
      float v[kCount];
      const std::uint32_t peak = transformed<kVectors>(lane_, row, exists, factor, v);
      if (!exists) return;
      if (const int now = group_of(row) - first_group_; now != group) {
        flush();
        group = now;
      }
      most = max(most, peak);
    });
    flush();
  }
  __device__ void find_channel_peaks(const float* factor) {
    std::uint32_t most[kChannels] = {};
    int group = 0;  // of them
    const auto flush = [&] {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int channel = wide_.first + i;
        if (channel < r_.channels && most[i] > 0)
          atomicMax(peaks() + group * k_.channel_groups + channel, most[i]);
        most[i] = 0;
      }
    };
    for_rows(wide_, look_.begin, look_.end, [&](int row) {
      const bool exists = row < look_.end;
      float v[kChannels];
      transformed<1>(wide_, row, exists, factor, v);
      if (!exists) return;
      if (const int now = group_of(row) - first_group_; now != group) {
        flush();
        group = now;
      }
#pragma unroll
      for (int i = 0; i < kChannels; ++i) most[i] = max(most[i], finite_bits(v[i]));
    });
    flush();
  }

  /// Of groups what their codes are multiplied by, or the floors of their tokens, in rscales().
  __device__ void find_scales() {
    const int of_group = k_.groups.tokens > 0 ? static_cast<int>(k_.groups.tokens) : tokens_;
    for (int i = thread(); i < groups_ * k_.channel_groups; i += threads()) {
      const quant::Scale scale = k_.making.of(float_of(peaks()[i]), 0);
      if (k_.scale_of == ScaleOf::token) {
        rscales()[i] = quant::scale_floor(scale.scale, k_.making.block_floor.octaves);
        continue;
      }
      rscales()[i] = scale.rscale;
      const int local = i / k_.channel_groups, channel = i - local * k_.channel_groups;
      const int group = first_group_ + local;
      if (group * of_group < first_) continue;  // another block's
      static_cast<float*>(
          k_.scales.data)[row_offset(k_.scales, b_, h_, group) + channel * k_.scales.stride[3]] = scale.scale;
    }
    __syncthreads();
  }

  /// Formats that a row's codes are written in at once. note: write_vector() is for all, and a warp that goes
  /// through it once waits for its code.
  enum class Words : std::int32_t { none, s8, f16 };
  __device__ Words words_of_codes() const {
    if (!k_.in_vectors || r_.channels != kWidth) return Words::none;
    if (k_.codes.dtype == DType::s8 && !k_.clamps) return Words::s8;
    return k_.codes.dtype == DType::f16 ? Words::f16 : Words::none;
  }
  __device__ void write_row(int row, const float (&v)[kCount]) {
    const std::int64_t offset = row_offset(k_.codes, b_, h_, row) + lane_.first;
    const Words words = words_of_codes();
    if (words == Words::s8) [[likely]] {
      auto* to = static_cast<std::int8_t*>(k_.codes.data) + offset;
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
        *reinterpret_cast<uint2*>(to + j * lane_.step) = codes_in_words(v + j * kChannels);
    } else if (words == Words::f16) {
      auto* to = static_cast<std::uint16_t*>(k_.codes.data) + offset;
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
        *reinterpret_cast<uint4*>(to + j * lane_.step) = f16_codes_in_words(v + j * kChannels);
    } else {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        const int channel = j * lane_.step;
        if (lane_.first + channel < r_.channels)
          write_vector(k_, offset + channel, r_.channels - lane_.first - channel, v + j * kChannels);
      }
    }
  }

  __device__ void encode(const float* factor) {
    for_rows(lane_, first_, end_, [&](int row) {
      const bool exists = row < end_;
      float v[kCount];
      const std::uint32_t peak = transformed<kVectors>(lane_, row, exists, factor, v);
      if (!exists) return;
      if (k_.scale_of == ScaleOf::token) {
        const float floor = has_groups(k_) ? rscales()[group_of(row) - first_group_] : 0.0f;
        const quant::Scale scale = k_.making.of(float_of(peak), floor);
        if (lane_.first == 0)
          static_cast<float*>(k_.scales.data)[row_offset(k_.scales, b_, h_, row)] = scale.scale;
#pragma unroll
        for (auto& x : v) x = x * scale.rscale;
      } else if (k_.scale_of == ScaleOf::group) {
        const float* rscale = rscales() + (group_of(row) - first_group_) * k_.channel_groups;
        if (k_.channel_groups == 1) {
#pragma unroll
          for (auto& x : v) x = x * rscale[0];
        } else {
#pragma unroll
          for (int i = 0; i < kCount; ++i)
            v[i] = v[i] * (lane_.channel(i) < r_.channels ? rscale[lane_.channel(i)] : 0.0f);
        }
      }
      write_row(row, v);
    });
  }

  const RowReading& r_;
  const Coding& k_;
  const Lane lane_;  ///< of rows on their way to codes
  const Lane wide_;  ///< of what all rows have in common: a vector a thread
  const DType dtype_;
  const int tokens_;
  const SpacePlan plan_;
  std::uint32_t* const memory_;
  std::int32_t b_, h_;
  int first_, end_;                   ///< the part's rows
  int first_group_ = 0, groups_ = 0;  ///< of which it has some
  Rows look_, staged_;                ///< rows of these groups, and those that are read
  const std::uint16_t* from_;         ///< the thread's first one; addresses are made before the wait
  std::int64_t from_step_;            ///< from one of its rows to the next
  std::uint32_t to_;                  ///< in shared memory
};

template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2>
__global__ __launch_bounds__(most_threads(kVectorsLog2), least_blocks(kVectorsLog2)) void short_sequences(
    const __grid_constant__ ShortOperands operands) {
  using Sequence = ShortSequence<kRowVectorsLog2, kVectorsLog2>;
  extern __shared__ uint4 space_memory[];
  __shared__ Factors factors;
  const ShortOperand& x = operands.of[blockIdx.z];
  factors.put(x.rows, Sequence::kWidth);  // the rows' barrier is behind it
  Sequence sequence(x, reinterpret_cast<std::uint32_t*>(space_memory));
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  if (sequence.has_rows()) sequence.run(factors.of);
}

std::int64_t bytes_of(const ShortOperand& x) {
  const SpacePlan plan(static_cast<int>(x.rows.x.shape[2]), kChannels << x.rows.lanes_log2,
                       group_words(x.coding));
  return std::int64_t{4} * plan.end;
}

std::uint32_t units_of(const ShortOperand& x) {
  return static_cast<std::uint32_t>(x.rows.x.shape[0] * x.rows.x.shape[1]);
}

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
  if (vectors == of_few) return kernel_of_width<of_few>(log2);
  if (vectors == of_many) return kernel_of_width<of_many>(log2);
  return log2 == 2 ? short_sequences<2, of_most> : short_sequences<3, of_most>;
}
/// Whether one kernel takes both.
bool are_alike(const ShortOperand& a, const ShortOperand& b) {
  return a.rows.lanes_log2 == b.rows.lanes_log2;
}

std::uint32_t divided_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// Measured on an H200, in sequences a processor: 2.2 of one turn are better off as few, 4.4 as many; 8.7 as
/// many, 17 as most (docs/cuda.md).
VectorsLog2 vectors_for(int row_vectors_log2, std::uint32_t tokens, std::uint32_t sequences) {
  using enum VectorsLog2;
  constexpr std::uint32_t kFew = 3, kMost = 12;
  const std::uint32_t all = processors();
  const bool in_one_turn = tokens << row_vectors_log2 <= static_cast<std::uint32_t>(most_threads(of_few));
  if (2 * sequences <= all || (in_one_turn && sequences <= kFew * all)) return of_few;
  return row_vectors_log2 < kMostRowVectorsLog2 && sequences >= kMost * all ? of_most : of_many;
}

/// Operands that are alike.
void launch_together(std::span<const ShortOperand> operands, void* stream) {
  ShortOperands all{};
  std::uint32_t units = 0, sequences = 0, tokens = 0;
  std::int64_t bytes = 0;
  for (const ShortOperand& x : operands) {
    sequences += units_of(x);
    units = std::max(units, units_of(x));
    tokens = std::max(tokens, static_cast<std::uint32_t>(x.rows.x.shape[2]));
    bytes = std::max(bytes, bytes_of(x));
  }
  const std::uint32_t wanted = std::max(processors() / sequences, 1u);
  const int width_log2 = operands[0].rows.lanes_log2;
  const VectorsLog2 vectors = vectors_for(width_log2, tokens, sequences);
  const int lanes_log2 = width_log2 - static_cast<int>(vectors);
  // As many threads as rows take, in rounds of which none has many more than another.
  const std::uint32_t of_rows = tokens << lanes_log2,
                      rounds = divided_up(of_rows, static_cast<std::uint32_t>(most_threads(vectors))),
                      threads = std::max<std::uint32_t>(divided_up(of_rows, rounds * kWarp) * kWarp,
                                                        kChannels << width_log2),
                      at_once = threads >> lanes_log2;
  std::uint32_t parts = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ShortOperand& x = all.of[i] = operands[i];
    const std::uint32_t turns = divided_up(static_cast<std::uint32_t>(x.rows.x.shape[2]), at_once),
                        turns_of_part = divided_up(turns, wanted);
    x.rows_of_part = static_cast<int>(turns_of_part * at_once);
    parts = std::max(parts, divided_up(turns, turns_of_part));
  }
  const Kernel kernel = kernel_of(operands[0], vectors);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  runtime::launch(kernel, dim3(units, parts, static_cast<unsigned>(operands.size())), threads,
                  static_cast<std::size_t>(bytes), stream, all);
}

}  // namespace

bool takes_short_sequences(const ShortOperand& operand) {
  const RowReading& r = operand.rows;
  const Coding& k = operand.coding;
  constexpr std::int64_t kMostGroupWords = 1024;
  const bool is_16_bit = r.x.dtype == DType::bf16 || r.x.dtype == DType::f16;
  const bool has_width = r.lanes_log2 >= kLeastRowVectorsLog2 && r.lanes_log2 <= kMostRowVectorsLog2;
  if (!is_16_bit || !has_width || r.order.sequences.cu_seqlens || r.x.shape[2] > kMostBytes ||
      units_of(operand) == 0)
    return false;
  if (k.making.is_shared() || k.making.head_floor.octaves > 0 || k.groups.is_one) return false;
  if (has_groups(k) && k.groups.per_head * k.channel_groups > kMostGroupWords) return false;
  if (r.exponent.data && (r.shift.data || r.hadamard > 0 || r.confine != Confine::row)) return false;
  return bytes_of(operand) <= kMostBytes;
}

void launch_short_sequences(std::span<const ShortOperand> operands, void* stream) {
  for (std::size_t first = 0; first < operands.size();) {
    std::size_t end = first + 1;
    while (end < operands.size() && are_alike(operands[first], operands[end])) ++end;
    launch_together(operands.subspan(first, end - first), stream);
    first = end;
  }
}

}  // namespace octet::cuda
