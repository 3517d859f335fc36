// The suite's machinery on tiny sizes, and the committed pages against the committed measurements.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "accuracy/bars.h"
#include "accuracy/experiment.h"
#include "accuracy/protocols.h"
#include "accuracy/report.h"
#include "accuracy/robustness.h"
#include "bench/gpu_rows.h"

namespace octet::tool {
namespace {

Experiment tiny(Distribution kind) {
  Experiment e;
  e.name = "tiny";
  e.data.kind = kind, e.data.queries = 8, e.data.keys = 48, e.data.dim = 32;
  e.seeds = 3;
  e.variants = {variant_of(Scheme::f32), variant_of(Scheme::int8), variant_of(Scheme::int8_full)};
  return e;
}

Json run(const Experiment& e, int threads = 1) {
  Result<std::vector<Json>> documents = run_experiments({e}, threads, "test");
  EXPECT_TRUE(documents.ok()) << documents.status().message();
  return documents.ok() ? documents.value().front() : Json();
}

TEST(Suite, RanksSchemesAsTheirPrecisionDoes) {
  const Json rows = run(tiny(Distribution::normal)).at("rows");
  ASSERT_EQ(rows.size(), 3u);
  const auto rmse = [&](std::size_t i) { return rows[i]["relative_rmse"].get<double>(); };
  EXPECT_LT(rmse(0), 1e-5);
  EXPECT_GT(rmse(1), 1e-3);
  EXPECT_LT(rmse(1), 0.03);
  EXPECT_GT(rmse(2), rmse(1));
}

TEST(Suite, PooledFiguresLieBetweenThoseOfSingleSeeds) {
  const Json rows = run(tiny(Distribution::outlier)).at("rows");
  for (const Json& row : rows)
    for (const char* figure : {"relative_rmse", "relative_l1", "rmse", "sqnr_db"}) {
      const double all = row[figure].get<double>();
      EXPECT_LE(row["least"][figure].get<double>(), all) << row["name"] << " " << figure;
      EXPECT_GE(row["most"][figure].get<double>(), all) << row["name"] << " " << figure;
    }
}

TEST(Suite, FiguresDoNotDependOnTheThreads) {
  EXPECT_EQ(run(tiny(Distribution::mixed), 1).dump(), run(tiny(Distribution::mixed), 3).dump());
}

TEST(Suite, ARefusalIsARowWithItsReason) {
  Experiment e = tiny(Distribution::normal);
  e.variants = {variant_of(Scheme::int8)};
  e.variants[0].options.quotient = SchemeOptions::Quotient::divide;  // int8 has no such choice
  const Json row = run(e).at("rows")[0];
  ASSERT_TRUE(row.contains("refused"));
  EXPECT_FALSE(row.contains("relative_rmse"));
  EXPECT_NE(row["refused"].get<std::string>().find("quotient"), std::string::npos) << row["refused"];
}

TEST(Suite, ABoundIsOfTheFirstSeedAndHolds) {
  Experiment e = tiny(Distribution::normal);
  EXPECT_FALSE(run(e).at("rows")[0].contains("max_error_over_bound"));
  e.bound = WithBound::yes;
  const Json rows = run(e).at("rows");
  for (const Json& row : rows) {
    EXPECT_GT(row.at("max_error_over_bound").get<double>(), 0) << row["name"];
    EXPECT_LE(row.at("max_error_over_bound").get<double>(), 1) << row["name"];
    EXPECT_GT(row.at("max_bound").get<double>(), 0) << row["name"];
  }
  e.seeds = 1;
  EXPECT_EQ(run(e).at("rows")[1].at("max_error_over_bound"), rows[1].at("max_error_over_bound"));
}

TEST(Suite, GroupedQueriesShareAKeyHead) {
  Experiment e = tiny(Distribution::normal);
  e.data.heads = 2, e.data.group = 3;
  const Json document = run(e);
  EXPECT_EQ(document.at("data").at("group").get<int>(), 3);
  for (const Json& row : document.at("rows"))
    EXPECT_LT(row.at("relative_rmse").get<double>(), 0.1) << row["name"];
}

TEST(Suite, CausalAndBiasReachTheSchemes) {
  Experiment e = tiny(Distribution::normal);
  const double plain = run(e).at("rows")[1]["rmse"].get<double>();
  e.mask = Mask::causal;
  EXPECT_NE(run(e).at("rows")[1]["rmse"].get<double>(), plain);
  Experiment swin = tiny(Distribution::normal);
  swin.data.queries = swin.data.keys = 49, swin.data.heads = 2, swin.bias = ScoreBias::swin;
  const Json rows = run(swin).at("rows");
  for (const Json& row : rows) EXPECT_LT(row["relative_rmse"].get<double>(), 0.1) << row["name"];
}

TEST(Suite, EveryProtocolHasItsOwnNameAndNoEmptyTable) {
  for (const auto& list : {protocol_experiments({}), feature_experiments({}), distribution_experiments({}),
                           length_experiments({})}) {
    std::set<std::string> names;
    for (const Experiment& e : list) {
      EXPECT_TRUE(names.insert(e.name).second) << e.name << " is there twice";
      EXPECT_FALSE(e.variants.empty()) << e.name;
      std::set<std::string> rows;
      for (const Variant& v : e.variants) EXPECT_TRUE(rows.insert(v.name).second) << e.name << ": " << v.name;
    }
  }
}

TEST(Suite, EveryProtocolRunsOnAFewKeys) {
  SuiteSize size;
  size.seeds = 1, size.queries = 2, size.longest = 256;
  Result<std::vector<Json>> documents = run_experiments(protocol_experiments(size), 2, "test");
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  for (const Json& e : documents.value())
    for (const Json& row : e.at("rows")) {
      EXPECT_FALSE(row.contains("refused")) << e["name"] << " " << row["name"] << ": " << row["refused"];
    }
}

TEST(Suite, IntegerStaysAWeightedMeanWhereQFlashDoesNot) {
  SuiteSize size;
  size.seeds = 1;
  Result<std::vector<Json>> documents = run_robustness(size, 1);
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  int qflash_failures = 0;
  for (const Json& e : documents.value()) {
    EXPECT_EQ(e["rows"][0]["outside"].get<double>(), 0) << e["name"];
    qflash_failures += e["rows"][1]["seeds_outside"].get<int>();
  }
  EXPECT_GT(qflash_failures, 0);
}

TEST(Bars, WithoutMeasurementsNoneIsJudged) {
  for (const Bar& bar : bars_of(Measurements())) EXPECT_EQ(bar.verdict, Verdict::open) << bar.what;
}

TEST(Bars, AFigureOnTheWrongSideFails) {
  const Json part = Json::parse(R"({"part": "protocols", "experiments": [{"name": "qflash/a2", "rows":
    [{"name": "integer", "sqnr_db": 35.2}, {"name": "qflash", "sqnr_db": 32.2}]}]})");
  const std::vector<Bar> bars = bars_of(Measurements(std::vector<Json>{part}));
  const auto find = [&](const std::string& what) {
    for (const Bar& bar : bars)
      if (bar.what.find(what) != std::string::npos) return bar.verdict;
    return Verdict::open;
  };
  EXPECT_EQ(find("integer, A2"), Verdict::fails);
  EXPECT_EQ(find("qflash, A2"), Verdict::passes);
  EXPECT_EQ(find("integer, A7"), Verdict::open);
}

TEST(Bars, DataBeyondABarIsShownAndNotFailed) {
  const auto verdict_of = [](double rival) {
    Json part = Json::parse(R"({"part": "distributions", "experiments": []})");
    for (const char* kind : {"u4", "tiny", "huge", "needle"})
      for (const char* dim : {"d64", "d128"})
        part["experiments"].push_back({{"name", std::string(kind) + "/" + dim},
                                       {"rows", Json::array({{{"name", "int8"}, {"relative_rmse", 0.02}},
                                                             {{"name", "fp8"}, {"relative_rmse", rival}}})}});
    for (const Bar& bar : bars_of(Measurements(std::vector<Json>{part})))
      if (bar.what.rfind("beyond bar 2: int8 below fp8", 0) == 0) return verdict_text(bar);
    return std::string("no such bar");
  };
  EXPECT_EQ(verdict_of(0.04), "beyond");
  EXPECT_EQ(verdict_of(0.016), "beyond, 1.25 times");
}

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(OCTET_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Report, CommittedPagesAreThoseOfTheCommittedMeasurements) {
  Result<Measurements> measured = load_measurements(std::string(OCTET_SOURCE_DIR) + "/results/accuracy");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  ASSERT_FALSE(measured.value().parts().empty());
  EXPECT_EQ(text_of("docs/accuracy.md"), accuracy_page(measured.value()));
  Result<Json> on_gpu = load_gpu_document(std::string(OCTET_SOURCE_DIR) + "/results/device/gpu-suite.json");
  ASSERT_TRUE(on_gpu.ok()) << on_gpu.status().message();
  EXPECT_EQ(text_of("docs/claims.md"),
            claims_page(measured.value(), paper_figures_of(GpuRun(on_gpu.value()))));
}

}  // namespace
}  // namespace octet::tool
