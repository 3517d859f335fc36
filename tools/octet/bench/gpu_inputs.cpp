#include "bench/gpu_inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

namespace octet::tool {
namespace {

/// splitmix64, whose constants these are.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

float rounded_to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));  // finite: at most 8.6
  const std::uint32_t half = 0x7fffu + ((bits >> 16) & 1u);                   // to even
  return std::bit_cast<float>((bits + half) & 0xffff0000u);
}

struct Pair {
  float first, second;
};
Pair drawn_pair(std::uint64_t base, std::uint64_t pair) {
  constexpr int kMantissa = 11;  // 64 bits less the 53 of a double
  const auto u = static_cast<double>(mixed(base + 2 * pair) >> kMantissa) + 0.5;  // never 0
  const auto v = static_cast<double>(mixed(base + 2 * pair + 1) >> kMantissa);
  const double radius = std::sqrt(-2 * std::log(u * 0x1p-53)), angle = 2 * std::numbers::pi * (v * 0x1p-53);
  return {rounded_to_bf16(radius * std::cos(angle)), rounded_to_bf16(radius * std::sin(angle))};
}

std::uint64_t base_of(std::uint64_t seed, Operand operand) {
  return mixed(3 * seed + static_cast<std::uint64_t>(operand));
}

std::uint16_t upper_half(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

constexpr std::int64_t kSlice = 1 << 16;  // values of one work item
std::int64_t slices(std::int64_t count) { return (count + kSlice - 1) / kSlice; }

Status draw_slices(HostTensor& tensor, const std::array<std::int64_t, 4>& shape, std::uint64_t base,
                   Threads& threads) {
  Result<HostTensor> made = make_host_tensor(DType::f32, {shape.begin(), shape.end()});
  if (!made.ok()) return made.status();
  tensor = made.take();
  struct Work {
    std::span<float> values;
    std::uint64_t base;
  } work{tensor.values<float>(), base};
  const ParallelFor parallel_for = threads.parallel_for();
  parallel_for.run(
      parallel_for.pool, slices(tensor.elements()),
      [](void* context, std::int64_t slice) {
        const Work& w = *static_cast<Work*>(context);
        const auto first = static_cast<std::size_t>(slice * kSlice);
        const std::size_t end = std::min(first + static_cast<std::size_t>(kSlice), w.values.size());
        for (std::size_t i = first; i < end; i += 2) {
          const Pair pair = drawn_pair(w.base, i / 2);
          w.values[i] = pair.first;
          if (i + 1 < end) w.values[i + 1] = pair.second;
        }
      },
      &work);
  return {};
}

}  // namespace

std::uint16_t drawn_bf16(std::uint64_t seed, Operand operand, std::uint64_t i) {
  const Pair pair = drawn_pair(base_of(seed, operand), i / 2);
  return upper_half(i % 2 == 0 ? pair.first : pair.second);
}

Result<CpuInputs> draw_bf16_inputs(const CpuWorkload& w, std::uint64_t seed, Threads& threads) {
  CpuInputs in;
  const std::array<std::int64_t, 4> q{w.batch, w.heads_q, w.tokens_q, w.head_dim};
  const std::array<std::int64_t, 4> k{w.batch, w.heads_kv, w.tokens_k, w.head_dim};
  threads.announce({});
  if (Status s = draw_slices(in.q_tensor, q, base_of(seed, Operand::q), threads); !s.ok()) return s;
  if (Status s = draw_slices(in.k_tensor, k, base_of(seed, Operand::k), threads); !s.ok()) return s;
  if (Status s = draw_slices(in.v_tensor, k, base_of(seed, Operand::v), threads); !s.ok()) return s;
  in.q = view_bhsd(in.q_tensor.bytes.data(), DType::f32, q);
  in.k = view_bhsd(in.k_tensor.bytes.data(), DType::f32, k);
  in.v = view_bhsd(in.v_tensor.bytes.data(), DType::f32, k);
  return in;
}

std::vector<std::uint16_t> bf16_bits(const HostTensor& values, Threads& threads) {
  struct Work {
    std::span<const float> values;
    std::vector<std::uint16_t> bits;
  } work{values.values<float>(), {}};
  work.bits.resize(work.values.size());
  const ParallelFor parallel_for = threads.parallel_for();
  parallel_for.run(
      parallel_for.pool, slices(static_cast<std::int64_t>(work.values.size())),
      [](void* context, std::int64_t slice) {
        Work& w = *static_cast<Work*>(context);
        const auto first = static_cast<std::size_t>(slice * kSlice);
        const std::size_t end = std::min(first + static_cast<std::size_t>(kSlice), w.values.size());
        for (std::size_t i = first; i < end; ++i) w.bits[i] = upper_half(w.values[i]);
      },
      &work);
  return std::move(work.bits);
}

std::uint64_t sum_of_bits(std::span<const std::uint16_t> bits) {
  return std::accumulate(bits.begin(), bits.end(), std::uint64_t{0});
}

}  // namespace octet::tool
