#include "accuracy/report.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "accuracy/bars.h"
#include "accuracy/claims.h"
#include "accuracy/distributions.h"
#include "accuracy/published.h"
#include "common/format.h"
#include "common/table.h"

namespace octet::tool {
namespace {

constexpr const char* kGenerated =
    "<!-- Made by `octet accuracy --suite report` from results/accuracy/*.json; a test compares the two. "
    "-->\n\n";

std::string percent_cell(double share) { return significant(100 * share); }

std::string distribution_name(int kind) { return std::string(name_of(static_cast<Distribution>(kind))); }

/// Names of the rows of an experiment, in its order.
std::vector<std::string> row_names(const Measurements& m, const std::string& part,
                                   const std::string& experiment) {
  std::vector<std::string> names;
  if (const Json* e = m.experiment(part, experiment))
    for (const Json& row : e->at("rows")) names.push_back(row.at("name").get<std::string>());
  return names;
}

std::string provenance(const Measurements& m) {
  Table table({{"part", Align::left},
               {"command", Align::left},
               {"commit", Align::left},
               {"date", Align::left},
               {"CPU", Align::left},
               {"CPU seconds"}});
  for (const Json& part : m.parts()) {
    const double seconds = part.contains("cpu_seconds") ? part["cpu_seconds"].get<double>() : std::nan("");
    table.add({part.value("part", ""), "`" + part.value("command", "") + "`", part.value("commit", ""),
               part.value("date", ""), part.value("cpu", ""), significant(seconds)});
  }
  return table.markdown();
}

std::string bars_table(const Measurements& m) {
  Table table(
      {{"bar", Align::left}, {"threshold", Align::left}, {"measured", Align::left}, {"", Align::left}});
  for (const Bar& bar : bars_of(m)) table.add({bar.what, bar.threshold, bar.measured, verdict_text(bar)});
  return table.markdown();
}

/// A table of every row on every distribution.
template <class Cell>  // std::string(const Place&)
std::string by_distribution(const Measurements& m, int dim, Cell&& cell) {
  std::vector<Table::Column> columns = {{"scheme", Align::left}};
  for (int kind = 0; kind < kDistributions; ++kind) columns.push_back({distribution_name(kind)});
  Table table(std::move(columns));
  for (const std::string& row : row_names(m, "distributions", fmt::format("normal/d{}", dim))) {
    std::vector<std::string> cells = {row};
    for (int kind = 0; kind < kDistributions; ++kind)
      cells.push_back(cell(Place{"distributions", fmt::format("{}/d{}", distribution_name(kind), dim), row}));
    table.add(std::move(cells));
  }
  return table.markdown();
}

/// Relative RMSE, or its extremes over single seeds.
enum class Spread { hidden, shown };
std::string distribution_table(const Measurements& m, int dim, Spread spread) {
  return by_distribution(m, dim, [&](const Place& place) {
    if (spread == Spread::hidden) return percent_cell(m.figure(place, "relative_rmse"));
    return percent_cell(m.extreme(place, "least", "relative_rmse")) + " – " +
           percent_cell(m.extreme(place, "most", "relative_rmse"));
  });
}

/// The share of its bound that the largest error of a row uses.
std::string bound_table(const Measurements& m, int dim) {
  return by_distribution(
      m, dim, [&](const Place& place) { return significant(m.figure(place, "max_error_over_bound")); });
}

std::string design_table(const Measurements& m) {
  Table table({{"distribution", Align::left},
               {"d"},
               {"int8"},
               {"its design"},
               {"int8, K per block"},
               {"int8_shift"},
               {"its design"},
               {"comfy-kitchen (quoted)"},
               {"int8_fp8"},
               {"fp8"},
               {"fp8, rotated"},
               {"int8_full"}});
  for (const Published& p : kPublished)
    for (std::size_t i = 0; i < kPublishedDims.size(); ++i) {
      const auto cell = [&](const char* row) {
        return percent_cell(
            m.figure({"distributions", fmt::format("{}/d{}", p.distribution, kPublishedDims[i]), row},
                     "relative_rmse"));
      };
      table.add({p.distribution, fmt::format("{}", kPublishedDims[i]), cell("int8"),
                 fmt::format("{:.2f}", p.int8[i]), cell("int8, K per block"), cell("int8_shift"),
                 fmt::format("{:.2f}", p.int8_shift[i]), fmt::format("{:.2f}", p.comfy[i]), cell("int8_fp8"),
                 cell("fp8"), cell("fp8, rotated"), cell("int8_full")});
    }
  return table.markdown();
}

/// One table a distribution: rows against length.
std::string length_tables(const Measurements& m) {
  std::string text;
  for (int kind = 0; kind < kDistributions; ++kind) {
    std::vector<Table::Column> columns = {{"scheme", Align::left}};
    std::vector<int> lengths;
    for (int keys = 128; keys <= 131072; keys *= 4) lengths.push_back(keys);
    for (const int keys : lengths) columns.push_back({fmt::format("{}", keys)});
    Table table(std::move(columns));
    for (const std::string& row : row_names(m, "lengths", fmt::format("{}/n128", distribution_name(kind)))) {
      std::vector<std::string> cells = {row};
      for (const int keys : lengths)
        cells.push_back(percent_cell(m.figure(
            {"lengths", fmt::format("{}/n{}", distribution_name(kind), keys), row}, "relative_rmse")));
      table.add(std::move(cells));
    }
    text += fmt::format("### {}\n\n{}\n", distribution_name(kind), table.markdown());
  }
  return text;
}

std::string capture_table(const Measurements& m) {
  Table table(
      {{"scheme", Align::left}, {"all layers"}, {"0"}, {"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"SQNR dB"}});
  for (const std::string& name : row_names(m, "capture", "capture")) {
    const Place place{"capture", "capture", name};
    std::vector<std::string> cells = {name, percent_cell(m.figure(place, "relative_rmse"))};
    for (const Json& layer : m.row(place)->at("relative_rmse_by_batch"))
      cells.push_back(percent_cell(layer.get<double>()));
    cells.push_back(fmt::format("{:.1f}", m.figure(place, "sqnr_db")));
    table.add(std::move(cells));
  }
  return table.markdown();
}

std::string claims_table(const Measurements& m) {
  Table table({{"#"},
               {"claim", Align::left},
               {"protocol", Align::left},
               {"paper", Align::left},
               {"octet", Align::left},
               {"verdict", Align::left}});
  for (const Claim& c : claims_of(m))
    if (c.measured) table.add({fmt::format("{}", c.number), c.claim, c.protocol, c.paper, c.ours, c.verdict});
  return table.markdown();
}

}  // namespace

std::string accuracy_page(const Measurements& m) {
  std::string page = "# How accurate each scheme is\n\n";
  page += kGenerated;
  page +=
      "Errors are against float64 attention of the same float inputs, pooled over seeds: relative RMSE is\n"
      "sqrt(sum of squared errors / sum of squared exact outputs), SQNR the same in dB. Default recipes and "
      "key block\n"
      "128 unless a row says otherwise; output codes are part of qflash, qattn and integer. Sixteen seeds "
      "are pooled,\n"
      "with the extremes of single seeds where a range stands. The distributions are defined in\n"
      "tools/octet/accuracy/distributions.h.\n\n"
      "To measure it all again, once the tests are built:\n\n"
      "```bash\n"
      "scripts/accuracy-suite build/release results/accuracy docs\n"
      "```\n\n";
  page +=
      provenance(m) + "\n## Bars\n\n" + bars_table(m) +
      "\nRows beyond bar 2 are of data that int8's design does not list: int8 loses on u4, because "
      "rotation makes uniform\nnumbers Gaussian, whose largest is further from the rest and gives coarser "
      "steps, and on "
      "huge, because scores\nof thousands of nats make rows one-hot and the error is how many rows of a draw "
      "have another key on top.\n";
  page +=
      "\n## A real transformer\n\nQ, K and V of all-MiniLM-L6-v2 (6 layers, 12 heads, 197 tokens, d = 32); "
      "relative "
      "RMSE in %, by layer.\n\n" +
      capture_table(m);
  page +=
      "\n## int8 against its design and its peers\n\nRelative RMSE in %, 8192 keys. comfy-kitchen's "
      "int8_attention "
      "(PyPI) was measured on an H200 on the same\nformulas' inputs and is quoted.\n\n" +
      design_table(m);
  for (const int dim : kPublishedDims)
    page += fmt::format(
        "\n## Every scheme by distribution, d = {}\n\nRelative RMSE in %, 8192 keys, 128 queries, 16 "
        "seeds.\n\n{}\nSingle seeds:\n\n{}",
        dim, distribution_table(m, dim, Spread::hidden), distribution_table(m, dim, Spread::shown));
  page +=
      "\n## Errors against their bounds\n\nThe largest ratio of an error to the a-priori bound of its "
      "element "
      "([error-bounds.md](numerics/error-bounds.md)), over the\nelements of the first seed: it may not pass "
      "1. "
      "The bound is of the worst inputs with the same scales and norms, which\nrandom inputs are far from; "
      "inputs made to err come within the factors of that page's table.\n\nd = 64:\n\n" +
      bound_table(m, 64) + "\nd = 128:\n\n" + bound_table(m, 128);
  page +=
      "\n## Every scheme by length\n\nRelative RMSE in %, d = 64; 128 query rows a figure, over 16 seeds up "
      "to 2048 "
      "keys and over 4 beyond.\n\n" +
      length_tables(m);
  page += "\n## The papers' claims\n\nNumbers are those of [claims.md](claims.md), which has all 68.\n\n" +
          claims_table(m);
  return page;
}

std::string claims_page(const Measurements& m, const std::vector<PaperFigure>& on_gpu) {
  Table table({{"#"},
               {"claim", Align::left},
               {"paper", Align::left},
               {"octet", Align::left},
               {"verdict", Align::left},
               {"measured by, or waiting for", Align::left}});
  for (const Claim& c : claims_of(m)) {
    const bool open = c.verdict == "open";
    const auto figure = std::find_if(on_gpu.begin(), on_gpu.end(),
                                     [&](const PaperFigure& f) { return f.number == c.number; });
    if (open && figure != on_gpu.end()) {
      table.add({fmt::format("{}", c.number), c.claim, c.paper, figure->ours, figure->verdict,
                 "`scripts/bench-gpu`"});
      continue;
    }
    table.add({fmt::format("{}", c.number), c.claim, c.paper, open ? "–" : c.ours, c.verdict,
               open ? c.command : "`" + c.command + "`"});
  }
  return fmt::format(
      "# The papers' 68 claims\n\n"
      "{}"
      "INT-FlashAttention (1 – 15), QFlash (16 – 36), FlashAttention-3 (37 – 52), Colfax's FP8 note (53 – "
      "58), the\n"
      "appendix on exponentials by table (59 – 62), and what belongs to them (63 – 68). \"octet\" is what "
      "this project\n"
      "measures; protocols stand in [accuracy.md](accuracy.md), those of GPUs in "
      "[benchmarks.md](benchmarks.md). Open rows wait for what their last column "
      "names.\n\n"
      "{}",
      kGenerated, table.markdown());
}

}  // namespace octet::tool
