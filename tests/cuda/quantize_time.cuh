// GB/s of int8's default recipe beside a plain copy's, and whether a call of attention's pre-pass has as much
// of it as issue 5 asks.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "cuda/quant/quantize.h"
#include "numerics/formats.h"
#include "quant/quantize.h"
#include "quantize_case.cuh"

namespace octet {
namespace {

/// Microseconds of what `queue` puts on a stream, captured as a graph: the median of several replays.
template <class Queue>
double microseconds(const Queue& queue) {
  constexpr int kReplays = 15;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  queue(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  std::vector<float> times;
  for (int i = 0; i < kReplays; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i > 2) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(ready), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return 1000.0 * times[times.size() / 2];
}

/// One operand of the timed case with its memory.
struct Timed {
  quant::OperandRecipe recipe;
  TensorView x;
  QuantizedTensor out;
  void* scratch = nullptr;

  Timed(const Shape& shape, bool tokens_first, const quant::OperandRecipe& how) : recipe(how) {
    const auto [b, h, t, d] = shape;
    x = {nullptr, DType::bf16, Device::cuda, shape, {h * t * d, t * d, d, 1}};
    if (tokens_first) x.stride = {t * h * d, d, h * d, 1};
    out = quant::layout(shape, recipe, 0);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(b * h * t * d));
    std::mt19937 generator(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<std::uint16_t> some(65537);
    for (auto& v : some) v = bf16_from_f32(normal(generator));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
    check(cudaMalloc(&x.data, values.size() * 2), "cudaMalloc");
    check(cudaMemcpy(x.data, values.data(), values.size() * 2, cudaMemcpyHostToDevice), "upload");
    for (TensorView* view : {&out.codes, &out.scales, &out.channel_exponent, &out.mean})
      if (view->shape != Shape{})
        check(cudaMalloc(&view->data, static_cast<std::size_t>(span_bytes(*view))), "cudaMalloc");
    check(cudaMalloc(&scratch, static_cast<std::size_t>(cuda::quantize_scratch_bytes(shape, recipe, 0)) + 16),
          "cudaMalloc");
  }
  void queue(void* stream) const {
    const Status status = cuda::quantize(x, {x.shape[0], x.shape[2], nullptr}, recipe, out, scratch, stream);
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
  }
  double elements() const { return static_cast<double>(x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]); }
};

/// Q, K and V in the fewest launches, as attention() quantises them.
class InOneCall {
 public:
  explicit InOneCall(std::initializer_list<const Timed*> operands) {
    std::int64_t bytes = 0;
    for (const Timed* of : operands) {
      operands_.push_back({of->x, {of->x.shape[0], of->x.shape[2], nullptr}, of->recipe, of->out});
      bytes += cuda::quantize_scratch_bytes(of->x.shape, of->recipe, 0);
    }
    check(cudaMalloc(&scratch_, static_cast<std::size_t>(bytes) + 16), "cudaMalloc");
  }
  void queue(void* stream) const {
    const Status status = cuda::quantize(operands_, scratch_, stream, {});
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
  }

 private:
  std::vector<cuda::PlainOperand> operands_;
  void* scratch_ = nullptr;
};

/// Whether Q, K and V of a call move data at kLeastPercent of a copy's speed.
bool time_default_recipe(bool tokens_first) {
  constexpr double kLeastPercent = 80;
  const Shape shape{1, 16, 16384, 128};
  quant::OperandRecipe q, k, v;
  q.rotate = k.rotate = Rotate::on;
  k.smooth = Smooth::mean;
  v.equalise = Equalise::on, v.block_floor_octaves = 20;
  quant::OperandRecipe k_codes = k, v_codes = v;
  k_codes.smooth = Smooth::none, v_codes.equalise = Equalise::off;
  quant::OperandRecipe of_block = q, of_tensor = q, half;
  of_block.granularity = Granularity::block, of_tensor.granularity = Granularity::tensor;
  of_block.rotate = of_tensor.rotate = Rotate::off;
  half.format = DType::f16;
  const Timed of_q(shape, tokens_first, q), of_k(shape, tokens_first, k), of_v(shape, tokens_first, v),
      of_k_codes(shape, tokens_first, k_codes), of_v_codes(shape, tokens_first, v_codes);
  const double n = of_q.elements(), row = n / 128;
  void *from = nullptr, *to = nullptr;
  const std::size_t copied = static_cast<std::size_t>(n) * 2;
  check(cudaMalloc(&from, 3 * copied), "cudaMalloc");
  check(cudaMalloc(&to, 3 * copied), "cudaMalloc");
  const double copy_us = microseconds([&](cudaStream_t s) {
    check(cudaMemcpyAsync(to, from, 3 * copied, cudaMemcpyDeviceToDevice, s), "copy");
  });
  const double copy = 6.0 * static_cast<double>(copied) / copy_us * 1e-3;
  std::printf("%s, 16 heads of 128, 16384 tokens, bf16; a copy: %.0f GB/s\n",
              tokens_first ? "[batch, token, head, dim]" : "[batch, head, token, dim]", copy);
  const auto say = [&](const char* what, double us, double bytes) {
    std::printf("  %-44s %7.1f us  %6.0f GB/s  %5.1f %%\n", what, us, bytes / us * 1e-3,
                100 * bytes / us * 1e-3 / copy);
  };
  // Input 2 bytes, codes 1 byte an element; scales 4 bytes a token. Statistics read the input once more.
  const double codes = 3 * n + 4 * row, statistics = 2 * n;
  // Between the calls the other tensors pass through the cache, as in a call of attention.
  const auto flushed = [&](const Timed& what) {
    const double all = microseconds([&](cudaStream_t s) {
      check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice, s), "copy");
      what.queue(s);
    });
    const double without = microseconds([&](cudaStream_t s) {
      check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice, s), "copy");
    });
    return all - without;
  };
  say("Q: rotate, token codes", flushed(of_q), codes);
  say("K: codes alone (rotate)", flushed(of_k_codes), codes);
  say("K: mean, then rotate, token codes", flushed(of_k), codes + statistics);
  say("V: codes alone (block floor)", flushed(of_v_codes), codes);
  say("V: channel norms, then token codes", flushed(of_v), codes + statistics);
  const double all = microseconds([&](cudaStream_t s) { of_q.queue(s), of_k.queue(s), of_v.queue(s); });
  say("Q, K and V: int8's default recipe", all, 3 * codes + 2 * statistics);
  const InOneCall together{&of_q, &of_k, &of_v};
  const double of_call = microseconds([&](cudaStream_t s) { together.queue(s); });
  say("the same in one call, as attention's", of_call, 3 * codes + 2 * statistics);
  for (const auto& [name, recipe] :
       {std::pair{"s8 per block, plain", of_block}, std::pair{"s8 per tensor, plain", of_tensor}}) {
    const Timed of(shape, tokens_first, recipe);
    say(name, flushed(of), codes);
  }
  const Timed of_half(shape, tokens_first, half);
  say("to f16", flushed(of_half), 4 * n);
  const bool holds = 100 * (3 * codes + 2 * statistics) / of_call * 1e-3 / copy >= kLeastPercent;
  std::printf("  one call at %.0f %% of a copy or more: %s\n", kLeastPercent, holds ? "holds" : "FAILS");
  return holds;
}

}  // namespace
}  // namespace octet
