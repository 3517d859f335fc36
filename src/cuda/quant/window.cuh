// A window: a sequence of up to 64 tokens of 32 channels, of which a warp makes codes by itself. A lane has
// a channel while it finds what rows have in common, then a row at a time. The steps are those of sums.cu,
// exponents.cu and encode.cu, with the same bits.
#pragma once
#include <concepts>
#include <cstdint>
#include <utility>

#include "cuda/ptx/grid.cuh"
#include "cuda/quant/leaf_sums.cuh"
#include "cuda/quant/row_space.cuh"
#include "cuda/quant/short_sequences.cuh"
#include "quant/channel_exponent.h"
#include "quant/mean.h"

namespace octet::cuda {

using WindowShape = SegmentShape<kWarp>;
inline constexpr int kMostWindowTokens = 2 * kWarp;

/// Two rows a line of 128 bytes (code_place()).
struct WindowLines {
  static constexpr std::uint32_t kRowBytes = WindowShape::kDim * sizeof(std::uint16_t);
  static constexpr int kPeriod = 8;
  __device__ static std::uint32_t place(std::uint32_t of_first, std::uint32_t row) {
    return (of_first ^ row / 2 % 4 * 16) + row * kRowBytes;
  }
};

/// What the rotation multiplies channels by: +-norm. note: constants of the kernel, which cost a product no
/// more than the norm alone would.
struct WindowFactors {
  float of[WindowShape::kDim] = {};

  WindowFactors() = default;
  explicit WindowFactors(const RowReading& rows) {
    for (int c = 0; c < WindowShape::kDim; ++c) of[c] = rows.factor(c);
  }
};

/// What scales a call's operands have.
enum class WindowScales : std::int32_t {
  of_tokens,
  of_values_too,   ///< of V's windows or their channels
  of_windows_too,  ///< of K's windows besides
};

/// Shared memory of a warp.
template <WindowScales kScales>
struct alignas(128) WindowSpace {
  static constexpr int kRowsALine = kScales == WindowScales::of_windows_too ? 1 : 2;
  uint4 lines[kMostWindowTokens / kRowsALine][8];  ///< of rows in 16 bits two each, of their numbers one
  float4 words[WindowShape::kDim / 4];             ///< what channels are shifted or multiplied by
  float4 rscales[WindowShape::kDim / 4];           ///< where all of the window have the same; or the floor of
                                                   ///< tokens' scales, in each
};

/// Numbers of a row. note: no array by itself, with which the compiler, where it has others of as many
/// floats, may share the place of one that lies in local memory.
struct WindowRow {
  float of[WindowShape::kDim];
};

/// Where what a window becomes goes. All of its members are asked for by the warp, a lane for its own.
template <class Out>
concept WindowOut = requires(const Out out, float (&v)[WindowShape::kDim], float x, std::int32_t e, int row,
                             bool by_channel, std::uint32_t lines) {
  { Out::lane() } -> std::same_as<int>;  // of the warp
  out.mean(x);                           // of the lane's channel
  out.exponent(e);                       // the same
  out.scale_of_window(x, by_channel);
  // Of the rows from number `row` on, a lane a row; codes by way of the rows' own lines, of which nobody
  // reads these any more.
  out.scale_of_row(row, x);
  out.codes(v, x, row, lines);
};

/// The window of head h of batch entry b, [tokens, 32] in 16 bits, on its way to s8 codes and their scales,
/// one a row (ScaleOf::token), else one, or one a channel.
template <WindowScales kScales, WindowOut Out>
class Window {
  static constexpr int kDim = WindowShape::kDim, kPieces = kDim / kChannels;

 public:
  __device__ Window(const ShortOperand& x, const WindowFactors& factors, std::int32_t b, std::int32_t h,
                    WindowSpace<kScales>& space, const Out& out)
      : r_(x.rows),
        k_(x.coding),
        factors_(factors),
        space_(space),
        out_(out),
        b_(b),
        h_(h),
        tokens_(static_cast<int>(x.rows.x.shape[2])) {}

  /// From rows to codes; of a warp that has all of the window.
  __device__ void run() {
    stage(0, tokens_);
    find_common();
    if (is_scaled_late()) find_scale();
#pragma unroll 1
    for (int first = 0; first < tokens_; first += kWarp) {
      if (is_scaled_late())
        encode_kept(first);
      else
        encode(first);
    }
  }

  // --- The steps of warps that share a window's shared memory: all see what a step before left there

  /// Rows begin ... end - 1 on their way into the lines, and there.
  __device__ void stage(int begin, int end) const {
    constexpr int kRowsAtOnce = kWarp / kPieces;
    const int row = begin + lane() / kPieces, piece = lane() % kPieces;
    const auto* from =
        static_cast<const std::uint16_t*>(r_.x.data) + row_offset(r_.x, b_, h_, row) + piece * kChannels;
    const std::int64_t step = kRowsAtOnce * r_.x.stride[2];
    const std::uint32_t to = lines() + code_place(row, piece);
    ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
    // note: rows so far apart have their places in one order.
    const auto ask = [&]<int... i>(std::integer_sequence<int, i...>) {
      ((row + i * kRowsAtOnce < end ? ptx::copy_async_to<i * kRowsAtOnce * WindowLines::kRowBytes>(to, from)
                                    : void(),
        from += step),
       ...);
    };
    ask(std::make_integer_sequence<int, kMostWindowTokens / kRowsAtOnce>());
    ptx::commit_copies();
    ptx::wait_copies<0>();
    __syncwarp();
  }
  /// What rows have in common, but for scales that follow from all that is done to them; of one warp.
  __device__ void find_common() {
    if (r_.shift.data) find_mean();
    if (!is_mixed()) find_channels();
  }
  /// Whether all rows have a scale that follows from what they are shifted or rotated to.
  __device__ bool is_scaled_late() const {
    return kScales == WindowScales::of_windows_too && is_mixed() && has_scale();
  }

  /// Codes of rows first + lane, whose scales are their own, or have been found.
  __device__ void encode(int first) const {
    WindowRow row;
    auto& v = row.of;
    const std::uint32_t peak = take_numbers(first, v);
    const bool is_zeros = reports_bad(peak, first);
    float rscale = 1;
    if (has_scale()) {
      join_words(space_.rscales, v, [](float x, float by) { return x * by; });
    } else {
      const quant::Scale of_row =
          k_.making.of(float_of(is_zeros ? 0 : peak), has_floor() ? space_.rscales[0].x : 0);
      if (first + lane() < tokens_) out_.scale_of_row(first, of_row.scale);
      rscale = of_row.rscale;
    }
    if (is_zeros) rscale = 0;  // NaN is code 0, and times 0 all others are
    put_codes(first, v, rscale);
  }
  /// The same of rows that are scaled late, by two steps: numbers, of whose largest the lane's is returned as
  /// bits, and their codes by the scale of all rows' largest.
  __device__ std::uint32_t take_good_numbers(int first, float (&v)[kDim]) const {
    const std::uint32_t peak = take_numbers(first, v);
    if (!reports_bad(peak, first)) return peak;
#pragma unroll
    for (float& x : v) x = 0;
    return 0;
  }
  __device__ quant::Scale scale_of(float amax) const { return k_.making.of(amax, 0); }
  __device__ void put_codes(int first, const float (&v)[kDim], float rscale) const {
    out_.codes(v, rscale, first, lines() + first * WindowLines::kRowBytes);
  }

 private:
  static constexpr int kTokensAtOnce = 16;

  __device__ static int lane() { return Out::lane(); }
  __device__ std::uint32_t lines() const { return ptx::shared_address(space_.lines); }
  template <class Of>
  __device__ auto with_type(const Of& of) const {
    return r_.x.dtype == DType::f16 ? of.template operator()<DType::f16>()
                                    : of.template operator()<DType::bf16>();
  }
  /// Whether codes are of more than their channel.
  __device__ bool is_mixed() const { return r_.shift.data || r_.hadamard > 0; }
  /// Of rows' own scales, where nothing is mixed.
  __device__ bool has_floor() const { return k_.making.block_floor.octaves > 0; }
  /// Whether all rows have one scale, or one a channel.
  __device__ bool has_scale() const {
    return kScales != WindowScales::of_tokens && k_.scale_of == ScaleOf::group;
  }

  // --- What rows have in common; a lane has a channel

  __device__ Column<WindowLines> column() const {
    return {lines() + code_place(0, lane() / kChannels) + lane() % kChannels * 2, tokens_};
  }
  __device__ void put(float4* to, float word) const {
    reinterpret_cast<float*>(to)[lane()] = word;
    __syncwarp();
  }

  __device__ void find_mean() {
    const float factor = quant::mean_factor(tokens_);
    const float sum =
        with_type([&]<DType kType>() { return factored_sum<kType, kTokensAtOnce>(column(), factor); });
    const float mean = quant::mean_of_sum(sum, tokens_);
    out_.mean(mean);
    put(space_.words, mean);
  }

  __device__ void find_channels() {
    float factor = 1;
    if (r_.exponent.data || has_floor() || has_scale()) {
      SquareSum squares = r_.exponent.data ? squares_of() : largest_of();
      if (!__all_sync(kAllLanes, squares.is_good)) [[unlikely]]
        squares = add_squares_again();
      factor = equaliser(squares);
      // A larger number has no smaller product, so the largest product is that of the largest number.
      const float amax = squares.amax * factor;
      if (has_scale())
        put_scale(amax);
      else if (has_floor())
        put(space_.rscales, quant::scale_floor(k_.making.of(largest_of_channels(amax), 0).scale,
                                               k_.making.block_floor.octaves));
    }
    if (r_.exponent.data) put(space_.words, factor);
  }
  __device__ SquareSum squares_of() const {
    const SquaresOfChannel of =
        with_type([&]<DType kType>() { return square_sum<kType, kTokensAtOnce>(column()); });
    return scaled_squares(of.sum, of.range);
  }
  __device__ SquareSum largest_of() const {
    return largest_alone(
        with_type([&]<DType kType>() { return largest_range<kType, kTokensAtOnce>(column()); }));
  }
  /// amax: of the lane's channel, as all numbers at least 0.
  __device__ static float largest_of_channels(float amax) {
    return float_of(__reduce_max_sync(kAllLanes, bits_of(amax)));
  }
  /// What the lane's channel is multiplied by before its scale.
  __device__ float equaliser(const SquareSum& of) const {
    if (!r_.exponent.data) return 1;
    const std::int32_t order = order_of(of);
    const std::int32_t exponent =
        quant::channel_exponent(order, __reduce_max_sync(kAllLanes, order), of.amax);
    out_.exponent(exponent);
    return power_of_two(-exponent);
  }
  /// amax: of the lane's channel.
  __device__ void put_scale(float amax) {
    const bool by_channel = k_.channel_groups > 1;
    const quant::Scale scale = k_.making.of(by_channel ? amax : largest_of_channels(amax), 0);
    put(space_.rscales, scale.rscale);
    out_.scale_of_window(scale.scale, by_channel);
  }

  // --- Where squares as they are do not do, which is rare: two more passes, rows with NaN or Inf as zeros

  __device__ SquareSum add_squares_again() const {
    clear_bad_rows();
    SquareSum squares;
    std::uint32_t most = 0;
    for (int token = 0; token < tokens_; ++token) most = max(most, size_bits(number(token)));
    const float factor = quant::square_factor(float_of(most));
    float sum = -0.0f;  // -0 + x is x for every x
    for (int token = 0; token < tokens_; ++token) {
      const float y = number(token) * factor;
      sum = sum + y * y;
    }
    squares.sum = sum, squares.amax = float_of(most);
    return squares;
  }
  /// Of the lane's channel.
  __device__ float number(int token) const {
    const std::uint32_t code = ptx::load_shared_half(WindowLines::place(column().of_first, token));
    return with_type([&]<DType kType>() { return low_number<kType>(code); });
  }
  __device__ void clear_bad_rows() const {
    for (int first = 0; first < tokens_; first += kWarp) {
      WindowRow row;
      auto& v = row.of;
      take_rows(first, v);
      __syncwarp();
      if (largest_bits(v) < kInfBits || first + lane() >= tokens_) continue;
      if (k_.non_finite) *k_.non_finite = 1;
      for (int i = 0; i < kPieces; ++i)
        ptx::store_shared_16_bytes(lines() + code_place(first + lane(), i), {});
    }
    __syncwarp();
  }

  // --- Codes; a lane has a row

  __device__ void take_rows(int first, float (&v)[kDim]) const {
    const int row = min(first + lane(), tokens_ - 1);
    Raw<std::uint16_t> raw[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) raw[i].v[0] = ptx::load_shared_16_bytes(lines() + code_place(row, i));
    with_type([&]<DType kType>() {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) to_floats(raw[i], kType, v + i * kChannels);
    });
  }
  /// v[i] = join(v[i], the word of channel i).
  template <class Join>
  __device__ void join_words(const float4* words, float (&v)[kDim], const Join& join) const {
#pragma unroll
    for (int i = 0; i < kDim; i += 4) {
      const float4 of = words[i / 4];
      v[i] = join(v[i], of.x), v[i + 1] = join(v[i + 1], of.y);
      v[i + 2] = join(v[i + 2], of.z), v[i + 3] = join(v[i + 3], of.w);
    }
  }
  /// What becomes codes, of rows first + lane, and the largest of the lane's, with NaN and Inf; behind the
  /// last row those of the last.
  __device__ std::uint32_t take_numbers(int first, float (&v)[kDim]) const {
    take_rows(first, v);
    if (r_.shift.data) join_words(space_.words, v, [](float x, float shift) { return x - shift; });
    if (r_.exponent.data) join_words(space_.words, v, [](float x, float down) { return x * down; });
    if (r_.hadamard > 0) {
#pragma unroll
      for (int i = 0; i < kDim; ++i) v[i] = v[i] * factors_.of[i];
      rotate_segment<WindowShape>(v, 0);
    }
    return largest_bits(v);
  }

  /// The one scale of rows that are scaled late, whose numbers stay for their codes.
  __device__ void find_scale() {
    std::uint32_t most = 0;
    // The last rows first: the others' numbers lie where these were in 16 bits.
#pragma unroll 1
    for (int first = (tokens_ - 1) / kWarp * kWarp; first >= 0; first -= kWarp) {
      WindowRow row;
      most = max(most, take_good_numbers(first, row.of));
      __syncwarp();
      keep_numbers(first, row.of);
    }
    put_scale(float_of(__reduce_max_sync(kAllLanes, most)));
  }
  /// A lane's row is a line; lanes meet in no bank.
  __device__ std::uint32_t number_place(int first, int piece) const {
    return lines() + (first + lane()) * kDim * sizeof(float) + (piece ^ lane() % 8) * 16;
  }
  __device__ void keep_numbers(int first, const float (&v)[kDim]) const {
#pragma unroll
    for (int i = 0; i < kDim; i += 4)
      ptx::store_shared_16_bytes(number_place(first, i / 4),
                                 {bits_of(v[i]), bits_of(v[i + 1]), bits_of(v[i + 2]), bits_of(v[i + 3])});
  }
  __device__ void encode_kept(int first) const {
    WindowRow row;
    auto& v = row.of;
#pragma unroll
    for (int i = 0; i < kDim; i += 4) {
      const uint4 bits = ptx::load_shared_16_bytes(number_place(first, i / 4));
      v[i] = float_of(bits.x), v[i + 1] = float_of(bits.y);
      v[i + 2] = float_of(bits.z), v[i + 3] = float_of(bits.w);
    }
    join_words(space_.rscales, v, [](float x, float by) { return x * by; });
    put_codes(first, v, 1);
  }

  /// Whether the lane's row, of which take_numbers() has the peak, has NaN or Inf and becomes zeros, of which
  /// the call is told.
  __device__ bool reports_bad(std::uint32_t peak, int first) const {
    if (peak < kInfBits) return false;
    if (first + lane() < tokens_ && k_.non_finite) *k_.non_finite = 1;
    return true;
  }

  const RowReading& r_;
  const Coding& k_;
  const WindowFactors& factors_;
  WindowSpace<kScales>& space_;
  const Out out_;
  const std::int32_t b_, h_;
  const int tokens_;
};

}  // namespace octet::cuda
