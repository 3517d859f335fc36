// Groups of rows in stages beside each other: the distances of one come beside Q K^T of the next, its weights
// beside P V of the one before. The processor does not look past a product's waiting instructions for what
// else it might do; part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/tile.h"
#include "cpu/visit.inl"

namespace octet::cpu {
namespace {

/// Words: IntegerRows.
template <class Nest, class Visit, class Words>
class Stages {
 public:
  explicit Stages(Nest& nest) : nest_(nest) {}

  /// Group g against a key block, up to its sums; what waits for them goes on.
  template <class Block>
  __attribute__((noinline, aligned(64))) void visit(const Block& block, std::int64_t g) {
    Visit& visit = visits_[begun_ % kVisits];
    visit.set = begun_ % kSets;
    nest_.use_set(visit.set);
    if (!nest_.begin(visit, block, g)) return;
    ++begun_;
    if (visit.form != Form::words || !Words::sees_all(visit)) {
      end();
      nest_.use_set(visit.set);
      nest_.multiply_qk(visit);
      nest_.softmax(visit);
      nest_.multiply_pv(visit);
      return;
    }
    // A product of fewer rows has not all of the others' stages beside it.
    if (scored_ && scored_->live > visit.live) {
      end_scored();
      nest_.use_set(visit.set);
    }
    Visit* const before = scored_;
    scored_ = &visit;
    if (!before) return nest_.multiply_qk(visit);

    Referred referred;
    Least least;
    const TileDistances distances = view(*before, referred, least);
    nest_.use_set(visit.set);
    nest_.multiply_qk(visit, &distances);
    const std::int64_t columns = visit.compared / Nest::kLanes;
    weigh(*before, distances.beside(nest_.call_.dim_groups, columns), least, referred);
  }

  /// What waits, to its end.
  void end() {
    end_scored();
    end_weighed();
  }

 private:
  using Referred = typename Words::Referred;
  using Least = typename Words::Least;
  static constexpr std::int64_t kVisits = 3;  ///< one at work, one with its sums, one with its weights
  static constexpr std::int64_t kSets = 2;  ///< of sums and of codes: one is read while the other is written

  TileDistances view(const Visit& visit, Referred& referred, Least& least) {
    nest_.use_set(visit.set);
    nest_.words_.view(nest_.groups_[visit.group], visit, referred);
    return nest_.words_.distances_beside(visit, referred, least);
  }

  /// From the distances of so many chunks of keys to weights, beside P V of the group before.
  __attribute__((noinline, aligned(64))) void weigh(Visit& visit, std::int64_t chunks, Least& least,
                                                    Referred& referred) {
    auto& group = nest_.groups_[visit.group];
    nest_.use_set(visit.set);
    nest_.words_.refer_rest(group, visit, chunks, least, referred);
    typename Words::Masses masses;
    const TileWeights weights = nest_.words_.weights_beside(visit, referred, masses);
    std::int64_t done = 0;
    if (weighed_ && weighed_->live >= visit.live) {
      nest_.use_set(weighed_->set);
      done = nest_.outputs_.multiply_beside(*weighed_, &weights);
      weighed_ = nullptr;
      nest_.use_set(visit.set);
    }
    nest_.words_.weigh_rest(group, visit, done, masses, referred);
    end_weighed();
    weighed_ = &visit;
  }

  void end_scored() {
    if (!scored_) return;
    Visit& visit = *scored_;
    scored_ = nullptr;
    Referred referred;
    Least least;
    view(visit, referred, least);
    weigh(visit, 0, least, referred);
  }
  void end_weighed() {
    if (!weighed_) return;
    nest_.use_set(weighed_->set);
    nest_.multiply_pv(*weighed_);
    weighed_ = nullptr;
  }

  Nest& nest_;
  Visit visits_[kVisits];
  std::int64_t begun_ = 0;
  Visit* scored_ = nullptr;   ///< has its sums
  Visit* weighed_ = nullptr;  ///< has its weights, but not P V
};

}  // namespace
}  // namespace octet::cpu
