#include "bench/workloads.h"

#include <fmt/format.h>

#include <array>

namespace octet::tool {
namespace {

constexpr std::array<CpuWorkload, 14> kWorkloads{{
    {"swin", Kind::vision, 64, 3, 3, 49, 49, 32},
    {"swin-bias", Kind::vision, 64, 3, 3, 49, 49, 32, Mask::none, true},
    {"vit-b", Kind::vision, 1, 12, 12, 197, 197, 64},
    {"causal-1k-d64", Kind::prefill, 1, 16, 16, 1024, 1024, 64, Mask::causal},
    {"causal-1k-d128", Kind::prefill, 1, 16, 16, 1024, 1024, 128, Mask::causal},
    {"gqa-1k-d128", Kind::prefill, 1, 16, 4, 1024, 1024, 128},
    {"1k-d64", Kind::prefill, 1, 16, 16, 1024, 1024, 64},
    {"1k-d128", Kind::prefill, 1, 16, 16, 1024, 1024, 128},
    {"decode-1-gqa", Kind::decode, 1, 32, 8, 1, 32768, 128},
    {"decode-1-mha", Kind::decode, 1, 8, 8, 1, 32768, 128},
    {"decode-16-gqa", Kind::decode, 1, 32, 8, 16, 32768, 128},
    {"decode-16-mha", Kind::decode, 1, 8, 8, 16, 32768, 128},
    {"4k-d64", Kind::longer, 1, 16, 16, 4096, 4096, 64},
    {"4k-d128", Kind::longer, 1, 16, 16, 4096, 4096, 128},
}};

}  // namespace

std::span<const CpuWorkload> cpu_workloads() { return kWorkloads; }

double giga_operations(const CpuWorkload& w) {
  const double pairs =
      static_cast<double>(w.batch * w.heads_q * w.tokens_q) * static_cast<double>(w.tokens_k);
  const double visible = w.mask == Mask::causal ? pairs / 2 : pairs;
  return 1e-9 * 4 * visible * static_cast<double>(w.head_dim);
}

std::string shape_of(const CpuWorkload& w) {
  std::string text = w.batch == 1 ? "" : fmt::format("{} x ", w.batch);
  text += w.heads_kv == w.heads_q ? fmt::format("{} x ", w.heads_q)
                                  : fmt::format("{} over {} x ", w.heads_q, w.heads_kv);
  text += w.tokens_q == w.tokens_k ? fmt::format("{} x ", w.tokens_k)
                                   : fmt::format("{} of {} x ", w.tokens_q, w.tokens_k);
  text += fmt::format("{}", w.head_dim);
  if (w.mask == Mask::causal) text += ", causal";
  if (w.biased) text += ", bias";
  return text;
}

}  // namespace octet::tool
