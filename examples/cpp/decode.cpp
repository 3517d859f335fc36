// Decoding with K and V kept as codes: a prompt is appended at once, then one token a step, and each step
// attends to all keys that there are. Prints the error of the last step against exact attention; exits with 1
// where something failed or the error is larger than that of int8 should be.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <octet/octet.hpp>
#include <vector>

namespace {

constexpr std::int64_t kHeads = 4, kHeadsKv = 2, kDim = 64, kPrompt = 100, kSteps = 50,
                       kKeys = kPrompt + kSteps;

/// Deterministic values in [-1, 1]: a linear congruential generator's high bits.
std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return x;
}

/// Tokens [begin, end) of [head, token, dim] memory with kKeys tokens a head.
octet::TensorView tokens(const std::vector<float>& x, std::int64_t begin, std::int64_t end) {
  octet::TensorView view = octet::view_bhsd(x.data(), octet::DType::f32, {1, kHeadsKv, kKeys, kDim});
  view.data = static_cast<float*>(view.data) + begin * kDim;
  view.shape[2] = end - begin;
  return view;
}

bool report(const octet::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "decode: %s\n", status.message().c_str());
  return status.ok();
}

}  // namespace

int main() {
  const std::vector<float> q = values(kHeads * kDim, 1), k = values(kHeadsKv * kKeys * kDim, 2),
                           v = values(kHeadsKv * kKeys * kDim, 3);
  std::vector<float> exact(q.size()), o(q.size());
  const octet::TensorView query = octet::view_bhsd(q.data(), octet::DType::f32, {1, kHeads, 1, kDim});
  const octet::TensorView out = octet::view_bhsd(o.data(), octet::DType::f32, {1, kHeads, 1, kDim});

  // The plan's tokens_k is the cache's capacity. What a token becomes must not depend on later ones: scales a
  // token, K less its first key instead of its mean, V not equalised.
  octet::Result<octet::AttentionDesc> described =
      octet::describe(octet::Scheme::int8, query, tokens(k, 0, kKeys), tokens(v, 0, kKeys));
  if (!report(described.status())) return 1;
  octet::AttentionDesc desc = described.take();
  desc.recipe.smooth = octet::Smooth::anchor;
  desc.recipe.equalise = octet::Equalise::off;
  octet::Result<octet::AttentionPlan> plan = octet::AttentionPlan::create(desc);
  if (!report(plan.status())) return 1;
  octet::Result<octet::KvCache> made = octet::KvCache::create(plan.value());
  if (!report(made.status())) return 1;
  octet::KvCache cache = made.take();

  octet::Result<octet::Workspace> workspace = octet::Workspace::allocate(cache.workspace_bytes(plan.value()));
  if (!report(workspace.status())) return 1;
  octet::AttentionArgs args;
  args.q.codes = query, args.o = out;
  args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();

  if (!report(cache.append(tokens(k, 0, kPrompt), tokens(v, 0, kPrompt)))) return 1;
  for (std::int64_t t = kPrompt; t < kKeys; ++t) {
    if (!report(cache.append(tokens(k, t, t + 1), tokens(v, t, t + 1)))) return 1;
    if (!report(cache.attend(plan.value(), args))) return 1;
  }

  const octet::TensorView reference = octet::view_bhsd(exact.data(), octet::DType::f32, {1, kHeads, 1, kDim});
  if (!report(octet::attention(query, tokens(k, 0, kKeys), tokens(v, 0, kKeys), reference,
                               {.scheme = octet::Scheme::exact})))
    return 1;
  double noise = 0, signal = 0;
  for (std::size_t i = 0; i < o.size(); ++i) {
    noise += std::pow(double{o[i]} - double{exact[i]}, 2);
    signal += std::pow(double{exact[i]}, 2);
  }
  const double error = std::sqrt(noise / signal);
  std::printf("octet %s from C++: int8 cache of %d keys against exact, relative error %.2e\n",
              octet_version(), static_cast<int>(cache.length()), error);
  return error > 0 && error < 0.02 ? 0 : 1;
}
