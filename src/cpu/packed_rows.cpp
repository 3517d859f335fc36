// Rows of operands on their way into the packed layout.
#include <algorithm>
#include <cstring>

#include "cpu/packed.h"

namespace octet::cpu {
namespace {

/// A head dim is at most this: a row fits the stack.
constexpr std::int64_t kLargestDim = 512;

/// The codes of a token; room: for those that lie otherwise than the kernels read them.
const std::int8_t* codes_of(const call::HeadOperand& operand, std::int64_t token, std::int8_t* room) {
  if (const std::int8_t* codes = operand.s8_row(token)) return codes;
  std::int16_t wide[kLargestDim];
  operand.load(token, wide);
  for (std::int64_t c = 0; c < operand.dim(); ++c) room[c] = static_cast<std::int8_t>(wide[c]);
  return room;
}

/// The codes of a row where they lie one after the other as they are packed, but for the bits that
/// Packing::k flips; else null.
const std::byte* as_they_lie(Element element, const call::HeadOperand& operand, std::int64_t token) {
  if (element == Element::f32) return reinterpret_cast<const std::byte*>(operand.f32_row(token));
  if (element == Element::bf16) return reinterpret_cast<const std::byte*>(operand.bf16_row(token));
  return reinterpret_cast<const std::byte*>(operand.s8_row(token));
}

}  // namespace

void PackedCall::pack_row(Element element, const call::HeadOperand& operand, std::int64_t token,
                          std::byte* out) const {
  const std::int64_t dim = operand.dim();
  if (element == Element::f32) {
    auto* numbers = reinterpret_cast<float*>(out);
    operand.load(token, kernels_.widen, numbers);
    std::fill(numbers + dim, numbers + dim_groups_, 0.0f);
    return;
  }
  if (element == Element::bf16) {
    auto* halves = reinterpret_cast<std::uint16_t*>(out);
    if (const std::uint16_t* codes = operand.bf16_row(token)) {
      std::memcpy(halves, codes, static_cast<std::size_t>(dim) * sizeof *codes);
    } else {
      float numbers[kLargestDim];
      operand.load(token, kernels_.widen, numbers);
      kernels_.halves(numbers, dim, halves);
    }
    std::fill(halves + dim, halves + dim_groups_ * group_elements(element), std::uint16_t{0});
    return;
  }
  std::int8_t room[kLargestDim];
  pack_codes(element, codes_of(operand, token, room), dim, out);
}

void PackedCall::pack_codes(Element element, const std::int8_t* codes, std::int64_t dim,
                            std::byte* out) const {
  const std::int64_t all = dim_groups_ * group_elements(element);
  if (element == Element::u8_bias) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(out);
    kernels_.to_u8(codes, dim, bytes);
    std::fill(bytes + dim, bytes + all, std::uint8_t{128});
  } else {
    std::memcpy(out, codes, static_cast<std::size_t>(dim));
    std::fill(out + dim, out + all, std::byte{0});
  }
}

void PackedCall::pack_queries(const call::HeadOperand& q, std::int64_t begin, std::int64_t count,
                              std::byte* out) const {
  const std::int64_t bytes = dim_groups_ * 4;
  const bool together = nest_.packing.q == Element::s8 && q.dim() == bytes && q.token_stride() == bytes;
  if (const std::int8_t* codes = together ? q.s8_row(begin) : nullptr) {
    std::memcpy(out, codes, static_cast<std::size_t>(count * bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) pack_row(nest_.packing.q, q, begin + i, out + i * bytes);
}

void PackedCall::sum_queries(const std::byte* packed, std::int64_t count, const RowSums& out) const {
  if (is_float(nest_.packing.q)) {
    std::fill_n(out.sum, count, 0);
    std::fill_n(out.size, count, 0);
  } else {
    kernels_.sums(packed, dim_groups_ * 4, count, out);
  }
}

// Rows of as many keys as a vector has lanes are turned into columns together, from where they are if no row
// ends within what is read of it. Where the rows begin or end within a vector its keys go one by one, for the
// others are not ours.
void PackedCall::put_k(const Rows& rows, std::byte* out) const {
  constexpr std::int64_t kMostLanes = 16, kReadBytes = 16;
  const Element element = nest_.packing.k;
  const std::int64_t lanes = nest_.packing.lanes, vector_bytes = lanes * 4;
  const std::int64_t stride = round_up(dim_groups_ * 4, kAlignment),
                     element_bytes = 4 / group_elements(element);
  const bool is_whole = rows.k.dim() * element_bytes % kReadBytes == 0;
  alignas(kAlignment) std::byte turned[kMostLanes * kLargestDim * 4];
  for (std::int64_t i = 0; i < rows.count;) {
    const std::int64_t to = rows.to + i, lane = to % lanes;
    std::byte* columns = out + to / lanes * dim_groups_ * vector_bytes;
    const std::int64_t runs = lane == 0 && is_whole ? (rows.count - i) / lanes : 0;
    if (const std::byte* codes = runs > 0 ? as_they_lie(element, rows.k, rows.from + i) : nullptr) {
      kernels_.columns({codes, rows.k.token_stride() * element_bytes}, dim_groups_, k_flip(), runs, columns);
      i += runs * lanes;
      continue;
    }
    const std::int64_t count = std::min(lanes - lane, rows.count - i);
    for (std::int64_t k = 0; k < count; ++k)
      pack_row(nest_.packing.k, rows.k, rows.from + i + k, turned + k * stride);
    if (count == lanes) {
      kernels_.columns({turned, stride}, dim_groups_, 0, 1, columns);
    } else {
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t g = 0; g < dim_groups_; ++g)
          std::memcpy(columns + g * vector_bytes + (lane + k) * 4, turned + k * stride + g * 4, 4);
    }
    i += count;
  }
}

// Groups of keys, all channels of a group together, from where they are if they lie one after the other;
// groups that are not all ours, key by key.
void PackedCall::put_v_codes(const Rows& rows, std::byte* out, std::int32_t* sums) const {
  constexpr std::int64_t kGroup = 4;
  const std::int64_t dim = rows.v.dim();
  std::int8_t room[kGroup][kLargestDim];
  for (std::int64_t i = 0; i < rows.count;) {
    const std::int64_t to = rows.to + i, first = to % kGroup,
                       count = std::min(kGroup - first, rows.count - i);
    std::byte* at = out + to / kGroup * dim_v_ * 4;
    const std::int64_t runs = first == 0 ? (rows.count - i) / kGroup : 0;
    if (const std::int8_t* codes = runs > 0 ? rows.v.s8_row(rows.from + i) : nullptr) {
      const std::int64_t stride = rows.v.token_stride(), keys = runs * kGroup;
      const CodeRows lying{reinterpret_cast<const std::byte*>(codes), stride};
      kernels_.quads(lying, dim, dim_v_, runs, at);
      add_to_sums(lying, keys, dim, to, sums);
      i += keys;
      continue;
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int8_t* key = codes_of(rows.v, rows.from + i + k, room[k]);
      if (key != room[k]) std::memcpy(room[k], key, static_cast<std::size_t>(dim));
    }
    const CodeRows copied{reinterpret_cast<const std::byte*>(room), kLargestDim};
    add_to_sums(copied, count, dim, to, sums);
    if (count == kGroup) {
      kernels_.quads(copied, dim, dim_v_, 1, at);
    } else {
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t c = 0; c < dim_v_; ++c)
          at[c * 4 + first + k] = static_cast<std::byte>(c < dim ? room[k][c] : 0);
    }
    i += count;
  }
}

void PackedCall::add_to_sums(const CodeRows& keys, std::int64_t count, std::int64_t channels,
                             std::int64_t token, std::int32_t* sums) const {
  if (!nest_.packing.p_bias) return;
  for (std::int64_t k = 0; k < count;) {
    const std::int64_t within = (token + k) % key_block_, here = std::min(key_block_ - within, count - k);
    std::int32_t* of_block = sums + (token + k) / key_block_ * dim_v_;
    if (within == 0) std::fill(of_block, of_block + dim_v_, 0);
    kernels_.add({keys.data + k * keys.stride, keys.stride}, here, channels, of_block);
    k += here;
  }
}

// Pairs of keys in the same way.
void PackedCall::put_v_halves(const Rows& rows, const Prepare& prepare, std::byte* out) const {
  constexpr std::int64_t kGroup = 2;
  const std::int64_t dim = rows.v.dim();
  std::uint16_t room[kGroup][kLargestDim];
  const std::uint16_t* keys[kGroup];
  for (std::int64_t i = 0; i < rows.count;) {
    const std::int64_t to = rows.to + i, first = to % kGroup,
                       count = std::min(kGroup - first, rows.count - i);
    for (std::int64_t k = 0; k < count; ++k) {
      keys[k] = rows.v.bf16_row(rows.from + i + k);
      if (keys[k]) continue;
      float numbers[kLargestDim] = {};
      rows.v.load(rows.from + i + k, kernels_.widen, numbers);
      if (nest_.v_values) nest_.v_values(prepare, numbers, dim_v_);
      kernels_.halves(numbers, dim, room[k]);
      keys[k] = room[k];
    }
    auto* at = reinterpret_cast<std::uint16_t*>(out + to / kGroup * dim_v_ * 4);
    if (count == kGroup) {
      kernels_.pairs(keys[0], keys[1], dim, reinterpret_cast<std::byte*>(at));
      std::fill(at + dim * kGroup, at + dim_v_ * kGroup, std::uint16_t{0});
    } else {
      for (std::int64_t c = 0; c < dim_v_; ++c)
        at[c * kGroup + first] = c < dim ? keys[0][c] : std::uint16_t{0};
    }
    i += count;
  }
}

void PackedCall::put_v_numbers(const Rows& rows, const Prepare& prepare, std::byte* out) const {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    auto* numbers = reinterpret_cast<float*>(out) + (rows.to + i) * dim_v_;
    rows.v.load(rows.from + i, kernels_.widen, numbers);
    std::fill(numbers + rows.v.dim(), numbers + dim_v_, 0.0f);
    if (nest_.v_values) nest_.v_values(prepare, numbers, dim_v_);
  }
}

}  // namespace octet::cpu
