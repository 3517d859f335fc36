// Floors of scales where tokens come one after the other: a token has at least 2^-octaves of the largest
// scale that its head has had before it, or a token of zeros would lose its softmax mass (quant/quantize.h
// has the floor of whole tensors, which a later token may raise).
#include "cuda/quant/token_floors.cuh"

#include "cuda/ptx/grid.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda {
namespace {

constexpr int kFloorWarps = kThreads / kWarp;

/// The number that becomes a code, of a row that has NaN or Inf or has not.
__device__ float confined_number(const RowReading& r, float x, bool row_is_bad) {
  if (r.confine == Confine::row && row_is_bad) return 0;
  return r.confine == Confine::infinity && !is_finite(x) ? float_of(kF32QuietNan) : x;
}

/// A token's codes anew, and its scale: by one thread, for few tokens are so small.
template <class Stored>
__device__ void encode_again(const TokenFloors& f, std::int32_t b, std::int32_t h, std::int32_t t,
                             float floor) {
  const RowReading& r = f.rows;
  const Coding& k = f.coding;
  const quant::Scale scale = raised(k.making, floor);
  const Stored* row = static_cast<const Stored*>(r.x.data) + row_offset(r.x, b, h, t);
  const std::int64_t codes = row_offset(k.codes, b, h, t);
  const auto numbers = [&](int channel, float(&v)[kChannels]) {
    to_floats(load_vector(r, row, channel), r.x.dtype, v);
  };
  float v[kChannels];
  bool is_bad = false;
  for (int c = 0; c < r.dim; c += kChannels) {
    numbers(c, v);
    is_bad |= largest_bits(v) >= kInfBits;
  }
  for (int c = 0; c < r.dim; c += kChannels) {
    numbers(c, v);
#pragma unroll
    for (float& x : v) x = confined_number(r, x, is_bad) * scale.rscale;
    write_vector(k, codes + c, r.dim - c, Eight(v));
  }
  static_cast<float*>(k.scales.data)[row_offset(k.scales, b, h, t)] = scale.scale;
}

/// A block of threads a head, a token a thread: the largest scale up to each is a scan over them.
template <class Stored>
__global__ __launch_bounds__(kThreads) void raise_small_scales(const __grid_constant__ TokenFloors f) {
  __shared__ float largest_of_warp[kFloorWarps];
  const auto unit = static_cast<std::int32_t>(blockIdx.x);
  const auto heads = static_cast<std::int32_t>(f.rows.x.shape[1]),
             tokens = static_cast<std::int32_t>(f.rows.x.shape[2]);
  const std::int32_t b = unit / f.rows.order.heads, h = unit - b * heads;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  float* const history = f.floors.largest + unit * f.floors.capacity + f.floors.before;
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  float before = f.floors.before > 0 ? history[-1] : 0.0f;
  for (std::int32_t begin = 0; begin < tokens; begin += kThreads) {
    const std::int32_t t = begin + thread;
    const bool exists = t < tokens;
    const float scale =
        exists ? static_cast<const float*>(f.coding.scales.data)[row_offset(f.coding.scales, b, h, t)] : 0.0f;
    float largest = largest_with(f.floors, 0, scale);
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const float earlier = __shfl_up_sync(kAllLanes, largest, distance);
      if (lane >= distance) largest = fmaxf(largest, earlier);
    }
    if (lane == kWarp - 1) largest_of_warp[warp] = largest;
    __syncthreads();
    float earlier = before;
#pragma unroll
    for (int w = 0; w < kFloorWarps; ++w) {
      if (w < warp) earlier = fmaxf(earlier, largest_of_warp[w]);
      before = fmaxf(before, largest_of_warp[w]);
    }
    const float of_lane_before = __shfl_up_sync(kAllLanes, largest, 1);
    const float reference = lane > 0 ? fmaxf(earlier, of_lane_before) : earlier;
    if (exists) {
      history[t] = fmaxf(earlier, largest);
      const float floor = floor_after(f.floors, reference);
      if (scale < floor) encode_again<Stored>(f, b, h, t, floor);
    }
    __syncthreads();  // all have read what the next turn writes
  }
}

}  // namespace

void launch_token_floors(const TokenFloors& floors, void* stream) {
  const std::int64_t units = floors.rows.x.shape[0] * floors.rows.x.shape[1];
  if (units == 0 || floors.rows.x.shape[2] == 0) return;
  runtime::launch(
      floors.rows.x.dtype == DType::f32 ? raise_small_scales<float> : raise_small_scales<std::uint16_t>,
      static_cast<unsigned>(units), kThreads, 0, stream, floors);
}

}  // namespace octet::cuda
