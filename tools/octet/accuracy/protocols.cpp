#include "accuracy/protocols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace octet::tool {
namespace {

using G = Granularity;

Recipe recipe_of(Scheme scheme) {
  Result<Recipe> recipe = default_recipe_of(scheme);
  return recipe.ok() ? recipe.value() : Recipe{};
}

/// The scheme's default recipe, changed.
template <class F>
Variant with_recipe(Scheme scheme, std::string name, F&& change) {
  Variant variant = variant_of(scheme, std::move(name));
  variant.recipe = recipe_of(scheme);
  change(*variant.recipe);
  return variant;
}

Variant rotated(Scheme scheme, std::string name) {
  return with_recipe(scheme, std::move(name), [](Recipe& r) { r.rotate = Rotate::on; });
}
Variant scales(Scheme scheme, std::string name, G q, G k, G v) {
  return with_recipe(scheme, std::move(name), [&](Recipe& r) { r.q = q, r.k = k, r.v = v; });
}
Variant at_block(Variant variant, std::int64_t key_block) {
  variant.key_block = key_block;
  return variant;
}
Variant paper_sum(std::string name) {
  Variant variant = variant_of(Scheme::int8_full, std::move(name));
  variant.options.row_sum = SchemeOptions::RowSum::codes;
  return variant;
}
Variant lut(std::string name, SchemeOptions::Table table, std::int32_t bits) {
  Variant variant = variant_of(Scheme::int8_lut, std::move(name));
  variant.options.table = table, variant.options.table_bits = bits;
  return variant;
}
/// QFlash's kernel walks blocks of 32 keys.
Variant qflash(std::string name = "qflash") {
  return at_block(variant_of(Scheme::qflash, std::move(name)), 32);
}

std::vector<Variant> defaults(std::initializer_list<Scheme> schemes) {
  std::vector<Variant> variants;
  for (const Scheme scheme : schemes) variants.push_back(variant_of(scheme));
  return variants;
}

DataSpec data_of(Distribution kind, std::int64_t queries, std::int64_t keys, std::int64_t dim) {
  DataSpec data;
  data.kind = kind, data.queries = queries, data.keys = keys, data.dim = dim;
  return data;
}

/// Builds a list of experiments of one size.
class Experiments {
 public:
  explicit Experiments(const SuiteSize& size) : size_(size) {}

  void add(std::string name, DataSpec data, std::vector<Variant> variants,
           std::optional<float> softmax_scale = {}, int seeds = 0) {
    Experiment e;
    e.name = std::move(name), e.data = data, e.variants = std::move(variants);
    e.softmax_scale = softmax_scale;
    e.seeds = seeds > 0 ? std::min(seeds, size_.seeds) : size_.seeds;
    all_.push_back(std::move(e));
  }
  /// The one that was added last, to set what few have.
  Experiment& last() { return all_.back(); }
  const SuiteSize& size() const { return size_; }
  /// Those that are not too long.
  std::vector<Experiment> take() {
    std::erase_if(all_, [&](const Experiment& e) { return e.data.keys > size_.longest; });
    return std::move(all_);
  }

 private:
  SuiteSize size_;
  std::vector<Experiment> all_;
};

/// ViT-Small's and Swin's last attention: QFlash's workloads A2 and A7, all queries, inputs in f16.
DataSpec a2() {
  DataSpec data = data_of(Distribution::u4, 197, 197, 64);
  data.heads = 6, data.as_f16 = true;
  return data;
}
DataSpec a7() {
  DataSpec data = data_of(Distribution::u4, 49, 49, 32);
  data.heads = 24, data.as_f16 = true;
  return data;
}

/// INT-FlashAttention, section 4 and the hazards that follow from its recipe (rows 1-6, 9-11, 68).
void add_int_flash(Experiments& list) {
  const std::int64_t queries = std::min<std::int64_t>(list.size().queries, 64);
  std::vector<Variant> pair = defaults({Scheme::int8_full, Scheme::int8_half});
  list.add("intfa/plain", data_of(Distribution::normal, queries, 1000, 64), pair);
  list.add("intfa/causal", data_of(Distribution::normal, queries, 1000, 64), pair);
  list.last().mask = Mask::causal;
  pair.insert(pair.begin() + 1, paper_sum("int8_full, sum of codes"));
  for (std::int64_t keys = 1024; keys <= 16384; keys *= 2) {
    std::vector<Variant> rows = pair;
    rows.push_back(variant_of(Scheme::fp8));
    for (const auto& [kind, name] :
         {std::pair{Distribution::normal, "normal"}, {Distribution::uniform, "uniform"}})
      for (const float scale : {1.0f, 0.125f}) {
        list.add(fmt::format("intfa/{}/scale{}/n{}", name, scale, keys), data_of(kind, queries, keys, 64),
                 rows, scale);
      }
  }
  // Which row sum: V with a mean (its own script's U(0, 1)), and concentrated rows over V without one.
  list.add("intfa/sum/positive", data_of(Distribution::positive, queries, 4096, 128), pair, 1.0f);
  DataSpec concentrated = data_of(Distribution::spread, queries, 4096, 128);
  concentrated.scale = 0.5;
  list.add("intfa/sum/concentrated", concentrated, pair, 1.0f);
  for (const double nats : {6.0, 7.0, 8.0, 9.0}) {
    DataSpec sink = data_of(Distribution::sink, queries, 4096, 64);
    sink.sink_nats = nats;
    std::vector<Variant> rows = pair;
    for (const Variant& v :
         defaults({Scheme::fp8, Scheme::int8_fp8, Scheme::int8_shift, Scheme::int8, Scheme::integer}))
      rows.push_back(v);
    list.add(fmt::format("sink/{}", nats), sink, rows);
  }
}

/// QFlash, sections 4 and B (rows 16-17, 21-22, 26-31, 36, 63).
void add_qflash(Experiments& list) {
  std::vector<Variant> rows = {qflash(),
                               variant_of(Scheme::integer),
                               variant_of(Scheme::int8),
                               variant_of(Scheme::int8_full),
                               paper_sum("int8_full, sum of codes"),
                               variant_of(Scheme::int8_half),
                               variant_of(Scheme::qattn),
                               variant_of(Scheme::ivit),
                               variant_of(Scheme::ibert),
                               variant_of(Scheme::fqvit)};
  Variant divide = qflash("qflash, division");
  divide.options.quotient = SchemeOptions::Quotient::divide;
  rows.push_back(divide);
  for (const auto& [name, q, k, v] :
       {std::tuple{"integer, per tensor", G::tensor, G::tensor, G::tensor},
        {"integer, per head", G::head, G::head, G::head},
        {"integer, Q and V per token, K per head", G::token, G::head, G::token}})
    rows.push_back(scales(Scheme::integer, name, q, k, v));
  list.add("qflash/a2", a2(), rows);
  list.add("qflash/a7", a7(), rows);
  list.add("qflash/swin", a7(), {qflash(), variant_of(Scheme::integer)});
  list.last().bias = ScoreBias::swin;
  Variant accumulate = qflash("qflash, scale accumulation");
  accumulate.options.rescale = SchemeOptions::Rescale::accumulate;
  for (const std::int64_t keys : {32, 64, 128, 256, 512, 1024}) {
    list.add(fmt::format("qflash/tiles/n{}", keys), data_of(Distribution::u4, 64, keys, 64),
             {qflash(), accumulate});
  }
  const std::int64_t queries = std::min<std::int64_t>(list.size().queries, 64);
  for (const std::int64_t keys : {197, 1024, 4096, 16384, 65536}) {
    list.add(fmt::format("qflash/normal/n{}", keys), data_of(Distribution::normal, queries, keys, 64),
             {qflash(), variant_of(Scheme::integer)});
  }
}

/// FlashAttention-3, Table 3: outliers, d = 128, 8192 keys (rows 4-6, 47-51).
void add_outliers(Experiments& list) {
  std::vector<Variant> rows =
      defaults({Scheme::f16, Scheme::standard, Scheme::fp8, Scheme::int8_full, Scheme::int8_half,
                Scheme::int8, Scheme::int8_shift, Scheme::integer, Scheme::int4});
  rows.push_back(scales(Scheme::fp8, "fp8, per tensor", G::tensor, G::tensor, G::tensor));
  rows.push_back(scales(Scheme::fp8, "fp8, per block", G::block, G::block, G::block));
  rows.push_back(rotated(Scheme::fp8, "fp8, rotated"));
  rows.push_back(with_recipe(Scheme::fp8, "fp8, per block, rotated",
                             [](Recipe& r) { r.q = r.k = r.v = G::block, r.rotate = Rotate::on; }));
  rows.push_back(scales(Scheme::int8_full, "int8_full, V per block", G::token, G::token, G::block));
  rows.push_back(
      scales(Scheme::int8_full, "int8_full, V per block and channel", G::token, G::token, G::block_channel));
  rows.push_back(rotated(Scheme::int8_half, "int8_half, rotated"));
  list.add("fa3/outlier", data_of(Distribution::outlier, list.size().queries, 8192, 128), rows);
}

/// The LUT appendix inside attention (row 62).
void add_tables(Experiments& list) {
  using Table = SchemeOptions::Table;
  std::vector<Variant> rows = defaults({Scheme::int8_full, Scheme::int8});
  for (const std::int32_t bits : {6, 8, 10, 12})
    rows.push_back(lut(fmt::format("int8_lut, direct {} bits", bits), Table::direct, bits));
  rows.push_back(lut("int8_lut, linear 6 bits", Table::linear, 6));
  rows.push_back(lut("int8_lut, range 4 bits", Table::range, 4));
  const std::int64_t queries = std::min<std::int64_t>(list.size().queries, 64);
  list.add("lut/normal", data_of(Distribution::normal, queries, 4096, 64), rows);
  list.add("lut/sharp", data_of(Distribution::sharp, queries, 4096, 64), rows);
}

/// int8 on N(0, 1) by head dim and length, for the bars: few queries a seed where keys are many.
void add_lengths_of_int8(Experiments& list) {
  for (const std::int64_t dim : {64, 128, 256})
    for (const std::int64_t keys : {1024, 8192, 32768, 131072}) {
      const std::int64_t queries = std::min<std::int64_t>(list.size().queries, keys > 8192 ? 16 : 64);
      list.add(fmt::format("int8/d{}/n{}", dim, keys), data_of(Distribution::normal, queries, keys, dim),
               {variant_of(Scheme::int8)});
    }
}

}  // namespace

std::vector<Variant> table_variants() {
  std::vector<Variant> rows;
  for (int i = 1; i < kSchemes; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    rows.push_back(variant_of(scheme));
    if (scheme == Scheme::fp8) rows.push_back(rotated(scheme, "fp8, rotated"));
    if (scheme == Scheme::int8)
      rows.push_back(with_recipe(scheme, "int8, K per block", [](Recipe& r) { r.k = G::block; }));
  }
  return rows;
}

std::vector<Experiment> distribution_experiments(const SuiteSize& size) {
  Experiments list(size);
  const std::int64_t keys = std::min<std::int64_t>(8192, size.longest);
  for (int kind = 0; kind < kDistributions; ++kind)
    for (const std::int64_t dim : {64, 128}) {
      const auto d = static_cast<Distribution>(kind);
      list.add(fmt::format("{}/d{}", name_of(d), dim), data_of(d, size.queries, keys, dim), table_variants());
      list.last().bound = WithBound::yes;
    }
  return list.take();
}

std::vector<Experiment> length_experiments(const SuiteSize& size) {
  constexpr std::int64_t kRows = 128, kLong = 2048;
  constexpr int kLongSeeds = 4;
  Experiments list(size);
  for (std::int64_t keys = 128; keys <= 131072; keys *= 4)
    for (int kind = 0; kind < kDistributions; ++kind) {
      const auto d = static_cast<Distribution>(kind);
      const int seeds = keys > kLong ? kLongSeeds : 16;
      list.add(fmt::format("{}/n{}", name_of(d), keys), data_of(d, kRows / seeds, keys, 64), table_variants(),
               {}, seeds);
    }
  return list.take();
}

std::vector<Experiment> feature_experiments(const SuiteSize& size) {
  Experiments list(size);
  std::vector<Variant> rows;
  for (int i = 1; i < kSchemes; ++i) rows.push_back(variant_of(static_cast<Scheme>(i)));
  // A long row averages over more keys by itself, and costs as much more.
  const auto queries = [](std::int64_t keys) { return std::min<std::int64_t>(keys, keys > 256 ? 16 : 64); };
  for (const std::int64_t keys : {1, 49, 197, 8191})
    list.add(fmt::format("features/n{}", keys), data_of(Distribution::u4, queries(keys), keys, 64), rows);
  for (const std::int64_t keys : {128, 256, 8192})
    list.add(fmt::format("features/whole{}", keys), data_of(Distribution::u4, queries(keys), keys, 64), rows);
  list.add("features/causal", data_of(Distribution::u4, 197, 197, 64), rows);
  list.last().mask = Mask::causal;
  DataSpec grouped = data_of(Distribution::u4, 64, 256, 64);
  grouped.heads = 2, grouped.group = 4;
  list.add("features/gqa", grouped, rows);
  return list.take();
}

std::vector<Experiment> protocol_experiments(const SuiteSize& size) {
  Experiments list(size);
  add_int_flash(list), add_qflash(list), add_outliers(list), add_tables(list), add_lengths_of_int8(list);
  return list.take();
}

}  // namespace octet::tool
