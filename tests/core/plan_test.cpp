// Choosing a kernel from an ordered list.
#include "tests/core/support.h"

namespace octet {
namespace {

using testing::expect_sentence;
using testing::valid;

std::string takes_all(const AttentionDesc&) { return {}; }
std::string only_causal(const AttentionDesc& d) {
  return d.mask == Mask::causal ? std::string{} : std::string{"it computes causal attention only"};
}
Status runs(const AttentionDesc&, const AttentionArgs&) { return {}; }

constexpr Kernel kCandidates[] = {{"fast", only_causal, runs}, {"reference", takes_all, runs}};

TEST(MakePlan, TakesTheFirstKernelThatDoesNotRefuse) {
  AttentionDesc d = valid(Scheme::int8);
  d.mask = Mask::causal;
  const Result<Plan> plan = make_plan(d, "", kCandidates);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().backend, "fast");
  EXPECT_EQ(plan.value().kernel, "fast/int8/d64/causal");
  EXPECT_TRUE(plan.value().refusals.empty());
}

TEST(MakePlan, KeepsWhyEachOtherKernelWasRefused) {
  const Result<Plan> plan = make_plan(valid(Scheme::int8), "", kCandidates);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().kernel, "reference/int8/d64/none");
  ASSERT_EQ(plan.value().refusals.size(), 1u);
  EXPECT_EQ(plan.value().refusals[0].kernel, "fast/int8/d64/none");
  EXPECT_EQ(plan.value().refusals[0].reason, "it computes causal attention only");
}

TEST(MakePlan, AForcedBackendIsTheOnlyOneAsked) {
  AttentionDesc d = valid(Scheme::int8);
  d.mask = Mask::causal;
  const Result<Plan> plan = make_plan(d, "reference", kCandidates);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().backend, "reference");
  d.mask = Mask::none;
  const Status refused = make_plan(d, "fast", kCandidates).status();
  expect_sentence(refused, Code::unsupported, "scheme", "int8");
  EXPECT_NE(refused.message().find("it computes causal attention only"), std::string::npos);
}

TEST(MakePlan, AnUnknownBackendGetsTheNamesThatThereAre) {
  const Status status = make_plan(valid(Scheme::int8), "quantum", kCandidates).status();
  expect_sentence(status, Code::invalid_argument, "backend", "\"quantum\"");
  EXPECT_NE(status.message().find("fast, reference"), std::string::npos) << status.message();
}

TEST(MakePlan, ABrokenProblemIsRefusedBeforeAnyKernelIsAsked) {
  AttentionDesc d = valid(Scheme::int8);
  d.head_dim = 0;
  expect_sentence(make_plan(d, "", {}).status(), Code::invalid_argument, "head_dim", "0");
}

}  // namespace
}  // namespace octet
