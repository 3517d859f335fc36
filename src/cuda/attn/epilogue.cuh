// The ends of rows: outputs in the caller's format, their scales, the LSE.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_parts.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/ptx/store.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// From numbers to a format of outputs: one, and those of a word.
struct F32Format {
  using Number = float;
  static constexpr int kOfWord = 1;
  static __device__ __forceinline__ Number number(float x) { return x; }
  static __device__ __forceinline__ std::uint32_t word(const float* x) { return __float_as_uint(*x); }
};
struct F16Format {
  using Number = std::uint16_t;
  static constexpr int kOfWord = 2;
  static __device__ __forceinline__ Number number(float x) { return f16_from_f32(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) {
    std::uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[1]), "f"(x[0]));
    return pair;
  }
};
struct Bf16Format {
  using Number = std::uint16_t;
  static constexpr int kOfWord = 2;
  static __device__ __forceinline__ Number number(float x) { return bf16_from_f32(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[1]), "f"(x[0]));
    return pair;
  }
};
/// Codes, which are numbers of s8.
struct S8Format {
  using Number = std::int8_t;
  static constexpr int kOfWord = 4;
  static __device__ __forceinline__ Number number(float x) { return static_cast<std::int8_t>(x); }
  static __device__ __forceinline__ std::uint32_t word(const float* x) {
    std::uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bytes |= std::uint32_t{static_cast<std::uint8_t>(number(x[i]))} << (8 * i);
    return bytes;
  }
};

/// A row on its way out, in the caller's format or in numbers that get it when they leave. Eight numbers more
/// than it has, so that the lanes of a fragment write to different banks.
template <int kDim, class Format = F32Format>
struct alignas(16) StagedRow {
  using Number = typename Format::Number;
  Number number[kDim + 8];
  /// Those of channels `even` and the next.
  __device__ __forceinline__ void put(int even, float first, float second) {
    const float pair[2] = {first, second};
    if constexpr (Format::kOfWord == 1)
      *reinterpret_cast<float2*>(number + even) = {first, second};
    else
      *reinterpret_cast<std::uint32_t*>(number + even) = Format::word(pair);
  }
};

/// RowStore::rows()'s kTogether. Four words hide each other's way from shared memory; of `integer`'s codes
/// they gained nothing. (docs/cuda-measurements.md)
template <class S>
inline constexpr int kWordsTogether = S::kOutput == Output::values ? 4 : 1;

/// Where the rows of one head of one sequence lie: those of tokens, or of a range's joined heads.
class RowStore {
 public:
  __device__ RowStore(const Call& call, const Sequence& sequence, std::int32_t head)
      : call_(call), batch_(sequence.batch), head_(head), begin_(sequence.begin) {}

  /// kRows rows of a warp from shared memory, number `first` and on; rows from `count` on are nobody's. A
  /// lane asks for kTogether of its words before it waits for the first.
  template <int kRows, int kTogether, int kDim>
  __device__ __forceinline__ void rows(const StagedRow<kDim>* staged, std::int32_t first, std::int32_t count,
                                       std::int32_t dim_v) const {
    // note: not by visit_format(), with which nvcc 13 makes other code where it is asked for lines
    // (integer_only).
    switch (call_.o.dtype) {
      case DType::f16:
        return rows_in<F16Format, kRows, kTogether>(staged, first, count, dim_v);
      case DType::bf16:
        return rows_in<Bf16Format, kRows, kTogether>(staged, first, count, dim_v);
      case DType::s8:
        return rows_in<S8Format, kRows, kTogether>(staged, first, count, dim_v);
      default:
        return rows_in<F32Format, kRows, kTogether>(staged, first, count, dim_v);
    }
  }
  /// The same of rows that are in the caller's format.
  template <int kRows, int kTogether, class Format, int kDim>
  __device__ __forceinline__ void formatted_rows(const StagedRow<kDim, Format>* staged, std::int32_t first,
                                                 std::int32_t count, std::int32_t dim_v) const {
    rows_in<Format, kRows, kTogether>(staged, first, count, dim_v);
  }
  /// body(format) of outputs that are no codes.
  template <class Body>
  __device__ __forceinline__ void visit_format(const Body& body) const {
    switch (call_.o.dtype) {
      case DType::f16:
        return body(F16Format{});
      case DType::bf16:
        return body(Bf16Format{});
      default:
        return body(F32Format{});
    }
  }
  /// What a code is multiplied by on its way out: s8 keeps code and scale apart.
  __device__ float code_factor(float scale) const { return call_.o.dtype == DType::s8 ? 1.0f : scale; }
  __device__ void scale(std::int32_t row_number, float scale) const {
    if (call_.wants_o_scale) row(call_.o_scale, row_number, scale);
  }
  __device__ bool wants_lse() const { return call_.wants_lse; }
  __device__ bool wants_ends() const { return call_.wants_lse || call_.wants_o_scale; }
  /// lse: of the smoothed K; what smoothing took away comes back here.
  __device__ void lse(std::int32_t row_number, float lse) const {
    double shift = 0;
    if (call_.q_anchor.data)
      shift = static_cast<const float*>(call_.q_anchor.data)[offset(call_.q_anchor, row_number)];
    row(call_.lse, row_number, static_cast<float>(lse + shift));
  }
  /// Of a row that saw no key.
  __device__ void empty_lse(std::int32_t row_number) const { row(call_.lse, row_number, kMinusInfinity); }

 private:
  __device__ std::int64_t offset(const DeviceTensor& x, std::int32_t row_number) const {
    return x.along(0, batch_) + x.along(1, head_) + x.along(2, begin_ + row_number);
  }
  /// In words of 16 bytes where rows are made of these, else one number at a time.
  template <class Format, int kRows, int kWords, int kDim, class Staged>
  __device__ __forceinline__ void rows_in(const StagedRow<kDim, Staged>* staged, std::int32_t first,
                                          std::int32_t count, std::int32_t dim_v) const {
    using Number = typename Format::Number;
    constexpr int kNumbers = 16 / sizeof(Number);
    constexpr int kChunks = kDim / kNumbers, kLanes = kChunks < 32 ? kChunks : 32;  // of a row
    const int lane = static_cast<int>(threadIdx.x % 32);
    auto* to = static_cast<Number*>(call_.o.data) + offset(call_.o, first);
    if (call_.o_in_chunks) [[likely]] {
      constexpr int kRowsATurn = 32 / kLanes, kTurns = kRows / kRowsATurn, kOfRow = kChunks / kLanes;
      constexpr int kTogether = std::min(kTurns, std::max(kWords / kOfRow, 1));
      static_assert(kTurns > 0 && kTurns % kTogether == 0, "all rows have their turn");
#pragma unroll(kTogether > 1 ? 1 : 4)
      for (int turn = 0; turn < kRows; turn += kTogether * kRowsATurn) {
        const int r = turn + lane / kLanes, channel = lane % kLanes * kNumbers;
        uint4 words[kTogether][kOfRow];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
#pragma unroll
          for (int c = 0; c < kOfRow; ++c)
            words[i][c] = chunk<Format>(staged[r + i * kRowsATurn].number + channel + c * kLanes * kNumbers);
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
#pragma unroll
          for (int c = 0; c < kOfRow; ++c) {
            const int row = r + i * kRowsATurn, of_chunk = channel + c * kLanes * kNumbers;
            if (first + row < count && of_chunk < dim_v)
              ptx::store_16_bytes(to + row * call_.o.stride[2] + of_chunk, words[i][c]);
          }
      }
      return;
    }
#pragma unroll 1
    for (int r = 0; r < kRows && first + r < count; ++r) {
#pragma unroll 1
      for (std::int32_t c = lane; c < dim_v; c += 32)
        to[r * call_.o.stride[2] + c * call_.o.stride[3]] = number<Format>(staged[r].number[c]);
    }
  }
  template <class Format>
  static __device__ __forceinline__ typename Format::Number number(typename Format::Number x) {
    return x;
  }
  template <class Format>
  requires(!std::is_same_v<Format, F32Format>) static __device__ __forceinline__ typename Format::Number
      number(float x) {
    return Format::number(x);
  }
  template <class Format>
  static __device__ __forceinline__ uint4 chunk(const typename Format::Number* numbers) {
    return *reinterpret_cast<const uint4*>(numbers);
  }
  template <class Format>
  requires(!std::is_same_v<Format, F32Format>) static __device__ __forceinline__ uint4
      chunk(const float* numbers) {
    uint4 words;
    words.x = Format::word(numbers), words.y = Format::word(numbers + Format::kOfWord);
    words.z = Format::word(numbers + 2 * Format::kOfWord),
    words.w = Format::word(numbers + 3 * Format::kOfWord);
    return words;
  }
  __device__ void row(const DeviceTensor& x, std::int32_t row_number, float v) const {
    static_cast<float*>(x.data)[offset(x, row_number)] = v;
  }

  const Call& call_;
  std::int32_t batch_, head_, begin_;
};

/// Where V's scale of a channel is, if it was not folded into P or into the block's sums, and its exponent;
/// null: the scale is 1, the exponent 0.
struct EndScalesAt {
  const float* scale = nullptr;
  const std::int32_t* exponent = nullptr;

  __device__ __forceinline__ EndScalesAt() {}
  __device__ __forceinline__ EndScalesAt(const HeadOperand& v, std::int32_t channel) {
    if (v.has_scales() && !v.scales_vary_by_token()) scale = tile::kept(v.scale_at(0, channel));
    if (v.has_exponents()) exponent = tile::kept(v.exponent_at(channel));
  }
  __device__ __forceinline__ ChannelScales<DeviceLane> read() const {
    return {scale ? *scale : 1.0f, exponent ? *exponent : 0};
  }
};

__device__ __forceinline__ ChannelScales<DeviceLane> end_scales(const HeadOperand& v, std::int32_t channel) {
  return EndScalesAt(v, channel).read();
}

/// What the ends of a lane's rows have in common.
template <class S>
struct Ends {
  __device__ float scale(const S& scheme) const {
    if constexpr (S::kOutput == Output::one_scale)
      return scheme.output_scale();
    else
      return 0;
  }
};
/// Of the lane's own row where rows have scales of their own.
template <class S>
requires(S::kOutput == Output::row_scale) struct Ends<S> {
  float own_scale;
  __device__ float scale(const S&) const { return own_scale; }
};

/// Rows that end in codes with a scale of their own, sixteen of a warp.
template <LongRows S, int kTiles, int kDim>
class ScaledRows {
 public:
  __device__ __forceinline__ ScaledRows(const S& scheme, Outputs<S, kTiles>& outputs,
                                        const LaneRow<S> (&rows)[kRowsALane],
                                        const typename S::Channel* channels, const RowStore& store,
                                        StagedRow<kDim>* staged)
      : scheme_(scheme),
        outputs_(outputs),
        rows_(rows),
        own_(rows[0].own),
        channels_(channels),
        store_(store),
        staged_(staged) {
    std::int32_t seen[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) seen[r] = rows[r].blocks_seen;
    saw_ = of_own_row(seen) > 0;
  }

  /// The scale of the lane's own row.
  __device__ __forceinline__ float end() {
    const bool closes = __any_sync(tile::kAllLanes, !own_.window.alone());
    if (closes) [[unlikely]]
      outputs_.close(rows_);
    float scale = 0;
    if (end_quickly(closes, scale)) [[likely]]
      return scale;
    if (!closes) outputs_.close(rows_);
    return end_exactly();
  }

 private:
  using Quick = typename S::QuickEnds;

  /// body(tile, row, the row's two sums, their channels' constants), in a loop that is not unrolled: code
  /// that runs once takes longer to fetch than to run.
  template <class Body>
  __device__ __forceinline__ void each_pair(const Body& body) {
#pragma unroll 1
    for (int i = 0; i < kTiles; ++i) {
      typename S::Channel channel[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) channel[c] = channels_[i * 8 + column() + c];
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) body(i, r, outputs_.sums(i, r), channel);
    }
  }

  /// Whether 31 bits of all of the warp's outputs decided their codes.
  __device__ __forceinline__ bool end_quickly(bool closed, float& own_scale) {
    const bool in_window = !closed && S::Window::is_lower(own_.window.contents());
    const auto sums_of = in_window ? S::SumsOf::window : S::SumsOf::total;
    std::int32_t largest_exponent = Quick::exponent(channels_[column()]);
    std::uint32_t sizes[kRowsALane] = {}, peak[kRowsALane] = {};
    each_pair([&](int, int r, const auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (r == 0) largest_exponent = max(largest_exponent, Quick::exponent(channel[c]));
        sizes[r] |= Quick::size(sums.of[c]);
      }
    });
    largest_exponent = tile::over_quad(largest_exponent, tile::Larger{});
    const std::uint32_t own_down =
        Quick::down(over_quad_of_own(sizes, [](std::uint32_t a, std::uint32_t b) { return a | b; }));
    std::uint32_t down[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) down[r] = from_row(own_down, r);
    each_pair([&](int, int r, auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::int32_t output =
            Quick::output(sums.of[c], down[r], Quick::factor(channel[c], largest_exponent));
        peak[r] = max(peak[r], static_cast<std::uint32_t>(abs(output)));
      }
    });
    const std::uint32_t own_peak = over_quad_of_own(peak, tile::Larger{});
    typename Quick::Row own{};  // of a row that saw nothing: all its codes are 0
    own.sure = true;
    if (saw_) own = scheme_.quick_row(own_peak, own_.state, own_down, largest_exponent, sums_of);
    if (!__all_sync(tile::kAllLanes, own.sure)) return false;
    own_scale = saw_ ? S::output_scale(own.scale_exponent) : 0;
    typename Quick::Row of[kRowsALane];
    float factor[kRowsALane];
    std::uint32_t least[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      of[r] = own.passed([&](const auto& word) { return from_row(word, r); });
      factor[r] = from_row(store_.code_factor(own_scale), r);
      least[r] = 2 * of[r].margin;
    }
    each_pair([&](int i, int r, const auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::int32_t output =
            Quick::output(sums.of[c], down[r], Quick::factor(channel[c], largest_exponent));
        const auto code = Quick::code(output, of[r]);
        least[r] = min(least[r], code.above);
        put(i, r, c, code.code, factor[r]);
      }
    });
    bool decided = true;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) decided = decided && least[r] >= 2 * of[r].margin;
    return __all_sync(tile::kAllLanes, decided);
  }

  /// Outputs before their scale take the place of their sums, and the row's largest comes from all of them.
  __device__ __forceinline__ float end_exactly() {
    constexpr std::uint32_t kSign = 1u << 31;  // of a mantissa, which has 31 bits
    typename S::Wide peak[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) peak[r] = scheme_.finish(0, channels_[column()]);
    each_pair([&](int, int r, auto& sums, const auto& channel) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const typename S::Wide wide = scheme_.finish(sums.of[c], channel[c]);
        peak[r] = scheme_.larger(peak[r], wide);
        const std::uint32_t word = as_unsigned(wide.mantissa) | (as_unsigned(wide.sign) & kSign);
        sums.of[c] = static_cast<std::int64_t>(std::uint64_t{as_unsigned(wide.exponent)} << 32 | word);
      }
    });
    const auto largest =
        over_quad_of_own(peak, [&](const auto& a, const auto& b) { return scheme_.larger(a, b); });
    typename S::Ending own{};
    if (saw_) own = scheme_.ending(own_.state, own_.row, largest);
    const float own_scale = scheme_.output_scale(own);
    typename S::Ending of[kRowsALane];
    float factor[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      of[r] = own.passed([&](const auto& word) { return from_row(word, r); });
      factor[r] = from_row(store_.code_factor(own_scale), r);
    }
    each_pair([&](int i, int r, const auto& sums, const auto&) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const auto sum = static_cast<std::uint64_t>(sums.of[c]);
        const auto word = static_cast<std::uint32_t>(sum);
        const typename S::Wide wide{as_signed(word & ~kSign),
                                    as_signed(static_cast<std::uint32_t>(sum >> 32)), as_signed(word) >> 31};
        put(i, r, c, scheme_.output_code(wide, of[r]), factor[r]);
      }
    });
    return own_scale;
  }

  __device__ __forceinline__ void put(int tile, int r, int c, std::int32_t code, float factor) const {
    staged_[static_cast<int>(threadIdx.x % 32) / 4 + 8 * r].number[tile * 8 + column() + c] =
        static_cast<float>(code) * factor;
  }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  const S& scheme_;
  Outputs<S, kTiles>& outputs_;
  const LaneRow<S> (&rows_)[kRowsALane];
  const OwnRow<S>& own_;
  const typename S::Channel* channels_;
  const RowStore& store_;
  StagedRow<kDim>* staged_;
  bool saw_;
};

/// An output as a number or a code, 0 of rows that saw no key.
template <class S>
__device__ __forceinline__ float end_of(const S& scheme, typename S::Out out, const LaneRow<S>& row,
                                        const typename S::Channel& channel, const RowStore& store) {
  float number = static_cast<float>(scheme.finish(out, row.state, row.row, channel));
  if constexpr (S::kOutput == Output::one_scale) number *= store.code_factor(scheme.output_scale());
  return row.saw() ? number : 0;
}

/// Constants of a lane's channels of kTiles tiles, read before any output is written, which might lie in
/// their place for all that the compiler knows.
template <class S, int kTiles>
struct LaneChannels {
  typename S::Channel of[kTiles][2];
  __device__ __forceinline__ LaneChannels(const typename S::Channel* channels, int first_tile) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int c = 0; c < 2; ++c) of[i][c] = channels[channel(first_tile + i) + c];
  }
  static __device__ __forceinline__ int channel(int tile) {
    return tile * 8 + static_cast<int>(threadIdx.x % 4) * 2;
  }
};

/// Outputs of the lane's rows, of kTiles tiles of channels from first_tile on. channels: constants of all
/// channels, those beyond V's too, whose sums are zeros.
template <class S, class RowOutputs, int kTiles>
__device__ __forceinline__ void ends_of(const S& scheme, const RowOutputs& outputs,
                                        const LaneRow<S> (&rows)[kRowsALane],
                                        const typename S::Channel* channels, const RowStore& store,
                                        int first_tile, float (&ends)[kTiles][4]) {
  const LaneChannels<S, kTiles> own(channels, first_tile);
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      ends[i][e] = end_of(scheme, outputs.at(first_tile + i, e), rows[e >> 1], own.of[i][e & 1], store);
}
/// What ends_of() made into `staged`, sixteen rows of the warp.
template <int kTiles, int kDim, class Format>
__device__ __forceinline__ void put_ends(const float (&ends)[kTiles][4], int first_tile,
                                         StagedRow<kDim, Format>* staged) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      staged[lane / 4 + 8 * r].put((first_tile + i) * 8 + lane % 4 * 2, ends[i][2 * r], ends[i][2 * r + 1]);
}

/// Outputs of the lane's rows into `staged`, as numbers or as codes.
template <class S, class RowOutputs, int kDim>
__device__ __forceinline__ Ends<S> end_rows(const S& scheme, RowOutputs& outputs,
                                            const LaneRow<S> (&rows)[kRowsALane],
                                            const typename S::Channel* channels, const RowStore& store,
                                            StagedRow<kDim>* staged) {
  constexpr int kTiles = kDim / 8, kSome = kTiles < 8 ? kTiles : 8;
  if constexpr (S::kOutput == Output::row_scale) {
    return {ScaledRows<S, kTiles, kDim>(scheme, outputs, rows, channels, store, staged).end()};
  } else {
#pragma unroll
    for (int first = 0; first < kTiles; first += kSome) {
      float ends[kSome][4];
      ends_of(scheme, outputs, rows, channels, store, first, ends);
      put_ends(ends, first, staged);
    }
    return {};
  }
}

/// Which keys the warp has had that ends a row: those before the other one's.
enum class Own : std::int32_t { before, after };

/// Outputs of the lane's first row, whose keys were cut in two parts, into `staged`, eight rows of the warp.
/// A part that saw no key has the sums 0 and a maximum below all others, so that it adds nothing to one that
/// did.
template <Own kOwn, class S, int kTiles, int kDim>
__device__ __forceinline__ void end_part(const S& scheme, const Outputs<S, kTiles>& outputs,
                                         const PartOfRows<S, kTiles>& other, LaneRow<S>& row,
                                         const typename S::Channel* channels, const RowStore& store,
                                         StagedRow<kDim>* staged) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const LaneChannels<S, kTiles> own_channels(channels, 0);
  typename PartOfRows<S, kTiles>::Four outs[kTiles / 2];
#pragma unroll
  for (int i = 0; i < kTiles / 2; ++i) outs[i] = other.out[i][lane];
  const StateOfRow<S> own{row.state, row.blocks_seen}, of_other = other.row[lane / 4];
  const StateOfRow<S>&before = kOwn == Own::before ? own : of_other,
        &after = kOwn == Own::before ? of_other : own;
  row.state = S::Merge::merge(before.state, after.state);
  row.blocks_seen = own.blocks_seen + of_other.blocks_seen;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const auto end = [&](int c) {
      const auto x = outputs.at(i, c), y = outs[i / 2].of[i % 2 * 2 + c];
      auto both = kOwn == Own::before ? x : y;
      S::Merge::merge_out(both, before.state, kOwn == Own::before ? y : x, after.state);
      return end_of(scheme, both, row, own_channels.of[i][c], store);
    };
    staged[lane / 4].put(own_channels.channel(i), end(0), end(1));
  }
}

/// The LSE, and of codes the scales, of the first kRows of a lane's rows. first, flipped: the warp's first
/// row (row_of_lane()), of `count` in the sequence.
template <int kRows, class S>
__device__ __forceinline__ void store_ends(const S& scheme, const LaneRow<S> (&rows)[kRowsALane],
                                           const Ends<S>& ends, const RowStore& store, std::int32_t first,
                                           int flipped, std::int32_t count) {
  if (!store.wants_ends()) return;
  const auto store_end = [&](std::int32_t number, const LaneRow<S>& row, const auto& of_row) {
    if (number >= count) return;
    if (store.wants_lse()) {
      if (row.saw())
        store.lse(number, scheme.lse(of_row.state, of_row.row));
      else
        store.empty_lse(number);
    }
    store.scale(number, row.saw() ? ends.scale(scheme) : 0);
  };
  const int of_quad = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t number = first + row_of_lane(r, flipped);
    if constexpr (LongRows<S>) {
      if (of_quad == r) store_end(number, rows[r], rows[0].own);
    } else {
      if (of_quad == 0) store_end(number, rows[r], rows[r]);
    }
  }
}

}  // namespace octet::cuda::attn
