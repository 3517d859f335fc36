// Rows of one or two key blocks, all of whose keys they see: nothing is carried from block to block, so the
// sums of P V stay in registers as they are, 32 bits each, and need no bins (numerics/integer_terms.h). Of
// two key blocks two warps have one each, and at the end each takes half of the rows from both; or one warp
// has both.
#pragma once
#include <cstdint>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/softmax.cuh"
#include "cuda/ptx/with_carry.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// What warps of the same rows have for their ends: channels' constants, and of two parts what they leave for
/// each other.
template <class S, int kDim, int kParts>
struct LoneParts {
  alignas(16) std::int32_t factors[kDim];
};
template <class S, int kDim>
struct LoneParts<S, kDim, 2> : LoneParts<S, kDim, 1> {
  static constexpr int kTiles = kDim / 8, kLanes = 32, kRows = 16;
  alignas(16) std::int32_t sums[2][kTiles / 2][kLanes][4];  ///< of the rows that the other part ends
  typename S::Term terms[2][kRows];                         ///< by part
};

/// From a key block's accumulators to codes of P and a term of the lane's own row.
template <class S, int kTiles, int kKeys>
class LoneBlock {
  using Acc = typename S::Acc;
  using Key = typename S::Key;

 public:
  __device__ __forceinline__ LoneBlock(const S& scheme, const typename S::Row& row,
                                       const typename S::Block& block)
      : scheme_(scheme),
        block_(block),
        row_(row),
        views_(scheme.near_views(row_, block)),
        near_(__all_sync(tile::kAllLanes, scheme.fits_u16(row_, block))) {}

  /// keys: the block's; the constants of its places.
  __device__ __forceinline__ typename S::Term weigh(Acc (&acc)[kTiles][4], std::int32_t keys,
                                                    const std::uint32_t* of_keys,
                                                    PWords<S, kTiles>& p) const {
    if (keys < kTiles * 8) hide_end(acc, keys);
    const Acc peak = Softmax::largest_of_own(acc);
    std::int32_t distance[kTiles][4], nearest;
    typename S::Lone own;
    if (near_) [[likely]] {
      typename S::NearView of[kRowsALane];
      pass(of, S::near(views_, peak));
      each(distance, acc, of_keys,
           [&](Acc a, int r, const Key& key) { return scheme_.near_distance(a, of[r], key); });
      nearest = nearest_of_own(distance);
      own = scheme_.lone(views_.position(peak) - nearest, block_.v_exponent);
    } else {
      const typename S::View view = scheme_.view(row_, block_, peak);
      typename S::View of[kRowsALane];
      pass(of, view);
      each(distance, acc, of_keys,
           [&](Acc a, int r, const Key& key) { return scheme_.distance(a, of[r], key); });
      nearest = nearest_of_own(distance);
      own = scheme_.lone(view.position - nearest, block_.v_exponent);
    }
    LaneRow<S> rows[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      rows[r].step.origin = from_row(own.above - nearest + static_cast<std::int32_t>(S::kExp2Lift), r);
    typename S::Sum sum[kRowsALane] = {};
    Softmax::weigh(
        Weights{scheme_}, distance, of_keys, rows, p, [](int, int) { return false; }, sum);
    own.term.mass = S::mass_of(over_quad_of_own(sum, tile::Sum{}), own.term);
    return own.term;
  }

 private:
  using Softmax = BlockSoftmax<S, kTiles, kKeys, Masses::of_quad>;

  /// Weights of distances; a row's step has what makes them lifted ones.
  struct Weights {
    const S& scheme;
    __device__ __forceinline__ auto weight(std::int32_t distance, const typename S::Step& step) const {
      return S::exp2_lifted(as_unsigned(distance + step.origin));
    }
    template <class Weight>
    __device__ __forceinline__ auto code(Weight weight) const {
      return scheme.code(weight);
    }
    template <class Weight, class Code>
    __device__ __forceinline__ auto mass(Weight weight, const Code& code, const Key& key) const {
      return scheme.mass(weight, code, key);
    }
  };

  /// Of even and of odd tiles by itself, as of the largest.
  static __device__ __forceinline__ std::int32_t nearest_of_own(const std::int32_t (&x)[kTiles][4]) {
    std::int32_t least[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      std::int32_t of[2] = {min(x[0][2 * r], x[0][2 * r + 1]), min(x[1][2 * r], x[1][2 * r + 1])};
#pragma unroll
      for (int i = 2; i < kTiles; ++i) of[i % 2] = min(of[i % 2], min(x[i][2 * r], x[i][2 * r + 1]));
      least[r] = min(of[0], of[1]);
    }
    return over_quad_of_own(least, [](std::int32_t a, std::int32_t b) { return min(a, b); });
  }

  template <class View>
  static __device__ __forceinline__ void pass(View (&of)[kRowsALane], const View& own) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      of[r] = own.passed([&](const auto& word) { return from_row(word, r); });
  }
  template <class DistanceOf>
  static __device__ __forceinline__ void each(std::int32_t (&distance)[kTiles][4],
                                              const Acc (&acc)[kTiles][4], const std::uint32_t* of_keys,
                                              const DistanceOf& distance_of) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const auto pair = KeyArrays<Key, kKeys>::pair(of_keys, i * 8 + column());
#pragma unroll
      for (int e = 0; e < 4; ++e) distance[i][e] = distance_of(acc[i][e], e >> 1, pair.of[e & 1]);
    }
  }
  /// Places behind the block's end are no row's largest; their constants see to the rest (S::no_key).
  static __device__ __forceinline__ void hide_end(Acc (&acc)[kTiles][4], std::int32_t keys) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const bool hides = i * 8 + column() + c >= keys;
        acc[i][c] = hides ? S::kHiddenAcc : acc[i][c];
        acc[i][2 + c] = hides ? S::kHiddenAcc : acc[i][2 + c];
      }
    }
  }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  const S& scheme_;
  const typename S::Block& block_;
  const typename S::Row& row_;
  typename S::NearViews views_;
  bool near_;
};

/// Ends of kRows rows of a lane, of which the quad's lanes have the channels: of two, each lane makes the
/// scalars of its own one, of one all do. kTerms: key blocks of a row.
template <LongRows S, int kDim, int kRows, int kTerms>
class LoneEnds {
 public:
  using Term = typename S::Term;
  static constexpr int kTiles = kDim / 8;
  /// Of P V: by tile, row, column and term.
  using Sums = std::int32_t[kTiles][kRows][2][kTerms];

  /// factors: of channels, at their largest exponent. staged: the lane's rows, eight rows apart.
  __device__ __forceinline__ LoneEnds(const S& scheme, const Sums& sums, const Term (&terms)[kTerms],
                                      const typename S::Channel* channels, const std::int32_t* factors,
                                      std::int32_t largest_exponent, const RowStore& store,
                                      StagedRow<kDim>* staged)
      : scheme_(scheme),
        sums_(sums),
        terms_(terms),
        state_(S::state_of(terms)),
        channels_(channels),
        factors_(factors),
        largest_exponent_(largest_exponent),
        store_(store),
        staged_(staged) {}

  /// The scale of the lane's own row.
  __device__ __forceinline__ float end() {
    float scale = 0;
    if (!end_quickly(scale)) [[unlikely]]
      scale = end_exactly();
    return scale;
  }
  __device__ const typename S::State& state() const { return state_; }

 private:
  using Quick = typename S::template TermEnds<kTerms>;
  static constexpr int kCount = kTiles * kRows * 2;  ///< outputs of a lane

  template <class T>
  static __device__ __forceinline__ T of_row(const T& own, int r) {
    return kRows == 1 ? own : from_row(own, r);
  }
  template <class T, class Join>
  static __device__ __forceinline__ T own_of(const T (&x)[kRows], const Join& join) {
    if constexpr (kRows == 1)
      return tile::over_quad(x[0], join);
    else
      return over_quad_of_own(x, join);
  }

  /// By 31 bits of the warp's outputs; whether these decided the scales of all rows.
  __device__ __forceinline__ bool end_quickly(float& own_scale) {
    std::int32_t most[kRows] = {}, least[kRows] = {};
    each([&](int i, int r, int c) {
#pragma unroll
      for (int t = 0; t < kTerms; ++t) {
        most[r] = max(most[r], sums_[i][r][c][t]);
        least[r] = min(least[r], sums_[i][r][c][t]);
      }
    });
    const typename Quick::Factors own_factors =
        S::term_factors(terms_, state_, own_of(sizes(most, least).of, tile::Larger{}));
    typename Quick::Factors of[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      of[r] = own_factors.passed([&](const auto& word) { return of_row(word, r); });
    std::int32_t output[kTiles][kRows][2];
#pragma unroll
    for (int r = 0; r < kRows; ++r) most[r] = least[r] = 0;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int2 channel = *reinterpret_cast<const int2*>(factors_ + i * 8 + column());
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        std::int32_t(&pair)[2] = output[i][r];
        pair[0] = of[r].output(sums_[i][r][0], channel.x);
        pair[1] = of[r].output(sums_[i][r][1], channel.y);
        most[r] = max(most[r], max(pair[0], pair[1]));
        least[r] = min(least[r], min(pair[0], pair[1]));
      }
    }
    const typename Quick::Codes own =
        Quick::codes(own_of(sizes(most, least).of, tile::Larger{}), own_factors, largest_exponent_);
    if (!__all_sync(tile::kAllLanes, own.sure)) return false;
    own_scale = S::output_scale(own.scale_exponent);
    typename Quick::Codes codes[kRows];
    float factor[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      codes[r] = own.passed([&](const auto& word) { return of_row(word, r); });
      factor[r] = of_row(store_.code_factor(own_scale), r);
    }
    std::uint32_t closed = 0;  // a bit a code, the first one's the highest
    each([&](int i, int r, int c) {
      const typename Quick::Codes::Code code = codes[r].code(output[i][r][c]);
      closed = ptx::with_carry(closed, code.above, codes[r].least_closed());
      put(i, r, c, code.code, factor[r]);
    });
    const std::uint32_t open = closed ^ (~0u >> (32 - kCount));
    if (__any_sync(tile::kAllLanes, open != 0)) [[unlikely]]
      settle(open, S::ending(state_, own.scale_exponent, own_factors.reciprocal), factor);
    return true;
  }

  /// By row, the largest size of numbers from least to most, which 0 is between.
  static __device__ __forceinline__ auto sizes(const std::int32_t (&most)[kRows],
                                               const std::int32_t (&least)[kRows]) {
    struct Sizes {
      std::uint32_t of[kRows];
    } sizes;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sizes.of[r] = static_cast<std::uint32_t>(max(most[r], -least[r]));
    return sizes;
  }

  /// Codes that 31 bits leave open, one of each lane's at a time: of the thousand of a warp hardly ever more
  /// than one. Few instructions, for who comes here waits for them.
  __device__ __forceinline__ void settle(std::uint32_t open, const typename S::Ending& own_ending,
                                         const float (&factor)[kRows]) {
    Copies copies;
    copy(copies);
#pragma unroll 1
    while (__any_sync(tile::kAllLanes, open != 0)) {
      const int bit = open != 0 ? __ffs(static_cast<int>(open)) - 1 : 0;
      const int n = kCount - 1 - bit, row_of_n = n / 2 % kRows, tile = n / (2 * kRows);
      const auto of_n = [&](const auto& word) { return of_row(word, row_of_n); };
      Term terms[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t)
        terms[t].fold = of_n(terms_[t].fold), terms[t].out_octave = of_n(terms_[t].out_octave);
      typename S::State state;
      state.out_top = of_n(state_.out_top);
      std::int32_t sums[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) sums[t] = copies[t][n];
      const typename S::Wide wide =
          scheme_.finish(S::total_of(terms, state, sums), channels_[tile * 8 + column() + n % 2]);
      const std::int32_t code = scheme_.output_code(wide, own_ending.passed(of_n));
      if (open != 0)
        put(tile, row_of_n, n % 2, code, kRows == 1 || row_of_n == 0 ? factor[0] : factor[kRows - 1]);
      open &= open - 1;
    }
  }

  /// In loops that are not unrolled, over copies in local memory: few rows come here.
  __device__ __forceinline__ float end_exactly() {
    Copies copies;
    copy(copies);
    Term terms[kRows][kTerms];
    typename S::State state[kRows];
    typename S::Wide peak[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int t = 0; t < kTerms; ++t) {
        terms[r][t].fold = of_row(terms_[t].fold, r);
        terms[r][t].out_octave = of_row(terms_[t].out_octave, r);
      }
      state[r].out_top = of_row(state_.out_top, r);
      peak[r] = scheme_.finish(0, channels_[column()]);
    }
    const auto wide_of = [&](int n, int r, int c) {
      const int i = n / (2 * kRows);
      std::int32_t sums[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) sums[t] = copies[t][n];
      return scheme_.finish(S::total_of(terms[r], state[r], sums), channels_[i * 8 + column() + c]);
    };
#pragma unroll 1
    for (int n = 0; n < kCount; n += 2 * kRows) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll 1
        for (int c = 0; c < 2; ++c) peak[r] = scheme_.larger(peak[r], wide_of(n + 2 * r + c, r, c));
      }
    }
    const auto largest = own_of(peak, [&](const auto& a, const auto& b) { return scheme_.larger(a, b); });
    const typename S::Ending own = scheme_.ending(state_, {}, largest);
    const float own_scale = scheme_.output_scale(own);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const typename S::Ending of = own.passed([&](const auto& word) { return of_row(word, r); });
      const float factor = of_row(store_.code_factor(own_scale), r);
#pragma unroll 1
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll 1
        for (int c = 0; c < 2; ++c)
          put(i, r, c, scheme_.output_code(wide_of((i * kRows + r) * 2 + c, r, c), of), factor);
      }
    }
    return own_scale;
  }

  /// The lane's sums in local memory, where they have addresses: four of a tile lie in four registers.
  using Copies = std::int32_t[kTerms][kCount];
  __device__ __forceinline__ void copy(Copies& to) const {
    each([&](int i, int r, int c) {
#pragma unroll
      for (int t = 0; t < kTerms; ++t) to[t][(i * kRows + r) * 2 + c] = sums_[i][r][c][t];
    });
  }
  template <class Body>
  static __device__ __forceinline__ void each(const Body& body) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int c = 0; c < 2; ++c) body(i, r, c);
      }
    }
  }
  __device__ __forceinline__ void put(int tile, int r, int c, std::int32_t code, float factor) const {
    staged_[static_cast<int>(threadIdx.x % 32) / 4 + 8 * r].number[tile * 8 + column() + c] =
        static_cast<float>(code) * factor;
  }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  const S& scheme_;
  const Sums& sums_;
  const Term (&terms_)[kTerms];
  const typename S::State state_;
  const typename S::Channel* channels_;
  const std::int32_t* factors_;
  std::int32_t largest_exponent_;
  const RowStore& store_;
  StagedRow<kDim>* staged_;
};

}  // namespace octet::cuda::attn
