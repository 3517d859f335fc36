#include "bench/gpu_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "bench/gpu_inputs.h"
#include "bench/gpu_reference.h"
#include "bench/gpu_runner.h"
#include "bench/gpu_workloads.h"
#include "bench/rows.h"
#include "common/progress.h"
#include "common/recipe_text.h"
#include "common/sentence.h"
#include "common/text.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

/// Variants of the CPU's suite and the schemes that it has no kernels of.
const std::vector<CpuVariant>& known_variants() {
  static const std::vector<CpuVariant> all = [] {
    std::vector<CpuVariant> list{
        {"int8", Scheme::int8},
        {"int8_full", Scheme::int8_full},
        {"int8_half", Scheme::int8_half},
        {"integer", Scheme::integer},
        {"qflash", Scheme::qflash},
        {"f16", Scheme::f16},
        {"fp8", Scheme::fp8},
        {"fp8_hybrid", Scheme::fp8_hybrid},
        {"int8_fp8", Scheme::int8_fp8},
        {"int4", Scheme::int4},
        {"int8_lut", Scheme::int8_lut},
        {"qattn", Scheme::qattn},
        {"int8_uniform", Scheme::int8, true, true},
        {"int8_channel", Scheme::int8, false, true},
        {"qflash_division", Scheme::qflash, false, false, {.quotient = SchemeOptions::Quotient::divide}},
    };
    for (const CpuVariant& v : cpu_variants()) {
      const auto same = [&](const CpuVariant& other) { return std::string_view(v.label) == other.label; };
      // f32: no GPU kernel computes it.
      if (v.scheme != Scheme::f32 && std::none_of(list.begin(), list.end(), same)) list.push_back(v);
    }
    return list;
  }();
  return all;
}

const CpuVariant* known_variant(std::string_view name) {
  const auto found = std::find_if(known_variants().begin(), known_variants().end(),
                                  [&](const CpuVariant& v) { return name == v.label; });
  return found == known_variants().end() ? nullptr : &*found;
}

/// The variants of a workload: those that were asked for, or the usual ones and the workload's own.
using Variants = std::vector<const CpuVariant*>;
Variants variants_of(const GpuWorkload& workload, const std::vector<std::string>& asked) {
  Variants variants;
  std::vector<std::string> names = asked.empty() ? usual_gpu_variants() : asked;
  if (asked.empty())
    for (const std::string& name : split(workload.more_schemes, ',')) names.push_back(name);
  for (const std::string& name : names) variants.push_back(known_variant(name));
  return variants;
}

/// Steps of decoding also with their keys in a cache.
std::vector<Quantisation> quantisations_of(const GpuWorkload& workload) {
  std::vector<Quantisation> all{Quantisation::excluded, Quantisation::counted};
  if (std::string_view(workload.suite) == "decode") all.push_back(Quantisation::cached);
  return all;
}

Status check_variants(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (known_variant(name)) continue;
    std::string known;
    for (const std::string& label : all_gpu_variants()) known += (known.empty() ? "" : ", ") + label;
    return broken("--schemes", in_quotes(name), "the suite has none of this name", "choose from " + known);
  }
  return {};
}

struct MmaPeaks {
  double s8 = 0, f16 = 0;
};

/// The rate of the instructions that a scheme's products run on: half of the operations are Q.K, half P.V.
struct MmaPeak {
  std::string instruction;
  double gops = 0;
};
MmaPeak mma_peak_of(Scheme scheme, const MmaPeaks& peaks) {
  const octet_scheme_info info = info_of(scheme);
  // e4m3 is multiplied as f16, bf16 at its rate.
  const auto is_bytes = [](octet_dtype dtype) {
    return dtype == OCTET_S8 || dtype == OCTET_U8 || dtype == OCTET_S4;
  };
  const bool qk = is_bytes(info.qk), pv = is_bytes(info.v);
  if (qk && pv) return {"mma.sync s8", peaks.s8};
  if (!qk && !pv) return {"mma.sync f16", peaks.f16};
  return {"mma.sync s8, f16", 2 / (1 / peaks.s8 + 1 / peaks.f16)};
}

Json shape_json(const GpuWorkload& workload) {
  const CpuWorkload& w = workload.shape;
  return {{"suite", workload.suite}, {"workload", w.name},     {"batch", w.batch},
          {"heads", w.heads_q},      {"heads_kv", w.heads_kv}, {"tokens_q", w.tokens_q},
          {"tokens_k", w.tokens_k},  {"head_dim", w.head_dim}, {"causal", w.mask == Mask::causal}};
}

class GpuSuite {
 public:
  GpuSuite(const GpuSuiteOptions& options, gpu::DeviceInfo device, gpu::Stream stream,
           std::optional<gpu::Nvml> nvml, MmaPeaks peaks)
      : options_(options),
        device_(std::move(device)),
        stream_(std::move(stream)),
        nvml_(std::move(nvml)),
        peaks_(peaks),
        threads_(options.threads) {}

  Status measure(const GpuWorkload& workload, const Variants& chosen, bool weighed, Progress& progress) {
    const CpuWorkload& w = workload.shape;
    Result<CpuInputs> inputs = draw_bf16_inputs(w, options_.seed, threads_);
    if (!inputs.ok()) return inputs.status();
    Result<DeviceInputs> device_inputs = upload_inputs(inputs.value(), threads_);
    if (!device_inputs.ok()) return device_inputs.status();
    Result<GpuReference> exact = GpuReference::compute(w, inputs.value(), threads_);
    if (!exact.ok()) return exact.status();
    tell_inputs(w, inputs.value(), exact.value());
    for (const CpuVariant* variant : chosen) {
      for (const Quantisation quantisation : quantisations_of(workload)) {
        progress.advance(1, fmt::format("{} {}", w.name, variant->label));
        Json row = row_of(workload, *variant, quantisation);
        Result<GpuRunner> runner = GpuRunner::prepare(*variant, w, quantisation, inputs.value(),
                                                      device_inputs.value(), stream_, threads_);
        const Status status =
            runner.ok() ? fill(*variant, w, runner.value(), exact.value(), weighed, row) : runner.status();
        if (!status.ok() && status.code() == Code::internal) return status;
        if (!status.ok()) row["skipped"] = status.message();
        rows_.push_back(std::move(row));
      }
    }
    return {};
  }

  Json take_rows() { return std::move(rows_); }
  Json take_inputs() { return std::move(inputs_); }

 private:
  Json row_of(const GpuWorkload& workload, const CpuVariant& variant, Quantisation quantisation) const {
    Json row = shape_json(workload);
    row["scheme"] = name_of(variant.scheme), row["variant"] = variant.label, row["backend"] = nullptr;
    row["key_block"] = key_block_of(workload.shape), row["gpu"] = device_.name;
    row["quantisation"] = name_of(quantisation);
    return row;
  }

  Status fill(const CpuVariant& variant, const CpuWorkload& w, GpuRunner& runner, const GpuReference& exact,
              bool weighed, Json& row) {
    row["backend"] = runner.plan().backend(), row["kernel"] = runner.plan().kernel();
    const auto call = [&] { return runner.call(); };
    if (Status s = call(); !s.ok()) return s;
    if (Status s = stream_.wait(); !s.ok()) return s;
    Result<std::vector<std::byte>> o = runner.download_output();
    if (!o.ok()) return o.status();
    const double error = exact.relative_rmse(o.value(), runner.output_dtype());
    Result<GpuTiming> timing = time_on_gpu(stream_, call);
    if (!timing.ok()) return timing.status();
    const double gops = giga_operations(w) / timing.value().seconds;
    const MmaPeak peak = mma_peak_of(variant.scheme, peaks_);
    row["calls_per_graph"] = timing.value().calls_per_graph;
    row["ms"] = rounded(1e3 * timing.value().seconds), row["gops"] = rounded(gops);
    row["peak_instruction"] = peak.instruction;
    row["percent_of_peak"] = rounded(100 * gops / peak.gops);
    row["relative_rmse"] = rounded(error), row["rows_compared"] = exact.rows();
    for (const char* field : {"joules_per_call", "mean_power_w", "mean_clock_mhz"}) row[field] = nullptr;
    if (!weighed || !nvml_) return {};
    Result<gpu::Energy> energy = weigh(nvml_->counter(), stream_, timing.value(), options_.energy_seconds);
    if (!energy.ok()) return energy.status();
    row["joules_per_call"] = rounded(energy.value().joules_per_call);
    row["mean_power_w"] = rounded(energy.value().mean_power_w);
    row["mean_clock_mhz"] = rounded(energy.value().mean_clock_mhz);
    return {};
  }

  /// How a peer checks that it draws the same inputs, and which rows it compares.
  void tell_inputs(const CpuWorkload& w, const CpuInputs& inputs, const GpuReference& exact) {
    Json sums = Json::array(), samples = Json::array();
    for (const HostTensor* x : {&inputs.q_tensor, &inputs.k_tensor, &inputs.v_tensor})
      sums.push_back(sum_of_bits(bf16_bits(*x, threads_)));
    for (const SampledRows& s : exact.samples())
      samples.push_back(Json::array({s.batch, s.head, s.first, s.count}));
    inputs_.push_back({{"workload", w.name}, {"sums", std::move(sums)}, {"samples", std::move(samples)}});
  }

  const GpuSuiteOptions& options_;
  gpu::DeviceInfo device_;
  gpu::Stream stream_;
  std::optional<gpu::Nvml> nvml_;
  MmaPeaks peaks_;
  Threads threads_;
  Json rows_ = Json::array(), inputs_ = Json::array();
};

Status no_gpu(const std::string& suite, std::string_view reason) {
  return {Code::unsupported,
          fmt::format("--suite is {}, but it measures an NVIDIA GPU, and there is none to measure: {}; or "
                      "measure this CPU: --device cpu, or --suite cpu",
                      suite, reason)};
}

Result<MmaPeaks> measure_peaks(const gpu::Stream& stream) {
  MmaPeaks peaks;
  for (const auto& [format, to] : {std::pair{gpu::Format::s8, &peaks.s8}, {gpu::Format::f16, &peaks.f16}}) {
    Result<double> rate = gpu::peak_rate(stream, format);
    if (!rate.ok()) return rate.status();
    *to = rate.value();
  }
  return peaks;
}

Json peaks_json(const MmaPeaks& peaks) {
  return Json::array({{{"what", "mma.sync s8"}, {"giga", rounded(peaks.s8)}},
                      {{"what", "mma.sync f16"}, {"giga", rounded(peaks.f16)}}});
}

/// The names that were asked for, before anything is measured.
struct GpuWork {
  std::vector<const GpuWorkload*> workloads;
  std::vector<std::string> weighed;
};
Result<GpuWork> gpu_work_of(const GpuSuiteOptions& options) {
  Result<std::vector<const GpuWorkload*>> workloads = chosen_gpu_workloads(options.suite, options.workloads);
  if (!workloads.ok()) return workloads.status();
  if (Status s = check_variants(options.variants); !s.ok()) return s;
  Result<std::vector<std::string>> weighed = weighed_workloads(workloads.value(), options.energy);
  if (!weighed.ok()) return weighed.status();
  if (options.energy_seconds == 0) weighed.value().clear();
  return GpuWork{workloads.take(), weighed.take()};
}

}  // namespace

const std::vector<std::string>& usual_gpu_variants() {
  static const std::vector<std::string> usual{"int8",    "int8_uniform", "int8_full", "int8_half",
                                              "integer", "qflash",       "f16"};
  return usual;
}

std::vector<std::string> all_gpu_variants() {
  std::vector<std::string> labels;
  for (const CpuVariant& v : known_variants()) labels.emplace_back(v.label);
  return labels;
}

Result<Json> list_gpu_workloads(const GpuSuiteOptions& options) {
  Result<GpuWork> work = gpu_work_of(options);
  if (!work.ok()) return work.status();
  Json rows = Json::array();
  const std::vector<std::string>& weighed = work.value().weighed;
  for (const GpuWorkload* w : work.value().workloads) {
    Json row = shape_json(*w);
    row["energy"] = std::find(weighed.begin(), weighed.end(), w->shape.name) != weighed.end();
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<Json> run_gpu_suite(const GpuSuiteOptions& options) {
  Result<GpuWork> work = gpu_work_of(options);
  if (!work.ok()) return work.status();
  Result<gpu::DeviceInfo> device = gpu::find_device();
  if (!device.ok()) return no_gpu(options.suite, device.status().message());
  Result<gpu::Stream> stream = gpu::Stream::create();
  if (!stream.ok()) return stream.status();
  const auto start = std::chrono::steady_clock::now();
  Result<gpu::Nvml> nvml = gpu::Nvml::open(device.value().pci_bus_id);
  const std::string energy = nvml.ok() ? "NVML, total energy" : std::string(nvml.status().message());
  if (!nvml.ok() && !work.value().weighed.empty()) fmt::print(stderr, "octet: {}\n", energy);
  Result<MmaPeaks> peaks = measure_peaks(stream.value());
  if (!peaks.ok()) return peaks.status();
  Json document = {{"suite", options.suite},
                   {"command", "octet bench --suite " + options.suite},
                   {"version", octet_version()},
                   {"commit", options.commit},
                   {"date", today()},
                   {"gpu", device.value().name},
                   {"capability", device.value().capability},
                   {"processors", device.value().processors},
                   {"cuda", device.value().cuda},
                   {"driver", nvml.ok() ? nvml.value().driver() : "unknown"},
                   {"energy", energy},
                   {"seed", options.seed},
                   {"seconds", 0},
                   {"peaks", peaks_json(peaks.value())},
                   {"peers", Json::array()}};
  const std::vector<std::string>& weighed = work.value().weighed;
  GpuSuite suite(options, device.take(), stream.take(), nvml.ok() ? std::optional(nvml.take()) : std::nullopt,
                 peaks.value());
  std::size_t rows = 0;
  for (const GpuWorkload* w : work.value().workloads)
    rows += quantisations_of(*w).size() * variants_of(*w, options.variants).size();
  Progress progress("measuring", static_cast<std::int64_t>(rows));
  for (const GpuWorkload* w : work.value().workloads) {
    const bool is_weighed = std::find(weighed.begin(), weighed.end(), w->shape.name) != weighed.end();
    if (Status s = suite.measure(*w, variants_of(*w, options.variants), is_weighed, progress); !s.ok())
      return s;
  }
  document["seconds"] =
      std::round(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  document["inputs"] = suite.take_inputs(), document["rows"] = suite.take_rows();
  return document;
}

}  // namespace octet::tool
