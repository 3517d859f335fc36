#include "bench/gpu_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "bench/caches.h"
#include "bench/gpu_inputs.h"
#include "bench/timing.h"

namespace octet::tool {
namespace {

std::int64_t view_bytes(const TensorView& x) {
  const octet_tensor tensor = abi::to_c(x);
  return octet_tensor_bytes(&tensor);
}

Result<gpu::Memory> uploaded(const void* data, std::int64_t bytes) {
  Result<gpu::Memory> memory = gpu::Memory::allocate(bytes);
  if (!memory.ok()) return memory;
  const std::span<const std::byte> from(static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes));
  if (Status s = memory.value().upload(from); !s.ok()) return s;
  return memory;
}

TensorView on_device(TensorView x, const gpu::Memory& memory, DType dtype) {
  x.data = memory.data(), x.device = Device::cuda, x.dtype = dtype;
  return x;
}

}  // namespace

Result<DeviceInputs> upload_inputs(const CpuInputs& inputs, Threads& threads) {
  DeviceInputs device;
  const auto upload = [&](const HostTensor& tensor, const TensorView& view, gpu::Memory& memory,
                          TensorView& to) -> Status {
    const std::vector<std::uint16_t> bits = bf16_bits(tensor, threads);
    Result<gpu::Memory> made =
        uploaded(bits.data(), static_cast<std::int64_t>(bits.size() * sizeof(std::uint16_t)));
    if (!made.ok()) return made.status();
    memory = made.take(), to = on_device(view, memory, DType::bf16);
    return {};
  };
  if (Status s = upload(inputs.q_tensor, inputs.q, device.q, device.q_view); !s.ok()) return s;
  if (Status s = upload(inputs.k_tensor, inputs.k, device.k, device.k_view); !s.ok()) return s;
  if (Status s = upload(inputs.v_tensor, inputs.v, device.v, device.v_view); !s.ok()) return s;
  return device;
}

std::int64_t key_block_of(const CpuWorkload& workload) {
  constexpr std::int64_t kDefault = 128, kStep = 16;  // of the library
  const std::int64_t keys = workload.tokens_k, blocks = (keys + kDefault - 1) / kDefault;
  if (blocks > 2 && keys % kDefault != 0 && keys % kDefault <= kStep) return kDefault;
  return (keys + blocks * kStep - 1) / (blocks * kStep) * kStep;
}

Status GpuRunner::place_codes(Operands operands) {
  QuantizedTensor* const placed[] = {&operands.q, &operands.k[0], &operands.v[0]};
  for (QuantizedTensor* x : placed) {
    for (TensorView* part : {&x->codes, &x->scales, &x->channel_exponent, &x->mean}) {
      if (!part->data) continue;
      Result<gpu::Memory> memory = uploaded(part->data, view_bytes(*part));
      if (!memory.ok()) return memory.status();
      *part = on_device(*part, memory.value(), part->dtype);
      memory_.push_back(memory.take());
    }
  }
  args_.q = operands.q, args_.k = operands.k[0], args_.v = operands.v[0];
  return {};
}

Status GpuRunner::place_output(const CpuWorkload& w, DType dtype) {
  const std::array<std::int64_t, 4> shape{w.batch, w.heads_q, w.tokens_q, w.head_dim};
  const TensorView o = view_bhsd(nullptr, dtype, shape);
  Result<gpu::Memory> memory =
      gpu::Memory::allocate(shape[0] * shape[1] * shape[2] * shape[3] * element_bytes(dtype));
  if (!memory.ok()) return memory.status();
  const std::int64_t bytes = cache_ ? cache_->workspace_bytes(plan_) : plan_.workspace_bytes();
  Result<gpu::Memory> workspace = gpu::Memory::allocate(bytes);
  if (!workspace.ok()) return workspace.status();
  args_.o = on_device(o, memory.value(), dtype);
  args_.workspace = workspace.value().data(), args_.workspace_bytes = bytes;
  output_ = memory_.size();
  memory_.push_back(memory.take()), memory_.push_back(workspace.take());
  return {};
}

/// A cache of all keys, of which the last are appended anew by every call.
Status GpuRunner::place_cache(const CpuWorkload& w, const DeviceInputs& inputs) {
  Result<KvCache> cache = KvCache::create(plan_, cache_options(desc_));
  if (!cache.ok()) return cache.status();
  cache_ = cache.take();
  if (Status s = cache_->set_stream(args_.stream); !s.ok()) return s;
  const auto last = [&](TensorView x) {
    constexpr std::int64_t kBf16 = 2;  // bytes
    x.data = static_cast<std::byte*>(x.data) + (w.tokens_k - w.tokens_q) * x.stride[2] * kBf16;
    x.shape[2] = w.tokens_q;
    return x;
  };
  new_k_ = last(inputs.k_view), new_v_ = last(inputs.v_view);
  return cache_->append(inputs.k_view, inputs.v_view);
}

Status GpuRunner::step() {
  if (Status s = cache_->truncate(cache_->length() - new_k_.shape[2]); !s.ok()) return s;
  return cache_->step(new_k_, new_v_, plan_, args_);
}

Status GpuRunner::call() {
  if (cache_) return step();
  return packed_ ? plan_.run_packed(args_) : plan_.run(args_);
}

Result<GpuRunner> GpuRunner::prepare(const CpuVariant& variant, const CpuWorkload& workload,
                                     Quantisation quantisation, const CpuInputs& inputs,
                                     const DeviceInputs& device_inputs, const gpu::Stream& stream,
                                     Threads& threads) {
  const bool counted = quantisation != Quantisation::excluded, cached = quantisation == Quantisation::cached;
  const DeviceInputs& device = device_inputs;
  Result<AttentionDesc> described =
      counted ? describe(variant.scheme, device.q_view, device.k_view, device.v_view)
              : describe(variant.scheme, inputs.q, inputs.k, inputs.v);
  if (!described.ok()) return described.status();
  AttentionDesc desc = described.take();
  desc.mask = workload.mask, desc.output = counted ? DType::bf16 : DType::f16;
  if (variant.k_per_block) desc.recipe.k = Granularity::block;
  if (variant.v_per_channel) desc.recipe.v = Granularity::channel;
  desc.options = variant.options, desc.key_block = key_block_of(workload);
  if (cached) desc = appendable(desc);
  Operands operands;
  if (!counted) {  // the recipe belongs to the problem, whatever computes it: any plan knows it
    Result<AttentionPlan> on_host = AttentionPlan::create(desc);
    if (!on_host.ok()) return on_host.status();
    Result<Operands> coded = coded_operands(inputs, on_host.value(), workload.kind, threads);
    if (!coded.ok()) return coded.status();
    operands = coded.take();
    desc.input = operands.input, desc.device = Device::cuda;
  }
  Result<AttentionPlan> plan = AttentionPlan::create(desc);
  if (!plan.ok()) return plan.status();
  GpuRunner runner(plan.take());
  runner.desc_ = desc, runner.packed_ = !counted, runner.args_.stream = stream.handle();
  if (cached) {
    runner.args_.q.codes = device.q_view;
    if (Status s = runner.place_cache(workload, device); !s.ok()) return s;
  } else if (counted) {
    runner.args_.q.codes = device.q_view, runner.args_.k.codes = device.k_view;
    runner.args_.v.codes = device.v_view;
  } else if (Status s = runner.place_codes(std::move(operands)); !s.ok()) {
    return s;
  }
  if (Status s = runner.place_output(workload, desc.output); !s.ok()) return s;
  if (!counted)
    if (Status s = runner.plan_.pack(runner.args_); !s.ok()) return s;
  return runner;
}

Result<std::vector<std::byte>> GpuRunner::download_output() const {
  const gpu::Memory& memory = memory_[output_];
  std::vector<std::byte> bytes(static_cast<std::size_t>(memory.bytes()));
  if (Status s = memory.download(bytes); !s.ok()) return s;
  return bytes;
}

Result<GpuTiming> time_on_gpu(const gpu::Stream& stream, const std::function<Status()>& call) {
  constexpr double kWarmSeconds = 0.03;  // until the clock has risen from idle
  constexpr double kGroupSeconds = 0.01;
  constexpr int kGroups = 7, kMostCalls = 100;
  Result<gpu::Graph> one = gpu::Graph::record(stream, 1, call);
  if (!one.ok()) return one.status();
  const auto start = std::chrono::steady_clock::now();
  double single = 0;
  do {
    Result<double> replay = one.value().replay_seconds();
    if (!replay.ok()) return replay.status();
    single = replay.value();
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < kWarmSeconds);
  GpuTiming timing;
  timing.calls_per_graph =
      std::clamp(static_cast<int>(std::min(kGroupSeconds / single, double{kMostCalls})), 1, kMostCalls);
  Result<gpu::Graph> graph = gpu::Graph::record(stream, timing.calls_per_graph, call);
  if (!graph.ok()) return graph.status();
  timing.graph = graph.take();
  std::vector<double> groups;
  for (int i = -1; i < kGroups; ++i) {
    Result<double> replay = timing.graph.replay_seconds();
    if (!replay.ok()) return replay.status();
    if (i >= 0) groups.push_back(replay.value() / timing.calls_per_graph);  // the first launch prepares it
  }
  timing.seconds = quantile(groups, 0.5);
  return timing;
}

Result<gpu::Energy> weigh(const gpu::EnergyCounter& counter, const gpu::Stream& stream,
                          const GpuTiming& timing, double seconds) {
  constexpr double kBurstSeconds = 0.02;  // shorter than the counter's steps, longer than a reading
  const double graph_seconds = timing.seconds * timing.calls_per_graph;
  const int launches = std::max(1, static_cast<int>(std::lround(kBurstSeconds / graph_seconds)));
  std::array<gpu::Event, 2> ends;
  for (gpu::Event& end : ends) {
    Result<gpu::Event> made = gpu::Event::create();
    if (!made.ok()) return made.status();
    end = made.take();
  }
  std::size_t bursts = 0;
  const auto burst = [&]() -> Status {
    for (int i = 0; i < launches; ++i)
      if (Status s = timing.graph.launch(); !s.ok()) return s;
    if (Status s = ends[bursts % 2].record(stream); !s.ok()) return s;
    return ++bursts > 1 ? ends[bursts % 2].wait() : Status{};
  };
  Result<gpu::Energy> energy =
      gpu::measure_energy(counter, burst, launches * timing.calls_per_graph, seconds);
  if (Status s = stream.wait(); !s.ok()) return s;
  return energy;
}

}  // namespace octet::tool
