// A short sequence of a head in shared memory: which rows of it a block of threads has and reads, and where
// all lies that it makes of them.
#pragma once
#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/quant/rows.cuh"
#include "cuda/quant/scaling.cuh"
#include "cuda/quant/short_sequences.cuh"
#include "cuda/tile/kept.cuh"
#include "quant/tree.h"

namespace octet::cuda {

/// Vectors of a row that a thread turns into codes.
enum class VectorsLog2 : std::int32_t {
  of_few = 0,   ///< sequences are few, and one warp's instructions one after the other count
  of_many = 1,  ///< all warps' together: what a row takes by itself is shared by fewer threads
  of_most = 2,  ///< still more so: the card takes them in many waves; of up to 64 channels
};

/// What groups' scales are made of. note: kernels of their own, for a branch took all others 1 to 2 % longer
/// (docs/cuda-measurements.md).
enum class GroupScales : std::int32_t {
  measured,  ///< the groups' rows
  shared,    ///< an amax that all share
};

/// What a block of threads has in shared memory behind the rows, as offsets in words of 4 bytes.
struct ShortSpace {
  static constexpr int kLeaf = static_cast<int>(quant::TreeSum::kLeafTokens);
  static constexpr int kAtOnce = 16;             ///< rows whose elements a thread that sums has on their way
  static constexpr int kMostBytes = 208 * 1024;  ///< of sequences so few that each has a processor
  static constexpr int kMostOfMany = 64 * 1024;  ///< of others: three blocks a processor

  int words, largest, leaves, peaks, rscales, end;

  /// width: channels, with those beyond the row's that its threads have; groups: words that scales or floors
  /// of a sequence take.
  OCTET_HD ShortSpace(int tokens, int width, int groups) {
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

/// Whether each block of threads reads rows that are not of its part: they have something in common with
/// these.
OCTET_HD bool reads_more_rows(const ShortOperand& x) {
  return x.rows.shift.data || x.rows.exponent.data || has_groups(x.coding);
}
/// Rows that a block of threads has room for.
OCTET_HD int rows_in_space(const ShortOperand& x) {
  const auto tokens = static_cast<int>(x.rows.x.shape[2]);
  return reads_more_rows(x) || x.rows_of_part > tokens ? tokens : x.rows_of_part;
}

/// kRowVectorsLog2: vectors (of kChannels) of a row; kVectorsLog2: those of them that a thread turns into
/// codes. note: bf16 and f16 are one kernel, which is half as much to compile; a warp asks which once a
/// vector or more.
template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2, GroupScales kGroupScales>
class ShortRows {
  static constexpr int kLanesLog2 = kRowVectorsLog2 - static_cast<int>(kVectorsLog2);

 public:
  static constexpr int kWidth = kChannels << kRowVectorsLog2;

  __device__ ShortRows(const ShortOperand& x, std::uint32_t* memory)
      : r_(x.rows),
        k_(x.coding),
        lane_(kLanesLog2),
        wide_(kRowVectorsLog2),
        dtype_(x.rows.x.dtype),
        has_shift_(x.has_shift),
        floors_(x.floors),
        tokens_(static_cast<int>(x.rows.x.shape[2])),
        plan_(rows_in_space(x), kWidth, group_words(x.coding)),
        memory_(memory) {
    const auto unit = static_cast<std::int32_t>(blockIdx.x);
    b_ = unit / r_.order.heads, h_ = unit - b_ * r_.order.heads;
    first_ = static_cast<int>(blockIdx.y) * x.rows_of_part;
    end_ = min(first_ + x.rows_of_part, tokens_);
    in_space_ = reads_more_rows(x) ? 0 : first_;
    look_ = {first_, end_};
    if (has_groups(k_)) {
      const int of_group = k_.groups.tokens > 0 ? static_cast<int>(k_.groups.tokens) : tokens_;
      first_group_ = group_of(first_);
      groups_ = group_of(end_ - 1) + 1 - first_group_;
      if constexpr (kGroupScales == GroupScales::measured) {
        look_.begin = first_group_ * of_group;
        look_.end = min(look_.begin + groups_ * of_group, tokens_);
      }
    }
    staged_ = r_.shift.data || r_.exponent.data ? Rows{0, tokens_} : look_;
    from_ = tile::kept(static_cast<const std::uint16_t*>(r_.x.data) +
                       row_offset(r_.x, b_, h_, staged_.begin + wide_.row));
    to_ = tile::kept(ptx::shared_address(vectors() + own_place(staged_.begin + wide_.row)));
    from_step_ = tile::kept(wide_.rows_at_once * r_.x.stride[2]);
  }

  __device__ bool has_rows() const { return b_ < r_.x.shape[0] && first_ < end_; }

 protected:
  static constexpr int kVectors = 1 << static_cast<int>(kVectorsLog2);
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
  __device__ uint4* vectors() { return reinterpret_cast<uint4*>(memory_) - in_space_ * kRowVectors; }
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
  __device__ int leaf_count() const { return (tokens_ + ShortSpace::kLeaf - 1) / ShortSpace::kLeaf; }
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
      for (int i = 0; i < kCount; ++i) x[i] = ptx::number_of_f16(code[i]);
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

  const RowReading& r_;
  const Coding& k_;
  const Lane lane_;  ///< of rows on their way to codes
  const Lane wide_;  ///< of what all rows have in common: a vector a thread
  const DType dtype_;
  const bool has_shift_;
  const ScaleFloors& floors_;
  const int tokens_;
  const ShortSpace plan_;
  std::uint32_t* const memory_;
  std::int32_t b_, h_;
  int first_, end_;                   ///< the part's rows
  int in_space_;                      ///< the first row that there is room for
  int first_group_ = 0, groups_ = 0;  ///< of which it has some
  Rows look_, staged_;                ///< rows of these groups, and those that are read
  const std::uint16_t* from_;         ///< the thread's first one; addresses are made before the wait
  std::int64_t from_step_;            ///< from one of its rows to the next
  std::uint32_t to_;                  ///< in shared memory
};

}  // namespace octet::cuda
