// The row kernels in lanes. A translation unit of an instruction set includes this and fills its table with
// RowsIn<its lane>; see lanes/vector.h for why the lane's tag keeps the units apart.
#include "quant/packed_rows.inl"
#include "quant/row_channels.inl"
#include "quant/row_codes.inl"
#include "quant/row_lanes.inl"
#include "quant/row_rotation.inl"
#include "quant/row_statistics.inl"

namespace octet::quant {
namespace {

/// L: the lane of one register.
template <class L>
struct RowsIn {
  using Rotation = RowRotation<L>;
  using Statistics = RowStatistics<L>;
  using Channels = RowChannels<L>;
  using Codes = RowCodes<L>;
  using Peak = quant::Peak<L>;
  using Peaks = quant::Peaks<L>;
  using PeaksTogether = quant::PeaksTogether<L>;

  /// to[r] = step(lane, x, c) of each number.
  template <class Source, class Step>
  static OCTET_HOST void convert_with(const Rows& x, const RowSpace& out, Peaks& peaks, const Step& step) {
    for (std::int64_t r = 0; r < x.count; ++r) {
      const auto* from = stored<Source>(x) + r * x.stride;
      float* to = out.data + r * out.stride;
      if (x.next)
        ask_for(static_cast<const typename Source::Stored*>(x.next) + r * x.stride, 0,
                x.channels * std::int64_t{sizeof *from});
      Peak peak;
      each<L>(x.channels, [&](auto lane, std::int64_t c) {
        using Lane = decltype(lane);
        const typename Lane::F32 v = step(lane, Source::template load<Lane>(from + c), c);
        Lane::store(to + c, v);
        peak.see(lane, v);
      });
      peaks.see(r, peak);
    }
  }

  /// (x - shift) * factor, where these are given.
  template <class Source>
  static void convert(const Rows& x, const RowSteps& steps, const RowSpace& out, Peaks& peaks) {
    const float *shift = steps.shift, *factor = steps.factor;
    if (shift)
      convert_with<Source>(x, out, peaks, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        v = Lane::sub(v, Lane::load(shift + c));
        return factor ? Lane::mul(v, Lane::load(factor + c)) : v;
      });
    else if (factor)
      convert_with<Source>(x, out, peaks, [=](auto lane, auto v, std::int64_t c) {
        using Lane = decltype(lane);
        return Lane::mul(v, Lane::load(factor + c));
      });
    else
      convert_with<Source>(x, out, peaks, [](auto, auto v, std::int64_t) { return v; });
  }

  template <class Source>
  static void floats_from(const Rows& x, const RowSpace& out) {
    const auto* from = stored<Source>(x);
    float* to = out.data;
    const bool is_one = x.stride == x.channels && out.stride == x.channels;  // row after row
    const std::int64_t count = is_one ? 1 : x.count, channels = is_one ? x.count * x.channels : x.channels;
    for (std::int64_t r = 0; r < count; ++r, from += x.stride, to += out.stride)
      each_column<L>(channels, [&](auto lane, auto vectors, std::int64_t begin) {
        using Lane = decltype(lane);
        for (int i = 0; i < decltype(vectors)::kVectors; ++i) {
          const std::int64_t c = begin + i * Lane::kWidth;
          Lane::store(to + c, Source::template load<Lane>(from + c));
        }
      });
  }
  static void floats(const Rows& x, const RowSpace& out) {
    from_any(x.dtype, [&](auto source) { floats_from<decltype(source)>(x, out); });
  }

  static void convert(const Rows& x, const RowSteps& steps, const RowSpace& out, Peaks& peaks) {
    from_any(x.dtype, [&](auto source) { convert<decltype(source)>(x, steps, out, peaks); });
  }

  /// Rows of fewer channels than the butterfly's become floats first, shifted and padded with zeros.
  static void read_rotated(const Rows& x, const RowSteps& steps, const RowSpace& out, PeaksTogether& peaks) {
    if (x.channels == out.channels)
      return from_any(x.dtype, [&](auto source) {
        Rotation::template rotate_from<decltype(source)>(x, steps.shift, steps, out, peaks);
      });
    Peaks none{nullptr};
    convert(x, {steps.shift, nullptr, 0}, out, none);
    for (std::int64_t r = 0; r < x.count; ++r)
      for (std::int64_t c = x.channels; c < out.channels; ++c) out.data[r * out.stride + c] = 0;
    Rotation::template rotate_from<FromF32>({out.data, DType::f32, out.stride, x.count, out.channels},
                                            nullptr, steps, out, peaks);
  }

  static std::uint32_t read(const Rows& x, const RowSteps& steps, const RowSpace& out,
                            std::uint32_t* largest) {
    if (steps.hadamard == 0) {
      Peaks peaks{largest};
      convert(x, steps, out, peaks);
      return peaks.all.bits();
    }
    return peaks_of_rows<L>(
        x.count, largest, [&](std::int64_t first, std::int64_t count, PeaksTogether& peaks) {
          Rows some = x;
          some.data = x.row(first), some.count = count;
          if (x.next)
            some.next = static_cast<const char*>(x.next) + first * x.stride * bytes_of_number(x.dtype);
          read_rotated(some, steps, {out.data + first * out.stride, out.stride, out.channels}, peaks);
        });
  }

  static constexpr RowKernels kTable{floats,
                                     read,
                                     Statistics::row_largest,
                                     Statistics::channel_largest,
                                     Statistics::add,
                                     Statistics::add_squares,
                                     Statistics::add_plain_squares,
                                     Channels::means,
                                     Channels::scale_squares,
                                     Channels::exponents,
                                     Codes::nearest_scales,
                                     Codes::sixteenth_scales,
                                     Codes::codes,
                                     Codes::codes_by_channel,
                                     PackedRows<L>::table(),
                                     RowsNarrowed<L>::run};
};

}  // namespace
}  // namespace octet::quant
