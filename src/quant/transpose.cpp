#include "quant/transpose.h"

#include <string>

#include "base/parallel.h"
#include "quant/key_order.h"

namespace octet::quant {
namespace {

bool is_byte(DType dtype) { return dtype == DType::s8 || dtype == DType::e4m3 || dtype == DType::e5m2; }

std::int64_t padded(std::int64_t tokens) { return (tokens + kKeyGroup - 1) / kKeyGroup * kKeyGroup; }

// One sequence of one head. Groups of 16 keys outermost: their rows stay in the first-level cache while every
// channel gathers its 16 bytes from them.
void transpose_sequence(const TensorView& codes, const TensorView& out, std::int64_t b, std::int64_t h,
                        std::int64_t begin, std::int64_t length, std::int64_t first_slot) {
  const auto* from = static_cast<const std::uint8_t*>(codes.data) + b * codes.stride[0] + h * codes.stride[1];
  auto* to = static_cast<std::uint8_t*>(out.data) + b * out.stride[0] + h * out.stride[1];
  for (std::int64_t group = 0; group < padded(length); group += kKeyGroup) {
    for (std::int64_t c = 0; c < codes.shape[3]; ++c) {
      std::uint8_t* slots = to + c * out.stride[2] + (first_slot + group) * out.stride[3];
      for (std::int64_t i = 0; i < kKeyGroup; ++i) {
        const std::int64_t key = group + key_of_slot(i);
        slots[i * out.stride[3]] =
            key < length ? from[(begin + key) * codes.stride[2] + c * codes.stride[3]] : std::uint8_t{0};
      }
    }
  }
}

void zero_slots(const TensorView& out, std::int64_t b, std::int64_t h, std::int64_t first_slot) {
  auto* to = static_cast<std::uint8_t*>(out.data) + b * out.stride[0] + h * out.stride[1];
  for (std::int64_t c = 0; c < out.shape[2]; ++c) {
    for (std::int64_t i = first_slot; i < out.shape[3]; ++i) to[c * out.stride[2] + i * out.stride[3]] = 0;
  }
}

}  // namespace

TensorView transposed_layout(const TensorView& codes, std::int64_t packed_sequences) {
  const auto [b, h, tokens, dim] = codes.shape;
  const std::int64_t slots = kKeyGroup * Sequences::groups(tokens, kKeyGroup, packed_sequences);
  return {nullptr, codes.dtype, Device::cpu, {b, h, dim, slots}, {h * dim * slots, dim * slots, slots, 1}};
}

Status transpose(const TensorView& codes, const Sequences& sequences, const TensorView& out,
                 const ParallelFor& parallel_for) {
  if (!is_byte(codes.dtype) || out.dtype != codes.dtype) {
    return invalid_argument(
        "transpose: codes and out must both be s8, e4m3 or e5m2; quantise V to one of them first");
  }
  const TensorView expected = transposed_layout(codes, sequences.cu_seqlens ? sequences.count : 0);
  if (out.shape != expected.shape) {
    return invalid_argument("transpose: out has " + std::to_string(out.shape[3]) + " slots of " +
                            std::to_string(out.shape[2]) + " channels, but the codes need " +
                            std::to_string(expected.shape[3]) + " of " + std::to_string(expected.shape[2]) +
                            "; take the shape from transposed_layout");
  }
  const std::int64_t heads = codes.shape[1];
  for_each_parallel(parallel_for, sequences.count * heads, [&](std::int64_t unit) {
    const std::int64_t s = unit / heads, h = unit % heads;
    const std::int64_t first_slot = kKeyGroup * sequences.first_group(s, kKeyGroup);
    transpose_sequence(codes, out, sequences.batch(s), h, sequences.begin(s), sequences.length(s),
                       first_slot);
    if (sequences.cu_seqlens && s + 1 == sequences.count) {
      zero_slots(out, 0, h, first_slot + padded(sequences.length(s)));
    }
  });
  return {};
}

}  // namespace octet::quant
