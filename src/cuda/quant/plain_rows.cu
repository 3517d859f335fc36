// amax and codes of 16-bit rows that are only multiplied, by what all tokens of a head share: powers of two
// of channels (equalisation), and scales of tensors, heads or their channels, of s8 and e4m3; f16 has none.
// All vectors of eight channels are then alike, and a thread has those of the same channels of many rows,
// several on their way at a time.
#include <bit>

#include "cuda/quant/launch.cuh"
#include "cuda/quant/plain_rows.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda {
namespace {

/// Vectors that a thread has on their way at a time, and turns of so many.
constexpr int kAtOnce = 4, kTurns = 2;

/// The rows of a block of threads: some tokens of one head.
struct PlainOrder {
  Divider chunks, units;  ///< of a head; heads of all batch entries
  int row_vectors_log2 = 0;
  GroupOrder order = GroupOrder::heads_outside;

  explicit PlainOrder(const RowReading& r)
      : units(r.x.shape[0] * r.x.shape[1]),
        row_vectors_log2(std::countr_zero(static_cast<unsigned>(r.channels / kChannels))),
        order(GroupWalk({}, r.x).order) {
    const std::int64_t rows = rows_at_once() * kAtOnce * kTurns;
    chunks = Divider((r.x.shape[2] + rows - 1) / rows);
  }
  OCTET_HD int row_vectors() const { return 1 << row_vectors_log2; }
  OCTET_HD int rows_at_once() const { return kThreads >> row_vectors_log2; }
  std::uint32_t blocks() const { return chunks.divisor * units.divisor; }
};

/// Of a thread: its channels, and its first row, which is `step` rows before the next.
struct PlainRows {
  std::int32_t b, h, first, step, tokens;
  int channel;

  __device__ PlainRows(const RowReading& r, const PlainOrder& o)
      : step(o.rows_at_once()),
        tokens(static_cast<std::int32_t>(r.x.shape[2])),
        channel((static_cast<int>(threadIdx.x) & (o.row_vectors() - 1)) * kChannels) {
    std::uint32_t unit, chunk;
    if (o.order == GroupOrder::heads_outside) {
      unit = o.chunks.quotient(blockIdx.x), chunk = blockIdx.x - unit * o.chunks.divisor;
    } else {
      chunk = o.units.quotient(blockIdx.x), unit = blockIdx.x - chunk * o.units.divisor;
    }
    b = static_cast<std::int32_t>(r.order.heads.quotient(unit));
    h = static_cast<std::int32_t>(unit) - b * static_cast<std::int32_t>(r.order.heads.divisor);
    first = static_cast<std::int32_t>(chunk) * step * kAtOnce * kTurns +
            (static_cast<std::int32_t>(threadIdx.x) >> o.row_vectors_log2);
  }
  __device__ std::int64_t slot(const RowReading& r, const Groups& groups) const {
    Place p;
    p.b = b, p.h = h, p.s = b;
    return groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), p);
  }

  /// What a channel is multiplied by before its scale, 1 or more; of rows that are equalised. note: as it is
  /// never so much that a number becomes infinite, each product is exact, and the largest that of the
  /// largest.
  __device__ float equaliser(const RowReading& r, int of) const {
    return power_of_two(
        -static_cast<const std::int32_t*>(r.exponent.data)[row_offset(r.exponent, b, h, 0) + of]);
  }

  /// body(row, vector) for the thread's rows, and zeros for those that do not exist; of the warp.
  template <class Body>
  __device__ void each(const RowReading& r, const Body& body) const {
    const auto* from = static_cast<const std::uint16_t*>(r.x.data) + row_offset(r.x, b, h, first) + channel;
    const std::int64_t far = step * r.x.stride[2];
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      const std::int32_t row = first + turn * kAtOnce * step;
      uint4 vector[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        vector[i] = row + i * step < tokens ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
        from += far;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) body(row + i * step, vector[i]);
    }
  }
};

constexpr std::uint32_t kSizes = 0x7fff7fff;  ///< of two numbers
__device__ std::uint32_t infinities_of(DType dtype) { return dtype == DType::bf16 ? 0x7f807f80 : 0x7c007c00; }

/// Sizes of two 16-bit numbers, which as integers are in their order; 0 for what is not finite.
__device__ std::uint32_t finite_sizes(std::uint32_t two, std::uint32_t infinities) {
  const std::uint32_t sizes = two & kSizes;
  return sizes & ~__vcmpgeu2(sizes, infinities);
}

/// Does with a row that has NaN or Inf what integers want, and says so; of the warp. vector: of rows of so
/// many lanes.
__device__ uint4 confined(const uint4& vector, std::uint32_t infinities, int lanes,
                          std::uint32_t* non_finite) {
  const std::uint32_t sizes = __vmaxu2(__vmaxu2(vector.x & kSizes, vector.y & kSizes),
                                       __vmaxu2(vector.z & kSizes, vector.w & kSizes));
  bool is_bad = __vcmpgeu2(sizes, infinities) != 0;
  if (!__any_sync(kAllLanes, is_bad)) return vector;
  for (int lane = 1; lane < lanes; lane *= 2) is_bad |= __shfl_xor_sync(kAllLanes, is_bad, lane) != 0;
  if (!is_bad) return vector;
  if (non_finite) *non_finite = 1;
  return {};
}

__device__ std::uint32_t f32_bits(std::uint32_t size, DType dtype) {
  return dtype == DType::bf16 ? size << 16 : bits_of(ptx::number_of_f16(size));
}

__global__ void __launch_bounds__(kThreads, 4)
    measure_plain(const __grid_constant__ MeasuredRows operand, const __grid_constant__ PlainOrder order) {
  constexpr int kMostChannels = 256;
  __shared__ std::uint32_t largest[kMostChannels];  // of channels, or the first one of all
  const RowReading& r = operand.rows;
  const GroupAmax& amax = operand.amax;
  const PlainRows rows(r, order);
  largest[threadIdx.x] = 0;
  __syncthreads();
  const Begun begun(r.begin);
  const std::uint32_t infinities = infinities_of(r.x.dtype);
  std::uint32_t most[4] = {};
  rows.each(r, [&](std::int32_t, uint4 vector) {
    if (r.confine == Confine::row) vector = confined(vector, infinities, order.row_vectors(), nullptr);
    most[0] = __vmaxu2(most[0], finite_sizes(vector.x, infinities));
    most[1] = __vmaxu2(most[1], finite_sizes(vector.y, infinities));
    most[2] = __vmaxu2(most[2], finite_sizes(vector.z, infinities));
    most[3] = __vmaxu2(most[3], finite_sizes(vector.w, infinities));
  });
  std::uint32_t* const to = amax.bits + rows.slot(r, amax.groups) * amax.channel_groups;
  const bool by_channel = amax.channel_groups > 1 || r.exponent.data;
  if (!by_channel) {
    const std::uint32_t two = __vmaxu2(__vmaxu2(most[0], most[1]), __vmaxu2(most[2], most[3]));
    const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, max(two & 0xffffu, two >> 16));
    if (threadIdx.x % kWarp == 0) atomicMax(&largest[0], of_warp);
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      atomicMax(&largest[rows.channel + i], most[i / 2] >> (i % 2 * 16) & 0xffffu);
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x), words = by_channel ? r.channels : 1;
  std::uint32_t bits = thread < words ? f32_bits(largest[thread], r.x.dtype) : 0;
  if (r.exponent.data && thread < words) bits = bits_of(float_of(bits) * rows.equaliser(r, thread));
  if (amax.channel_groups > 1) {
    if (bits > 0) atomicMax(to + thread, bits);
  } else {
    bits = __reduce_max_sync(kAllLanes, bits);
    if (thread % kWarp == 0 && bits > 0) atomicMax(to, bits);
  }
}

template <DType kFormat>
__global__ void __launch_bounds__(kThreads, 4)
    encode_plain(const __grid_constant__ RowReading r, const __grid_constant__ Coding k,
                 const __grid_constant__ PlainOrder order) {
  static_assert(kFormat == DType::f16 || kFormat == DType::e4m3 || kFormat == DType::s8);
  const PlainRows rows(r, order);
  const Begun begun(r.begin);
  float rscale[kChannels];
  if constexpr (kFormat != DType::f16) {
    const float* of = k.rscale + rows.slot(r, k.groups) * k.channel_groups;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) rscale[i] = of[k.channel_groups == 1 ? 0 : rows.channel + i];
  }
  const bool is_equalised = r.exponent.data;
  float equaliser[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i)
    equaliser[i] = is_equalised ? rows.equaliser(r, rows.channel + i) : 1.0f;
  rows.each(r, [&](std::int32_t row, uint4 vector) {
    if constexpr (kFormat == DType::s8)
      vector = confined(vector, infinities_of(r.x.dtype), order.row_vectors(), k.non_finite);
    if (row >= rows.tokens) return;
    float v[kChannels];
    to_floats(RawRow<std::uint16_t, 1>{{{{vector}}}}, r.x.dtype, v);
    if (is_equalised) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) v[i] = v[i] * equaliser[i];
    }
    const std::int64_t to = row_offset(k.codes, rows.b, rows.h, row) + rows.channel;
    if constexpr (kFormat == DType::f16) {
      *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(k.codes.data) + to) = f16_codes_in_words(v);
    } else {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        if (kFormat == DType::e4m3 && !is_finite(v[i])) v[i] = float_of(kF32QuietNan);
        v[i] = v[i] * rscale[i];
      }
      uint2 words;
      if constexpr (kFormat == DType::e4m3)
        words = e4m3_codes_in_words(v);
      else
        words = k.clamps ? clamped_codes_in_words(v) : codes_in_words(v);
      *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(k.codes.data) + to) = words;
    }
  });
}

bool is_plain(const RowReading& r) {
  const bool is_16_bit = r.x.dtype == DType::bf16 || r.x.dtype == DType::f16;
  const bool has_width = r.channels >= kChannels && r.channels <= kWarp * kChannels &&
                         std::has_single_bit(static_cast<unsigned>(r.channels));
  return is_16_bit && r.in_vectors && has_width && r.channels == r.dim && !r.shift.data && r.hadamard == 0 &&
         !r.order.sequences.cu_seqlens;
}
bool are_of_heads(const Groups& groups) { return groups.is_one || groups.tokens == 0; }

}  // namespace

bool takes_plain(const MeasuredRows& operand) {
  return is_plain(operand.rows) && are_of_heads(operand.amax.groups);
}
void launch_measure_plain(const MeasuredRows& operand, void* stream) {
  const PlainOrder order(operand.rows);
  runtime::launch(measure_plain, order.blocks(), kThreads, 0, stream, operand, order);
}

bool takes_plain(const RowReading& rows, const Coding& k) {
  if (!is_plain(rows) || !k.in_vectors || k.tile != Tile::none) return false;
  if (k.codes.dtype == DType::f16) return k.scale_of == ScaleOf::nothing;
  const bool is_byte = k.codes.dtype == DType::e4m3 || k.codes.dtype == DType::s8;
  return is_byte && k.scale_of == ScaleOf::group && are_of_heads(k.groups);
}
void launch_encode_plain(const RowReading& rows, const Coding& coding, void* stream) {
  const PlainOrder order(rows);
  auto* kernel = encode_plain<DType::s8>;
  if (coding.codes.dtype == DType::f16) kernel = encode_plain<DType::f16>;
  if (coding.codes.dtype == DType::e4m3) kernel = encode_plain<DType::e4m3>;
  runtime::launch(kernel, order.blocks(), kThreads, 0, stream, rows, coding, order);
}

}  // namespace octet::cuda
