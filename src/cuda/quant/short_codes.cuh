// Codes of a part of a short sequence's rows, and their scales. The steps are those of encode.cu, with the
// same bits.
#pragma once
#include <cstdint>

#include "cuda/quant/short_statistics.cuh"
#include "cuda/quant/token_floors.cuh"
#include "cuda/quant/write_codes.cuh"

namespace octet::cuda {

/// All steps of a block of threads: parameters as in ShortRows.
template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2, GroupScales kGroupScales>
class ShortSequence : ShortStatistics<kRowVectorsLog2, kVectorsLog2, kGroupScales> {
  using Base = ShortStatistics<kRowVectorsLog2, kVectorsLog2, kGroupScales>;

 public:
  using Base::Base, Base::has_rows, Base::kWidth;

  /// factor: of all channels (Factors).
  __device__ void run(const float* factor) {
    stage();
    if (has_shift_)
      take_shift();
    else if (r_.shift.data)
      find_mean();
    if (r_.exponent.data) find_exponents();
    if (has_groups(k_)) {
      if constexpr (kGroupScales == GroupScales::shared) {
        take_shared_scale();
      } else {
        find_peaks(factor);
        find_scales();
      }
    }
    encode(factor);
  }

 private:
  using Base::b_, Base::dtype_, Base::end_, Base::first_, Base::first_group_, Base::groups_, Base::h_;
  using Base::find_exponents, Base::floors_, Base::find_mean, Base::has_shift_, Base::take_shift,
      Base::group_of, Base::peaks, Base::place, Base::rscales;
  using Base::k_, Base::lane_, Base::look_, Base::r_, Base::tokens_, Base::wide_;
  using Base::kCount, Base::kRowVectors, Base::kVectors;
  using Base::stage, Base::thread, Base::threads, Base::vectors, Base::words;

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

  /// The same of a shared amax, which all groups have.
  __device__ void take_shared_scale() {
    const quant::Scale scale = k_.making.of(k_.making.shared(), 0);
    const int of_group = k_.groups.tokens > 0 ? static_cast<int>(k_.groups.tokens) : tokens_;
    for (int i = thread(); i < groups_ * k_.channel_groups; i += threads()) {
      rscales()[i] = scale.rscale;
      const int local = i / k_.channel_groups, channel = i - local * k_.channel_groups;
      const int group = first_group_ + local;
      if (group * of_group < first_) continue;  // another block's
      auto* scales = static_cast<float*>(k_.scales.data);
      if (!k_.groups.is_one)
        scales[row_offset(k_.scales, b_, h_, group) + channel * k_.scales.stride[3]] = scale.scale;
      else if ((b_ | h_) == 0)
        scales[0] = scale.scale;
    }
    __syncthreads();
  }

  /// Formats that a row's codes are written in at once. note: write_vector() is for all, and a warp that goes
  /// there once waits for its code.
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
          write_vector(k_, offset + channel, r_.channels - lane_.first - channel, Eight(v + j * kChannels));
      }
    }
  }

  /// The scale of the head's only token, which follows others.
  __device__ quant::Scale floored(const quant::Scale& own) const {
    const std::int64_t unit = std::int64_t{b_} * r_.order.heads + h_;
    float* const at = floors_.largest + unit * floors_.capacity + floors_.before;
    const float largest = floors_.before > 0 ? at[-1] : 0.0f, floor = floor_after(floors_, largest);
    if (lane_.first == 0) *at = largest_with(floors_, largest, own.scale);
    return own.scale < floor ? raised(k_.making, floor) : own;
  }

  __device__ void encode(const float* factor) {
    for_rows(lane_, first_, end_, [&](int row) {
      const bool exists = row < end_;
      float v[kCount];
      const std::uint32_t peak = transformed<kVectors>(lane_, row, exists, factor, v);
      if (!exists) return;
      if (k_.scale_of == ScaleOf::token) {
        const float floor = has_groups(k_) ? rscales()[group_of(row) - first_group_] : 0.0f;
        quant::Scale scale = k_.making.of(float_of(peak), floor);
        if (floors_.largest) scale = floored(scale);
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
};

}  // namespace octet::cuda
