// octet info: version, machine, backends, schemes and what each supports.
#include <memory>

#include "commands.h"
#include "common/format.h"
#include "common/machine.h"
#include "common/recipe_text.h"
#include "common/table.h"
#include "gpu/gpu.h"
#include "octet/octet.hpp"

namespace octet::tool {
namespace {

std::vector<octet_scheme_info> all_schemes() {
  std::vector<octet_scheme_info> all;
  for (std::int32_t i = 0; i < octet_scheme_count(); ++i) all.push_back(info_of(static_cast<Scheme>(i)));
  return all;
}

std::vector<std::string> all_backends() {
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < octet_backend_count(); ++i) names.emplace_back(octet_backend_name(i));
  return names;
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> granularities(std::uint32_t set) {
  std::vector<std::string> names;
  for (std::int32_t g = 0; g < octet_enum_count(OCTET_ENUM_GRANULARITY); ++g) {
    if ((set >> g & 1u) != 0) names.emplace_back(octet_enum_name(OCTET_ENUM_GRANULARITY, g));
  }
  return names;
}

std::string formats(const octet_scheme_info& s) {
  const std::string qk = enum_name(OCTET_ENUM_DTYPE, s.qk), v = enum_name(OCTET_ENUM_DTYPE, s.v);
  return qk == v ? qk : qk + ", v " + v;
}

std::vector<std::string> options_of(const octet_scheme_info& s) {
  std::vector<std::string> names;
  if (s.has_row_sum != 0) names.emplace_back("row_sum");
  if (s.has_table != 0) names.insert(names.end(), {"table", "table_bits"});
  if (s.has_quotient != 0) names.emplace_back("quotient");
  if (s.has_rescale != 0) names.emplace_back("rescale");
  return names;
}

const char* yes(std::int32_t flag) { return flag != 0 ? "yes" : kNoFigure; }

Json scheme_json(const octet_scheme_info& s) {
  const auto scheme = static_cast<Scheme>(s.scheme);
  Json json;
  json["name"] = s.name, json["summary"] = s.summary, json["source"] = s.source;
  json["baseline"] = s.baseline != 0;
  json["qk"] = enum_name(OCTET_ENUM_DTYPE, s.qk), json["v"] = enum_name(OCTET_ENUM_DTYPE, s.v);
  json["recipe"] = recipe_json(scheme, abi::from_c(s.recipe));
  json["q_granularities"] = granularities(s.q_granularities);
  json["k_granularities"] = granularities(s.k_granularities);
  json["v_granularities"] = granularities(s.v_granularities);
  json["smooths"] = s.smooths != 0, json["rotates"] = s.rotates != 0, json["equalises"] = s.equalises != 0;
  json["additive_bias"] = s.additive_bias != 0;
  json["output_codes"] = enum_name(OCTET_ENUM_OUTPUT_CODES, s.output_codes);
  json["options"] = options_of(s);
  json["max_tokens_k"] = s.max_tokens_k;
  return json;
}

/// Why the CUDA backend takes no call on the current device; empty: it does.
std::string gpu_refusal() {
  TensorView q = view_bhsd(nullptr, DType::f32, {1, 1, 1, 64});
  q.device = Device::cuda;
  const Result<AttentionDesc> desc = describe(Scheme::int8, q, q, q);
  if (!desc.ok()) return std::string(desc.status().message());
  const Result<AttentionPlan> plan = AttentionPlan::create(desc.value(), "mma");
  return plan.ok() ? std::string{} : std::string(plan.status().message());
}

std::string gpu_text() {
  const Result<gpu::DeviceInfo> found = gpu::find_device();
  if (!found.ok()) return "none: " + std::string(found.status().message());
  const gpu::DeviceInfo& device = found.value();
  const std::string text = fmt::format("{}, compute capability {}, {} processors, driver of CUDA {}",
                                       device.name, device.capability, device.processors, device.cuda);
  const std::string refusal = gpu_refusal();
  return refusal.empty() ? text : fmt::format("{}, which is not used: {}", text, refusal);
}

Json gpus_json() {
  Json gpus = Json::array();
  const Result<gpu::DeviceInfo> found = gpu::find_device();
  if (!found.ok() || !gpu_refusal().empty()) return gpus;
  const gpu::DeviceInfo& device = found.value();
  gpus.push_back({{"backend", "mma"},
                  {"name", device.name},
                  {"capability", device.capability},
                  {"processors", device.processors},
                  {"cuda", device.cuda}});
  return gpus;
}

Json document() {
  const Machine machine = this_machine();
  Json json;
  json["version"] = octet_version();
  json["cpu"] = {{"model", machine.cpu},
                 {"architecture", machine.architecture},
                 {"features", machine.features},
                 {"processors", machine.processors},
                 {"memory_bytes", machine.memory_bytes}};
  json["gpus"] = gpus_json();
  json["backends"] = all_backends();
  json["schemes"] = Json::array();
  for (const octet_scheme_info& s : all_schemes()) json["schemes"].push_back(scheme_json(s));
  return json;
}

std::string machine_text() {
  const Machine machine = this_machine();
  std::string text = fmt::format("octet {}\n\n", octet_version());
  text +=
      fmt::format("cpu       {} ({}), {} processor{}, {}\n", machine.cpu, machine.architecture,
                  machine.processors, machine.processors == 1 ? "" : "s", bytes_text(machine.memory_bytes));
  text += fmt::format("features  {}\n", joined(machine.features, " "));
  text += fmt::format("gpu       {}\n", gpu_text());
  return text + fmt::format("backends  {} (tried in this order)\n", joined(all_backends(), ", "));
}

// note: two tables, because one with both columns would be 120 columns wide.
std::string schemes_text(const std::vector<octet_scheme_info>& schemes) {
  Table what({{"scheme", Align::left}, {"what it is", Align::left}});
  Table from({{"scheme", Align::left}, {"where it comes from", Align::left}});
  for (const octet_scheme_info& s : schemes) {
    what.add({s.name, s.summary});
    from.add({s.name, s.source + std::string(s.baseline != 0 ? " (baseline)" : "")});
  }
  return "\nSchemes\n" + what.text() + "\n" + from.text();
}

/// "any" or "any but token" where `set` is that, else the names of its members `others`.
std::string set_text(std::uint32_t set, std::uint32_t others) {
  const auto count = static_cast<std::uint32_t>(octet_enum_count(OCTET_ENUM_GRANULARITY));
  const std::vector<std::string> missing = granularities(~set & ((1u << count) - 1));
  if (missing.empty()) return "any";
  return missing.size() == 1 ? "any but " + missing[0] : joined(granularities(others), " ");
}

/// The default granularity, and what else the scheme takes.
std::string choices(std::int32_t standard, std::uint32_t set) {
  if (set == 0) return kNoFigure;
  const std::string name = enum_name(OCTET_ENUM_GRANULARITY, standard);
  const std::uint32_t others = set & ~(1u << static_cast<std::uint32_t>(standard));
  return others == 0 ? name : name + " (" + set_text(set, others) + ")";
}

std::string recipes_text(const std::vector<octet_scheme_info>& schemes) {
  Table table({{"scheme", Align::left}, {"q", Align::left}, {"k", Align::left}, {"v", Align::left}});
  for (const octet_scheme_info& s : schemes) {
    table.add({s.name, choices(s.recipe.q, s.q_granularities), choices(s.recipe.k, s.k_granularities),
               choices(s.recipe.v, s.v_granularities)});
  }
  return "\nWhat shares one scale: the default (and all that --recipe may ask for)\n" + table.text();
}

/// A recipe's switch: its default where the scheme has it.
std::string switch_text(std::int32_t offered, octet_enum which, std::int32_t standard) {
  return offered != 0 ? enum_name(which, standard) : kNoFigure;
}

std::string support_text(const std::vector<octet_scheme_info>& schemes) {
  Table table({{"scheme", Align::left},
               {"formats", Align::left},
               {"smooth", Align::left},
               {"rotate", Align::left},
               {"equalise", Align::left},
               {"bias", Align::left},
               {"codes out", Align::left},
               {"options", Align::left}});
  for (const octet_scheme_info& s : schemes) {
    table.add({s.name, formats(s), switch_text(s.smooths, OCTET_ENUM_SMOOTH, s.recipe.smooth),
               switch_text(s.rotates, OCTET_ENUM_ROTATE, s.recipe.rotate),
               switch_text(s.equalises, OCTET_ENUM_EQUALISE, s.recipe.equalise), yes(s.additive_bias),
               s.output_codes != 0 ? enum_name(OCTET_ENUM_OUTPUT_CODES, s.output_codes) : kNoFigure,
               options_of(s).empty() ? kNoFigure : joined(options_of(s), " ")});
  }
  return "\nSupport: the recipe's switches (their defaults), additive bias, 8-bit output\n" + table.text() +
         "\nEvery scheme takes boolean masks, causal, windows, grouped heads and packed sequences,\n"
         "and gives the LSE.\n";
}

Status run(bool json) {
  if (json) return print_json(document());
  const std::vector<octet_scheme_info> schemes = all_schemes();
  return print(machine_text() + schemes_text(schemes) + recipes_text(schemes) + support_text(schemes));
}

}  // namespace

void add_info(CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  Arguments command = line.command("info", "Machine, backends, schemes and what each supports",
                                   [json] { return run(*json); });
  add_json_option(command, *json);
}

}  // namespace octet::tool
