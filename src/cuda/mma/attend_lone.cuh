// The attention kernel of the mma.sync family for rows of one or two key blocks, each of a warp of its own,
// of schemes of long rows: no loop, no masks and no bias (attn/lone_block.cuh).
#pragma once
#include <cstdint>

#include "cuda/attn/lone_block.cuh"
#include "cuda/mma/attend.cuh"

namespace octet::cuda::mma {

template <class S, Tile kTile>
class LoneAttention : Attention<S, kTile> {
  using Base = Attention<S, kTile>;
  using Base::call_, Base::shared_, Base::scheme_;
  using typename Base::Queries;
  using typename Base::Shared;
  using typename Base::Threads;
  using typename Base::Tiles;
  static constexpr int kParts = Base::kParts, kTiles = Base::kTiles;
  static constexpr int kChannelTiles = kTile.head_dim / 8;
  static constexpr int kRows = kRowsALane / kParts;  ///< of a lane, that it ends
  static constexpr int kBlocks = kTile.lone_blocks, kTurns = kBlocks / kParts;
  static_assert(kTurns * kParts == kBlocks && (kTurns == 1 || (kTurns == 2 && Base::kTwoBuffers)),
                "a warp's key blocks have a buffer each");
  static_assert(!Tiles::kByKeys, "V's rows are channels");

 public:
  __device__ LoneAttention(const Call& call, Shared& shared) : Base(call, shared) {}

  __device__ __forceinline__ void run() {
    Base::with_rows([&](const Queries& q, const HeadOperand& k, const HeadOperand& v, const HeadBias&,
                        std::int32_t begin, const Sequence& queries, const Sequence& keys,
                        const BlockRange&) { attend_rows(q, k, v, begin, queries, keys); });
  }

 private:
  using Ends = LoneEnds<S, kTile.head_dim, kRows, kBlocks>;
  using Lone = LoneBlock<S, kTiles, kTile.keys>;
  using PvAcc = typename S::PvAcc[kChannelTiles][4];

  __device__ __forceinline__ void attend_rows(const Queries& q, const HeadOperand& k, const HeadOperand& v,
                                              std::int32_t begin, const Sequence& queries,
                                              const Sequence& keys) {
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    const std::int32_t first_row = begin + Base::first_row_of_warp();
    const int part = Threads::part(), lane = static_cast<int>(threadIdx.x % 32);
    // Row r of a lane is one of the second half of the warp's rows where r ^ part is 1.
    const std::int32_t own_row = first_row + lane / 4 + 8 * (attn::own_row<kRowsALane>() ^ part);
    const std::int32_t size = call_.key_block;
    const std::int32_t first_slot = head / call_.group * call_.packed.blocks_per_head +
                                    first_group_bound(call_.keys, keys.index, call_.key_block);
    const auto block_at = [&](int i) {
      return KeyBlock{i, i * size, min(size, keys.length - i * size), first_slot + i};
    };
    const KeyBlock first = block_at(part);
    const typename Base::CopyPlaces places = Base::copy_places(k, v, first_slot);
    const typename Base::QueryRows query_rows = Base::query_rows_of(q, begin, queries.length);
    const float* const q_scale = tile::kept(q.first().scale_at(min(own_row, queries.length - 1), 0));
    const std::byte* const first_k = tile::kept(places.k_rows + first.number * call_.k_block_bytes);
    const std::byte* const first_v = tile::kept(Base::rows_of_v(places, first));
    EndScalesAt scales_at[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i)
      scales_at[i] = EndScalesAt(v, min(channel_of_thread(i), call_.dim_v - 1));
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
    // note: behind the copies, which are many, these would wait for them.
    typename S::Block of_block = block_constants<S>(call_, first);
    const typename S::Block of_last =
        kTurns == 1 ? of_block : block_constants<S>(call_, block_at(kBlocks - 1));
    const float scale = q.first().has_scales() ? *q_scale : 1.0f;
    ChannelScales<DeviceLane> of_channels[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) of_channels[i] = scales_at[i].read();
    Base::load_k(places, first, first_k);
    Base::load_v(places, first, first_v);
    Base::load_q(q, query_rows, begin, queries.length);
    ptx::commit_copies();
    if constexpr (kTurns > 1) {
      Base::load_block(places, block_at(1));
      ptx::commit_copies();
    }
#pragma unroll
    for (int i = 0; i < kOfThread; ++i)
      if (channel_of_thread(i) < kTile.head_dim)
        shared_.channels[channel_of_thread(i)] = scheme_.channel(of_channels[i]);
    const typename S::Row row = scheme_.row(scale);

    // The last warps of a sequence may have no rows: they copy with the others, and leave the rest to these.
    // note: not where one warp has both key blocks, whose calls took 3 % longer so
    // (docs/cuda-measurements.md).
    const bool has_rows = kParts == 1 || first_row < queries.length;
    // Of the key block at hand, and of the one before it.
    PvAcc pv, pv_before;
    typename S::Term term, term_before;
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn > 0) keep(pv_before, pv), term_before = term, of_block = of_last;
      const Lone lone(scheme_, row, of_block);  // what needs no scores while these are on their way
      if (turn + 1 < kTurns)
        ptx::wait_copies<kTurns - 1>();
      else
        ptx::wait_copies<0>();
      __syncthreads();
      if (has_rows) term = attend_block(pv, lone, block_at(part + turn));
    }
    if (call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();

    auto& parts = shared_.parts(blockDim.x / 32, threadIdx.x / 32);
    const std::int32_t largest_exponent = put_factors(parts.factors);
    typename Ends::Sums sums;
    typename S::Term terms[kBlocks];
    if constexpr (kParts == 1) {
      __syncthreads();  // nobody reads the tiles any more, and the factors are there
      terms[0] = term;
      if constexpr (kTurns > 1) terms[1] = term_before;
#pragma unroll
      for (int i = 0; i < kChannelTiles; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sums[i][e >> 1][e & 1][0] = pv[i][e];
          if constexpr (kTurns > 1) sums[i][e >> 1][e & 1][1] = pv_before[i][e];
        }
      }
    } else {
      if (lane % 4 < kRowsALane) parts.terms[part][lane / 4 + 8 * (lane % 4 ^ part)] = term;
#pragma unroll
      for (int i = 0; i < kChannelTiles; i += 2)
        *reinterpret_cast<int4*>(parts.sums[part][i / 2][lane]) = {pv[i][2], pv[i][3], pv[i + 1][2],
                                                                   pv[i + 1][3]};
      __syncthreads();  // the same, and the other parts are there
      if (!has_rows) return;
#pragma unroll
      for (int t = 0; t < kParts; ++t) terms[t] = parts.terms[part ^ t][lane / 4 + 8 * part];
#pragma unroll
      for (int i = 0; i < kChannelTiles; i += 2) {
        const int4 other = *reinterpret_cast<const int4*>(parts.sums[part ^ 1][i / 2][lane]);
        const std::int32_t of_other[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          sums[i + n / 2][0][n % 2][0] = pv[i + n / 2][n % 2];
          sums[i + n / 2][0][n % 2][1] = of_other[n];
        }
      }
    }

    constexpr int kRowsAPart = kRowsAWarp / kParts;
    const std::int32_t first_of_part = part * kRowsAPart;
    StagedRow<kTile.head_dim>* staged = shared_.outputs + Base::first_row_of_warp() + first_of_part;
    const RowStore store(call_, queries, head);
    Ends ends(scheme_, sums, terms, shared_.channels, parts.factors, largest_exponent, store, staged);
    const float own_scale = ends.end();
    __syncwarp();
    store.template rows<kRowsAPart, kWordsTogether<S>>(staged, first_row + first_of_part, queries.length,
                                                       call_.dim_v);
    const std::int32_t token = kParts == 1 ? own_row : first_row + lane / 4 + first_of_part;
    if (lane % 4 >= kRows || token >= queries.length) return;
    if (store.wants_lse()) store.lse(token, scheme_.lse(ends.state(), row));
    store.scale(token, own_scale);
  }

  /// From K to sums of P V, and the term of the lane's own row.
  __device__ __forceinline__ typename S::Term attend_block(PvAcc& pv, const Lone& lone,
                                                           const KeyBlock& block) const {
    PWords<S, kTiles> p;
    typename S::Acc acc[kTiles][4];
    multiply_qk<S::kQk, Tiles::kQkRow>(acc, Place<Tiles::kQkRow>(Base::reads_.get(0).q),
                                       Base::address_of_k(block), Place<Tiles::kQkRow>(Base::reads_.get(0).k),
                                       typename S::Acc{});
    const typename S::Term term = lone.weigh(acc, block.keys, shared_.tiles.keys[block.number], p);
    multiply_pv<S::kP, S::kV, Tiles::kVRow>(pv, p.word, Base::address_of_v(block), Base::place_of_v(), 0);
    return term;
  }
  static __device__ __forceinline__ void keep(PvAcc& to, const PvAcc& from) {
#pragma unroll
    for (int i = 0; i < kChannelTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) to[i][e] = from[i][e];
    }
  }

  /// The channels whose constants a thread has, beyond the last one perhaps.
  static constexpr int kOfThread = (kTile.head_dim + 32 * kParts - 1) / (32 * kParts);
  static __device__ __forceinline__ int channel_of_thread(int i) {
    return Threads::number() + i * Threads::count();
  }

  /// Factors of the channels at their largest exponent, which is returned, by the warps of the same rows.
  /// Seen by these from the next barrier on.
  __device__ __forceinline__ std::int32_t put_factors(std::int32_t (&factors)[kTile.head_dim]) const {
    using Quick = typename S::QuickEnds;
    const int lane = static_cast<int>(threadIdx.x % 32);
    std::int32_t largest = Quick::exponent(shared_.channels[lane]);
#pragma unroll
    for (int c = 32; c < kTile.head_dim; c += 32)
      largest = max(largest, Quick::exponent(shared_.channels[c + lane]));
    largest = __reduce_max_sync(tile::kAllLanes, largest);
    for (int c = Threads::part() * 32 + lane; c < kTile.head_dim; c += 32 * kParts)
      factors[c] = Quick::factor(shared_.channels[c], largest);
    return largest;
  }
};

}  // namespace octet::cuda::mma
