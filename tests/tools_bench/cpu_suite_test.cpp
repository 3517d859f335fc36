// The cpu suite on its shortest shape, the schema of its document, and the committed page against the
// committed results.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "bench/bars.h"
#include "bench/cpu_suite.h"
#include "bench/exact_rows.h"
#include "bench/gpu_report.h"
#include "bench/gpu_rows.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "bench/timing.h"

namespace octet::tool {
namespace {

/// One run of the shortest shape, shared by the cases below.
const Json& document() {
  static const Json measured = [] {
    CpuSuiteOptions options;
    options.workloads = {"swin-bias"}, options.variants = {"int8_kblock", "integer", "f32", "bf16"};
    options.under_load = false, options.commit = "test";
    Result<Json> result = run_cpu_suite(options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? result.take() : Json();
  }();
  return measured;
}

TEST(CpuSuite, WritesWhatTheSchemaAsksFor) {
  const Status status = check_document(document());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(document()["commit"], "test");
}

TEST(CpuSuite, MeasuresEachSchemeOnOneThreadAndAllWithQuantisationInAndOut) {
  std::set<std::string> seen;
  for (const Json& row : document()["rows"]) {
    EXPECT_FALSE(row.contains("skipped")) << row.dump();
    seen.insert(row["variant"].get<std::string>() + "/" + row["quantisation"].get<std::string>() +
                (row["input"] == "f32" ? "" : "/" + row["input"].get<std::string>()));
  }
  for (const char* wanted :
       {"int8_kblock/excluded", "int8_kblock/counted", "integer/excluded", "integer/counted", "bf16/excluded",
        "bf16/counted", "f32/excluded", "f32/counted", "int8_kblock/counted/bf16", "integer/counted/bf16",
        "bf16/counted/bf16", "f32/counted/bf16"})
    EXPECT_TRUE(seen.contains(wanted)) << wanted;
}

TEST(CpuSuite, ErrorsRankAsThePrecisionsDo) {
  const auto error = [](const std::string& variant) {
    for (const Json& row : document()["rows"])
      if (row["variant"] == variant) return row["relative_rmse"].get<double>();
    return std::nan("");
  };
  EXPECT_LT(error("f32"), 1e-5);
  EXPECT_LT(error("bf16"), 0.01);
  EXPECT_GT(error("int8_kblock"), error("bf16"));
  EXPECT_LT(error("int8_kblock"), 0.05);
}

TEST(CpuSuite, QuantisationChangesTheTimeAndNotTheBits) {
  std::map<std::string, std::set<double>> errors;
  for (const Json& row : document()["rows"])
    errors[row["variant"].get<std::string>() + " of " + row["input"].get<std::string>()].insert(
        row["relative_rmse"].get<double>());
  for (const auto& [variant, values] : errors) EXPECT_EQ(values.size(), 1u) << variant;
  // q, k, v and o rounded to 8 bits, 0.17 % of a normal number in RMS each.
  EXPECT_NEAR(*errors["f32 of bf16"].begin(), 0.003, 0.001);
}

TEST(CpuSuite, UnknownNamesAreRefusedWithThoseThatThereAre) {
  CpuSuiteOptions options;
  options.workloads = {"vit-c"};
  Result<Json> result = run_cpu_suite(options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("vit-b"), std::string::npos) << result.status().message();
  options.workloads = {}, options.variants = {"int9"};
  result = run_cpu_suite(options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("int8_kblock"), std::string::npos) << result.status().message();
}

TEST(CpuSuite, WhatWouldTakeTooLongIsARowWithItsReason) {
  CpuSuiteOptions options;
  options.workloads = {"swin", "4k-d128"}, options.variants = {"f32"};
  options.backend = "reference", options.under_load = false, options.call_seconds = 1;
  Result<Json> result = run_cpu_suite(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(check_document(result.value()).ok());
  const Json& last = result.value()["rows"].back();
  ASSERT_TRUE(last.contains("skipped")) << last.dump();
  EXPECT_NE(last["skipped"].get<std::string>().find("longer than 1 s"), std::string::npos) << last["skipped"];
}

TEST(CpuSuite, ACausalMaskCountsHalf) {
  CpuWorkload w = cpu_workloads().front();
  w.mask = Mask::none;
  const double all = giga_operations(w);
  w.mask = Mask::causal;
  EXPECT_EQ(giga_operations(w), all / 2);
}

/// Rows of a long shape are cut out of a causal problem; on a short one all rows can be compared instead.
TEST(ExactRows, SampledRowsAreThoseOfTheWholeProblem) {
  const CpuWorkload w{"long", Kind::prefill, 1, 2, 1, 2048, 2048, 256, Mask::causal};
  Threads threads(2);
  Result<CpuInputs> in = draw_inputs(w, 1, threads);
  ASSERT_TRUE(in.ok());
  Result<ExactRows> exact = ExactRows::compute(w, in.value(), threads);
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  Result<HostTensor> o = make_host_tensor(DType::f32, {1, 2, 2048, 256});
  ASSERT_TRUE(o.ok());
  const TensorView view = view_bhsd(o.value().bytes.data(), DType::f32, {1, 2, 2048, 256});
  AttentionOptions options;
  options.scheme = Scheme::f32, options.mask = Mask::causal;
  const Status status = attention(in.value().q, in.value().k, in.value().v, view, options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LT(exact.value().relative_rmse(o.value()), 1e-6);
}

TEST(Timing, QuantilesAreValuesThatWereMeasured) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 2, 3}, 0.5), 2);
  EXPECT_EQ(quantile({1}, 0.9), 1);
}

/// A document with one sound row, to break.
Json sound() {
  return Json::parse(
      R"({"suite": "cpu", "command": "c", "version": "1", "commit": "x", "date": "d", "cpu": "a CPU",
    "cpu_family": 6, "cpu_model": 1, "features": [], "processors": 2, "threads": 2, "seconds": 1,
    "peaks": [{"what": "read", "threads": 1, "giga": 10.0}], "peers": [], "rows": [
    {"suite": "cpu", "workload": "vit-b", "scheme": "int8", "variant": "int8", "backend": "b", "batch": 1,
     "heads": 12, "heads_kv": 12, "tokens_q": 197, "tokens_k": 197, "head_dim": 64, "causal": false, "bias": false,
     "key_block": 128, "threads": 1, "busy": 0, "quantisation": "counted", "ms": 1.5, "gops": 80.0,
     "percent_of_peak": 60.0, "relative_rmse": 0.01}]})");
}

TEST(Schema, ASoundDocumentPassesAndSoDoesASkippedRow) {
  EXPECT_TRUE(check_document(sound()).ok());
  Json document = sound();
  Json& row = document["rows"][0];
  for (const char* field : {"ms", "gops", "percent_of_peak", "relative_rmse"}) row.erase(field);
  EXPECT_FALSE(check_document(document).ok()) << "neither measured nor skipped";
  row["skipped"] = "no reason is too small";
  EXPECT_TRUE(check_document(document).ok());
}

TEST(Schema, EveryMissingFieldIsNamed) {
  const Json whole = sound();  // held: the loops below iterate over it
  for (const auto& item : whole.items()) {
    Json document = sound();
    document.erase(item.key);
    EXPECT_NE(check_document(document).message().find(item.key), std::string::npos) << item.key;
  }
  for (const auto& item : whole["rows"][0].items()) {
    if (item.key == "key_block" || item.key == "percent_of_peak") continue;  // a peer has neither
    Json document = sound();
    document["rows"][0].erase(item.key);
    EXPECT_NE(check_document(document).message().find("\"" + item.key + "\""), std::string::npos) << item.key;
  }
}

TEST(Schema, TheTextIsTheDocument) {
  EXPECT_EQ(Json::parse(document_text(sound())), sound());
  EXPECT_EQ(Json::parse(document_text(document())), document());
}

TEST(Report, ShowsOursBesideTheirs) {
  Json document = sound();
  Json peer = document["rows"][0];
  peer["variant"] = "PyTorch SDPA f32", peer["peer"] = true, peer["gops"] = 20.0, peer.erase("key_block");
  Json ours = document["rows"][0];
  ours["variant"] = "int8_kblock";
  document["rows"].push_back(ours), document["rows"].push_back(peer);
  const std::string page = benchmarks_page({document});
  EXPECT_NE(page.find("*PyTorch SDPA f32*"), std::string::npos) << page;
  EXPECT_NE(page.find("4.00 ×"), std::string::npos) << page;
  EXPECT_NE(page.find("12 x 197 x 64"), std::string::npos) << page;
}

std::string verdict(const Json& document, const std::string& what) {
  for (const CpuBar& bar : cpu_bars_of(StoredRun(document)))
    if (bar.what.find(what) != std::string::npos) return bar.verdict;
  return "missing";
}

TEST(Bars, AreOpenWhereNothingWasMeasured) {
  const Json nothing = sound();
  const std::vector<CpuBar> bars = cpu_bars_of(StoredRun(nothing));
  EXPECT_GT(bars.size(), 10u);
  for (const CpuBar& bar : bars) EXPECT_EQ(bar.verdict, "open") << bar.what;
}

TEST(Bars, FollowTheFiguresAndTheCpu) {
  Json zen5 = sound();
  zen5["cpu_family"] = 26;
  Json& row = zen5["rows"][0];
  row["variant"] = "int8_kblock", row["backend"] = "avx512_vnni", row["quantisation"] = "excluded";
  row["percent_of_peak"] = 61.9;
  EXPECT_EQ(verdict(zen5, "vit-b: int8"), "**fails**");
  row["percent_of_peak"] = 62.1;
  EXPECT_EQ(verdict(zen5, "vit-b: int8"), "holds");
  zen5["cpu_family"] = 25;  // no shares are set for it
  EXPECT_EQ(verdict(zen5, "key block 128"), "missing");
}

TEST(Report, CommittedPageIsThatOfTheCommittedResults) {
  const std::string root = OCTET_SOURCE_DIR;
  Result<std::vector<Json>> documents = load_documents(root + "/results/benchmarks");
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  std::string expected = benchmarks_page(documents.value());
  // The GPU's part is there once a run is.
  if (const std::string gpu = root + "/results/device/gpu-suite.json"; std::filesystem::exists(gpu)) {
    Result<Json> document = load_gpu_document(gpu);
    ASSERT_TRUE(document.ok()) << document.status().message();
    expected += gpu_section(document.value());
  }
  std::ifstream file(root + "/docs/benchmarks.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), expected) << "octet bench --suite report --results results/benchmarks [--gpu-results "
                                     "results/device/gpu-suite.json] --docs-dir docs makes it";
}

}  // namespace
}  // namespace octet::tool
