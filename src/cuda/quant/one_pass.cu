// Statistics and codes of long sequences from one reading of memory (prototype).
#include "cuda/quant/one_pass.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/row_space.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "cuda/runtime/launch.cuh"
#include "quant/channel_exponent.h"
#include "quant/codes.h"
#include "quant/smooth.h"
#include "quant/tree.h"

#ifndef OP_SLOTS
#define OP_SLOTS 6
#endif
#ifndef OP_PDL
#define OP_PDL 0
#endif
#ifndef OP_MEASURERS
#define OP_MEASURERS 2
#endif
#ifndef OP_STAGED
#define OP_STAGED 1
#endif
#ifndef OP_FLIGHT
#define OP_FLIGHT 3
#endif
#ifndef OP_NAP
#define OP_NAP 100
#endif
#ifndef OP_LOADERS
#define OP_LOADERS 1
#endif
#ifndef OP_CODERS
#define OP_CODERS 11
#endif

namespace octet::cuda {
namespace {

#ifdef OP_TRACE
__device__ unsigned long long g_trace[8][32][132];
__device__ inline unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
#define TRACE(e, n) do { if (RowSpace<Shape>::lane() == 0) g_trace[e][(n) % 32][blockIdx.x] = now(); } while (0)
#else
#define TRACE(e, n) do {} while (0)
#endif
constexpr int kLeaf = static_cast<int>(quant::TreeSum::kLeafTokens);
constexpr int kCoders = OP_CODERS, kMeasurers = OP_MEASURERS;
constexpr int kOnePassThreads = (kCoders + kMeasurers + 2 + OP_LOADERS) * kWarp;

enum class Work { multiplied, rotated, shifted_and_rotated };

template <class Shape>
struct Signs {
  uint4 flips[Shape::kDim / kChannels] = {};
};

/// A word that nobody has written yet: as a float a NaN, which no sum is.
constexpr std::uint32_t kAbsent = 0x7fffffffu;
constexpr std::uint32_t kBad = 0x7ffffffeu;
constexpr std::int32_t kNone = INT32_MIN;
constexpr std::uint32_t kZeros = kInfBits >> kF32MantissaBits;

__device__ uint4 look(const std::uint32_t* at) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ std::uint32_t look_at_word(const std::uint32_t* at) {
  std::uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ void tell(std::uint32_t* at, std::uint32_t a, std::uint32_t b) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(a), "r"(b) : "memory");
}
__device__ void tell(std::uint32_t* at, std::uint32_t a) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(a) : "memory");
}

struct Leaves {
  Divider of_unit;
  std::uint32_t count = 0, units = 0;
  std::int32_t tokens = 0;
  std::uint32_t* of_leaf = nullptr;  // [leaf][statistic][channel]
  std::uint32_t* of_unit_words = nullptr;  // [unit][statistic][channel]
  std::uint32_t* marks = nullptr;
  int tiles_of_floor = 0;
};

template <class Shape>
struct Space {
  static constexpr int kTiles = kLeaf / Shape::kRows, kLines = kLeaf * Shape::kLanes;
  static constexpr int kSlots = 2 * OP_SLOTS / Shape::kLanes, kAhead = 2 * kSlots;
  uint4 lines[kSlots][kLines][8];
  uint4 codes[kCoders][kWarp][4];
  float4 words[kAhead][Shape::kLanes][Shape::kCount / 4 + 1];
  uint4 flips[Shape::kDim / kChannels];
  std::uint32_t peaks[kAhead][kTiles];
  std::uint64_t full[kSlots], summed[kSlots], empty[kSlots], ready[kAhead], used[kAhead], measured[kAhead];
};

__device__ std::uint32_t joined_range(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kLow = 0xff;
  return min(a & kLow, b & kLow) | max(a & ~kLow, b & ~kLow);
}

template <class Shape, Work kWork>
class Pass {
 public:
  static constexpr bool kSquares = kWork == Work::multiplied;
  static constexpr int kStatistics = kSquares ? 2 : 1, kDim = Shape::kDim, kParts = kDim / 8;
  using S = Space<Shape>;

  __device__ Pass(const RowReading& r, const Coding& k, const Leaves& leaves, S& space)
      : r_(r), k_(k), leaves_(leaves), space_(space) {}

  __device__ static int lane() { return RowSpace<Shape>::lane(); }

  struct At {
    std::uint32_t number, unit;
    int index, length;
    std::int32_t b, h;
  };
  __device__ bool leaf_at(int n, At& at) const {
    at.number = blockIdx.x + static_cast<std::uint32_t>(n) * gridDim.x;
    if (at.number >= leaves_.count) return false;
    at.unit = leaves_.of_unit.quotient(at.number);
    at.index = static_cast<int>(at.number - at.unit * leaves_.of_unit.divisor);
    at.length = min(kLeaf, leaves_.tokens - at.index * kLeaf);
    at.b = static_cast<std::int32_t>(at.unit) / r_.order.heads;
    at.h = static_cast<std::int32_t>(at.unit) - at.b * r_.order.heads;
    return true;
  }
  __device__ static std::uint32_t address(const void* p) { return ptx::shared_address(p); }

  // --- Loads
  __device__ void load_all() const {
    constexpr int kPieces = kDim / 8, kRowsAtOnce = kWarp / kPieces, kSteps = 16;
    const int row = lane() / kPieces, piece = lane() % kPieces, line = row * Shape::kLanes + piece / 8;
    const std::int64_t step = kRowsAtOnce * r_.x.stride[2];
    At at;
    for (int n = 0; leaf_at(n, at); ++n) {
      const int slot = n % S::kSlots;
      if (n >= S::kSlots) ptx::wait(address(&space_.empty[slot]), (n / S::kSlots - 1) & 1);
      const std::uint16_t* from = static_cast<const std::uint16_t*>(r_.x.data) +
                                  row_offset(r_.x, at.b, at.h, at.index * kLeaf + row) + piece * 8;
      __builtin_assume(__isGlobal(from));
      std::uint32_t to = address(space_.lines[slot][line]) + ((piece ^ line) % 8) * 16;
#pragma unroll 1
      for (int first = 0; first < at.length; first += kSteps * kRowsAtOnce) {
        const int count = at.length - first;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          const std::uint32_t turned = to ^ (i * kRowsAtOnce * Shape::kLanes % 8 * 16);
          if (row + i * kRowsAtOnce < count)
            ptx::copy_async(turned + i * kRowsAtOnce * Shape::kLanes * 128, from);
          from += step;
        }
        to += kSteps * kRowsAtOnce * Shape::kLanes * 128;
        ptx::commit_copies();
        ptx::wait_copies<OP_FLIGHT>();
      }
      ptx::arrive_with_copies(address(&space_.full[slot]));
      TRACE(0, n);
    }
  }

  __device__ void load(int n, int t) const {
    constexpr int kPieces = kDim / 8, kRowsAtOnce = kWarp / kPieces;
    At at;
    if (!leaf_at(n, at)) return;
    const int slot = n % S::kSlots, row = lane() / kPieces, piece = lane() % kPieces;
    const int line = row * Shape::kLanes + piece / 8, count = at.length - t * Shape::kRows;
    const std::int64_t step = kRowsAtOnce * r_.x.stride[2];
    const std::uint16_t* from =
        static_cast<const std::uint16_t*>(r_.x.data) +
        row_offset(r_.x, at.b, at.h, at.index * kLeaf + t * Shape::kRows + row) + piece * 8;
    __builtin_assume(__isGlobal(from));
    const std::uint32_t to = address(space_.lines[slot][t * kWarp + line]) + ((piece ^ line) % 8) * 16;
#pragma unroll
    for (int i = 0; i < Shape::kRows / kRowsAtOnce; ++i) {
      const std::uint32_t turned = to ^ (i * kRowsAtOnce * Shape::kLanes % 8 * 16);
      if (row + i * kRowsAtOnce < count)
        ptx::copy_async(turned + i * kRowsAtOnce * Shape::kLanes * 128, from);
      from += step;
    }
    ptx::arrive_with_copies(address(&space_.full[slot]));
    if (t == 0) TRACE(0, n);
  }
  __device__ void load_first(int warp) const {
    At at;
    for (int i = warp; i < S::kSlots * S::kTiles; i += kCoders) {
      const int n = i / S::kTiles;
      if (OP_STAGED > 0 && n >= OP_STAGED && leaf_at(n - OP_STAGED, at))
        ptx::wait(address(&space_.full[n - OP_STAGED]), 0);
      load(n, i % S::kTiles);
    }
  }

  // --- Statistics of leaves
  template <DType kType>
  __device__ static float low(std::uint32_t w) {
    return kType == DType::bf16 ? float_of(w << 16) : number_of_f16(w & 0xffffu);
  }
  template <DType kType>
  __device__ static float high(std::uint32_t w) {
    return kType == DType::bf16 ? float_of(w & 0xffff0000u) : number_of_f16(w >> 16);
  }
  template <class Body>
  __device__ void for_words(int slot, int segment, int length, const Body& body) const {
    const auto* base = reinterpret_cast<const unsigned char*>(space_.lines[slot][segment]);
    const int own = ((lane() / 4 ^ segment) % 8) * 16 + lane() % 4 * 4;
    constexpr int kAtOnce = 32;
    int row = 0;
    for (; row + kAtOnce <= length; row += kAtOnce) {
      std::uint32_t w[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(w[i])
                     : "r"(ptx::shared_address(base) + (row + i) * Shape::kLanes * 128 +
                           (own ^ (i * Shape::kLanes % 8 * 16))));
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) body(w[i]);
    }
#pragma unroll 1
    for (; row < length; ++row)
      body(*reinterpret_cast<const std::uint32_t*>(base + row * Shape::kLanes * 128 +
                                                   (own ^ (row * Shape::kLanes % 8 * 16))));
  }
  template <DType kType>
  __device__ void measure(int warp) {
    At at;
    const float factor = quant::mean_factor(leaves_.tokens);
    for (int pair = warp; leaf_at(pair / Shape::kLanes, at); pair += kMeasurers) {
      const int n = pair / Shape::kLanes, segment = pair % Shape::kLanes, slot = n % S::kSlots;
      ptx::wait(address(&space_.full[slot]), n / S::kSlots & 1);
      if (segment == 0) TRACE(1, n);
      float a = -0.0f, b = -0.0f;
      std::uint32_t* to = leaves_.of_leaf + std::int64_t{at.number} * kStatistics * kDim +
                          segment * Shape::kCount + lane() * 2;
      if constexpr (!kSquares) {
        for_words(slot, segment, at.length, [&](std::uint32_t w) {
          a = __fmaf_rn(low<kType>(w), factor, a), b = __fmaf_rn(high<kType>(w), factor, b);
        });
        if (!is_finite(a) || !is_finite(b)) {
          a = b = -0.0f;
          const auto finite = [](float x) { return is_finite(x) ? x : 0.0f; };
          for_words(slot, segment, at.length, [&](std::uint32_t w) {
            a = __fmaf_rn(finite(low<kType>(w)), factor, a), b = __fmaf_rn(finite(high<kType>(w)), factor, b);
          });
        }
        tell(to, bits_of(a), bits_of(b));
      } else {
        std::uint32_t below = 0x7fff7fffu, most = 0x80008000u;
        for_words(slot, segment, at.length, [&](std::uint32_t w) {
          const float x = low<kType>(w), y = high<kType>(w);
          a = __fmaf_rn(x, x, a), b = __fmaf_rn(y, y, b);
          const std::uint32_t size = w | 0x80008000u;
          most = __vmaxu2(most, size);
          below = __vmins2(below, size - 0x00010001u);
        });
        const auto told = [](float x) { return is_finite(x) ? bits_of(x) : kInfBits; };
        tell(to, told(a), told(b));
        const auto field = [](std::uint32_t code) {
          const std::uint32_t size = code & 0x7fffu;
          return (kType == DType::bf16 ? size << 16 : bits_of(number_of_f16(size))) >> kF32MantissaBits;
        };
        const auto range = [&](int shift) {
          const std::uint32_t least = (below >> shift & 0xffffu) + 1;
          return (least == 0x8000u ? kZeros : field(least)) | field(most >> shift) << 8;
        };
        tell(to + kDim, range(0), range(16));
      }
      __syncwarp();
      if (segment == 0) TRACE(2, n);
      if (lane() == 0) ptx::arrive(address(&space_.summed[slot]));
    }
  }

  // --- Ends of trees
  __device__ static bool is_there(const uint4& v) {
    return v.x != kAbsent && v.y != kAbsent && v.z != kAbsent && v.w != kAbsent;
  }
  __device__ void finish(std::uint32_t unit, int part) {
    constexpr int kOwn = 8, kGroups = 16, kMostChunks = 4;
    const int quad = lane() % 2, group = lane() / 2;
    const int count = static_cast<int>(leaves_.of_unit.divisor);
    const std::uint32_t* base =
        leaves_.of_leaf + std::int64_t{unit} * count * kStatistics * kDim + part * 8 + quad * 4;
    float chunks[kMostChunks][4];
    std::uint32_t range[4] = {kZeros, kZeros, kZeros, kZeros};
#pragma unroll
    for (int c = 0; c < kMostChunks; ++c) {
      const int first = c * kOwn * kGroups + group * kOwn;
      if (c * kOwn * kGroups >= count) break;
      const int own = max(min(count - first, kOwn), 0);
      uint4 v[kOwn], w[kOwn] = {};
      const std::uint32_t* last = base + (std::int64_t{first} + max(own - 1, 0)) * kStatistics * kDim;
      while (!__all_sync(kAllLanes, own == 0 || is_there(look(last)))) __nanosleep(OP_NAP);
      bool all;
      do {
        all = true;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const std::uint32_t* from = base + (std::int64_t{first} + min(i, own - 1)) * kStatistics * kDim;
          v[i] = own > 0 ? look(from) : uint4{};
          if (kSquares) w[i] = own > 0 ? look(from + kDim) : uint4{kZeros, kZeros, kZeros, kZeros};
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) all &= is_there(v[i]) && is_there(w[i]);
      } while (!__all_sync(kAllLanes, all));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float a[kOwn];
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
          a[i] = float_of(j == 0 ? v[i].x : j == 1 ? v[i].y : j == 2 ? v[i].z : v[i].w);
        int left = own;
#pragma unroll
        for (int half = kOwn / 2; half > 0; half /= 2) {
#pragma unroll
          for (int i = 0; i < half; ++i) a[i] = 2 * i + 1 < left ? a[2 * i] + a[2 * i + 1] : a[2 * i];
          left = (left + 1) / 2;
        }
        float s = a[0];
#pragma unroll
        for (int distance = 1; distance < kGroups; distance *= 2) {
          const float right = __shfl_down_sync(kAllLanes, s, 2 * distance);
          if (group % (2 * distance) == 0 && first + distance * kOwn < count) s = s + right;
        }
        chunks[c][j] = s;
      }
      if constexpr (kSquares) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          range[0] = joined_range(range[0], w[i].x), range[1] = joined_range(range[1], w[i].y);
          range[2] = joined_range(range[2], w[i].z), range[3] = joined_range(range[3], w[i].w);
        }
      }
    }
    const int used = (count + kOwn * kGroups - 1) / (kOwn * kGroups);
    float sum[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float s = chunks[0][j], t = chunks[2][j];
      if (used > 1) s = s + chunks[1][j];
      if (used > 3) t = t + chunks[3][j];
      if (used > 2) s = s + t;
      sum[j] = s;
    }
    if constexpr (kSquares) {
#pragma unroll
      for (int distance = 2; distance < kWarp; distance *= 2)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          range[j] = joined_range(range[j], __shfl_xor_sync(kAllLanes, range[j], distance));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] = __shfl_sync(kAllLanes, sum[j], quad);
    std::uint32_t* to =
        leaves_.of_unit_words + (std::int64_t{unit} * kGroups + group) * kStatistics * kDim + part * 8 +
        quad * 4;
    const auto b = static_cast<std::int32_t>(unit) / r_.order.heads,
               h = static_cast<std::int32_t>(unit) - b * r_.order.heads;
    if constexpr (!kSquares) {
      float* mean = static_cast<float*>(r_.shift.data) + row_offset(r_.shift, b, h, 0) + part * 8 + quad * 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float m = quant::mean_of_sum(sum[j], leaves_.tokens);
        tell(to + j, bits_of(m));
        if (group == 0) mean[j] = m;
      }
    } else {
      constexpr int kSmallestSquared = -63, kLargestSquared = 63;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int bottom = static_cast<int>(range[j] & 0xff) - kF32Bias,
                  k = static_cast<int>(range[j] >> 8) - kF32Bias;
        std::uint32_t order = as_unsigned(kNone);
        if (!is_finite(sum[j])) {
          order = kBad;
        } else if (range[j] != kZeros) {
          if (k <= kLargestSquared && bottom >= kSmallestSquared && bottom - k >= kSmallestSquared)
            order = as_unsigned(
                quant::norm_order(__fsqrt_rn(sum[j] * power_of_two(-2 * k)), power_of_two(k)));
          else
            order = kBad;
        }
        tell(to + j, order), tell(to + kDim + j, as_unsigned(k));
      }
    }
  }

  __device__ void finish_all() {
    for (std::uint32_t job = blockIdx.x; job < leaves_.units * kParts; job += gridDim.x) {
      finish(job / kParts, static_cast<int>(job % kParts));
      TRACE(3, job / gridDim.x);
    }
  }

  // --- What coders need of units
  __device__ void herald() {
    constexpr int kPer = kDim / kWarp;
    std::uint32_t known = ~0u, word[kPer];
    At at;
    for (int n = 0; leaf_at(n, at); ++n) {
      const int slot = n % S::kAhead;
      if (at.unit != known) {
        known = at.unit;
        const std::uint32_t* from =
            leaves_.of_unit_words +
            (std::int64_t{at.unit} * 16 + blockIdx.x % 16) * kStatistics * kDim + lane();
        std::uint32_t second[kPer];
        bool all;
        do {
          all = true;
#pragma unroll
          for (int i = 0; i < kPer; ++i) {
            word[i] = look_at_word(from + i * kWarp);
            if (kSquares) second[i] = look_at_word(from + kDim + i * kWarp);
          }
#pragma unroll
          for (int i = 0; i < kPer; ++i) all &= word[i] != kAbsent && (!kSquares || second[i] != kAbsent);
        } while (!__all_sync(kAllLanes, all));
        if constexpr (kSquares) {
          bool is_bad = false;
          std::int32_t largest = kNone;
#pragma unroll
          for (int i = 0; i < kPer; ++i) {
            is_bad |= word[i] == kBad;
            largest = max(largest, as_signed(word[i]));
          }
          largest = __reduce_max_sync(kAllLanes, largest);
          is_bad = __any_sync(kAllLanes, is_bad);
          const bool writes = at.index == 0;
          auto* exponents =
              static_cast<std::int32_t*>(r_.exponent.data) + row_offset(r_.exponent, at.b, at.h, 0) + lane();
          if (writes && lane() == 0) leaves_.marks[at.unit] = is_bad ? 1 : 0;
#pragma unroll
          for (int i = 0; i < kPer; ++i) {
            const auto order = as_signed(word[i]);
            const float amax = order == kNone || is_bad ? 0.0f : power_of_two(as_signed(second[i]));
            const std::int32_t exponent = quant::channel_exponent(order, largest, amax);
            if (writes) exponents[i * kWarp] = exponent;
            word[i] = bits_of(power_of_two(-exponent));
          }
        } else {
#pragma unroll
          for (int i = 0; i < kPer; ++i) word[i] ^= r_.sign[i] >> lane() << 31;
        }
      }
      TRACE(4, n);
      if (n >= S::kAhead) ptx::wait(address(&space_.used[slot]), (n / S::kAhead - 1) & 1);
      auto* words = reinterpret_cast<std::uint32_t*>(space_.words[slot]);
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        const int c = lane() + i * kWarp;
        words[c / Shape::kCount * (Shape::kCount + 4) + c % Shape::kCount] = word[i];
      }
      __syncwarp();
      if (lane() == 0) ptx::arrive(address(&space_.ready[slot]));
    }
  }

  // --- Codes
  template <DType kType>
  __device__ void take(const uint4 (&rows)[Shape::kCount / 8], const float4* words, int part,
                       float (&v)[Shape::kCount]) const {
#pragma unroll
    for (int at = 0; at < Shape::kCount; at += kChannels) {
      Raw<std::uint16_t> raw;
      uint4& stored = raw.v[0];
      stored = rows[at / kChannels];
      if constexpr (kWork != Work::multiplied) {
        const uint4 flips = space_.flips[(part * Shape::kCount + at) / kChannels];
        stored = {stored.x ^ flips.x, stored.y ^ flips.y, stored.z ^ flips.z, stored.w ^ flips.w};
      }
      to_floats(raw, kType, v + at);
#pragma unroll
      for (int i = 0; i < kChannels; i += 4) {
        const float4 w = words[(at + i) / 4];
        const float of[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& x = v[at + i + j];
          if constexpr (kWork == Work::multiplied)
            x = x * of[j];
          else
            x = (x - of[j]) * r_.norm;
        }
      }
    }
  }

  __device__ void encode(int warp) {
    At at;
    for (int tile = warp; leaf_at(tile / S::kTiles, at); tile += kCoders) {
      const int n = tile / S::kTiles, t = tile % S::kTiles, slot = n % S::kSlots, ring = n % S::kAhead;
      const std::uint32_t parity = n / S::kAhead & 1;
      const int part = lane() % Shape::kLanes, row = lane() / Shape::kLanes;
      const int count = max(min(at.length - t * Shape::kRows, Shape::kRows), 0);
      uint4 rows[Shape::kCount / 8];
      {
        const std::uint32_t own = address(space_.lines[slot][t * kWarp]) + lane() * 128 + lane() % 8 * 16;
        ptx::wait(address(&space_.summed[slot]), n / S::kSlots & 1);
#pragma unroll
        for (int j = 0; j < Shape::kCount / 8; ++j)
          asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(rows[j].x), "=r"(rows[j].y), "=r"(rows[j].z), "=r"(rows[j].w)
                       : "r"(own ^ (j * 16))
                       : "memory");
        __syncwarp();
        if (OP_LOADERS) {
          if (lane() == 0) ptx::arrive(address(&space_.empty[slot]));
        } else {
          load(n + S::kSlots, t);
        }
      }
      ptx::wait(address(&space_.ready[ring]), parity);
      if (t == 0) TRACE(5, n);
      float v[Shape::kCount];
      if (r_.x.dtype == DType::f16)
        take<DType::f16>(rows, space_.words[ring][part], part, v);
      else
        take<DType::bf16>(rows, space_.words[ring][part], part, v);
      if constexpr (kWork != Work::multiplied) rotate_segment<Shape>(v, part);
      std::uint32_t peak = largest_bits(v);
#pragma unroll
      for (int distance = 1; distance < Shape::kLanes; distance *= 2)
        peak = max(peak, __shfl_xor_sync(kAllLanes, peak, distance));
      const bool exists = row < count;
      const bool is_bad = peak >= kInfBits;
      if (is_bad && exists && k_.non_finite) *k_.non_finite = 1;
      if (is_bad || !exists) peak = 0;
      float floor = 0;
      if (kSquares && leaves_.tiles_of_floor > 0) {
        const std::uint32_t most = __reduce_max_sync(kAllLanes, peak);
        const std::uint32_t barrier = address(&space_.measured[ring]);
        if (lane() == 0) {
          space_.peaks[ring][t] = most;
          ptx::arrive(barrier);
        }
        ptx::wait(barrier, parity);
        const int first = t / leaves_.tiles_of_floor * leaves_.tiles_of_floor;
        std::uint32_t all = 0;
        for (int i = 0; i < leaves_.tiles_of_floor; ++i) all = max(all, space_.peaks[ring][first + i]);
        floor = quant::scale_floor(k_.making.of(float_of(all), 0).scale, k_.making.block_floor.octaves);
      }
      const quant::Scale scale = k_.making.of(float_of(peak), floor);
      const std::int32_t token = at.index * kLeaf + t * Shape::kRows;
      if (part == 0 && exists)
        static_cast<float*>(k_.scales.data)[row_offset(k_.scales, at.b, at.h, token + row)] = scale.scale;
      const float rscale = is_bad ? 0.0f : scale.rscale;
      const std::uint32_t out = address(space_.codes[warp]);
#pragma unroll
      for (int i = 0; i < Shape::kCount; i += 16) {
        const uint4 codes = {four_codes(v + i, rscale), four_codes(v + i + 4, rscale),
                             four_codes(v + i + 8, rscale), four_codes(v + i + 12, rscale)};
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                         out + lane() / 2 * 128 + ((i / 16 ^ (lane() / 2 % 4)) + lane() % 2 * 4) * 16),
                     "r"(codes.x), "r"(codes.y), "r"(codes.z), "r"(codes.w)
                     : "memory");
      }
      __syncwarp();
      constexpr int kPieces = kDim / 16, kRowsAtOnce = kWarp / kPieces;
      const int out_row = lane() / kPieces, piece = lane() % kPieces;
      auto* to = static_cast<std::int8_t*>(k_.codes.data) + row_offset(k_.codes, at.b, at.h, token + out_row) +
                 piece * 16;
      const std::int64_t step = kRowsAtOnce * k_.codes.stride[2];
      const int line = out_row * Shape::kLanes + piece / 4;
      uint4 codes[Shape::kRows / kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < Shape::kRows / kRowsAtOnce; ++i) {
        const int l = line + i * kRowsAtOnce * Shape::kLanes;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(codes[i].x), "=r"(codes[i].y), "=r"(codes[i].z), "=r"(codes[i].w)
                     : "r"(out + l / 2 * 128 + ((piece % 4 ^ (l / 2 % 4)) + l % 2 * 4) * 16)
                     : "memory");
      }
      __syncwarp();
      if (lane() == 0) ptx::arrive(address(&space_.used[ring]));
      __builtin_assume(__isGlobal(to));
#pragma unroll
      for (int i = 0; i < Shape::kRows / kRowsAtOnce; ++i) {
        if (out_row + i * kRowsAtOnce < count) *reinterpret_cast<uint4*>(to) = codes[i];
        to += step;
      }
      if (t == S::kTiles - 1) TRACE(6, n);
    }
  }

  const RowReading& r_;
  const Coding& k_;
  const Leaves& leaves_;
  S& space_;
};

template <class Shape, Work kWork>
__global__ __launch_bounds__(kOnePassThreads, 1) void encode_in_one_pass(
    const __grid_constant__ RowReading r, const __grid_constant__ Coding k,
    const __grid_constant__ Signs<Shape> signs, const __grid_constant__ Leaves leaves) {
  using S = Space<Shape>;
  extern __shared__ uint4 space_memory[];
  auto& space = *reinterpret_cast<S*>(space_memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  TRACE(7, 0);
  using P = Pass<Shape, kWork>;
  P pass(r, k, leaves, space);
  if (thread == 0) {
    for (int i = 0; i < S::kSlots; ++i) {
      ptx::open_barrier(P::address(&space.full[i]), OP_LOADERS ? kWarp : S::kTiles * kWarp);
      ptx::open_barrier(P::address(&space.empty[i]), S::kTiles);
      ptx::open_barrier(P::address(&space.summed[i]), Shape::kLanes);
    }
    for (int i = 0; i < S::kAhead; ++i) {
      ptx::open_barrier(P::address(&space.ready[i]), 1);
      ptx::open_barrier(P::address(&space.used[i]), S::kTiles);
      ptx::open_barrier(P::address(&space.measured[i]), S::kTiles);
    }
  }
  if (thread < Shape::kDim / kChannels) space.flips[thread] = signs.flips[thread];
  __syncthreads();
#if OP_LOADERS
  if (warp == kCoders + 2) return pass.load_all();
#else
  if (warp < kCoders) pass.load_first(warp);
#endif
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  TRACE(7, 2);
  if (warp < kCoders) {
    pass.encode(warp);
  } else if (warp == kCoders) {
    pass.herald();
  } else if (warp == kCoders + 1) {
    pass.finish_all();
  } else if (r.x.dtype == DType::f16) {
    pass.template measure<DType::f16>(warp - kCoders - 2 - OP_LOADERS);
  } else {
    pass.template measure<DType::bf16>(warp - kCoders - 2 - OP_LOADERS);
  }
}

__global__ __launch_bounds__(kThreads) void clear_words(uint4* words, std::uint32_t count) {
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) words[i] = {kAbsent, kAbsent, kAbsent, kAbsent};
}

template <class Shape>
void launch_shape(const RowReading& rows, const Coding& coding, std::uint32_t* words, void* stream) {
  Leaves leaves;
  leaves.tokens = static_cast<std::int32_t>(rows.x.shape[2]);
  const std::int64_t of_unit = (rows.x.shape[2] + kLeaf - 1) / kLeaf, units = rows.x.shape[0] * rows.x.shape[1];
  leaves.of_unit = Divider(of_unit);
  leaves.units = static_cast<std::uint32_t>(units);
  leaves.count = static_cast<std::uint32_t>(units * of_unit);
  const int statistics = rows.hadamard > 0 ? 1 : 2;
  leaves.of_leaf = words;
  leaves.of_unit_words = words + std::int64_t{leaves.count} * statistics * rows.dim;
  leaves.marks = leaves.of_unit_words + units * 16 * statistics * rows.dim;
  const int block = static_cast<int>(coding.groups.tokens);
  leaves.tiles_of_floor = coding.making.block_floor.octaves > 0 ? block / Shape::kRows : 0;
  Signs<Shape> signs;
  if (rows.hadamard > 0) {
    const auto flips = [&](int c) {
      const auto bit = [&](int channel, int at) {
        return (rows.sign[channel / kWarp] >> channel % kWarp & 1u) << at;
      };
      return bit(c, 15) | bit(c + 1, 31);
    };
    for (int c = 0; c < Shape::kDim; c += kChannels)
      signs.flips[c / kChannels] = {flips(c), flips(c + 2), flips(c + 4), flips(c + 6)};
  }
  const std::uint32_t vectors = (leaves.count + 16 * leaves.units) * statistics * Shape::kDim / 4;
  runtime::launch(clear_words, (vectors + kThreads - 1) / kThreads, kThreads, 0, stream,
                  reinterpret_cast<uint4*>(words), vectors);
  constexpr int kBytes = sizeof(Space<Shape>);
  const auto launch = [&](auto* kernel) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeCooperative;
    attributes[0].val.cooperative = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = std::min(leaves.count, processors()), config.blockDim = kOnePassThreads;
    config.dynamicSmemBytes = kBytes, config.stream = stream_of(stream);
    config.attrs = attributes, config.numAttrs = 2;
    cudaLaunchKernelEx(&config, kernel, rows, coding, signs, leaves);
  };
  if (rows.hadamard > 0)
    launch(encode_in_one_pass<Shape, Work::shifted_and_rotated>);
  else
    launch(encode_in_one_pass<Shape, Work::multiplied>);
}

}  // namespace

std::int64_t one_pass_words(const std::array<std::int64_t, 4>& shape, int statistics) {
  const std::int64_t units = shape[0] * shape[1], of_unit = (shape[2] + kLeaf - 1) / kLeaf;
  return units * (of_unit + 16) * statistics * shape[3] + units;
}

bool takes_one_pass(const RowReading& rows, const Coding& coding) {
  const bool is_on = !std::getenv("ONE_PASS") || std::atoi(std::getenv("ONE_PASS")) > 0;
  const std::int64_t leaves = (rows.x.shape[2] + kLeaf - 1) / kLeaf;
  const int block = static_cast<int>(coding.groups.tokens);
  const bool floors = coding.making.block_floor.octaves == 0 || (kLeaf % block == 0 && block % 32 == 0);
  return is_on && !rows.order.sequences.cu_seqlens && (rows.dim == 128 || rows.dim == 64) &&
         rows.x.shape[2] >= 512 && leaves <= 512 && floors && coding.making.head_floor.octaves == 0;
}

void launch_one_pass(const RowReading& rows, const Coding& coding, std::uint32_t* words, void* stream) {
#ifdef OP_TRACE
  if (words == nullptr) {
    static unsigned long long h[8][32][132];
    cudaMemcpyFromSymbol(h, g_trace, sizeof(h));
    unsigned long long t0 = ~0ull;
    for (int b = 0; b < 132; ++b) t0 = std::min(t0, h[7][0][b]);
    const auto show = [&](int e, int n) {
      std::vector<long long> t;
      for (int b = 0; b < 132; ++b)
        if (b + n * 132 < 2048) t.push_back(static_cast<long long>(h[e][n][b] - t0));
      std::sort(t.begin(), t.end());
      std::printf(" |%6.1f %5.1f %5.1f", t.front() * 1e-3, t[t.size() / 2] * 1e-3, t.back() * 1e-3);
    };
    for (int n = 0; n < 3; ++n) show(7, n);
    std::printf("\n n | issue | full | told | herald | code | coded: least, median, most\n");
    for (int n = 0; n < 16; ++n) {
      std::printf("%2d", n);
      for (const int e : {0, 1, 2, 4, 5, 6}) show(e, n);
      std::printf("\n");
    }
    std::printf("finished by unit:");
    for (int u = 0; u < 16; ++u) {
      unsigned long long most = 0, least = ~0ull;
      for (int p = 0; p < 16; ++p) {
        const int job = u * 16 + p;
        most = std::max(most, h[3][job / 132][job % 132]);
        least = std::min(least, h[3][job / 132][job % 132]);
      }
      std::printf(" %.1f-%.1f", static_cast<double>(least - t0) * 1e-3, static_cast<double>(most - t0) * 1e-3);
    }
    std::printf("\n");
    return;
  }
#endif
  if (rows.dim == 128)
    launch_shape<SegmentShape<128>>(rows, coding, words, stream);
  else
    launch_shape<SegmentShape<64>>(rows, coding, words, stream);
}

}  // namespace octet::cuda
