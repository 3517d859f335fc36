// The GPU suites without a GPU: their shapes and inputs, what is compared, the schema of the document, the
// page that is made of it, and what is said where there is nothing to measure.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "bench/gpu_bars.h"
#include "bench/gpu_inputs.h"
#include "bench/gpu_papers.h"
#include "bench/gpu_reference.h"
#include "bench/gpu_report.h"
#include "bench/gpu_rows.h"
#include "bench/gpu_runner.h"
#include "bench/gpu_suite.h"
#include "bench/gpu_workloads.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "common/text.h"
#include "gpu/energy.h"
#include "gpu/gpu.h"

namespace octet::tool {
namespace {

const CpuWorkload& shape_named(const std::string& name) {
  for (const GpuWorkload& w : gpu_workloads())
    if (name == w.shape.name) return w.shape;
  ADD_FAILURE() << name;
  return gpu_workloads().front().shape;
}

TEST(GpuWorkloads, KeyBlocksAreAsEvenAsTheirNumberAllows) {
  for (const auto& [keys, block] : {std::pair<std::int64_t, std::int64_t>{1, 16},
                                    {49, 64},
                                    {112, 112},
                                    {128, 128},
                                    {129, 80},
                                    {197, 112},
                                    {257, 128},
                                    {272, 128},
                                    {273, 96},
                                    {300, 112},
                                    {16384, 128}}) {
    CpuWorkload w = gpu_workloads().front().shape;
    w.tokens_k = keys;
    EXPECT_EQ(key_block_of(w), block) << keys << " keys";
  }
}

/// QFlash's table of A1 to A7: windows of an image, heads, tokens, dim.
TEST(GpuWorkloads, VitIsQFlashsTableAtBatchOneAndEight) {
  struct Published {
    const char* name;
    std::int64_t windows, heads, tokens, dim;
  };
  for (const auto& [name, windows, heads, tokens, dim] : {Published{"A1", 1, 3, 197, 64},
                                                          {"A2", 1, 6, 197, 64},
                                                          {"A3", 1, 12, 197, 64},
                                                          {"A4", 64, 3, 49, 32},
                                                          {"A5", 16, 6, 49, 32},
                                                          {"A6", 4, 12, 49, 32},
                                                          {"A7", 1, 24, 49, 32}}) {
    for (const int batch : {1, 8}) {
      const CpuWorkload& w = shape_named(std::string(name) + (batch == 1 ? "-b1" : "-b8"));
      EXPECT_EQ(w.batch, batch * windows) << w.name;
      EXPECT_EQ(w.heads_q, heads) << w.name;
      EXPECT_EQ(w.heads_kv, heads) << w.name;
      EXPECT_EQ(w.tokens_q, tokens) << w.name;
      EXPECT_EQ(w.tokens_k, tokens) << w.name;
      EXPECT_EQ(w.head_dim, dim) << w.name;
      EXPECT_EQ(w.mask, Mask::none) << w.name;
    }
  }
}

TEST(GpuWorkloads, PrefillIsBothPapersGridsAndOneModelWithGroupedHeads) {
  for (const auto& [name, tokens] : {std::pair{"h32-1k", 1024},
                                     {"h32-2k", 2048},
                                     {"h32-4k", 4096},
                                     {"h32-8k", 8192},
                                     {"h32-16k", 16384}}) {
    const CpuWorkload& w = shape_named(name);
    EXPECT_EQ(w.batch, 4) << name;
    EXPECT_EQ(w.heads_q, 32) << name;
    EXPECT_EQ(w.head_dim, 64) << name;
    EXPECT_EQ(w.tokens_k, tokens) << name;
  }
  int of_grid = 0;
  for (const GpuWorkload& w : gpu_workloads()) {
    if (w.suite != std::string("llm-prefill") || w.shape.name[0] != 'd') continue;
    ++of_grid;
    EXPECT_EQ(w.shape.batch * w.shape.tokens_q, 16384) << w.shape.name;
    EXPECT_EQ(w.shape.heads_q * w.shape.head_dim, 2048) << w.shape.name;
    EXPECT_EQ(w.shape.mask == Mask::causal, std::string(w.shape.name).ends_with("causal")) << w.shape.name;
  }
  EXPECT_EQ(of_grid, 18);
  const CpuWorkload& grouped = shape_named("gqa-8k-causal");
  EXPECT_EQ(grouped.heads_q / grouped.heads_kv, 4);
}

TEST(GpuWorkloads, DecodeIsFewQueriesOrAChunkAgainstManyKeys) {
  int count = 0, chunks = 0;
  for (const GpuWorkload& w : gpu_workloads()) {
    if (w.suite != std::string("decode")) continue;
    ++count;
    const bool is_chunk = std::string(w.shape.name).starts_with("chunk");
    chunks += is_chunk ? 1 : 0;
    EXPECT_LE(w.shape.tokens_q, is_chunk ? 1024 : 64) << w.shape.name;
    EXPECT_GE(w.shape.tokens_k, 4096) << w.shape.name;
  }
  EXPECT_EQ(count, 9);
  EXPECT_EQ(chunks, 2);
}

TEST(GpuWorkloads, NamesAreUniqueAndUnknownOnesAreRefusedWithThoseThatThereAre) {
  std::set<std::string> names;
  for (const GpuWorkload& w : gpu_workloads()) EXPECT_TRUE(names.insert(w.shape.name).second) << w.shape.name;
  const auto refused = chosen_gpu_workloads("vit", {"h32-1k"});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("A7-b8"), std::string::npos) << refused.status().message();
}

TEST(GpuWorkloads, TheSchemesOfTheirOwnAreThere) {
  const std::vector<std::string> known = all_gpu_variants();
  const std::set<std::string> names(known.begin(), known.end());
  EXPECT_EQ(names.size(), known.size()) << "a name stands there twice";
  for (const GpuWorkload& w : gpu_workloads())
    for (const std::string& scheme : split(w.more_schemes, ','))
      EXPECT_TRUE(names.contains(scheme)) << w.shape.name << ": " << scheme;
}

TEST(GpuWorkloads, EnergyIsOfThoseThatAreMarkedNamedOrAll) {
  const auto vit = chosen_gpu_workloads("vit", {});
  ASSERT_TRUE(vit.ok());
  const auto count = [&](const char* option) {
    const auto weighed = weighed_workloads(vit.value(), option);
    return weighed.ok() ? weighed.value().size() : std::size_t{99};
  };
  EXPECT_EQ(count(""), 2u);
  EXPECT_EQ(count("all"), 15u);
  EXPECT_EQ(count("none"), 0u);
  EXPECT_EQ(count("A1-b1,h32-16k"), 1u);  // the other is of the other suite
  EXPECT_FALSE(weighed_workloads(vit.value(), "A1").ok());
}

/// The bits that `gpu.py` draws for the same seed and places; tests/tools/cli_test.py has them too.
TEST(GpuInputs, AreTheNumbersThatThePeersDraw) {
  const std::uint16_t expected[] = {0x3edb, 0x3f75, 0x3f12, 0xbf61, 0xbfc2, 0xbf90};
  for (std::uint64_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(drawn_bf16(199, Operand::k, i), expected[i]) << i;
}

TEST(GpuInputs, OperandsAreWhatIsDrawnElementByElementAndNormal) {
  const CpuWorkload w{"odd", Kind::vision, 3, 5, 5, 197, 197, 63};
  Threads threads(2);
  Result<CpuInputs> in = draw_bf16_inputs(w, 7, threads);
  ASSERT_TRUE(in.ok());
  for (const auto& [tensor, operand] : {std::pair{&in.value().q_tensor, Operand::q},
                                        {&in.value().k_tensor, Operand::k},
                                        {&in.value().v_tensor, Operand::v}}) {
    const std::vector<std::uint16_t> bits = bf16_bits(*tensor, threads);
    double sum = 0, squares = 0;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(bits[i], drawn_bf16(7, operand, i)) << i;
      const auto x = static_cast<double>(tensor->values<float>()[i]);
      sum += x, squares += x * x, total += bits[i];
    }
    const auto count = static_cast<double>(bits.size());
    // Five deviations of the mean and of the variance of so many normal numbers.
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
    EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
    EXPECT_EQ(sum_of_bits(bits), total);
  }
}

TEST(GpuReference, ShortCallsAreComparedWhole) {
  for (const GpuWorkload& w : gpu_workloads()) {
    const std::string suite = w.suite, name = w.shape.name;
    const bool is_short_image = name == "image-257" || name == "image-1k-text";
    const bool is_short =
        is_short_image || (suite != "llm-prefill" && name != "A2-b1024" && name != "step-4k-b32" &&
                           name != "step16-8k" && name != "step64-8k" && !name.starts_with("chunk"));
    EXPECT_EQ(sampled_rows(w.shape).empty(), is_short) << w.shape.name;
  }
}

TEST(GpuReference, LongShapesAreComparedOnWholeRowsOfSeveralHeads) {
  for (const GpuWorkload& w : gpu_workloads()) {
    if (w.suite != std::string("llm-prefill")) continue;
    const std::vector<SampledRows> samples = sampled_rows(w.shape);
    if (samples.empty()) continue;
    std::set<std::pair<std::int64_t, std::int64_t>> heads;
    for (const SampledRows& s : samples) {
      heads.insert({s.batch, s.head});
      EXPECT_GE(s.first, w.shape.tokens_q / 8) << w.shape.name;  // where a causal row sees many keys
      EXPECT_GE(s.count, 1) << w.shape.name;
      EXPECT_LE(s.first + s.count, w.shape.tokens_q) << w.shape.name;
      EXPECT_LT(s.batch, w.shape.batch) << w.shape.name;
      EXPECT_LT(s.head, w.shape.heads_q) << w.shape.name;
    }
    EXPECT_GE(heads.size(), 4u) << w.shape.name;
  }
}

/// Rows cut out of a causal problem with grouped heads are those of the whole problem.
TEST(GpuReference, SampledRowsAreThoseOfTheWholeProblem) {
  const CpuWorkload w{"long", Kind::prefill, 2, 4, 2, 1024, 1024, 128, Mask::causal};
  ASSERT_FALSE(sampled_rows(w).empty());
  Threads threads(2);
  Result<CpuInputs> in = draw_bf16_inputs(w, 1, threads);
  ASSERT_TRUE(in.ok());
  Result<GpuReference> exact = GpuReference::compute(w, in.value(), threads);
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  Result<HostTensor> o = make_host_tensor(DType::f32, {2, 4, 1024, 128});
  ASSERT_TRUE(o.ok());
  const TensorView view = view_bhsd(o.value().bytes.data(), DType::f32, {2, 4, 1024, 128});
  AttentionOptions options;
  options.scheme = Scheme::f32, options.mask = Mask::causal;
  const Status status = attention(in.value().q, in.value().k, in.value().v, view, options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LT(exact.value().relative_rmse(o.value().bytes, DType::f32), 1e-6);
  EXPECT_GT(exact.value().rows(), 4 * 4);
}

TEST(GpuSuite, UnknownNamesAreRefusedWithThoseThatThereAre) {
  GpuSuiteOptions options;
  options.suite = "vit", options.variants = {"f32"};  // no GPU kernel computes it
  const Result<Json> refused = run_gpu_suite(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("int8_kblock"), std::string::npos) << refused.status().message();
}

TEST(GpuSuite, WithoutAGpuItSaysWhyAndWhatToDo) {
  if (gpu::find_device().ok()) GTEST_SKIP() << "there is a GPU";
  GpuSuiteOptions options;
  options.suite = "vit";
  const Result<Json> refused = run_gpu_suite(options);
  ASSERT_FALSE(refused.ok());
  const std::string said(refused.status().message());
  EXPECT_EQ(refused.status().code(), Code::unsupported);
  for (const char* part : {"--suite is vit", "GPU", "--device cpu"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_TRUE(said.find("OCTET_CUDA=ON") != std::string::npos ||
              said.find("CUDA_VISIBLE_DEVICES") != std::string::npos)
      << said;
}

TEST(GpuSuite, TheListNeedsNoGpu) {
  GpuSuiteOptions options;
  options.suite = "llm-prefill";
  const Result<Json> rows = list_gpu_workloads(options);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows.value().size(), 37u);
  EXPECT_NE(gpu_shapes_table(rows.value()).find("gqa-8k-causal"), std::string::npos);
}

/// A counter that advances in steps of 7 J, as NVML's does, with a GPU that draws 3 J a call.
TEST(Energy, IsThatOfTheCallsBetweenTwoSteps) {
  long calls = 0;
  const gpu::EnergyCounter counter{
      [&]() -> Result<double> { return 7 * std::floor(3 * static_cast<double>(calls) / 7); },
      [&]() -> Result<double> { return 1500.0; }};
  const auto burst = [&]() -> Status {
    calls += 2;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return {};
  };
  const Result<gpu::Energy> energy = gpu::measure_energy(counter, burst, 2, 0.2);
  ASSERT_TRUE(energy.ok()) << energy.status().message();
  // Both ends are one burst late at most, 6 J, of some hundreds of bursts.
  EXPECT_NEAR(energy.value().joules_per_call, 3, 3 * 0.05);
  EXPECT_EQ(energy.value().mean_clock_mhz, 1500);
  EXPECT_GT(energy.value().mean_power_w, 0);
}

TEST(Energy, ACounterThatStandsStillIsAnError) {
  const gpu::EnergyCounter counter{[]() -> Result<double> { return 5.0; },
                                   []() -> Result<double> { return 1500.0; }};
  const auto burst = []() -> Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return {};
  };
  const Result<gpu::Energy> energy = gpu::measure_energy(counter, burst, 1, 0);
  ASSERT_FALSE(energy.ok());
  EXPECT_NE(energy.status().message().find("stands still"), std::string::npos);
}

/// Rows for each workload that the bars name, of which tests change what they are about.
Json row_of(const std::string& suite, const std::string& workload, const std::string& variant, double ms) {
  const CpuWorkload& w = shape_named(workload);
  return {{"suite", suite},
          {"workload", workload},
          {"scheme", "int8"},
          {"variant", variant},
          {"backend", "mma"},
          {"batch", w.batch},
          {"heads", w.heads_q},
          {"heads_kv", w.heads_kv},
          {"tokens_q", w.tokens_q},
          {"tokens_k", w.tokens_k},
          {"head_dim", w.head_dim},
          {"causal", w.mask == Mask::causal},
          {"gpu", "a GPU"},
          {"quantisation", "excluded"},
          {"calls_per_graph", 100},
          {"ms", ms},
          {"gops", giga_operations(w) / (1e-3 * ms)},
          {"percent_of_peak", nullptr},
          {"relative_rmse", 0.0125},
          {"rows_compared", 512},
          {"joules_per_call", nullptr},
          {"mean_power_w", nullptr},
          {"mean_clock_mhz", nullptr}};
}
Json sound_gpu() {
  Json document = {{"suite", "gpu"},      {"command", "scripts/bench-gpu"},
                   {"version", "1"},      {"commit", "x"},
                   {"date", "d"},         {"gpu", "a GPU"},
                   {"capability", "9.0"}, {"processors", 132},
                   {"cuda", "13.0"},      {"driver", "580"},
                   {"energy", "NVML"},    {"seed", 1},
                   {"seconds", 1}};
  document["peaks"] = Json::array({{{"what", "mma.sync s8"}, {"giga", 1288000.0}}});
  document["peers"] = Json::array({{{"name", "PyTorch"}, {"version", "2"}}});
  document["inputs"] = Json::array({{{"workload", "A2-b8"},
                                     {"sums", Json::array({1, 2, 3})},
                                     {"samples", Json::array({Json::array({0, 1, 2, 3})})}}});
  document["rows"] = Json::array({row_of("vit", "A2-b8", "int8", 0.01)});
  return document;
}
Json peer_row(const std::string& suite, const std::string& workload, const std::string& variant, double ms) {
  Json row = row_of(suite, workload, variant, ms);
  row["peer"] = true;
  return row;
}

TEST(GpuSchema, ASoundDocumentPassesAndSoDoesASkippedRow) {
  EXPECT_TRUE(check_gpu_document(sound_gpu()).ok()) << check_gpu_document(sound_gpu()).message();
  Json document = sound_gpu();
  Json& row = document["rows"][0];
  for (const char* field : {"ms", "gops", "relative_rmse"}) row.erase(field);
  EXPECT_FALSE(check_gpu_document(document).ok()) << "neither measured nor skipped";
  row["skipped"] = "the device has too little shared memory";
  EXPECT_TRUE(check_gpu_document(document).ok());
}

TEST(GpuSchema, EveryMissingFieldIsNamed) {
  const Json whole = sound_gpu();  // held: the loops below iterate over it
  for (const auto& item : whole.items()) {
    Json document = sound_gpu();
    document.erase(item.key);
    EXPECT_NE(check_gpu_document(document).message().find(item.key), std::string::npos) << item.key;
  }
  for (const auto& item : whole["rows"][0].items()) {
    Json document = sound_gpu();
    document["rows"][0].erase(item.key);
    EXPECT_NE(check_gpu_document(document).message().find("\"" + item.key + "\""), std::string::npos)
        << item.key;
  }
}

TEST(GpuSchema, FiguresMustBePositiveAndSumsThree) {
  for (const char* field : {"ms", "gops", "joules_per_call", "mean_power_w", "mean_clock_mhz"}) {
    Json document = sound_gpu();
    document["rows"][0][field] = 0;
    EXPECT_FALSE(check_gpu_document(document).ok()) << field;
  }
  Json document = sound_gpu();
  document["inputs"][0]["sums"] = Json::array({1, 2});
  EXPECT_FALSE(check_gpu_document(document).ok());
}

TEST(GpuSchema, ADocumentOfTheCpuIsRefusedByName) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "octet-gpu-schema-test.json";
  std::ofstream(path) << R"({"suite": "cpu"})";
  const Result<Json> refused = load_gpu_document(path.string());
  std::filesystem::remove(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("octet-gpu-schema-test.json"), std::string::npos);
  EXPECT_FALSE(load_gpu_document(path.string()).ok()) << "it is not there";
}

TEST(GpuReport, ShowsRatiosToTheFasterSdpaAndEnergyBesideFlash) {
  Json document = sound_gpu();
  Json& ours = document["rows"][0];
  ours["joules_per_call"] = 0.003, ours["mean_power_w"] = 300, ours["mean_clock_mhz"] = 1980;
  Json flash = peer_row("vit", "A2-b8", kSdpaFlash, 0.02);
  flash["joules_per_call"] = 0.004;
  document["rows"].push_back(flash);
  document["rows"].push_back(peer_row("vit", "A2-b8", kSdpaCudnn, 0.015));
  Json absent = peer_row("vit", "A2-b8", kComfyKitchen, 1);
  absent.erase("ms"), absent["skipped"] = "it has no causal mask";
  document["rows"].push_back(absent);
  const std::string page = gpu_section(document);
  for (const char* part :
       {"## a GPU", "1.50 ×", "cuDNN", "15.0 µs", "8 x 6 x 197 x 64", "1.25 %", "75.0 %", "3.00 mJ",
        "1980 MHz", "*PyTorch SDPA flash bf16*", "1 rows (A2-b8): comfy-kitchen int8: it has no causal mask"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  EXPECT_NE(gpu_rows_table(document).find("A2-b8"), std::string::npos);
}

TEST(GpuReport, AVariantThatWasNotMeasuredHasNoColumn) {
  Json document = sound_gpu();
  Json late = row_of("vit", "A3-b8", "all", 1);
  late.erase("ms"), late["skipped"] = "the run's 9 minutes were up";
  document["rows"].push_back(late);
  const std::string page = gpu_section(document);
  EXPECT_EQ(page.find("| all |"), std::string::npos) << page;
  EXPECT_NE(page.find("1 rows (A3-b8): all: the run's 9 minutes were up"), std::string::npos) << page;
}

std::map<std::string, std::string> verdicts(const Json& document) {
  std::map<std::string, std::string> found;
  for (const CpuBar& bar : gpu_bars_of(GpuRun(document))) {
    std::string what = bar.what;
    if (const std::size_t at = what.find(" ("); at != std::string::npos) what.resize(at);
    found[what] = bar.verdict;
  }
  return found;
}

TEST(GpuBars, AreOpenWhereNothingWasMeasuredAndWhereOneShapeIsMissing) {
  for (const auto& [what, verdict] : verdicts(sound_gpu())) EXPECT_EQ(verdict, "open") << what;
  Json document = sound_gpu();
  document["rows"] = Json::array();
  for (int i = 1; i <= 6; ++i) {
    const std::string w = "A" + std::to_string(i) + "-b1";
    document["rows"].push_back(row_of("vit", w, "int8", 0.001));
    document["rows"].push_back(peer_row("vit", w, kSdpaFlash, 0.01));
  }
  EXPECT_EQ(verdicts(document)["A1 to A7, b1: the fastest scheme over the best SDPA"], "open");
  EXPECT_EQ(verdicts(document)["A1 to A3, b1: the fastest scheme"], "holds");
}

TEST(GpuBars, FollowTheWorstShapeAndTheFasterPeer) {
  Json document = sound_gpu();
  document["rows"] = Json::array();
  for (int i = 1; i <= 7; ++i) {
    const std::string w = "A" + std::to_string(i) + "-b8";
    document["rows"].push_back(row_of("vit", w, "int8", 0.01));
    document["rows"].push_back(row_of("vit", w, "f16", 0.001));  // not an 8-bit scheme
    document["rows"].push_back(peer_row("vit", w, kSdpaFlash, 0.02));
    document["rows"].push_back(peer_row("vit", w, kSdpaCudnn, i == 3 ? 0.0125 : 0.015));
  }
  const char* bar = "A1 to A7, b8: the fastest scheme over the best SDPA";
  EXPECT_EQ(verdicts(document)[bar], "**fails**");  // 1.25 on A3
  for (Json& row : document["rows"])
    if (row["variant"] == kSdpaCudnn) row["gops"] = row["gops"].get<double>() * 0.9;
  EXPECT_EQ(verdicts(document)[bar], "holds");
  EXPECT_EQ(verdicts(document)["A1 to A7, b8: integer over the best SDPA"], "open");
}

TEST(GpuBars, EnergyIsThatOfTheBestIntegerScheme) {
  Json document = sound_gpu();
  Json& ours = document["rows"][0];
  ours["joules_per_call"] = 0.0031;
  Json flash = peer_row("vit", "A2-b8", kSdpaFlash, 0.02);
  flash["joules_per_call"] = 0.004;
  document["rows"].push_back(flash);
  EXPECT_EQ(verdicts(document)["A2-b8: energy a call over SDPA flash's"], "**fails**");
  document["rows"][0]["joules_per_call"] = 0.0029;
  EXPECT_EQ(verdicts(document)["A2-b8: energy a call over SDPA flash's"], "holds");
}

std::map<int, PaperFigure> figures_of(const Json& document) {
  std::map<int, PaperFigure> found;
  for (PaperFigure& f : paper_figures_of(GpuRun(document))) found[f.number] = std::move(f);
  return found;
}

TEST(GpuPapers, FiguresFollowFromTheRowsAndAreAbsentWithoutThem) {
  EXPECT_TRUE(figures_of(sound_gpu()).empty());
  Json document = sound_gpu();
  document["rows"] = Json::array();
  const auto add = [&](const char* variant, double ms) {
    document["rows"].push_back(row_of("vit", "A2-b1024", variant, ms));
  };
  document["rows"].push_back(peer_row("vit", "A2-b1024", kSdpaFlash, 1.0));
  for (const auto& [variant, ms] : {std::pair{"f16", 1.1},
                                    {"int8_half", 0.9},
                                    {"int8_full", 0.8},
                                    {"int8_shift", 0.7},
                                    {"int8", 0.75},
                                    {"int8_lut", 0.78}})
    add(variant, ms);
  EXPECT_TRUE(figures_of(document).empty()) << "qflash is missing";
  add("qflash", 0.6);
  EXPECT_FALSE(figures_of(document).contains(20)) << "its division is missing";
  add("qflash_division", 0.9);
  std::map<int, PaperFigure> found = figures_of(document);
  EXPECT_EQ(found.at(32).ours, "-9 % / +11 % / +25 % / +43 % / +67 %");
  EXPECT_EQ(found.at(32).verdict, "reproduced: each step gains");
  EXPECT_EQ(found.at(20).ours, "the kernel by division takes 1.50 times as long");
  EXPECT_EQ(found.at(20).verdict, "reproduced");
  EXPECT_EQ(found.at(61).verdict, "reproduced");
  for (Json& row : document["rows"])
    if (row["variant"] == "qflash" || row["variant"] == "int8_lut") row["ms"] = 1.2;
  found = figures_of(document);
  EXPECT_EQ(found.at(32).verdict,
            "corrected: int8 Q K^T, int8 P V, the exponential by lines gain, integer accumulation cost");
  EXPECT_EQ(found.at(20).verdict, "not reproduced");
  EXPECT_EQ(found.at(61).verdict, "not reproduced");
}

/// A prefill bar over three lengths, and accuracy beside it.
TEST(GpuBars, ComfyKitchenIsMetAtEveryLengthAndInAccuracy) {
  Json document = sound_gpu();
  document["rows"] = Json::array();
  for (const char* w : {"d64-4k", "d64-8k", "d64-16k"}) {
    document["rows"].push_back(row_of("llm-prefill", w, "int8", 1));
    Json peer = peer_row("llm-prefill", w, kComfyKitchen, 1.2);
    peer["relative_rmse"] = 0.013;
    document["rows"].push_back(peer);
  }
  EXPECT_EQ(verdicts(document)["d64, 4k to 16k: int8 over comfy-kitchen's kernel"], "holds");
  EXPECT_EQ(verdicts(document)["d64, 4k to 16k: int8's error over comfy-kitchen's"], "holds");
  document["rows"][5]["gops"] = document["rows"][5]["gops"].get<double>() * 1.1;
  document["rows"][5]["relative_rmse"] = 0.012;
  EXPECT_EQ(verdicts(document)["d64, 4k to 16k: int8 over comfy-kitchen's kernel"], "**fails**");
  EXPECT_EQ(verdicts(document)["d64, 4k to 16k: int8's error over comfy-kitchen's"], "**fails**");
}

TEST(GpuReport, HasEachWorkloadOfTheCommittedRunOnce) {
  Result<Json> document = load_gpu_document(std::string(OCTET_SOURCE_DIR) + "/results/device/gpu-suite.json");
  ASSERT_TRUE(document.ok()) << document.status().message();
  const std::string page = gpu_section(document.value());
  std::set<std::string> workloads;
  for (const Json& row : document.value()["rows"]) workloads.insert(row["workload"].get<std::string>());
  ASSERT_GT(workloads.size(), 30u);
  for (const std::string& workload : workloads) {
    const std::string heading = " (" + workload + ")\n\n";
    const std::size_t at = page.find(heading);
    EXPECT_NE(at, std::string::npos) << workload;
    EXPECT_EQ(page.find(heading, at + 1), std::string::npos) << workload << " is there twice";
  }
}

}  // namespace
}  // namespace octet::tool
