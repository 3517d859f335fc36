#include "accuracy/qflash_fixtures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string_view>
#include <vector>

#include "common/run.h"

namespace octet::tool {
namespace {

using Codes = std::vector<std::int8_t>;

/// RFC 4648, without line breaks.
Codes from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr int kDigitBits = 6, kByteBits = 8;
  Codes codes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) break;  // the padding at the end
    bits = bits << kDigitBits | static_cast<std::uint32_t>(value);
    held += kDigitBits;
    if (held < kByteBits) continue;
    held -= kByteBits;
    codes.push_back(static_cast<std::int8_t>(bits >> held));
  }
  return codes;
}

/// Codes of one head with one scale.
struct Operand {
  Codes codes;
  float scale = 0;

  QuantizedTensor tensor(std::int64_t tokens, std::int64_t dim) {
    QuantizedTensor x;
    x.codes = view_bhsd(codes.data(), DType::s8, {1, 1, tokens, dim});
    x.scales = {&scale, DType::f32, Device::cpu, {1, 1, 1, 1}, {}};
    return x;
  }
};

Operand operand_of(const Json& fixture, const std::string& name) {
  return {from_base64(fixture.at(name + "8").get<std::string>()), fixture.at(name + "_scale").get<float>()};
}

Result<Codes> attend_codes(const Json& fixture) {
  AttentionDesc desc;
  desc.scheme = Scheme::qflash;
  desc.input = desc.output = DType::s8;
  desc.tokens_q = desc.tokens_k = fixture.at("N").get<std::int64_t>();
  desc.head_dim = desc.head_dim_v = fixture.at("d").get<std::int64_t>();
  desc.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(desc.head_dim)));
  desc.key_block = fixture.at("block_n").get<std::int64_t>();
  Result<Recipe> recipe = default_recipe_of(Scheme::qflash);
  if (!recipe.ok()) return recipe.status();
  desc.recipe = recipe.value();
  Result<Prepared> prepared = prepare(desc, kMeasuredBackend);
  if (!prepared.ok()) return prepared.status();
  Operand q = operand_of(fixture, "q"), k = operand_of(fixture, "k"), v = operand_of(fixture, "v");
  Codes out(static_cast<std::size_t>(desc.tokens_q * desc.head_dim_v));
  std::vector<float> out_scale(static_cast<std::size_t>(desc.tokens_q));
  if (q.codes.size() != out.size() || k.codes.size() != out.size() || v.codes.size() != out.size())
    return Status{Code::io, "it holds operands of another size than N times d"};
  AttentionArgs args;
  args.q = q.tensor(desc.tokens_q, desc.head_dim), args.k = k.tensor(desc.tokens_k, desc.head_dim);
  args.v = v.tensor(desc.tokens_k, desc.head_dim_v);
  args.o = view_bhsd(out.data(), DType::s8, {1, 1, desc.tokens_q, desc.head_dim_v});
  args.o_scale = view_bhsd(out_scale.data(), DType::f32, {1, 1, desc.tokens_q, 1});
  args.workspace = prepared.value().workspace.data();
  args.workspace_bytes = prepared.value().workspace.bytes();
  if (Status s = prepared.value().plan.run(args); !s.ok()) return s;
  return out;
}

Result<Json> row_of(const Json& fixture) {
  Result<Codes> out = attend_codes(fixture);
  if (!out.ok()) return out.status();
  const Codes wanted = from_base64(fixture.at("out8").get<std::string>());
  if (wanted.size() != out.value().size())
    return Status{Code::io, "it holds output codes of another size than N times d"};
  std::int64_t differing = 0;
  int largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    differing += wanted[i] != out.value()[i];
    largest = std::max(largest, std::abs(wanted[i] - out.value()[i]));
  }
  return Json{{"name", fixture.at("name")},
              {"scheme", octet::name_of(Scheme::qflash)},
              {"codes", wanted.size()},
              {"differing", differing},
              {"largest_difference", largest}};
}

Status wrong_file(const std::string& path, std::string_view why) {
  return {Code::io, fmt::format("{} is no file of QFlash cases ({}); pass "
                                "tests/data/qflash/qflash_integer_cases.json",
                                path, why)};
}

}  // namespace

Result<Json> compare_with_qflash_fixtures(const std::string& path) {
  std::ifstream file(path);
  if (!file) return wrong_file(path, "it cannot be read");
  try {
    Json document;
    document["name"] = "qflash/fixtures";
    const Json cases = Json::parse(file).at("cases");
    for (const Json& fixture : cases) {
      Result<Json> row = row_of(fixture);
      if (!row.ok()) return wrong_file(path, row.status().message());
      document["rows"].push_back(row.take());
    }
    return document;
  } catch (const std::exception& error) {
    return wrong_file(path, error.what());
  }
}

}  // namespace octet::tool
