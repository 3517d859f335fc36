// One input of the quantiser on GPU and CPU, and what differs: by itself, beside others, and with V packed
// where attention reads it.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/quant/quantize.h"
#include "lanes/scalar.h"
#include "numerics/value_words.h"
#include "octet/dtype.hpp"
#include "quant/quantize.h"
#include "quant/rows.h"
#include "quantize_case.cuh"

namespace octet {
namespace {

/// What quantize() writes, in memory of its own.
struct Written {
  Twin codes, scales, exponent, mean;
  QuantizedTensor out;

  explicit Written(const QuantizedTensor& layout)
      : codes(layout.codes),
        scales(layout.scales),
        exponent(layout.channel_exponent),
        mean(layout.mean),
        out(layout) {
    out.codes = codes.device, out.scales = scales.device, out.channel_exponent = exponent.device,
    out.mean = mean.device;
  }
  bool operator==(const Written& other) const {
    return codes.buffer.download() == other.codes.buffer.download() &&
           scales.buffer.download() == other.scales.buffer.download() &&
           exponent.buffer.download() == other.exponent.buffer.download() &&
           mean.buffer.download() == other.mean.buffer.download();
  }
  /// Where the first byte is that another one has otherwise.
  std::string difference_from(const Written& other) const {
    const std::pair<const char*, const Twin Written::*> parts[] = {{"codes", &Written::codes},
                                                                   {"scales", &Written::scales},
                                                                   {"exponents", &Written::exponent},
                                                                   {"means", &Written::mean}};
    for (const auto& [name, member] : parts) {
      const Twin& own = this->*member;
      const Bytes a = own.buffer.download(), b = (other.*member).buffer.download();
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i]) continue;
        const std::int64_t byte = static_cast<std::int64_t>(i) - own.buffer.shift();
        return std::string(name) + " differ at " + place_of(own.host, byte) + ": " + std::to_string(a[i]) +
               " and " + std::to_string(b[i]);
      }
    }
    return "nothing differs";
  }
};

/// V's codes as rows and where attention reads them.
class PackedTwin {
 public:
  /// codes: of the host. Packed by the key's place here: in the slots of its 16, four lanes' keys of two
  /// eights.
  PackedTwin(const Case& c, const TensorView& codes)
      : case_(c),
        blocks_((c.shape[2] + c.recipe.block - 1) / c.recipe.block),
        twin_({nullptr,
               DType::s8,
               Device::cpu,
               {c.shape[1], c.shape[0] * blocks_, c.shape[3], kPlaces},
               {c.shape[0] * blocks_ * c.shape[3] * kPlaces, c.shape[3] * kPlaces, kPlaces, 1}}) {
    std::memset(twin_.host.data, 0, static_cast<std::size_t>(span_bytes(twin_.host)));
    const auto* const from = static_cast<const std::int8_t*>(codes.data);
    auto* const to = static_cast<std::int8_t*>(twin_.host.data);
    const auto [batch, heads, tokens, dim] = c.shape;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < tokens; ++t) {
          const std::int64_t slot = (h * batch + b) * blocks_ + t / c.recipe.block;
          const std::int64_t key = t % c.recipe.block, of_16 = key % 16;
          const std::int64_t place = key - of_16 + of_16 % 8 / 2 * 4 + of_16 / 8 * 2 + of_16 % 2;
          for (std::int64_t d = 0; d < dim; ++d)
            to[(slot * dim + d) * kPlaces + place] =
                from[quant::row_offset(codes, b, h, t) + d * codes.stride[3]];
        }
  }
  cuda::PackedValues where() const {
    cuda::PackedValues packed;
    packed.data = static_cast<std::byte*>(twin_.device.data);
    packed.blocks_per_head = static_cast<std::int32_t>(case_.shape[0] * blocks_);
    packed.blocks_of_sequence = static_cast<std::int32_t>(blocks_);
    packed.key_block = static_cast<std::int32_t>(case_.recipe.block);
    return packed;
  }
  bool is_same() const { return same("packed codes", twin_, case_); }

 private:
  static constexpr std::int64_t kPlaces = cuda::PackedValues::kPlaces;
  const Case& case_;
  std::int64_t blocks_;
  Twin twin_;
};

/// The same operands once more, of which V's codes (`as_rows`, of the host) may be packed; counts those that
/// are.
bool packs_alike(std::vector<cuda::PlainOperand>& operands, std::size_t of_v, const Case& c,
                 const TensorView& as_rows, Buffer& scratch, int& packed) {
  const quant::OperandRecipe& recipe = c.recipe;
  if (recipe.format != DType::s8 || recipe.rotate == Rotate::on || recipe.smooth != Smooth::none ||
      recipe.block % 16 != 0 || recipe.block > cuda::PackedValues::kPlaces)
    return true;
  const PackedTwin twin(c, as_rows);
  bool is_packed = false;
  operands[of_v].packed = twin.where(), operands[of_v].is_packed = &is_packed;
  const bool good = is_ok(cuda::quantize(operands, scratch.device(), nullptr, {}), c);
  check(cudaDeviceSynchronize(), "packed values");
  operands[of_v].packed = {}, operands[of_v].is_packed = nullptr;
  packed += is_packed;
  return good && (!is_packed || twin.is_same());
}

/// Constants of keys that follow from an operand's scales, as packing makes them of those of the host.
class ConstantsTwin {
 public:
  ConstantsTwin(const Case& c, cuda::PackedConstants::Of of, const TensorView& scales)
      : case_(c), blocks_((c.shape[2] + c.recipe.block - 1) / c.recipe.block) {
    const auto [batch, heads, tokens, dim] = c.shape;
    where_.of = of, where_.words = of == Of::blocks ? 0 : of == Of::keys ? 1 : 3;
    where_.key_block = Divider(c.recipe.block);
    where_.blocks_per_head = static_cast<std::int32_t>(batch * blocks_);
    where_.blocks_of_sequence = static_cast<std::int32_t>(blocks_);
    const std::int64_t of_block = of == Of::blocks ? 1 : where_.words * kPlaces;
    twin_ = std::make_unique<Twin>(TensorView{nullptr,
                                              DType::f32,
                                              Device::cpu,
                                              {1, heads, batch * blocks_, of_block},
                                              {0, batch * blocks_ * of_block, of_block, 1}});
    auto* const to = static_cast<float*>(twin_->host.data);
    std::fill_n(to, heads * batch * blocks_ * of_block, kUntouched);
    twin_->buffer.upload();
    where_.data = static_cast<float*>(twin_->device.data);
    const auto scale_at = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      return static_cast<const float*>(scales.data)[quant::row_offset(scales, b, h, i)];
    };
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t block = 0; block < blocks_; ++block) {
          float* const words = to + ((h * batch + b) * blocks_ + block) * of_block;
          if (of == Of::blocks) {
            *words = scale_at(b, h, block);
            continue;
          }
          for (std::int64_t place = 0; place < kPlaces; ++place) {
            const std::int64_t t = block * c.recipe.block + place;
            const bool exists = place < c.recipe.block && t < tokens;
            const float scale = !exists ? 0 : has_token_scales() ? scale_at(b, h, t) : 1;
            if (of == Of::keys) words[place] = scale;
            if (of != Of::values) continue;
            const ValueWords<float> own = exists ? value_words<ScalarLane>(scale) : ValueWords<float>{};
            words[kPlaces + place] = own.log2_v, words[2 * kPlaces + place] = own.rv;
          }
        }
  }
  const cuda::PackedConstants& where() const { return where_; }
  bool is_same() const { return same("constants", *twin_, case_); }

 private:
  using Of = cuda::PackedConstants::Of;
  static constexpr std::int64_t kPlaces = cuda::PackedValues::kPlaces;
  static constexpr float kUntouched = -7;  // of the array that is another operand's
  bool has_token_scales() const { return case_.recipe.granularity == Granularity::token; }

  const Case& case_;
  const std::int64_t blocks_;
  cuda::PackedConstants where_;
  std::unique_ptr<Twin> twin_;
};

/// The same operands once more, with constants of one of them asked for, as K or as V; counts those that are
/// written. scales: of the host.
bool has_alike_constants(std::vector<cuda::PlainOperand>& operands, std::size_t of_one, const Case& c,
                         const TensorView& scales, Buffer& scratch, int& written) {
  using Of = cuda::PackedConstants::Of;
  const quant::OperandRecipe& recipe = c.recipe;
  if (recipe.format != DType::s8 || recipe.block % 16 != 0 || recipe.block > cuda::PackedValues::kPlaces)
    return true;
  const bool is_token = recipe.granularity == Granularity::token;
  bool good = true;
  for (const Of of : {Of::keys, Of::values, Of::blocks}) {
    if (of == Of::values && (recipe.rotate == Rotate::on || recipe.smooth != Smooth::none)) continue;
    if (of == Of::keys && !is_token) continue;
    if (of == Of::blocks && recipe.granularity != Granularity::block) continue;
    const ConstantsTwin twin(c, of, scales);
    bool has_constants = false;
    operands[of_one].constants = twin.where(), operands[of_one].has_constants = &has_constants;
    good &= is_ok(cuda::quantize(operands, scratch.device(), nullptr, {}), c);
    check(cudaDeviceSynchronize(), "constants");
    written += has_constants;
    good &= !has_constants || twin.is_same();
  }
  operands[of_one].constants = {}, operands[of_one].has_constants = nullptr;
  return good;
}

/// Operands of which something was written where attention reads it.
struct ForAttention {
  int values = 0, constants = 0;
};

/// packed_values: counts V whose codes were packed, in a second run; null: it is not asked for.
bool runs(Case c, cuda::Launches launches, int* packed_values = nullptr) {
  const bool packed = !c.cu_seqlens.empty();
  const auto count = packed ? static_cast<std::int64_t>(c.cu_seqlens.size()) - 1 : c.shape[0];
  Twin x(input_view(c));
  fill(c, x.host);
  x.buffer.upload();
  Buffer lengths(static_cast<std::int64_t>(c.cu_seqlens.size() * 4)), words(8), scratch(0);
  std::memcpy(lengths.host(), c.cu_seqlens.data(), c.cu_seqlens.size() * 4);
  lengths.upload();
  const Sequences sequences{count, c.shape[2], packed ? c.cu_seqlens.data() : nullptr};
  const Sequences on_device{count, c.shape[2],
                            packed ? static_cast<const std::int32_t*>(lengths.device()) : nullptr};

  Twin anchor({nullptr, DType::f32, Device::cpu, {1, c.shape[1], 1, c.shape[3]}, {0, c.shape[3], 0, 1}});
  for (std::int64_t i = 0; i < c.shape[1] * c.shape[3]; ++i)
    static_cast<float*>(anchor.host.data)[i] = i == 5 ? HUGE_VALF : std::sin(static_cast<float>(i));
  anchor.buffer.upload();
  quant::OperandRecipe for_host = c.recipe, for_device = c.recipe;
  if (c.has_anchor) for_host.anchor = anchor.host, for_device.anchor = anchor.device;
  cuda::DeviceWords device_words;
  if (c.device_amax) {
    std::memcpy(words.host(), &c.recipe.shared_amax, 4);
    for_device.shared_amax = 0;
    device_words.shared_amax = static_cast<const float*>(words.device());
  }
  std::memset(static_cast<char*>(words.host()) + 4, 0, 4);
  words.upload();
  device_words.non_finite = static_cast<std::uint32_t*>(words.device()) + 1;

  const QuantizedTensor shapes = quant::layout(c.shape, c.recipe, packed ? count : 0);
  Twin codes(spread(shapes.codes, c.output_layout),
             c.output_layout * std::max(dtype_bits(c.recipe.format) / 8, 1)),
      scales(spread(shapes.scales, c.output_layout)),
      exponent(spread(shapes.channel_exponent, c.output_layout)), mean(spread(shapes.mean, c.output_layout));
  QuantizedTensor host = shapes, device = shapes;
  host.codes = codes.host, host.scales = scales.host, host.channel_exponent = exponent.host,
  host.mean = mean.host;
  device.codes = codes.device, device.scales = scales.device, device.channel_exponent = exponent.device,
  device.mean = mean.device;
  const Status expected = quant::quantize(x.host, sequences, for_host, host, {});
  const std::int64_t bytes = cuda::quantize_scratch_bytes(c.shape, for_device, packed ? count : 0);
  Buffer work(bytes);
  const cuda::PlainOperand operand{x.device, on_device, for_device, device};
  if (!is_ok(cuda::quantize({&operand, 1}, work.device(), nullptr, device_words, launches), c)) return false;
  check(cudaDeviceSynchronize(), c.text().c_str());
  bool good = same("codes", codes, c);
  good &= same("scales", scales, c);
  good &= same("exponents", exponent, c);
  good &= same("means", mean, c);
  const Bytes after = words.download(), scratch_after = work.download();
  const bool found = after[static_cast<std::size_t>(words.shift()) + 4] != 0;
  if (found != (expected.code() == Code::non_finite) || (!expected.ok() && !found)) {
    std::printf("  non_finite is %d, but the CPU says: %s\n    %s\n", found, expected.message().c_str(),
                c.text().c_str());
    good = false;
  }
  for (std::int64_t i = 0; i < kMargin; ++i) {
    if (scratch_after[static_cast<std::size_t>(i)] == kPoison &&
        scratch_after[scratch_after.size() - 1 - static_cast<std::size_t>(i)] == kPoison)
      continue;
    std::printf("  scratch was left\n    %s\n", c.text().c_str());
    good = false;
    break;
  }
  if (c.shape[2] == 0 || !good) return good;
  if (packed_values) {
    std::vector<cuda::PlainOperand> again{operand};
    good &= packs_alike(again, 0, c, host.codes, work, *packed_values);
  }

  // The GPU's own codes, which are the CPU's, and back.
  TensorView real{nullptr, DType::f32, Device::cpu, c.shape, {}};
  real.stride = {c.shape[1] * c.shape[2] * c.shape[3], c.shape[2] * c.shape[3], c.shape[3], 1};
  Twin numbers(spread(real, c.output_layout));
  if (!quant::dequantize(host, sequences, numbers.host, {}).ok()) return true;
  Buffer more(cuda::dequantize_scratch_bytes(on_device));
  if (!is_ok(cuda::dequantize(device, on_device, numbers.device, more.device(), nullptr), c)) return false;
  check(cudaDeviceSynchronize(), c.text().c_str());
  return same("dequantised numbers", numbers, c);
}

/// K, V and Q as graphs on streams of their own, at the same time and over and over: the bytes of a run
/// alone. The kernels of K and V want all processors, which they have from each other and from Q's.
bool runs_beside_others(unsigned seed) {
  constexpr int kReplays = 100;
  struct Running {
    Case c;
    Twin x;
    Written alone, beside;
    Buffer scratch;
    cudaStream_t stream = nullptr;
    cudaGraphExec_t ready = nullptr;

    explicit Running(const Case& of)
        : c(of),
          x(input_view(of)),
          alone(quant::layout(of.shape, of.recipe, 0)),
          beside(quant::layout(of.shape, of.recipe, 0)),
          scratch(cuda::quantize_scratch_bytes(of.shape, of.recipe, 0)) {
      fill(c, x.host);
      x.buffer.upload();
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    void queue(const Written& to, void* on) {
      is_ok(
          cuda::quantize(x.device, {c.shape[0], c.shape[2], nullptr}, c.recipe, to.out, scratch.device(), on),
          c);
    }
  };
  Case of_k = long_case({1, 16, 9000, 128}, false), of_v = long_case({1, 16, 9000, 128}, true), of_q = of_k;
  of_q.recipe.smooth = Smooth::none;
  of_k.seed = seed, of_v.seed = seed + 1, of_q.seed = seed + 2;
  Running k(of_k), v(of_v), q(of_q);
  for (Running* of : {&k, &v, &q}) {
    of->queue(of->alone, nullptr);
    check(cudaDeviceSynchronize(), "alone");
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(of->stream, cudaStreamCaptureModeGlobal), "capture");
    of->queue(of->beside, of->stream);
    check(cudaStreamEndCapture(of->stream, &graph), "capture");
    check(cudaGraphInstantiate(&of->ready, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
  }
  for (int i = 0; i < kReplays; ++i)
    for (const Running* of : {&k, &v, &q}) check(cudaGraphLaunch(of->ready, of->stream), "cudaGraphLaunch");
  check(cudaDeviceSynchronize(), "beside each other");
  bool good = true;
  for (const Running* of : {&k, &v, &q}) {
    if (!(of->alone == of->beside))
      std::printf("  replays differ\n    %s\n", of->c.text().c_str()), good = false;
    cudaGraphExecDestroy(of->ready), cudaStreamDestroy(of->stream);
  }
  return good;
}

/// Q, K and V of one call in the fewest launches against each step of each operand in its own. Others'
/// numbers become codes at the same places just before, so that a step which began too early would take
/// theirs.
bool runs_together(const Case (&c)[3], ForAttention* written = nullptr) {
  std::vector<std::unique_ptr<Twin>> x, others;
  std::vector<std::unique_ptr<Written>> together, apart;
  std::vector<cuda::PlainOperand> operands, before;
  std::int64_t bytes = 0;
  for (const Case& of : c) {
    x.push_back(std::make_unique<Twin>(input_view(of)));
    fill(of, x.back()->host);
    x.back()->buffer.upload();
    Case other = of;
    other.data = (of.data + 1) % 5, other.seed += 7;
    others.push_back(std::make_unique<Twin>(input_view(other)));
    fill(other, others.back()->host);
    others.back()->buffer.upload();
    const QuantizedTensor layout = quant::layout(of.shape, of.recipe, 0);
    together.push_back(std::make_unique<Written>(layout));
    apart.push_back(std::make_unique<Written>(layout));
    operands.push_back(
        {x.back()->device, {of.shape[0], of.shape[2], nullptr}, of.recipe, together.back()->out});
    before.push_back(operands.back());
    before.back().x = others.back()->device;
    bytes += cuda::quantize_scratch_bytes(of.shape, of.recipe, 0);
  }
  Buffer scratch(bytes);
  bool good = is_ok(cuda::quantize(before, scratch.device(), nullptr, {}), c[0]);
  good &= is_ok(cuda::quantize(operands, scratch.device(), nullptr, {}), c[0]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i].out = apart[i]->out;
    good &= is_ok(
        cuda::quantize({&operands[i], 1}, scratch.device(), nullptr, {}, cuda::Launches::one_a_step), c[i]);
  }
  check(cudaDeviceSynchronize(), "three operands");
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (*together[i] == *apart[i]) continue;
    std::printf("  operand %zu: %s\n    %s\n", i, together[i]->difference_from(*apart[i]).c_str(),
                c[i].text().c_str());
    good = false;
  }
  if (!written || !good) return good;
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i].out = together[i]->out;
  const auto of_host = [](const Twin& from) {
    auto copy = std::make_unique<Twin>(from.host);
    const Bytes bytes = from.buffer.download();
    std::memcpy(copy->host.data, bytes.data() + from.buffer.shift(),
                static_cast<std::size_t>(span_bytes(copy->host)));
    return copy;
  };
  good = packs_alike(operands, 2, c[2], of_host(apart[2]->codes)->host, scratch, written->values);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    good &=
        has_alike_constants(operands, i, c[i], of_host(apart[i]->scales)->host, scratch, written->constants);
  return good;
}

}  // namespace
}  // namespace octet
