#include "cpu/packed.h"

#include <algorithm>
#include <cstring>

namespace octet::cpu {
namespace {

/// Kernels read a few vectors beyond a block's last key, AMX's up to 15 groups of 256 channels of V, and use
/// none of what they read.
constexpr std::int64_t kReadBeyond = 16384;

std::int64_t element_bytes(Element e) { return 4 / group_elements(e); }

/// Where sequence s begins among the padded tokens, and its first key block: monotone in cu_seqlens, with
/// room for each sequence's padding.
std::int64_t padded_begin(const Sequences& sequences, std::int64_t s) {
  return sequences.cu_seqlens ? round_up(sequences.begin(s), kTokenStep) + s * kTokenStep : 0;
}
std::int64_t first_block(const Sequences& sequences, std::int64_t s, std::int64_t key_block) {
  return sequences.cu_seqlens ? sequences.begin(s) / key_block + s : 0;
}

template <class T>
void put_value(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// The largest of `count` numbers that are not negative: four maxima beside each other, for each waits for
/// its last. note: each a variable, for gcc 12 keeps an array of them in memory.
float largest_of(const float* x, std::int64_t count) {
  float a = 0, b = 0, c = 0, d = 0;
  const std::int64_t fours = count / 4 * 4;
  for (std::int64_t i = 0; i < fours; i += 4) {
    a = std::max(a, x[i]), b = std::max(b, x[i + 1]);
    c = std::max(c, x[i + 2]), d = std::max(d, x[i + 3]);
  }
  for (std::int64_t i = fours; i < count; ++i) a = std::max(a, x[i]);
  return std::max(std::max(a, b), std::max(c, d));
}

}  // namespace

const PackKernels& pack_kernels(std::int32_t lanes) {
  return lanes == 8 ? pack_kernels_8() : pack_kernels_16();
}

std::int64_t group_elements(Element e) { return e == Element::f32 ? 1 : e == Element::bf16 ? 2 : 4; }

bool is_float(Element e) { return e == Element::f32 || e == Element::bf16; }

PackedCall::PackedCall(const Nest& nest, const AttentionDesc& desc, std::int64_t code_dim)
    : nest_(nest),
      kernels_(pack_kernels(nest.packing.lanes)),
      key_block_(desc.key_block),
      heads_(desc.heads_kv),
      tokens_(round_up(desc.tokens_k, kTokenStep) + desc.sequences * kTokenStep),
      blocks_(desc.tokens_k / desc.key_block + desc.sequences + 1) {
  const std::int64_t group = group_elements(nest.packing.k);
  dim_groups_ = (code_dim + group - 1) / group;
  dim_v_ = round_up(desc.head_dim_v, nest.packing.lanes);
  k_bytes_ = tokens_ * dim_groups_ * 4;
  v_bytes_ = round_up(tokens_ * element_bytes(nest.packing.v) * dim_v_, kAlignment);
  key_bytes_ = round_up(nest.key_members * tokens_ * 4, kAlignment);
  block_bytes_ = round_up(blocks_ * 4, kAlignment);
  channel_bytes_ = round_up(blocks_ * dim_v_ * 4, kAlignment);
  v_sum_bytes_ = nest.packing.p_bias ? channel_bytes_ : 0;
  const bool fixed = nest.fixed_constants != nullptr;
  level_bytes_ = fixed ? tokens_ * 4 : 0;
  mass_bytes_ = fixed ? round_up(tokens_ * 2, kAlignment) : 0;
  fixed_bytes_ = fixed ? round_up(blocks_ * static_cast<std::int64_t>(sizeof(FixedBlock)), kAlignment) : 0;
  non_finite_bytes_ = is_float(nest.packing.v) ? round_up(blocks_, kAlignment) : 0;
  head_bytes_ = k_bytes_ + v_bytes_ + key_bytes_ + 2 * block_bytes_ + channel_bytes_ + v_sum_bytes_ +
                level_bytes_ + mass_bytes_ + fixed_bytes_ + non_finite_bytes_;
  bytes_ = head_bytes_ * heads_ * (desc.sequences > 0 ? 1 : desc.batch) + kReadBeyond;
}

PackedCall::Region PackedCall::region(const call::Problem& problem, std::int64_t sequence,
                                      std::int64_t kv_head) const {
  const std::int64_t entry = problem.k.cu_seqlens ? 0 : sequence;
  const std::int64_t token = padded_begin(problem.k, sequence);
  const std::int64_t block = first_block(problem.k, sequence, key_block_);
  std::int64_t at = (entry * heads_ + kv_head) * head_bytes_;
  const auto take = [&](std::int64_t bytes, std::int64_t inside) {
    const std::int64_t offset = at + inside;
    at += bytes;
    return offset;
  };
  Region r;
  r.k = take(k_bytes_, token * dim_groups_ * 4);
  r.v = take(v_bytes_, token * element_bytes(nest_.packing.v) * dim_v_);
  r.keys = take(key_bytes_, token * 4);
  r.k_scale = take(block_bytes_, block * 4);
  r.v_largest = take(block_bytes_, block * 4);
  r.channel = take(channel_bytes_, block * dim_v_ * 4);
  r.v_sum = take(v_sum_bytes_, block * dim_v_ * 4);
  r.level = take(level_bytes_, token * 4);
  r.mass = take(mass_bytes_, token * 2);
  r.fixed = take(fixed_bytes_, block * static_cast<std::int64_t>(sizeof(FixedBlock)));
  r.non_finite = take(non_finite_bytes_, block);
  return r;
}

bool PackedCall::folds_v(const QuantizedTensor& v) const {
  const bool by_token = v.scales.data && v.tokens_per_scale > 0,
             by_channel = v.scales.data && v.channels_per_scale > 0;
  return by_token && !(nest_.v_in_p && !by_channel);
}

PackedHead PackedCall::head(std::byte* workspace, const call::Problem& problem, std::int64_t sequence,
                            std::int64_t kv_head) const {
  const Region r = region(problem, sequence, kv_head);
  PackedHead head{};
  head.k = workspace + r.k;
  head.v = workspace + r.v;
  head.keys = reinterpret_cast<const float*>(workspace + r.keys);
  head.key_stride = tokens_;
  head.block_k_scale = reinterpret_cast<const float*>(workspace + r.k_scale);
  head.block_v_largest = reinterpret_cast<const float*>(workspace + r.v_largest);
  if (folds_v(problem.args.v)) head.block_channel = reinterpret_cast<const float*>(workspace + r.channel);
  if (nest_.packing.p_bias) head.block_v_sum = reinterpret_cast<const std::int32_t*>(workspace + r.v_sum);
  if (nest_.fixed_constants) {
    head.fixed = {workspace + r.level, reinterpret_cast<const std::uint16_t*>(workspace + r.mass),
                  reinterpret_cast<const FixedBlock*>(workspace + r.fixed)};
  }
  if (is_float(nest_.packing.v))
    head.non_finite = reinterpret_cast<const std::uint8_t*>(workspace + r.non_finite);
  head.tokens = problem.k.length(sequence);
  return head;
}

void PackedCall::pack(std::byte* workspace, const call::Problem& problem, const Prepare& prepare,
                      const HeadIndex& head, std::int64_t block, std::int64_t from) const {
  const call::HeadOperand k(problem.args.k, problem.k, head.sequence, head.kv_head);
  const call::HeadOperand v(problem.args.v, problem.v(), head.sequence, head.kv_head);
  const std::int64_t tokens = problem.k.length(head.sequence);
  const std::int64_t begin = block * key_block_, end = std::min(begin + key_block_, tokens);
  // The tokens behind any other block are the next one's. The last token's neighbours in its vector or group
  // are cleared with it, before it comes.
  if (end == tokens) {
    const Region r = region(problem, head.sequence, head.kv_head);
    const std::int64_t padded = round_up(end, kTokenStep);
    const auto whole = [&](std::int64_t step) { return std::max({begin, from, end / step * step}); };
    clear_k(workspace + r.k, whole(nest_.packing.lanes), padded);
    clear_v(workspace + r.v, whole(group_elements(nest_.packing.v)), padded);
  }
  const std::int64_t first = std::clamp(from, begin, end);
  if (first < end) put(workspace, problem, prepare, head, {k, v, first, end - first, first});
  note_values(workspace, problem, head, begin, end);
  close(workspace, problem, prepare, head, block);
}

KeyPacker::Packed PackedCall::places(std::byte* workspace, const call::Problem& problem,
                                     const HeadIndex& head) const {
  const bool bytes = group_elements(nest_.packing.k) == 4 && nest_.packing.v == Element::s8;
  const bool whole =
      problem.args.k.codes.shape[3] == dim_groups_ * 4 && problem.args.v.codes.shape[3] == dim_v_;
  if (!bytes || !whole || nest_.packing.p_bias) return {};  // with a bias of P, V's codes are summed up
  const Region r = region(problem, head.sequence, head.kv_head);
  return {{workspace + r.k, PackedCodes::Order::columns, nest_.packing.lanes, k_flip()},
          {workspace + r.v, PackedCodes::Order::quads, nest_.packing.lanes, 0}};
}

void PackedCall::put(std::byte* workspace, const call::Problem& problem, const Prepare& prepare,
                     const HeadIndex& head, const Rows& rows) const {
  const Region r = region(problem, head.sequence, head.kv_head);
  put_k(rows, workspace + r.k);
  if (nest_.packing.v == Element::f32)
    put_v_numbers(rows, prepare, workspace + r.v);
  else if (nest_.packing.v == Element::bf16)
    put_v_halves(rows, prepare, workspace + r.v);
  else
    put_v_codes(rows, workspace + r.v, reinterpret_cast<std::int32_t*>(workspace + r.v_sum));
}

void PackedCall::clear(std::byte* workspace, const call::Problem& problem, const HeadIndex& head,
                       std::int64_t begin, std::int64_t end) const {
  const Region r = region(problem, head.sequence, head.kv_head);
  clear_k(workspace + r.k, begin, end);
  clear_v(workspace + r.v, begin, end);
}

// Tokens of one vector of K's, and of one group of V's, lie beside each other; whole ones one after another.
void PackedCall::clear_k(std::byte* k, std::int64_t begin, std::int64_t end) const {
  const std::int64_t lanes = nest_.packing.lanes;
  for (std::int64_t j = begin; j < end;) {
    const std::int64_t lane = j % lanes, count = std::min(lanes - lane, end - j);
    const std::int64_t whole = lane == 0 ? (end - j) / lanes * lanes : 0;
    std::byte* column = k + (j / lanes * dim_groups_ * lanes + lane) * 4;
    if (whole > 0)
      std::memset(column, 0, static_cast<std::size_t>(4 * whole * dim_groups_));
    else
      for (std::int64_t s = 0; s < dim_groups_; ++s)
        std::fill_n(column + s * lanes * 4, 4 * count, std::byte{0});
    j += std::max(whole, count);
  }
}

void PackedCall::clear_v(std::byte* v, std::int64_t begin, std::int64_t end) const {
  const std::int64_t group = group_elements(nest_.packing.v), bytes = element_bytes(nest_.packing.v);
  for (std::int64_t j = begin; j < end;) {
    const std::int64_t first = j % group, count = std::min(group - first, end - j);
    const std::int64_t whole = first == 0 ? (end - j) / group * group : 0;
    std::byte* row = v + j / group * dim_v_ * 4;
    if (whole > 0)
      std::memset(row, 0, static_cast<std::size_t>(4 * dim_v_ * (whole / group)));
    else
      for (std::int64_t c = 0; c < dim_v_; ++c)
        std::fill_n(row + c * 4 + first * bytes, count * bytes, std::byte{0});
    j += std::max(whole, count);
  }
}

void PackedCall::note_values(std::byte* workspace, const call::Problem& problem, const HeadIndex& head,
                             std::int64_t begin, std::int64_t end) const {
  if (!is_float(nest_.packing.v)) return;
  const Region r = region(problem, head.sequence, head.kv_head);
  const std::int64_t group = group_elements(nest_.packing.v);
  for (std::int64_t j = begin; j < end;) {
    const std::int64_t block = j / key_block_, last = std::min(end, (block + 1) * key_block_);
    // Whole groups: no two key blocks share one.
    const std::int64_t from = j / group, to = (last + group - 1) / group;
    const std::byte* numbers = workspace + r.v + from * dim_v_ * 4;
    const std::int64_t bytes = (to - from) * dim_v_ * 4;
    const bool found = nest_.packing.v == Element::f32 ? kernels_.any_non_finite_f32(numbers, bytes)
                                                       : kernels_.any_non_finite_bf16(numbers, bytes);
    std::byte& noted = workspace[r.non_finite + block];
    const bool stays = j % key_block_ != 0 && noted != std::byte{0};
    noted = static_cast<std::byte>(found || stays);
    j = last;
  }
}

void PackedCall::take_off_sums(std::byte* workspace, const call::Problem& problem, const HeadIndex& head,
                               std::int64_t begin, std::int64_t end) const {
  if (!nest_.packing.p_bias) return;
  const Region r = region(problem, head.sequence, head.kv_head);
  constexpr std::int64_t kGroup = 4;  // P of 8 bits meets V of 8 bits
  for (std::int64_t j = begin; j < end; ++j) {
    const auto* codes =
        reinterpret_cast<const std::int8_t*>(workspace + r.v) + j / kGroup * dim_v_ * kGroup + j % kGroup;
    auto* sums = reinterpret_cast<std::int32_t*>(workspace + r.v_sum) + j / key_block_ * dim_v_;
    for (std::int64_t c = 0; c < dim_v_; ++c) sums[c] -= codes[c * kGroup];
  }
}

void PackedCall::close(std::byte* workspace, const call::Problem& problem, const Prepare& prepare,
                       const HeadIndex& head, std::int64_t block) const {
  const call::HeadOperand k(problem.args.k, problem.k, head.sequence, head.kv_head);
  const call::HeadOperand v(problem.args.v, problem.v(), head.sequence, head.kv_head);
  const Region r = region(problem, head.sequence, head.kv_head);
  const std::int64_t begin = block * key_block_, tokens = problem.k.length(head.sequence);
  const std::int64_t end = std::min(begin + key_block_, tokens);
  const std::int64_t padded = end == tokens ? round_up(end, kTokenStep) : end;
  const bool in_p = v.scales_vary_by_token() && nest_.v_in_p && !v.scales_vary_by_channel();

  // What is constant for a key, the block, or one of its channels.
  constexpr std::int64_t kMostKeys = 1024;  // of a key block
  float k_scale[kMostKeys], v_scale[kMostKeys];
  k.token_scales(begin, end - begin, k_scale);
  std::fill(k_scale + (end - begin), k_scale + (padded - begin), 0.0f);
  if (in_p) v.token_scales(begin, end - begin, v_scale);
  std::fill(v_scale + (in_p ? end - begin : 0), v_scale + (padded - begin), 1.0f);
  const float v_largest = in_p ? largest_of(v_scale, end - begin) : 1.0f;
  put_value(workspace + r.k_scale + block * 4, k_scale[0]);
  put_value(workspace + r.v_largest + block * 4, v_largest);
  float* keys = reinterpret_cast<float*>(workspace + r.keys) + begin;
  nest_.key_constants(prepare, k_scale, v_scale, padded - begin, k_scale[0], v_largest, keys, tokens_);
  if (nest_.fixed_constants) {
    auto* fixed = reinterpret_cast<FixedBlock*>(workspace + r.fixed) + block;
    if (key_block_ % kTokenStep == 0)
      nest_.fixed_constants({k_scale, v_scale, keys, tokens_}, end - begin, workspace + r.level + 4 * begin,
                            reinterpret_cast<std::uint16_t*>(workspace + r.mass) + begin, fixed);
    else
      *fixed = {};  // words of one block would lie among the next one's
  }
  if (folds_v(problem.args.v)) {
    float* channel = reinterpret_cast<float*>(workspace + r.channel) + block * dim_v_;
    for (std::int64_t c = 0; c < dim_v_; ++c) channel[c] = c < v.dim() ? v.scale(begin, c) : 1.0f;
  }
}

}  // namespace octet::cpu
