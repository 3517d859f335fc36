// Tiles, warps and parts of the keys of the CUDA kernels by shape: each cut that holds a problem, timed,
// beside the one that the library takes by itself.
//
//   cuda_tiles [OUTPUT.json [COMMIT [SHAPE,...]]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "bench/gpu_inputs.h"
#include "bench/gpu_runner.h"
#include "bench/rows.h"
#include "common/format.h"
#include "common/progress.h"
#include "common/sentence.h"
#include "common/table.h"
#include "common/text.h"
#include "cuda/cuda.h"
#include "cuda/mma/tile.h"
#include "io/atomic_file.h"

namespace octet::tool {
namespace {

constexpr CpuVariant kVariants[] = {{"int8_uniform", Scheme::int8, true, true},
                                    {"int8_channel", Scheme::int8, false, true},
                                    {"int8", Scheme::int8},
                                    {"int8_full", Scheme::int8_full},
                                    {"int8_half", Scheme::int8_half},
                                    {"integer", Scheme::integer},
                                    {"f16", Scheme::f16},
                                    {"bf16", Scheme::bf16},
                                    {"fp8", Scheme::fp8},
                                    {"fp8_hybrid", Scheme::fp8_hybrid},
                                    {"int8_fp8", Scheme::int8_fp8},
                                    {"int8_shift", Scheme::int8_shift},
                                    {"int8_lut", Scheme::int8_lut},
                                    {"int4", Scheme::int4}};
/// Shapes of models, and dims between the table's.
constexpr CpuWorkload kShapes[] = {
    {"A1-b1", Kind::vision, 1, 3, 3, 197, 197, 64},
    {"A1-b8", Kind::vision, 8, 3, 3, 197, 197, 64},
    {"A2-b8", Kind::vision, 8, 6, 6, 197, 197, 64},
    {"A3-b8", Kind::vision, 8, 12, 12, 197, 197, 64},
    {"A2-b64", Kind::vision, 64, 6, 6, 197, 197, 64},
    {"A2-b1024", Kind::vision, 1024, 6, 6, 197, 197, 64},
    {"d64-256", Kind::vision, 64, 6, 6, 256, 256, 64},
    {"d64-257", Kind::vision, 64, 16, 16, 257, 257, 64},
    {"d64-384", Kind::vision, 64, 6, 6, 384, 384, 64},
    {"d64-512", Kind::vision, 64, 6, 6, 512, 512, 64},
    {"d128-197", Kind::vision, 64, 6, 6, 197, 197, 128},
    {"d128-256", Kind::vision, 64, 6, 6, 256, 256, 128},
    {"d128-384", Kind::vision, 64, 6, 6, 384, 384, 128},
    {"d256-256", Kind::vision, 64, 6, 6, 256, 256, 256},
    {"d128-320", Kind::vision, 2, 12, 12, 320, 320, 128},
    {"d64-cross", Kind::vision, 2, 10, 10, 4096, 77, 64},
    {"d64-cross-128", Kind::vision, 2, 10, 10, 4096, 128, 64},
    {"d64-cross-226", Kind::vision, 2, 10, 10, 4096, 226, 64},
    {"d64-cross-1k", Kind::vision, 2, 20, 20, 1024, 77, 64},
    {"d128-128", Kind::vision, 64, 6, 6, 128, 128, 128},
    {"d256-128", Kind::vision, 64, 6, 6, 128, 128, 256},
    {"d256-197", Kind::vision, 16, 6, 6, 197, 197, 256},
    {"d128-few", Kind::vision, 8, 6, 6, 256, 256, 128},
    {"1 row", Kind::prefill, 1, 32, 8, 1, 32768, 128},
    {"1 row 4k", Kind::prefill, 1, 32, 8, 1, 4096, 128},
    {"1 row 2k", Kind::prefill, 1, 32, 8, 1, 2048, 128},
    {"1 row 8k", Kind::prefill, 1, 32, 8, 1, 8192, 128},
    {"1 row b2", Kind::prefill, 2, 32, 8, 1, 4096, 128},
    {"1 row b4", Kind::prefill, 4, 32, 8, 1, 4096, 128},
    {"1 row b8", Kind::prefill, 8, 32, 8, 1, 4096, 128},
    {"4 rows", Kind::prefill, 1, 32, 8, 4, 4096, 128},
    {"16 rows", Kind::prefill, 1, 32, 8, 16, 8192, 128},
    {"64 rows", Kind::prefill, 1, 32, 8, 64, 8192, 128},
    {"128 rows", Kind::prefill, 1, 32, 8, 128, 8192, 128},
    {"1 row b32", Kind::prefill, 32, 32, 8, 1, 4096, 128},
    {"1 row b32-32", Kind::prefill, 32, 32, 32, 1, 4096, 128},
    {"1 row d64", Kind::prefill, 1, 16, 16, 1, 16384, 64},
    {"A4-b1", Kind::vision, 64, 3, 3, 49, 49, 32},
    {"A4-b8", Kind::vision, 512, 3, 3, 49, 49, 32},
    {"64 keys", Kind::vision, 8, 12, 12, 64, 64, 64},
    {"d48", Kind::vision, 8, 12, 12, 197, 197, 48},
    {"d64-1k-3", Kind::prefill, 1, 3, 3, 1024, 1024, 64},
    {"d64-4k-1", Kind::prefill, 1, 1, 1, 4096, 4096, 64},
    {"d128-2k-2", Kind::prefill, 1, 2, 2, 2048, 2048, 128},
    {"d128-512-4", Kind::prefill, 1, 4, 4, 512, 4096, 128},
    {"d64-256-8", Kind::prefill, 1, 8, 8, 256, 4096, 64},
    {"d64-1k", Kind::prefill, 1, 32, 32, 1024, 1024, 64},
    {"d64-4k", Kind::prefill, 1, 32, 32, 4096, 4096, 64},
    {"d80-4k", Kind::prefill, 1, 16, 16, 4096, 4096, 80},
    {"d128-1k", Kind::prefill, 1, 16, 16, 1024, 1024, 128},
    {"d128-4k", Kind::prefill, 1, 16, 16, 4096, 4096, 128},
    {"d256-4k", Kind::prefill, 1, 8, 8, 4096, 4096, 256},
    {"prompt-256", Kind::prefill, 1, 32, 8, 256, 256, 128, Mask::causal},
    {"prompt-512", Kind::prefill, 1, 32, 8, 512, 512, 128, Mask::causal},
    {"prompt-1k", Kind::prefill, 1, 32, 8, 1024, 1024, 128, Mask::causal},
    {"prompt-2k", Kind::prefill, 1, 32, 8, 2048, 2048, 128, Mask::causal},
    {"prompt-4k", Kind::prefill, 1, 32, 8, 4096, 4096, 128, Mask::causal},
    {"part-1k", Kind::prefill, 1, 8, 2, 1024, 1024, 128, Mask::causal},
    {"part-2k", Kind::prefill, 1, 8, 2, 2048, 2048, 128, Mask::causal},
    {"image-512", Kind::vision, 2, 10, 10, 512, 512, 64},
    {"image-577", Kind::vision, 1, 16, 16, 577, 577, 64},
    {"image-1k", Kind::vision, 1, 16, 16, 1024, 1024, 64},
    {"image-2x1k", Kind::vision, 2, 20, 20, 1024, 1024, 64},
    {"image-4k", Kind::vision, 2, 10, 10, 4096, 4096, 64},
    {"image-4.5k", Kind::vision, 1, 24, 24, 4608, 4608, 128},
    {"chunk-128", Kind::prefill, 1, 32, 8, 128, 8192, 128, Mask::causal},
    {"chunk-256", Kind::prefill, 1, 32, 8, 256, 8192, 128, Mask::causal},
    {"chunk-512", Kind::prefill, 1, 32, 8, 512, 8192, 128, Mask::causal},
    {"chunk-1k", Kind::prefill, 1, 32, 8, 1024, 8192, 128, Mask::causal},
    {"chunk-2k", Kind::prefill, 1, 32, 8, 2048, 16384, 128, Mask::causal},
};

struct Row {
  cuda::Cut cut;
  double us = 0;
};

Result<std::vector<Row>> rows_of(const GpuRunner& runner, const gpu::Stream& stream) {
  const AttentionDesc& desc = runner.desc();
  std::vector<Row> rows;
  for (const cuda::Cut& cut : cuda::cuts_of(desc)) {
    Result<gpu::Memory> workspace = gpu::Memory::allocate(cuda::workspace_bytes(desc, cut));
    if (!workspace.ok()) return workspace.status();
    AttentionArgs args = runner.args();
    args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
    if (Status s = cuda::pack(desc, args, cut); !s.ok()) return s;
    Result<GpuTiming> timing = time_on_gpu(stream, [&] { return cuda::attend_packed(desc, args, cut); });
    if (!timing.ok()) return timing.status();
    rows.push_back({cut, 1e6 * timing.value().seconds});
  }
  return rows;
}

std::string text_of(const cuda::Cut& cut) {
  const cuda::mma::Tile& tile = cuda::mma::kTileTable[cut.tile];
  const std::string family = cut.family == cuda::Family::wgmma ? "wgmma " : "";
  std::string text = fmt::format("{}{} x {}, {}", family, tile.computed, tile.head_dim, cut.warps);
  if (cut.e4m3 == cuda::E4m3::as_f16) text += ", e4m3 as f16";
  if (cut.ranges > 0) text += fmt::format(", {} ranges", cut.ranges);
  if (cut.merging == cuda::Merging::in_cluster) text += " in a cluster";
  if (cut.last_rows > 0) text += fmt::format(", tiles of {} rows", cut.last_rows);
  if (cut.last_heads > 0) text += fmt::format(" of {} heads", cut.last_heads);
  if (tile.key_parts > 1) text += fmt::format(" x {}", tile.key_parts);
  if (tile.kept_blocks > 0) text += fmt::format(", keys kept for {}", cut.row_tiles);
  return tile.lone_blocks == 0 ? text : fmt::format("{}, of {}", text, tile.lone_blocks);
}

/// Whether each of `names` is that of one of `all`; what: the argument. name_of(x): of one of them.
template <class All, class NameOf>
Status check_names(const char* what, const std::vector<std::string>& names, const All& all,
                   const NameOf& name_of) {
  for (const std::string& name : names) {
    if (std::ranges::any_of(all, [&](const auto& x) { return name == name_of(x); })) continue;
    std::string known;
    for (const auto& x : all) known += (known.empty() ? "" : ", ") + std::string(in_quotes(name_of(x)));
    return broken(what, in_quotes(name), "there is none of this name", "choose from " + known);
  }
  return {};
}

/// names, schemes: of shapes and variants; none: all.
Status run(const std::string& command, const std::string& output, const std::string& commit,
           const std::vector<std::string>& names, const std::vector<std::string>& schemes) {
  const auto name_of = [](const CpuWorkload& shape) { return shape.name; };
  const auto label_of = [](const CpuVariant& variant) { return variant.label; };
  if (Status s = check_names("SHAPES", names, kShapes, name_of); !s.ok()) return s;
  if (Status s = check_names("SCHEMES", schemes, kVariants, label_of); !s.ok()) return s;
  Result<gpu::DeviceInfo> device = gpu::find_device();
  if (!device.ok()) return device.status();
  Result<gpu::Stream> stream = gpu::Stream::create();
  if (!stream.ok()) return stream.status();
  Threads threads(0);
  Json rows = Json::array();
  Table table({{"shape", Align::left},
               {"scheme", Align::left},
               {"taken: keys x dim, warps x parts, of so many blocks alone", Align::left},
               {"us"},
               {"best", Align::left},
               {"us"},
               {"taken over best"}});
  const std::size_t shapes = names.empty() ? std::size(kShapes) : names.size();
  Progress progress("measuring", static_cast<std::int64_t>(shapes * std::size(kVariants)));
  for (const CpuWorkload& shape : kShapes) {
    if (!names.empty() && std::ranges::find(names, shape.name) == names.end()) continue;
    Result<CpuInputs> inputs = draw_bf16_inputs(shape, 1, threads);
    if (!inputs.ok()) return inputs.status();
    Result<DeviceInputs> device_inputs = upload_inputs(inputs.value(), threads);
    if (!device_inputs.ok()) return device_inputs.status();
    for (const CpuVariant& variant : kVariants) {
      progress.advance(1, fmt::format("{} {}", shape.name, variant.label));
      if (!schemes.empty() && std::ranges::find(schemes, variant.label) == schemes.end()) continue;
      Result<GpuRunner> runner = GpuRunner::prepare(variant, shape, Quantisation::excluded, inputs.value(),
                                                    device_inputs.value(), stream.value(), threads);
      if (!runner.ok()) return runner.status();
      Result<std::vector<Row>> cuts = rows_of(runner.value(), stream.value());
      if (!cuts.ok()) return cuts.status();
      const Row& taken = cuts.value().front();
      const Row& best = *std::min_element(cuts.value().begin(), cuts.value().end(),
                                          [](const Row& a, const Row& b) { return a.us < b.us; });
      table.add({shape_of(shape), variant.label, text_of(taken.cut), significant(taken.us), text_of(best.cut),
                 significant(best.us), fmt::format("{:.2f}", taken.us / best.us)});
      for (const Row& row : cuts.value())
        rows.push_back({{"workload", shape.name},
                        {"shape", shape_of(shape)},
                        {"scheme", variant.label},
                        {"keys", cuda::mma::kTileTable[row.cut.tile].computed},
                        {"key_block", runner.value().desc().key_block},
                        {"head_dim", cuda::mma::kTileTable[row.cut.tile].head_dim},
                        {"family", row.cut.family == cuda::Family::wgmma ? "wgmma" : "mma"},
                        {"e4m3", row.cut.e4m3 == cuda::E4m3::as_f16 ? "as f16" : "as it is"},
                        {"warps", row.cut.warps},
                        {"key_parts", cuda::mma::kTileTable[row.cut.tile].key_parts},
                        {"lone_blocks", cuda::mma::kTileTable[row.cut.tile].lone_blocks},
                        {"ranges", row.cut.ranges},
                        {"in_cluster", row.cut.merging == cuda::Merging::in_cluster},
                        {"last_heads", row.cut.last_heads},
                        {"last_rows", row.cut.last_rows},
                        {"kept_blocks", cuda::mma::kTileTable[row.cut.tile].kept_blocks},
                        {"row_tiles", row.cut.row_tiles},
                        {"us", row.us},
                        {"taken", &row == &taken}});
    }
  }
  std::fputs(table.text().c_str(), stdout);
  if (output.empty()) return {};
  const Json document = {
      {"command", command}, {"commit", commit}, {"gpu", device.value().name}, {"rows", std::move(rows)}};
  const std::string text = document_text(document);
  return write_file_atomically(output, std::as_bytes(std::span(text)));
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) {
  std::string command = "cuda_tiles";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  const octet::Status status =
      octet::tool::run(command, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "unknown",
                       argc > 3 ? octet::tool::split(argv[3], ',') : std::vector<std::string>{},
                       argc > 4 ? octet::tool::split(argv[4], ',') : std::vector<std::string>{});
  if (!status.ok()) fmt::print(stderr, "cuda_tiles: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
