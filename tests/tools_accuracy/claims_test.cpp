// The papers' claims: a verdict follows from the figures, and changes with them.
#include "accuracy/claims.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "accuracy/measurements.h"
#include "accuracy/part.h"
#include "accuracy/qflash_fixtures.h"

namespace octet::tool {
namespace {

constexpr const char* kFixtures = OCTET_SOURCE_DIR "/tests/data/qflash/qflash_integer_cases.json";

const Claim& claim_of(const std::vector<Claim>& claims, int number) {
  return claims.at(static_cast<std::size_t>(number - 1));
}

/// One row of an experiment with its figures: enough for one claim.
struct Row {
  std::string part, experiment, row;
  std::string figures;  ///< JSON
};

Measurements measurements_of(const std::vector<Row>& rows) {
  std::vector<Json> parts;
  const auto named = [](Json& list, const char* key, const std::string& name) -> Json& {
    for (Json& item : list)
      if (item.at(key) == name) return item;
    list.push_back({{key, name}});
    return list.back();
  };
  Json all = Json::array();
  for (const Row& r : rows) {
    Json& experiment = named(named(all, "part", r.part)["experiments"], "name", r.experiment);
    named(experiment["rows"], "name", r.row).update(Json::parse(r.figures));
  }
  for (Json& part : all) parts.push_back(part);
  return Measurements(std::move(parts));
}

std::string verdict(int number, const std::vector<Row>& rows) {
  return claim_of(claims_of(measurements_of(rows)), number).verdict;
}

TEST(Claims, AllSixtyEightAreThereOnce) {
  const std::vector<Claim> claims = claims_of(Measurements());
  ASSERT_EQ(claims.size(), 68u);
  for (std::size_t i = 0; i < claims.size(); ++i) EXPECT_EQ(claims[i].number, static_cast<int>(i) + 1);
}

TEST(Claims, WithoutMeasurementsNoneIsJudged) {
  for (const Claim& claim : claims_of(Measurements()))
    EXPECT_EQ(claim.verdict, claim.measured ? "not measured" : "open") << claim.number << " " << claim.claim;
}

TEST(Claims, EachOfTheCommittedFiguresIsJudged) {
  Result<Measurements> measured = load_measurements(std::string(OCTET_SOURCE_DIR) + "/results/accuracy");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  for (const Claim& claim : claims_of(measured.value()))
    EXPECT_NE(claim.verdict, "not measured") << claim.number << " " << claim.claim;
}

TEST(Claims, OneDifferingCodeMakesQFlashNotReproduced) {
  const auto rows = [](const char* differing) {
    return std::vector<Row>{{"numerics", "qflash/fixtures", "a", R"({"codes": 100, "differing": 0})"},
                            {"numerics", "qflash/fixtures", "b",
                             std::string(R"({"codes": 60, "differing": )") + differing + "}"}};
  };
  EXPECT_EQ(verdict(16, rows("0")), "reproduced");
  EXPECT_EQ(verdict(16, rows("1")), "not reproducible");
  EXPECT_EQ(claim_of(claims_of(measurements_of(rows("1"))), 16).ours,
            "1 of 160 output codes differ, in 2 cases");
}

/// The rows of claims 9 to 11 with one L1 error for each scheme, at every length.
struct Errors {
  double half = .0085, full = .042, fp8 = .075, scaled = .05;
};
std::vector<Row> int_flash_tables(const char* stem, const Errors& at_eighth, const Errors& at_one) {
  std::vector<Row> rows;
  const auto l1 = [](double error) { return "{\"relative_l1\": " + std::to_string(error) + "}"; };
  for (const auto& [scale, e] : {std::pair{"0.125", at_eighth}, {"1", at_one}})
    for (int keys = 1024; keys <= 16384; keys *= 2) {
      const std::string place = std::string(stem) + "/scale" + scale + "/n" + std::to_string(keys);
      rows.push_back({"protocols", "intfa/" + place, "int8_half", l1(e.half)});
      rows.push_back({"protocols", "intfa/" + place, "int8_full", l1(e.full)});
      rows.push_back({"protocols", "intfa/" + place, "fp8", l1(e.scaled)});
      rows.push_back({"numerics", "unscaled/" + place, "e5m2", l1(e.fp8)});
    }
  return rows;
}

TEST(Claims, IntFlashTablesAreReproducedWhereAllThreeFiguresAppearAtOneScale) {
  const Errors printed, far{.2, .3, .4, .4};
  EXPECT_EQ(verdict(9, int_flash_tables("normal", printed, far)),
            "reproduced: scale 1/8 gives half, full and FP8, scale 1 gives none; half < full < FP8 holds");
  Errors fp8_far = printed;
  fp8_far.fp8 = .2;
  EXPECT_EQ(verdict(9, int_flash_tables("normal", fp8_far, far)),
            "corrected: scale 1/8 gives half and full, scale 1 gives none; half < full < FP8 holds");
  const Errors disordered{.2, .1, .4, .4};
  EXPECT_EQ(verdict(9, int_flash_tables("normal", printed, disordered)),
            "reproduced: scale 1/8 gives half, full and FP8, scale 1 gives none; half < full < FP8 does not "
            "hold");
  const Errors uniform{.003, .017, .09, .05};
  EXPECT_EQ(verdict(10, int_flash_tables("uniform", far, uniform)),
            "reproduced: scale 1/8 gives none, scale 1 gives half, full and FP8; half < full < FP8 holds");
  EXPECT_EQ(verdict(10, int_flash_tables("uniform", far, far)).substr(0, 9), "corrected");
}

std::string verdict_of_gain(const Errors& normal, const Errors& uniform) {
  std::vector<Row> rows = int_flash_tables("normal", normal, normal);
  for (Row& r : int_flash_tables("uniform", uniform, uniform)) rows.push_back(std::move(r));
  return verdict(11, rows);
}

TEST(Claims, FullInt8AgainstFp8SaysWhereTheGainIsLess) {
  EXPECT_EQ(verdict_of_gain({.01, .04, .10, .09}, {.003, .01, .10, .10}), "reproduced");
  EXPECT_EQ(verdict_of_gain({.01, .04, .10, .09}, {.003, .01, .10, .04}),
            "reproduced; by less than printed against scaled e4m3 on U(-0.5, 0.5)");
  EXPECT_EQ(verdict_of_gain({.01, .04, .10, .03}, {.003, .01, .10, .10}),
            "not reproducible: not smaller against scaled e4m3 on N(0, 1)");
}

TEST(Claims, BopsFollowFromTheMacs) {
  const auto macs = [](const char* count) {
    return std::vector<Row>{{"numerics", "bops", "DeiT-S", std::string(R"({"macs": )") + count + "}"}};
  };
  EXPECT_EQ(verdict(34, macs("357663744")), "corrected");
  EXPECT_EQ(verdict(34, macs("535937500")), "reproduced");
}

TEST(Claims, AFeatureThatCostsAnySchemeTooMuchIsNotReproduced) {
  const auto rows = [](const char* causal) {
    return std::vector<Row>{
        {"features", "features/causal", "int8", R"({"relative_rmse": 0.01})"},
        {"features", "features/causal", "int8_full", std::string(R"({"relative_rmse": )") + causal + "}"},
        {"features", "features/whole256", "int8", R"({"relative_rmse": 0.011})"},
        {"features", "features/whole256", "int8_full", R"({"relative_rmse": 0.02})"}};
  };
  EXPECT_EQ(verdict(14, rows("0.03")), "corrected");
  EXPECT_EQ(verdict(14, rows("0.3")), "not reproducible: 197 tokens of int8_full");
}

/// What is done to every figure of a row; decibels are divided by the factor.
struct Change {
  double factor = 1, offset = 0;
};
Json changed(const Json& json, const Change& change) {
  if (json.is_number()) return json.get<double>() * change.factor + change.offset;
  if (!json.is_object()) return json;
  Json out = Json::object();
  for (const auto& [key, value] : json.items())
    out[key] = changed(value, key == "sqnr_db" ? Change{1 / change.factor, change.offset} : change);
  return out;
}

/// Far off; by as much as a paper may be (96 bits of 64, row 34); and away from zero (rows 16 and 31).
constexpr Change kChanges[] = {{100, 0}, {.01, 0}, {1.5, 0}, {1, 1}};

/// No verdict is a sentence that stands there whatever was measured: each of the measured claims is judged
/// otherwise after some change to the figures of one row, or of one experiment.
TEST(Claims, EveryVerdictChangesWithItsFigures) {
  Result<Measurements> measured = load_measurements(std::string(OCTET_SOURCE_DIR) + "/results/accuracy");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  std::vector<Json> parts;
  for (const Json& part : measured.value().parts())
    if (part.at("part") != "lengths") parts.push_back(part);  // note: no claim reads it, and it is large
  const std::vector<Claim> now = claims_of(Measurements(parts));
  std::set<int> judged_otherwise;
  const auto note = [&](std::vector<Json> other) {
    const std::vector<Claim> then = claims_of(Measurements(std::move(other)));
    for (std::size_t i = 0; i < now.size(); ++i)
      if (then[i].verdict != now[i].verdict && then[i].verdict != "not measured")
        judged_otherwise.insert(now[i].number);
  };
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::set<std::string> experiments, rows;
    for (const Json& experiment : parts[p].at("experiments")) {
      experiments.insert(experiment.at("name").get<std::string>());
      for (const Json& row : experiment.at("rows")) rows.insert(row.at("name").get<std::string>());
    }
    const auto change_where = [&](const auto& wanted) {
      for (const Change& change : kChanges) {
        std::vector<Json> other = parts;
        for (Json& experiment : other[p]["experiments"])
          for (Json& row : experiment["rows"])
            if (wanted(experiment, row)) row = changed(row, change);
        note(std::move(other));
      }
    };
    for (const std::string& name : rows)
      change_where([&](const Json&, const Json& row) { return row.at("name") == name; });
    if (parts[p].at("part") == "features")  // ratios of two experiments
      for (const std::string& name : experiments)
        change_where([&](const Json& experiment, const Json&) { return experiment.at("name") == name; });
  }
  for (const Claim& claim : now)
    EXPECT_EQ(judged_otherwise.count(claim.number), claim.measured ? 1u : 0u)
        << claim.number << ": " << claim.verdict;
}

TEST(QFlashFixtures, EveryCaseIsComparedCodeByCode) {
  Result<Json> compared = compare_with_qflash_fixtures(kFixtures);
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  ASSERT_EQ(compared.value().at("rows").size(), 5u);
  for (const Json& row : compared.value().at("rows")) {
    EXPECT_GE(row.at("codes").get<int>(), 49 * 32) << row.at("name");
    EXPECT_EQ(row.at("differing").get<int>(), 0) << row.at("name");
  }
}

TEST(QFlashFixtures, AWrongCodeIsCounted) {
  std::ifstream file(kFixtures);
  Json cases = Json::parse(file);
  auto codes = cases["cases"][1]["out8"].get<std::string>();
  codes[0] = codes[0] == 'A' ? 'B' : 'A';  // the upper six bits of the first code
  cases["cases"][1]["out8"] = codes;
  const std::string path = ::testing::TempDir() + "/octet-wrong-fixtures.json";
  std::ofstream(path) << cases.dump();
  Result<Json> compared = compare_with_qflash_fixtures(path);
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_EQ(compared.value().at("rows")[0].at("differing").get<int>(), 0);
  EXPECT_EQ(compared.value().at("rows")[1].at("differing").get<int>(), 1);
  EXPECT_GT(compared.value().at("rows")[1].at("largest_difference").get<int>(), 0);
}

TEST(QFlashFixtures, AFileOfAnotherKindIsRefused) {
  for (const char* path :
       {OCTET_SOURCE_DIR "/CMakeLists.txt", OCTET_SOURCE_DIR "/CMakePresets.json", "nowhere"})
    EXPECT_EQ(compare_with_qflash_fixtures(path).status().code(), Code::io) << path;
}

TEST(Part, SaysWhatMeasuredItWhereAndWhen) {
  const Json part = part_json({"numerics", "claims_numerics", "0123abc", 1.4}, {});
  EXPECT_EQ(part.at("part"), "numerics");
  EXPECT_EQ(part.at("command"), "claims_numerics");
  EXPECT_EQ(part.at("commit"), "0123abc");
  EXPECT_EQ(part.at("date").get<std::string>().size(), 10u);
  EXPECT_FALSE(part.at("cpu").get<std::string>().empty());
  EXPECT_GE(part.at("processors").get<int>(), 1);
  EXPECT_EQ(part.at("cpu_seconds").get<double>(), 1);
}

}  // namespace
}  // namespace octet::tool
