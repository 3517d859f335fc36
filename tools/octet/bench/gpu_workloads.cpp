#include "bench/gpu_workloads.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/sentence.h"
#include "common/text.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

/// QAttn's mixed kernel is in QFlash's figure 3, whose batch is 8.
constexpr const char* kFigure3 = "qattn";
/// QFlash's ablation, its two quotients, and exponentials by the unit, by lines and by a table.
constexpr const char* kAblation = "int8_shift,int8_lut,qattn,qflash_division";
/// int8 with scales of K by token, and so with no larger error than comfy-kitchen's, and V's by channel,
/// which are faster than by token; and at the longest all others that have kernels of Hopper's own.
constexpr const char* kPrefill = "int8_channel";
constexpr const char* kLongest = "int8_channel,bf16,fp8,fp8_hybrid,int8_fp8,int4";

constexpr GpuWorkload vit(const char* name, std::int64_t batch, std::int64_t heads, bool weighed = false,
                          const char* more_schemes = "") {
  return {"vit", {name, Kind::vision, batch, heads, heads, 197, 197, 64}, weighed, more_schemes};
}
constexpr GpuWorkload swin(const char* name, std::int64_t windows, std::int64_t heads, bool weighed = false,
                           const char* more_schemes = "") {
  return {"vit", {name, Kind::vision, windows, heads, heads, 49, 49, 32}, weighed, more_schemes};
}
constexpr GpuWorkload protocol(const char* name, std::int64_t tokens, bool weighed = false) {
  return {"llm-prefill", {name, Kind::prefill, 4, 32, 32, tokens, tokens, 64}, weighed, kPrefill};
}
constexpr GpuWorkload grid(const char* name, std::int64_t tokens, std::int64_t dim, Mask mask,
                           bool weighed = false) {
  constexpr std::int64_t kTokens = 16384, kHidden = 2048;
  const std::int64_t heads = kHidden / dim;
  return {"llm-prefill",
          {name, Kind::prefill, kTokens / tokens, heads, heads, tokens, tokens, dim, mask},
          weighed,
          tokens == kTokens && mask == Mask::none ? kLongest : kPrefill};
}

/// A prompt of a model with 32 heads over 8, which so many GPUs have a part each of.
constexpr GpuWorkload prompt(const char* name, std::int64_t tokens, std::int64_t gpus = 1) {
  return {"llm-prefill", {name, Kind::prefill, 1, 32 / gpus, 8 / gpus, tokens, tokens, 128, Mask::causal}};
}

/// A picture that a model sees (CLIP ViT-L/14 of 224 and 336 pixels, ViT-B/16 of 384) or a diffusion model
/// makes, its tokens and a text's: tiles that fill no turn of an H200's processors.
constexpr GpuWorkload image(const char* name, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                            std::int64_t dim) {
  return {"llm-prefill", {name, Kind::prefill, batch, heads, heads, tokens, tokens, dim}};
}
/// Such a picture against the text that it is made of.
constexpr GpuWorkload text(const char* name, std::int64_t batch, std::int64_t heads, std::int64_t tokens) {
  constexpr std::int64_t kTokensOfText = 77;
  return {"llm-prefill", {name, Kind::prefill, batch, heads, heads, tokens, kTokensOfText, 64}};
}

/// One token of the same model as prompts, a few, or a prompt's next chunk.
constexpr GpuWorkload step(const char* name, std::int64_t batch, std::int64_t rows, std::int64_t keys) {
  return {"decode", {name, Kind::prefill, batch, 32, 8, rows, keys, 128}};
}

constexpr GpuWorkload kGpuWorkloads[] = {
    vit("A1-b1", 1, 3),
    vit("A2-b1", 1, 6),
    vit("A3-b1", 1, 12),
    swin("A4-b1", 64, 3),
    swin("A5-b1", 16, 6),
    swin("A6-b1", 4, 12),
    swin("A7-b1", 1, 24),
    vit("A1-b8", 8, 3, false, kFigure3),
    vit("A2-b8", 8, 6, true, kFigure3),
    vit("A3-b8", 8, 12, false, kFigure3),
    swin("A4-b8", 8 * 64, 3, false, kFigure3),
    swin("A5-b8", 8 * 16, 6, false, kFigure3),
    swin("A6-b8", 8 * 4, 12, false, kFigure3),
    swin("A7-b8", 8, 24, true, kFigure3),
    vit("A2-b1024", 1024, 6, false, kAblation),
    protocol("h32-1k", 1024),
    protocol("h32-2k", 2048),
    protocol("h32-4k", 4096),
    protocol("h32-8k", 8192),
    protocol("h32-16k", 16384, true),
    grid("d64-4k", 4096, 64, Mask::none),
    grid("d64-8k", 8192, 64, Mask::none),
    grid("d64-16k", 16384, 64, Mask::none),
    grid("d64-4k-causal", 4096, 64, Mask::causal),
    grid("d64-8k-causal", 8192, 64, Mask::causal),
    grid("d64-16k-causal", 16384, 64, Mask::causal),
    grid("d128-4k", 4096, 128, Mask::none),
    grid("d128-8k", 8192, 128, Mask::none),
    grid("d128-16k", 16384, 128, Mask::none, true),
    grid("d128-4k-causal", 4096, 128, Mask::causal),
    grid("d128-8k-causal", 8192, 128, Mask::causal),
    grid("d128-16k-causal", 16384, 128, Mask::causal),
    grid("d256-4k", 4096, 256, Mask::none),
    grid("d256-8k", 8192, 256, Mask::none),
    grid("d256-16k", 16384, 256, Mask::none),
    grid("d256-4k-causal", 4096, 256, Mask::causal),
    grid("d256-8k-causal", 8192, 256, Mask::causal),
    grid("d256-16k-causal", 16384, 256, Mask::causal),
    prompt("gqa-512-causal", 512),
    prompt("gqa-1k-causal", 1024),
    prompt("gqa-2k-causal", 2048),
    prompt("gqa-8k-causal", 8192),
    prompt("part-1k-causal", 1024, 4),
    prompt("part-2k-causal", 2048, 4),
    image("image-257", 1, 16, 257, 64),
    image("image-257-b8", 8, 16, 257, 64),
    image("image-577", 1, 16, 577, 64),
    image("image-577-base", 1, 12, 577, 64),
    image("image-1k", 2, 20, 1024, 64),
    image("image-4k", 2, 10, 4096, 64),
    image("image-4.5k", 1, 24, 4608, 128),
    text("image-1k-text", 2, 20, 1024),
    step("step-4k", 1, 1, 4096),
    step("step-4k-b8", 8, 1, 4096),
    step("step-4k-b32", 32, 1, 4096),
    step("step-32k", 1, 1, 32768),
    step("step16-8k", 1, 16, 8192),
    step("step64-8k", 1, 64, 8192),
    step("chunk-256-8k", 1, 256, 8192),
    step("chunk-1k-8k", 1, 1024, 8192),
    {"decode", {"step-16k-d64", Kind::prefill, 1, 16, 16, 1, 16384, 64}},
};

}  // namespace

std::span<const GpuWorkload> gpu_workloads() { return kGpuWorkloads; }

Result<std::vector<const GpuWorkload*>> chosen_gpu_workloads(const std::string& suite,
                                                             const std::vector<std::string>& names) {
  std::vector<const GpuWorkload*> chosen;
  std::string known;
  const auto is_of_suite = [&](const GpuWorkload& w) { return suite == w.suite; };
  for (const GpuWorkload& w : kGpuWorkloads)
    if (is_of_suite(w)) known += (known.empty() ? "" : ", ") + std::string(w.shape.name);
  for (const std::string& name : names) {
    const bool found =
        std::any_of(std::begin(kGpuWorkloads), std::end(kGpuWorkloads),
                    [&](const GpuWorkload& w) { return is_of_suite(w) && name == w.shape.name; });
    if (!found)
      return broken("--workloads", in_quotes(name), fmt::format("{} on a GPU has none of this name", suite),
                    "choose from " + known);
  }
  for (const GpuWorkload& w : kGpuWorkloads) {
    if (is_of_suite(w) &&
        (names.empty() || std::find(names.begin(), names.end(), w.shape.name) != names.end()))
      chosen.push_back(&w);
  }
  return chosen;
}

Result<std::vector<std::string>> weighed_workloads(const std::vector<const GpuWorkload*>& chosen,
                                                   const std::string& option) {
  std::vector<std::string> weighed;
  const std::vector<std::string> names = split(option, ',');
  for (const GpuWorkload* w : chosen) {
    const bool named = std::find(names.begin(), names.end(), w->shape.name) != names.end();
    if (option.empty() ? w->weighed : option == "all" || named) weighed.emplace_back(w->shape.name);
  }
  if (option.empty() || option == "all" || option == "none") return weighed;
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kGpuWorkloads), std::end(kGpuWorkloads),
                     [&](const GpuWorkload& w) { return name == w.shape.name; }))
      return broken("--energy", in_quotes(name), "no suite has a workload of this name",
                    "choose all, none, or names that --list prints");
  }
  return weighed;
}

}  // namespace octet::tool
