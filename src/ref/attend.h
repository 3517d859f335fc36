// The reference loop nest: the contract of numerics/contract.h, run one row at a time for any scheme.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "call/problem.h"
#include "call/store.h"
#include "call/visibility.h"
#include "lanes/scalar.h"
#include "numerics/ordered_rounding.h"
#include "ref/products.h"

namespace octet::ref {

using namespace call;

/// Query rows that share one pass over the keys.
inline constexpr std::int64_t kBlockM = 32;

/// Attention of one block of query rows with scheme S.
template <class S>
class RowBlock {
 public:
  using QkType = typename Held<S::kQk>::Type;
  using PvType = typename Held<S::kV>::Type;

  RowBlock(const S& scheme, const Problem& problem, const Work& work)
      : scheme_(scheme),
        problem_(problem),
        work_(work),
        q_(problem.args.q, problem.q, work.sequence, work.head),
        k_(problem.args.k, problem.k, work.sequence, problem.kv_head(work.head)),
        v_(problem.args.v, problem.v(), work.sequence, problem.kv_head(work.head)),
        bias_(problem.desc, problem.args.bias, problem.k.batch(work.sequence), work.head),
        rows_(work.end - work.begin),
        dim_(q_.dim()),
        dim_v_(v_.dim()),
        block_(problem.desc.key_block) {}

  void run() {
    open_rows();
    const std::int64_t n = problem_.k.length(work_.sequence);
    const std::int64_t blocks = (n + block_ - 1) / block_;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t begin = problem_.schedule.at(i, blocks) * block_;
      if (!open_block(begin, std::min(begin + block_, n))) continue;
      for (std::int64_t r = 0; r < rows_; ++r) visit(r);
    }
    for (std::int64_t r = 0; r < rows_; ++r) close_row(r);
  }

 private:
  using Acc = typename S::Acc;
  using PvAcc = typename S::PvAcc;
  using Code = typename Held<S::kP>::Type;

  /// What a row carries across key blocks.
  struct RowState {
    typename S::Row row;
    typename S::State state;
    KeyRange visible;
    bool saw_a_key = false;
  };

  void open_rows() {
    const std::int64_t m = problem_.q.length(work_.sequence), n = problem_.k.length(work_.sequence);
    row_.resize(static_cast<std::size_t>(rows_));
    q_tile_.resize(static_cast<std::size_t>(rows_ * dim_));
    out_.assign(static_cast<std::size_t>(rows_ * dim_v_), typename S::Out{});
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t token = work_.begin + r;
      row_[r].row = scheme_.row(q_.token_scale(token));
      row_[r].visible = visible_range(problem_.desc, token, m, n);
      q_.load(token, &q_tile_[r * dim_]);
    }
    k_tile_.resize(static_cast<std::size_t>(block_ * dim_));
    v_tile_.resize(static_cast<std::size_t>(block_ * dim_v_));
    keys_.resize(static_cast<std::size_t>(block_));
    acc_.resize(static_cast<std::size_t>(block_));
    score_.resize(static_cast<std::size_t>(block_));
    add_.resize(static_cast<std::size_t>(block_));
    hidden_.assign(static_cast<std::size_t>(block_), 0);
    code_.resize(static_cast<std::size_t>(block_));
    pv_.resize(static_cast<std::size_t>(dim_v_));
    fold_channel_.assign(static_cast<std::size_t>(dim_v_), scheme_.channel({}));
  }

  /// Decodes keys [begin, end) and makes their constants; false where no row of the work sees any of them.
  bool open_block(std::int64_t begin, std::int64_t end) {
    const bool seen = std::any_of(row_.begin(), row_.end(), [&](const RowState& r) {
      return r.visible.begin < end && r.visible.end > begin;
    });
    if (!seen) return false;
    block_begin_ = begin, block_end_ = end;
    const bool in_p = v_.scales_vary_by_token() && carries_v<S>() && !v_.scales_vary_by_channel();
    v_largest_ = in_p ? 0.0f : 1.0f;
    for (std::int64_t j = begin; in_p && j < end; ++j) v_largest_ = std::max(v_largest_, v_.token_scale(j));
    block_constants_ = block_constants(begin);
    for (std::int64_t j = begin; j < end; ++j) {
      k_.load(j, &k_tile_[(j - begin) * dim_]);
      v_.load(j, &v_tile_[(j - begin) * dim_v_]);
      if constexpr (requires { scheme_.value(PvType{}); }) {
        for (std::int64_t c = 0; c < dim_v_; ++c) {
          PvType& v = v_tile_[(j - begin) * dim_v_ + c];
          v = scheme_.value(v);
        }
      }
      keys_[j - begin] = scheme_.key({k_.token_scale(j), in_p ? v_.token_scale(j) : 1.0f}, block_constants_);
    }
    if (v_.scales_vary_by_token() && !in_p) {
      for (std::int64_t c = 0; c < dim_v_; ++c) fold_channel_[c] = scheme_.channel({v_.scale(begin, c), 0});
    }
    return true;
  }

  /// Constants of the block that begins with key `begin`.
  typename S::Block block_constants(std::int64_t begin) const {
    const float k_scale = k_.token_scale(begin);
    if constexpr (requires { scheme_.block(1.0f, 1.0f); })
      return scheme_.block(k_scale, v_largest_);
    else
      return scheme_.block(k_scale);
  }

  /// One row against the open key block.
  void visit(std::int64_t r) {
    RowState& row = row_[r];
    const std::int64_t first = std::max(row.visible.begin, block_begin_) - block_begin_;
    const std::int64_t last = std::min(row.visible.end, block_end_) - block_begin_;
    if (first >= last || !read_bias(r, first, last)) return;
    row.saw_a_key = true;

    const QkType* q = &q_tile_[r * dim_];
    for (std::int64_t j = first; j < last; ++j) acc_[j] = dot(q, &k_tile_[j * dim_], dim_);
    Acc row_peak{};
    if constexpr (S::kUsesRowPeak) row_peak = largest_visible(acc_, first, last);
    const typename S::View view = scheme_.view(row.row, block_constants_, row_peak);
    for (std::int64_t j = first; j < last; ++j) score_[j] = scheme_.score(acc_[j], view, keys_[j], add_[j]);

    const typename S::Step step = scheme_.step(row.state, largest_visible(score_, first, last), view);
    typename S::Sum sum{};
    std::fill(pv_.begin(), pv_.end(), PvAcc{});
    for (std::int64_t j = first; j < last; ++j) {
      if (hidden_[j]) continue;
      const auto weight = scheme_.weight(score_[j], step);
      const auto code = code_of(weight, j);
      sum += scheme_.mass(weight, code, keys_[j]);
      code_[j] = static_cast<Code>(code);
    }
    if constexpr (requires { scheme_.padding_mass(step); }) {
      if (const auto padding = static_cast<std::int32_t>(block_ - (block_end_ - block_begin_)))
        sum += scheme_.padding_mass(step) * padding;
    }
    for (std::int64_t j = first; j < last; ++j) {
      if (!hidden_[j]) accumulate(pv_.data(), code_[j], &v_tile_[j * dim_v_], dim_v_);
    }
    typename S::Out* out = &out_[r * dim_v_];
    for (std::int64_t c = 0; c < dim_v_; ++c) scheme_.fold(out[c], pv_[c], step, fold_channel_[c]);
    row.state = scheme_.absorb(row.state, step, sum);
  }

  /// P's code of the block's j-th key.
  template <class Weight>
  auto code_of(const Weight& weight, std::int64_t j) const {
    constexpr RoundingOffsets<kPlaces> kOffsets;
    if constexpr (requires { scheme_.code(weight, 0.0f, keys_[j], 1.0f); })
      return scheme_.code(weight, kOffsets.of[j % kPlaces], keys_[j], v_largest_);
    else
      return scheme_.code(weight);
  }

  /// Bias of the row's keys [first, last) of the block; false where all of them are hidden.
  bool read_bias(std::int64_t r, std::int64_t first, std::int64_t last) {
    if (!bias_.any()) {
      std::fill(add_.begin() + first, add_.begin() + last, scheme_.bias(0.0f));
      return true;
    }
    bool any_visible = false;
    for (std::int64_t j = first; j < last; ++j) {
      const float b = bias_.at(work_.begin + r, block_begin_ + j);
      hidden_[j] = b == kMinusInfinity;
      add_[j] = scheme_.bias(hidden_[j] ? 0.0f : b);
      any_visible |= !hidden_[j];
    }
    return any_visible;
  }

  template <class T>
  T largest_visible(const std::vector<T>& values, std::int64_t first, std::int64_t last) const {
    std::int64_t j = first;
    while (hidden_[j]) ++j;
    T peak = values[j];
    for (++j; j < last; ++j) {
      if (!hidden_[j] && values[j] > peak) peak = values[j];
    }
    return peak;
  }

  void close_row(std::int64_t r) {
    const RowState& row = row_[r];
    const RowWriter writer(problem_.args, problem_.q.batch(work_.sequence), work_.head,
                           problem_.q.begin(work_.sequence) + work_.begin + r);
    if (!row.saw_a_key) {
      for (std::int64_t c = 0; c < dim_v_; ++c) writer.value(c, 0);
      writer.scale(0);
      return writer.lse(kMinusInfinity);
    }
    writer.lse(scheme_.lse(row.state, row.row) + writer.lse_shift());
    finish(row, &out_[r * dim_v_], writer);
  }

  void finish(const RowState& row, const typename S::Out* out, const RowWriter& writer) const {
    if constexpr (S::kOutput == Output::values) {
      for (std::int64_t c = 0; c < dim_v_; ++c)
        writer.value(c, scheme_.finish(out[c], row.state, row.row, channel(c)));
    } else if constexpr (S::kOutput == Output::one_scale) {
      const float scale = scheme_.output_scale();
      for (std::int64_t c = 0; c < dim_v_; ++c)
        writer.code(c, scheme_.finish(out[c], row.state, row.row, channel(c)), scale);
      writer.scale(scale);
    } else {
      std::vector<typename S::Wide> wide(static_cast<std::size_t>(dim_v_));
      for (std::int64_t c = 0; c < dim_v_; ++c)
        wide[c] = scheme_.finish(out[c], row.state, row.row, channel(c));
      typename S::Wide peak = wide[0];
      for (std::int64_t c = 0; c < dim_v_; ++c) peak = scheme_.larger(peak, wide[c]);
      const typename S::Ending ending = scheme_.ending(row.state, row.row, peak);
      const float scale = scheme_.output_scale(ending);
      for (std::int64_t c = 0; c < dim_v_; ++c) writer.code(c, scheme_.output_code(wide[c], ending), scale);
      writer.scale(scale);
    }
  }

  /// V's scale of a channel where it was not folded into P or into the block's sums.
  typename S::Channel channel(std::int64_t c) const {
    const bool at_the_end = v_.has_scales() && !v_.scales_vary_by_token();
    return scheme_.channel({at_the_end ? v_.scale(0, c) : 1.0f, v_.exponent(c)});
  }

  const S& scheme_;
  const Problem& problem_;
  const Work work_;
  const HeadOperand q_, k_, v_;
  const HeadBias bias_;
  const std::int64_t rows_, dim_, dim_v_, block_;

  std::vector<RowState> row_;
  std::vector<QkType> q_tile_, k_tile_;
  std::vector<PvType> v_tile_;
  std::vector<typename S::Out> out_;
  std::int64_t block_begin_ = 0, block_end_ = 0;
  float v_largest_ = 1;  ///< of V's scales that P carries in the block
  typename S::Block block_constants_{};
  std::vector<typename S::Key> keys_;
  std::vector<typename S::Channel> fold_channel_;
  std::vector<Acc> acc_;
  std::vector<typename S::Score> score_;
  std::vector<typename S::Bias> add_;
  std::vector<std::uint8_t> hidden_;
  std::vector<Code> code_;
  std::vector<PvAcc> pv_;
};

/// Calls body(work) for every query block of every head of every sequence, in parallel.
template <class Body>
void for_each_work(const Problem& problem, const Body& body) {
  std::vector<Work> works;
  for (std::int64_t s = 0; s < problem.q.count; ++s) {
    for (std::int64_t h = 0; h < problem.desc.heads_q; ++h) {
      const std::int64_t m = problem.q.length(s);
      for (std::int64_t i = 0; i < m; i += kBlockM) works.push_back({s, h, i, std::min(i + kBlockM, m)});
    }
  }
  for_each_parallel(problem.args.parallel_for, static_cast<std::int64_t>(works.size()),
                    [&](std::int64_t i) { body(works[static_cast<std::size_t>(i)]); });
}

/// Attention of the whole call with a scheme; one that has a table says how long it is and fills it.
template <template <class> class SchemeOf>
void attend_with(const Problem& problem) {
  using S = SchemeOf<ScalarLane>;
  std::vector<float> table;
  if constexpr (requires { &S::fill_table; }) {
    table.resize(static_cast<std::size_t>(S::table_entries(problem.desc.options)));
    S::fill_table(problem.desc.options, table.data());
  }
  const S scheme = S::prepare(prepare_input(problem, table.data()));
  for_each_work(problem, [&](const Work& work) { RowBlock<S>(scheme, problem, work).run(); });
}

}  // namespace octet::ref
