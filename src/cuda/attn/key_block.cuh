// One key block of a sequence, and what a warp makes of its scores: the part of the kernels' loops that is
// the same for all families.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/softmax.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// A key block: its keys, counted within the sequence, and where its constants are packed, and V if it is.
struct KeyBlock {
  std::int32_t number, begin, keys, slot;
};

/// The key blocks of a sequence that the rows of a block of threads see: numbers first ... end - 1.
struct KeyBlocks {
  Divider size;
  std::int32_t tokens, first_slot, first, end;

  /// The blocks that tokens begin ... begin + rows - 1 of the queries see.
  __device__ __forceinline__ KeyBlocks(const Call& call, const Visibility& visibility, const Sequence& keys,
                                       std::int32_t head, std::int32_t begin, std::int32_t rows)
      : size(call.key_block),
        tokens(keys.length),
        first_slot(head * call.packed.blocks_per_head +
                   first_group_bound(call.keys, keys.index, call.key_block)) {
    if (visibility.of_all()) {
      first = tile::kept(std::int32_t{0}), end = tile::kept((tokens + size - 1) / size);
      return;
    }
    const KeyRange first_sees = visibility.of(begin);
    const KeyRange last_sees = visibility.of(min(begin + rows, visibility.queries) - 1);
    first = first_sees.begin / size, end = (last_sees.end + size - 1) / size;
  }
  /// Of these, the blocks that are in a range.
  __device__ __forceinline__ void keep(const BlockRange& range) {
    first = max(first, range.begin), end = min(end, range.end);
  }
  __device__ __forceinline__ KeyBlock at(std::int32_t i) const {
    return {i, i * size, min(size, tokens - i * size), first_slot + i};
  }
};

/// Key blocks of which some rows see a key, and those of which all rows see all keys.
struct SeenByRows {
  BlockRange some, whole;
  std::int32_t all_before;  ///< the first block before which all rows have seen a key, if they see that one
  SeenByRows() = default;
  /// Tokens begin ... begin + count - 1 of the queries. keys: of a whole block, as wide as the tile.
  __device__ __forceinline__ SeenByRows(const Visibility& visibility, const HeadBias& bias,
                                        const KeyBlocks& blocks, std::int32_t keys, std::int32_t begin,
                                        std::int32_t count) {
    const Divider& key_block = blocks.size;
    const bool has_whole = !bias.any() && key_block == keys;
    if (visibility.of_all()) {
      const bool rows = begin < visibility.queries, ends_whole = blocks.end * key_block <= blocks.tokens;
      some = {0, rows ? blocks.end : 0};
      whole = {0, rows && has_whole ? blocks.end - !ends_whole : 0};
      all_before = 1;
      return;
    }
    const KeyRange first = visibility.of(begin),
                   last = visibility.of(max(begin, min(begin + count, visibility.queries) - 1));
    some = {first.begin / key_block, min((last.end + key_block - 1) / key_block, blocks.end)};
    whole = {(last.begin + key_block - 1) / key_block, first.end / key_block};
    if (!has_whole) whole.end = whole.begin;
    all_before = last.begin / key_block + 1;
  }
};

/// What Q K^T starts from.
template <class S>
__device__ __forceinline__ constexpr typename S::Acc start_of_sums() {
  if constexpr (requires { S::kStart; })
    return S::kStart;
  else
    return 0;
}

template <class S>
__device__ __forceinline__ typename S::Block block_constants(const Call& call, const KeyBlock& block) {
  if constexpr (std::is_empty_v<typename S::Block>)
    return {};
  else
    return reinterpret_cast<const typename S::Block*>(call.packed.blocks)[block.slot];
}

/// bias(0) without its arithmetic; of floats the 0 that the compiler leaves out of a sum.
__device__ __forceinline__ float no_bias(float) { return -0.0f; }
template <class Bias>
__device__ __forceinline__ Bias no_bias(Bias none) {
  return none;
}

/// From accumulators to codes of P. of_keys, of_block: constants of the block's kKeys places, and its own.
/// whole: the warp's rows see all keys of the block, and no bias is added. Seen, Bias: Visibility and
/// HeadBias, or SeesAll and NoBias.
template <Masses kMasses, int kKeys, Blind kBlind = Blind::is_left_out, Pace kPace = Pace::free, class S,
          int kTiles, class Seen, class Bias>
__device__ __forceinline__ void weigh_block(typename S::Acc (&acc)[kTiles][4], PWords<S, kTiles>& p,
                                            LaneRow<S> (&rows)[kRowsALane], const S& scheme, const Call& call,
                                            const std::uint32_t* of_keys, const typename S::Block& of_block,
                                            const KeyBlock& block, const Seen& visibility, const Bias& bias,
                                            bool whole) {
  using Softmax = BlockSoftmax<S, kTiles, kKeys, kMasses, kBlind, kPace>;
  typename S::View view[kRowsALane];
  typename S::Score score[kTiles][4];
  Hidden hidden;
  constexpr bool kTakesBias = !std::is_empty_v<typename S::Bias> && !std::is_same_v<Bias, NoBias>;
  bool has_bias = false;
  if constexpr (kTakesBias) has_bias = bias.any();
  if (whole) [[likely]] {
    rows[0].sees = rows[1].sees = true;
  } else if (!has_bias) {
    if (visibility.of_all()) {
      rows[0].sees = rows[1].sees = true;
      hidden = hidden_by_end<kTiles>(block.keys);
    } else if constexpr (!std::is_same_v<Seen, SeesAll>) {
      hidden = hidden_by_range<S, kTiles>(visibility, block.begin, block.keys, rows);
      if constexpr (kBlind == Blind::adds_nothing) rows[0].sees = rows[1].sees = true;
    }
    if constexpr (S::kUsesRowPeak) Softmax::hide(acc, hidden);
  }
  const auto score_with = [&](const auto& bias_of) {
    Softmax::score(scheme, acc, of_keys, of_block, rows, view, score, bias_of);
  };
  if (has_bias) [[unlikely]] {
    if constexpr (kTakesBias) {
      typename S::Bias added[kTiles * 4];
      hidden = biases_of<S, kTiles>(added, scheme, bias, visibility, block.begin, block.keys, rows);
      if constexpr (S::kUsesRowPeak) Softmax::hide(acc, hidden);
      score_with([&](int tile, int e) { return added[tile * 4 + e]; });
    }
  } else {
    const typename S::Bias none = no_bias(typename S::Bias{});
    score_with([&](int, int) { return none; });
  }
  if (!whole) [[unlikely]]
    Softmax::hide(score, hidden);
  Softmax::run(scheme, score, of_keys, view, rows, p, hidden, whole, call.key_block - block.keys);
}

}  // namespace octet::cuda::attn
