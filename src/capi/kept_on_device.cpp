#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "capi/kept_keys.h"
#include "capi/prepass_cuda.h"
#include "core/sentence.h"
#include "cuda/cuda.h"
#include "cuda/quant/quantize.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/memory.h"

namespace octet::capi {
namespace {

constexpr std::int64_t kPartAlignment = 256;

/// One operand of all tokens that there may be.
struct Kept {
  quant::OperandRecipe recipe;
  QuantizedTensor tensor;

  /// What of it tokens [begin, begin + count) are; scales of all tokens are those of each.
  QuantizedTensor tokens(std::int64_t begin, std::int64_t count) const {
    QuantizedTensor part = tensor;
    part.codes = along_tokens(tensor.codes, begin, count);
    if (tensor.tokens_per_scale == 1) part.scales = along_tokens(tensor.scales, begin, count);
    return part;
  }

 private:
  static TensorView along_tokens(TensorView x, std::int64_t begin, std::int64_t count) {
    const std::int64_t offset = begin * x.stride[2];
    x.data =
        static_cast<std::byte*>(x.data) + (x.dtype == DType::s4 ? offset / 2 : offset * bytes_of(x.dtype));
    x.shape[2] = count;
    return x;
  }
};

class OnDevice final : public KeptKeys {
 public:
  explicit OnDevice(const KeptProblem& problem)
      : desc_(problem.desc()), has_floors_(problem.has_token_scales_of_v()) {
    const std::int64_t capacity = desc_.tokens_k;
    const std::array<std::int64_t, 4> k{desc_.batch, desc_.heads_kv, capacity, desc_.head_dim},
        v{desc_.batch, desc_.heads_kv, capacity, desc_.head_dim_v};
    k_ = {problem.k, quant::layout(k, problem.k, 0)}, v_ = {problem.v, quant::layout(v, problem.v, 0)};
    scratch_bytes_ =
        cuda::quantize_scratch_bytes(k, k_.recipe, 0) + cuda::quantize_scratch_bytes(v, v_.recipe, 0);
    first_key_is_anchor_ = problem.is_anchored() && !problem.given_anchor.data;
  }

  /// Takes the memory; before all else.
  Status take_memory(const TensorView& given_anchor) {
    std::vector<std::pair<std::int64_t, std::byte**>> places;
    const auto ask = [&](std::int64_t bytes, std::byte** where) {
      places.push_back({bytes_, where});
      bytes_ += (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    };
    std::byte *largest = nullptr, *parts[6] = {};
    TensorView* const views[] = {&k_.tensor.codes, &k_.tensor.scales, &k_.tensor.mean,
                                 &v_.tensor.codes, &v_.tensor.scales, &v_.tensor.mean};
    for (std::size_t i = 0; i < std::size(views); ++i) {
      views[i]->device = Device::cuda;
      ask(span_bytes(*views[i]), &parts[i]);
    }
    const std::int64_t scales = desc_.batch * desc_.heads_kv * desc_.tokens_k;
    ask(has_floors_ ? scales * std::int64_t{sizeof(float)} : 0, &largest);
    ask(scratch_bytes_, &scratch_);
    ask(cuda::kept_bytes(desc_, k_.tensor.codes), &kept_.packed);
    Result<cuda::runtime::Memory> taken = cuda::runtime::take(bytes_, "the cache");
    OCTET_TRY(taken.status());
    memory_ = taken.take();
    for (const auto& [offset, where] : places) *where = memory_.get() + offset;
    for (std::size_t i = 0; i < std::size(views); ++i)
      if (views[i]->shape != std::array<std::int64_t, 4>{}) views[i]->data = parts[i];
    largest_ = reinterpret_cast<float*>(largest);
    kept_.capacity = desc_.tokens_k;
    if (!given_anchor.data) return {};
    OCTET_TRY(cuda::put_anchor(given_anchor, k_.tensor.mean, nullptr));
    return cuda::runtime::wait();
  }

  std::int64_t bytes() const override { return bytes_; }
  TensorView anchor() const override { return k_.tensor.mean; }

  Status append(const TensorView& k, const TensorView& v, std::int64_t begin,
                const Workers& workers) override {
    OCTET_TRY(check_device());
    last_block_is_stale_ = begin % desc_.key_block != 0;  // if a launch fails from here on
    OCTET_TRY(cuda::quantize(operands_of(k, v, begin), scratch_, workers.stream, {}));
    OCTET_TRY(pack(begin, begin + k.shape[2], workers.stream));
    last_block_is_stale_ = false;
    return {};
  }

  /// Q becomes codes in the launches of K and V.
  Status step(const TensorView& k, const TensorView& v, std::int64_t begin, const Call& call) override {
    OCTET_TRY(check_device());
    const std::int64_t bytes =
        cuda::quantize_scratch_bytes(call.args.q.codes.shape, operand_recipes(call.plan.desc).q,
                                     call.plan.desc.sequences) +
        cuda::quantize_scratch_bytes(k.shape, k_.recipe, 0) +
        cuda::quantize_scratch_bytes(v.shape, v_.recipe, 0);
    if (bytes > scratch_bytes_) return KeptKeys::step(k, v, begin, call);
    AttentionArgs args = call.args;
    args.k.mean = anchor();
    Result<AttentionArgs> ready = prepare_on_device(call.plan, call.layout, args, Operands::queries,
                                                    {operands_of(k, v, begin), scratch_});
    OCTET_TRY(ready.status());
    last_block_is_stale_ = begin % desc_.key_block != 0;  // as in append()
    OCTET_TRY(pack(begin, begin + k.shape[2], args.stream));
    OCTET_TRY(attend_new(call.plan.desc, for_kernel(call, ready.take())));
    last_block_is_stale_ = false;
    return {};
  }

  /// The key block that ends with the last token is packed with others behind it: what is appended next packs
  /// it anew, or each call until then, all of them with the same bytes.
  Status truncate(std::int64_t, std::int64_t to, const Workers&) override {
    last_block_is_stale_ = to % desc_.key_block != 0;
    return {};
  }

  std::int64_t workspace_bytes(const AttentionDesc& desc) const override {
    return cuda::kept_workspace_bytes(desc);
  }

 private:
  Status attend_codes(const AttentionDesc& desc, const AttentionArgs& args) const override {
    OCTET_TRY(check_device());
    if (last_block_is_stale_) OCTET_TRY(pack(desc.tokens_k, desc.tokens_k, args.stream));
    return attend_new(desc, args);
  }
  /// The same where the last key block has just been packed.
  Status attend_new(const AttentionDesc& desc, const AttentionArgs& args) const {
    return cuda::attend_kept(desc, with_keys(args), kept_);
  }

  /// Kernels are launched on the current device.
  Status check_device() const {
    const int now = cuda::runtime::number();
    if (now == device_) return {};
    return broken("the current CUDA device", now, "the cache lies on device " + std::to_string(device_),
                  "make that one current (cudaSetDevice)");
  }

  /// Tokens begin, begin + 1, ... that become codes.
  std::vector<cuda::PlainOperand> operands_of(const TensorView& k, const TensorView& v,
                                              std::int64_t begin) const {
    const std::int64_t tokens = k.shape[2];
    const Sequences sequences{desc_.batch, tokens, nullptr};
    quant::OperandRecipe k_recipe = k_.recipe;
    if (anchor().data && !(first_key_is_anchor_ && begin == 0)) k_recipe.anchor = anchor();
    cuda::ScaleFloors floors{largest_, desc_.tokens_k, begin, kFloorOctaves, kFirstFloor};
    if (!has_floors_) floors.largest = nullptr;
    return {{k, sequences, k_recipe, k_.tokens(begin, tokens), {}},
            {v, sequences, v_.recipe, v_.tokens(begin, tokens), floors}};
  }
  AttentionArgs with_keys(AttentionArgs args) const {
    args.k = k_.tensor, args.v = v_.tensor;
    return args;
  }
  /// The key blocks of tokens first ... tokens - 1 and on, of so many tokens.
  Status pack(std::int64_t first, std::int64_t tokens, void* stream) const {
    AttentionDesc desc = desc_;
    desc.tokens_k = tokens;
    AttentionArgs args = with_keys({});
    args.stream = stream;
    return cuda::pack_kept(desc, args, kept_, first);
  }

  AttentionDesc desc_;
  int device_ = cuda::runtime::number();
  Kept k_, v_;  ///< k_.tensor.mean: the anchor
  bool has_floors_, first_key_is_anchor_ = false, last_block_is_stale_ = false;
  std::int64_t scratch_bytes_ = 0, bytes_ = 0;
  cuda::runtime::Memory memory_;
  float* largest_ = nullptr;      ///< [batch, kv head, token]: the largest scale of V up to there
  std::byte* scratch_ = nullptr;  ///< of appends, which come one after the other
  cuda::KeptKeys kept_;
};

}  // namespace

Result<std::unique_ptr<KeptKeys>> keep_on_device(const KeptProblem& problem) {
  auto keys = std::make_unique<OnDevice>(problem);
  OCTET_TRY(keys->take_memory(problem.given_anchor));
  return std::unique_ptr<KeptKeys>(std::move(keys));
}

}  // namespace octet::capi
