// Where packed keys and values lie in the workspace, and how they get there.
#pragma once
#include <cstdint>

#include "base/key_packer.h"
#include "call/operand.h"
#include "call/problem.h"
#include "cpu/kernel.h"
#include "cpu/pack_kernels.h"

namespace octet::cpu {

/// Of everything that vectors are read from.
inline constexpr std::int64_t kAlignment = 64;

inline std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// Every sequence starts at a multiple of these tokens, and has zeros up to the next one: whole vectors of
/// keys, and of words in the 16-bit form, for every instruction set.
inline constexpr std::int64_t kTokenStep = 32;

/// One head of K and V.
struct HeadIndex {
  std::int64_t sequence, kv_head;
};

/// The packed K and V of a call: [sequence, kv head] regions one after another, each padded so that every key
/// block of a sequence is whole.
class PackedCall {
 public:
  /// code_dim: channels of K's codes, which rotation may have padded.
  PackedCall(const Nest& nest, const AttentionDesc& desc, std::int64_t code_dim);

  std::int64_t bytes() const { return bytes_; }
  /// Of the region of a head of dense tensors.
  std::int64_t head_bytes() const { return head_bytes_; }

  /// The region of one head. Sequences are [begin, begin + tokens) of the token axis.
  PackedHead head(std::byte* workspace, const call::Problem& problem, std::int64_t sequence,
                  std::int64_t kv_head) const;

  /// Packs key block `block` of one head, but for its tokens before `from`, whose codes are there already.
  void pack(std::byte* workspace, const call::Problem& problem, const Prepare& prepare, const HeadIndex& head,
            std::int64_t block, std::int64_t from) const;
  /// Where others may pack the codes of a head, in the order of base/packed_codes.h; null where the layout is
  /// another.
  KeyPacker::Packed places(std::byte* workspace, const call::Problem& problem, const HeadIndex& head) const;

  // The halves of pack(), for K and V that come token by token (store.h).

  /// Tokens of one head and where they go.
  struct Rows {
    const call::HeadOperand &k, &v;
    std::int64_t from, count;  ///< tokens of the operands
    std::int64_t to;           ///< token of the region
  };
  /// Packs the rows; what is constant for their key blocks is left to close().
  void put(std::byte* workspace, const call::Problem& problem, const Prepare& prepare, const HeadIndex& head,
           const Rows& rows) const;
  /// Zeros in place of tokens [begin, end).
  void clear(std::byte* workspace, const call::Problem& problem, const HeadIndex& head, std::int64_t begin,
             std::int64_t end) const;
  /// Notes for the key blocks of tokens [begin, end) whether V holds NaN or Inf there; what was noted of a
  /// block's tokens before `begin` stays. Tokens of the region beyond `end` are zeros.
  void note_values(std::byte* workspace, const call::Problem& problem, const HeadIndex& head,
                   std::int64_t begin, std::int64_t end) const;
  /// Takes the V of tokens [begin, end) off the sums of their key blocks.
  void take_off_sums(std::byte* workspace, const call::Problem& problem, const HeadIndex& head,
                     std::int64_t begin, std::int64_t end) const;
  /// What is constant for the keys of a block, the block, or one of its channels, from the scales of the
  /// problem's K and V.
  void close(std::byte* workspace, const call::Problem& problem, const Prepare& prepare,
             const HeadIndex& head, std::int64_t block) const;

  /// Writes rows of queries as dim_groups() groups of elements each, zeros at the end of a row.
  void pack_queries(const call::HeadOperand& q, std::int64_t begin, std::int64_t count, std::byte* out) const;
  /// What rows so written sum up to; 0 where they are floats.
  void sum_queries(const std::byte* packed, std::int64_t count, const RowSums& out) const;

  std::int64_t dim_groups() const { return dim_groups_; }
  std::int64_t dim_v() const { return dim_v_; }
  /// Whether V's scale of a key block multiplies its sums.
  bool folds_v(const QuantizedTensor& v) const;

 private:
  /// Offsets of a head's parts, in the workspace.
  struct Region {
    std::int64_t k, v, keys, k_scale, v_largest, channel, v_sum, level, mass, fixed, non_finite;
  };
  Region region(const call::Problem& problem, std::int64_t sequence, std::int64_t kv_head) const;

  /// What makes K's codes what the kernels read: code + 128 where K is the unsigned side.
  std::uint32_t k_flip() const { return nest_.packing.k == Element::u8_bias ? 0x80808080 : 0; }
  void pack_row(Element element, const call::HeadOperand& operand, std::int64_t token, std::byte* out) const;
  void pack_codes(Element element, const std::int8_t* codes, std::int64_t dim, std::byte* out) const;
  // clear()'s and put()'s parts; k, v, out, sums: of token 0 and block 0 of the region.
  void clear_k(std::byte* k, std::int64_t begin, std::int64_t end) const;
  void clear_v(std::byte* v, std::int64_t begin, std::int64_t end) const;
  void put_k(const Rows& rows, std::byte* out) const;
  void put_v_codes(const Rows& rows, std::byte* out, std::int32_t* sums) const;
  void put_v_halves(const Rows& rows, const Prepare& prepare, std::byte* out) const;
  void put_v_numbers(const Rows& rows, const Prepare& prepare, std::byte* out) const;
  /// Codes of V of `count` keys from `token` on.
  void add_to_sums(const CodeRows& keys, std::int64_t count, std::int64_t channels, std::int64_t token,
                   std::int32_t* sums) const;

  const Nest& nest_;
  const PackKernels& kernels_;
  std::int64_t key_block_, dim_groups_, dim_v_, heads_;
  std::int64_t tokens_, blocks_;  ///< of all sequences together, padded: what one kv head has
  std::int64_t k_bytes_, v_bytes_, key_bytes_, block_bytes_, channel_bytes_, v_sum_bytes_;
  std::int64_t level_bytes_, mass_bytes_, fixed_bytes_, non_finite_bytes_, head_bytes_, bytes_;
};

/// Elements of 4 bytes.
std::int64_t group_elements(Element element);
bool is_float(Element element);

}  // namespace octet::cpu
