// The second loop nest: schemes that need a whole row of scores before the first P, run one query row at a
// time. Memory O(tokens_k) a thread; K and V are decoded anew for each row, since these are baselines to
// compare with.
//
// Such a scheme `S = Scheme<Lane>` is, for one row with visible keys j = 0, 1, ...:
//
//   acc[j]   = q . k_j                                    exact integers, or f32
//   score[j] = scheme.score(acc[j], bias[j])
//   sum      = scheme.softmax(score, keys, p)             fills p[j]
//   o[c]     = scheme.finish(sum over j of p[j] v[j][c], V's scale of channel c)
//   lse      = scheme.lse(sum)
//
// It states kQk and kV (operand formats), Acc, PvAcc, Score, Sum, Code (of P) and Bias. A scheme with
// calibrated(peak) asks for the largest |acc| of the whole call first, every visible key of every row, head
// and sequence: a dynamic range per tensor. That is a pass of its own over Q and K, and makes a row depend on
// all others, as in the networks it comes from.
//
// Hidden keys do not exist for a scheme. A row without any has output zero and LSE -inf.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "ref/attend.h"

namespace octet::ref {

/// sums[c] += p v[c] in 64 bits: |p| < 2^16, |v| <= 127 and fewer than 2^40 keys.
inline void accumulate(std::int64_t* sums, std::int32_t p, const std::int16_t* v, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += std::int64_t{p} * v[c];
}

/// The rows of one unit of work with scheme S.
template <class S>
class RowSoftmax {
 public:
  RowSoftmax(const S& scheme, const Problem& problem, const Work& work)
      : scheme_(scheme),
        problem_(problem),
        work_(work),
        q_(problem.args.q, problem.q, work.sequence, work.head),
        k_(problem.args.k, problem.k, work.sequence, problem.kv_head(work.head)),
        v_(problem.args.v, problem.v(), work.sequence, problem.kv_head(work.head)),
        bias_(problem.desc, problem.args.bias, problem.k.batch(work.sequence), work.head),
        q_row_(static_cast<std::size_t>(q_.dim())),
        k_row_(static_cast<std::size_t>(k_.dim())),
        v_row_(static_cast<std::size_t>(v_.dim())),
        pv_(static_cast<std::size_t>(v_.dim())) {}

  void run() {
    for (std::int64_t i = work_.begin; i < work_.end; ++i) {
      gather(i);
      attend(i);
    }
  }

  /// Largest |acc| of the work's visible keys.
  typename S::Acc largest() {
    typename S::Acc peak{};
    for (std::int64_t i = work_.begin; i < work_.end; ++i) {
      gather(i);
      for (typename S::Acc a : acc_) peak = std::max(peak, a < 0 ? -a : a);
    }
    return peak;
  }

 private:
  using QkType = typename Held<S::kQk>::Type;
  using PvType = typename Held<S::kV>::Type;

  /// The keys that query i sees, and their accumulators and biases.
  void gather(std::int64_t i) {
    const std::int64_t m = problem_.q.length(work_.sequence), n = problem_.k.length(work_.sequence);
    const KeyRange visible = visible_range(problem_.desc, i, m, n);
    key_.clear(), acc_.clear(), add_.clear();
    q_.load(i, q_row_.data());
    for (std::int64_t j = visible.begin; j < visible.end; ++j) {
      const float b = bias_.at(i, j);
      if (b == kMinusInfinity) continue;
      k_.load(j, k_row_.data());
      key_.push_back(j), add_.push_back(b);
      acc_.push_back(dot(q_row_.data(), k_row_.data(), q_.dim()));
    }
  }

  void attend(std::int64_t i) {
    const RowWriter writer(problem_.args, problem_.q.batch(work_.sequence), work_.head,
                           problem_.q.begin(work_.sequence) + i);
    if (key_.empty()) {
      for (std::int64_t c = 0; c < v_.dim(); ++c) writer.value(c, 0);
      return writer.lse(kMinusInfinity);
    }
    score_.resize(key_.size()), code_.resize(key_.size());
    for (std::size_t j = 0; j < key_.size(); ++j) score_[j] = scheme_.score(acc_[j], scheme_.bias(add_[j]));
    const typename S::Sum sum =
        scheme_.softmax(score_.data(), static_cast<std::int64_t>(score_.size()), code_.data());
    std::fill(pv_.begin(), pv_.end(), typename S::PvAcc{});
    for (std::size_t j = 0; j < key_.size(); ++j) {
      v_.load(key_[j], v_row_.data());
      accumulate(pv_.data(), code_[j], v_row_.data(), v_.dim());
    }
    for (std::int64_t c = 0; c < v_.dim(); ++c)
      writer.value(c,
                   scheme_.finish(pv_[static_cast<std::size_t>(c)], v_.has_scales() ? v_.scale(0, c) : 1.0f));
    writer.lse(scheme_.lse(sum) + writer.lse_shift());
  }

  const S& scheme_;
  const Problem& problem_;
  const Work work_;
  const HeadOperand q_, k_, v_;
  const HeadBias bias_;

  std::vector<QkType> q_row_, k_row_;
  std::vector<PvType> v_row_;
  std::vector<typename S::PvAcc> pv_;
  std::vector<std::int64_t> key_;
  std::vector<typename S::Acc> acc_;
  std::vector<float> add_;
  std::vector<typename S::Score> score_;
  std::vector<typename S::Code> code_;
};

/// The largest |acc| of the call. A maximum does not depend on the order of the threads.
template <class S>
typename S::Acc largest_accumulator(const S& scheme, const Problem& problem) {
  std::atomic<typename S::Acc> peak{};
  for_each_work(problem, [&](const Work& work) {
    const typename S::Acc mine = RowSoftmax<S>(scheme, problem, work).largest();
    typename S::Acc seen = peak.load(std::memory_order_relaxed);
    while (mine > seen && !peak.compare_exchange_weak(seen, mine, std::memory_order_relaxed)) {
    }
  });
  return peak.load(std::memory_order_relaxed);
}

/// Attention of the whole call with a scheme of whole rows.
template <template <class> class SchemeOf>
void attend_rows_with(const Problem& problem) {
  using S = SchemeOf<ScalarLane>;
  S scheme = S::prepare(prepare_input(problem, nullptr));
  if constexpr (requires { &S::calibrated; })
    scheme = scheme.calibrated(largest_accumulator(scheme, problem));
  for_each_work(problem, [&](const Work& work) { RowSoftmax<S>(scheme, problem, work).run(); });
}

}  // namespace octet::ref
