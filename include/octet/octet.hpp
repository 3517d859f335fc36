// octet for C++20: a thin, header-only face over the C interface (octet.h). Link octet::octet. Nothing here
// throws; what can fail returns a Status or a Result whose message names argument, value, rule and remedy.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "octet/abi.hpp"
#include "octet/octet.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// The outcome of a call of the C interface, with its sentence.
inline Status status_of(octet_status code) {
  if (code == OCTET_OK) return {};
  return {static_cast<Code>(code), octet_last_error()};
}

/// Name of an enumeration's value as the command line spells it, "" outside its range.
inline const char* enum_name(octet_enum which, std::int32_t value) {
  const char* name = octet_enum_name(which, value);
  return name ? name : "";
}
inline const char* name_of(Scheme x) { return enum_name(OCTET_ENUM_SCHEME, static_cast<int>(x)); }
inline const char* name_of(DType x) { return enum_name(OCTET_ENUM_DTYPE, static_cast<int>(x)); }
inline const char* name_of(Granularity x) { return enum_name(OCTET_ENUM_GRANULARITY, static_cast<int>(x)); }
inline const char* name_of(Smooth x) { return enum_name(OCTET_ENUM_SMOOTH, static_cast<int>(x)); }

/// The value of a name, as in value_of<Scheme>(OCTET_ENUM_SCHEME, "int8").
template <class Enum>
Result<Enum> value_of(octet_enum which, const char* name) {
  std::int32_t value = 0;
  if (const octet_status code = octet_enum_value(which, name, &value); code != OCTET_OK)
    return status_of(code);
  return static_cast<Enum>(value);
}

/// Contiguous view of [batch, head, token, dim].
inline TensorView view_bhsd(const void* data, DType dtype, const std::array<std::int64_t, 4>& shape) {
  TensorView x;
  x.data = const_cast<void*>(data);  // note: the library writes to outputs only
  x.dtype = dtype;
  x.shape = shape;
  x.stride = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  return x;
}

/// View of memory in the order [batch, token, head, dim]; `shape` is (batch, head, token, dim) all the same.
inline TensorView view_bshd(const void* data, DType dtype, const std::array<std::int64_t, 4>& shape) {
  TensorView x = view_bhsd(data, dtype, shape);
  x.stride = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  return x;
}

inline Result<Recipe> default_recipe_of(Scheme scheme) {
  octet_recipe recipe{};
  if (const octet_status code = octet_default_recipe(static_cast<octet_scheme>(scheme), &recipe);
      code != OCTET_OK)
    return status_of(code);
  return abi::from_c(recipe);
}

/// The problem that plain q, k and v pose: see octet_attention_desc_init for what it fills in.
inline Result<AttentionDesc> describe(Scheme scheme, const TensorView& q, const TensorView& k,
                                      const TensorView& v) {
  octet_attention_desc desc{};
  desc.struct_size = sizeof desc;
  const octet_tensor qc = abi::to_c(q), kc = abi::to_c(k), vc = abi::to_c(v);
  if (const octet_status code =
          octet_attention_desc_init(&desc, static_cast<octet_scheme>(scheme), &qc, &kc, &vc);
      code != OCTET_OK)
    return status_of(code);
  return abi::from_c(desc);
}

/// octet_peak_rate: 1e9 operations or bytes a second.
inline Result<double> peak_rate(const std::string& what, double seconds) {
  double rate = 0;
  if (const octet_status code = octet_peak_rate(what.c_str(), seconds, &rate); code != OCTET_OK)
    return status_of(code);
  return rate;
}

/// Memory on a 64-byte boundary, as a workspace must be.
class Workspace {
 public:
  static Result<Workspace> allocate(std::int64_t bytes) {
    Workspace w;
    if (bytes > 0) {
      w.memory_.reset(static_cast<std::byte*>(
          ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kAlignment}, std::nothrow)));
      if (!w.memory_)
        return Status{Code::out_of_memory, "workspace is " + std::to_string(bytes) +
                                               " bytes, but the machine has not that much free memory; "
                                               "attend to fewer heads or batch entries at a time"};
      w.bytes_ = bytes;
    }
    return w;
  }
  void* data() const { return memory_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 64;  // what octet_attend asks for: a cache line
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::int64_t bytes_ = 0;
};

/// A validated problem and the kernel chosen for it. Immutable; movable; run() from any number of threads.
class AttentionPlan {
 public:
  /// backend: "" for the first that takes the problem, or a name.
  static Result<AttentionPlan> create(const AttentionDesc& desc, const std::string& backend = {}) {
    octet_plan* plan = nullptr;
    const octet_attention_desc c = abi::to_c(desc);
    if (const octet_status code = octet_plan_create(&plan, &c, backend.c_str()); code != OCTET_OK)
      return status_of(code);
    return AttentionPlan(plan);
  }

  const char* kernel() const { return octet_plan_kernel(plan_.get()); }
  const char* backend() const { return octet_plan_backend(plan_.get()); }
  const char* explain() const { return octet_plan_explain(plan_.get()); }
  std::int64_t workspace_bytes() const { return octet_plan_workspace_bytes(plan_.get()); }
  const octet_plan* handle() const { return plan_.get(); }

  /// Kernels that were tried first, and why each refused: (kernel, reason).
  std::vector<std::pair<std::string, std::string>> refusals() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (std::int32_t i = 0; i < octet_plan_refusal_count(plan_.get()); ++i)
      all.emplace_back(octet_plan_refusal_kernel(plan_.get(), i), octet_plan_refusal_reason(plan_.get(), i));
    return all;
  }

  /// octet_attend: args.workspace holds workspace_bytes() bytes.
  Status run(const AttentionArgs& args) const {
    const octet_attention_args c = abi::to_c(args);
    return status_of(octet_attend(plan_.get(), &c));
  }

  /// octet_pack, then octet_attend_packed any number of times: the halves of run().
  Status pack(const AttentionArgs& args) const {
    const octet_attention_args c = abi::to_c(args);
    return status_of(octet_pack(plan_.get(), &c));
  }
  Status run_packed(const AttentionArgs& args) const {
    const octet_attention_args c = abi::to_c(args);
    return status_of(octet_attend_packed(plan_.get(), &c));
  }

  /// octet_error_bound: f32, the shape of o.
  Status error_bound(const AttentionArgs& args, const TensorView& bound) const {
    const octet_attention_args c = abi::to_c(args);
    const octet_tensor b = abi::to_c(bound);
    return status_of(octet_error_bound(plan_.get(), &c, &b));
  }

 private:
  struct Destroy {
    void operator()(octet_plan* p) const { octet_plan_destroy(p); }
  };
  explicit AttentionPlan(octet_plan* plan) : plan_(plan) {}
  std::unique_ptr<octet_plan, Destroy> plan_;
};

/// What a cache may be told; every field has a neutral default.
struct KvCacheOptions {
  float k_amax = 0, v_amax = 0;  ///< of scales of the head or the tensor; 0: tokens have their own
  TensorView k_anchor = {};      ///< for Smooth::anchor; data null: the first key
};

/// K and V as codes across calls: octet_kv_cache. Movable.
class KvCache {
 public:
  /// plan: its tokens_k is the capacity.
  static Result<KvCache> create(const AttentionPlan& plan, const KvCacheOptions& options = {}) {
    octet_kv_cache_options c{};
    c.struct_size = sizeof c;
    c.k_amax = options.k_amax, c.v_amax = options.v_amax;
    c.k_anchor = abi::to_c(options.k_anchor);
    octet_kv_cache* cache = nullptr;
    if (const octet_status code = octet_kv_cache_create(&cache, plan.handle(), &c); code != OCTET_OK)
      return status_of(code);
    return KvCache(cache);
  }

  std::int64_t length() const { return octet_kv_cache_length(cache_.get()); }
  std::int64_t capacity() const { return octet_kv_cache_capacity(cache_.get()); }
  std::int64_t bytes() const { return octet_kv_cache_bytes(cache_.get()); }
  /// -1 where the plan does not fit.
  std::int64_t workspace_bytes(const AttentionPlan& plan) const {
    return octet_kv_cache_workspace_bytes(cache_.get(), plan.handle());
  }
  const octet_kv_cache* handle() const { return cache_.get(); }

  /// Of a cache on a GPU: the stream that append() queues its work on.
  Status set_stream(void* stream) { return status_of(octet_kv_cache_set_stream(cache_.get(), stream)); }

  /// k, v: [batch, kv head, token, dim], f32, f16 or bf16.
  Status append(const TensorView& k, const TensorView& v, const ParallelFor& parallel_for = {}) {
    const octet_tensor kc = abi::to_c(k), vc = abi::to_c(v);
    const octet_parallel_for pc = abi::to_c(parallel_for);
    return status_of(octet_kv_cache_append(cache_.get(), &kc, &vc, &pc));
  }
  Status truncate(std::int64_t length) { return status_of(octet_kv_cache_truncate(cache_.get(), length)); }

  /// octet_kv_cache_attend: args has no k and v; its workspace holds workspace_bytes(plan) bytes.
  Status attend(const AttentionPlan& plan, const AttentionArgs& args) const {
    const octet_attention_args c = abi::to_c(args);
    return status_of(octet_kv_cache_attend(cache_.get(), plan.handle(), &c));
  }
  /// append(k, v) and then attend(plan, args) on args' threads or stream; both or neither.
  Status step(const TensorView& k, const TensorView& v, const AttentionPlan& plan,
              const AttentionArgs& args) {
    const octet_tensor kc = abi::to_c(k), vc = abi::to_c(v);
    const octet_attention_args c = abi::to_c(args);
    return status_of(octet_kv_cache_step(cache_.get(), &kc, &vc, plan.handle(), &c));
  }

 private:
  struct Destroy {
    void operator()(octet_kv_cache* p) const { octet_kv_cache_destroy(p); }
  };
  explicit KvCache(octet_kv_cache* cache) : cache_(cache) {}
  std::unique_ptr<octet_kv_cache, Destroy> cache_;
};

/// What attention() may be told beside the tensors; every field has a neutral default.
struct AttentionOptions {
  Scheme scheme = Scheme::int8;
  std::optional<float> softmax_scale = {};  ///< 1 / sqrt(head dim) unless set
  std::optional<Recipe> recipe = {};        ///< the scheme's default unless set
  SchemeOptions scheme_options = {};
  Mask mask = Mask::none;
  std::int64_t window_left = -1, window_right = -1;
  std::int64_t key_block = 128;
  TensorView lse = {};      ///< f32 [batch, heads, tokens_q, 1]; data null: not wanted
  TensorView o_scale = {};  ///< f32 [batch, heads, tokens_q, 1] where o is s8
  TensorView bias = {};     ///< boolean or additive, by its dtype
  TensorView k_anchor = {};
  std::string backend = {};
  ParallelFor parallel_for = {};
};

/// One call for one problem: plans, allocates a workspace, runs. q, k, v: f32, f16 or bf16, any strides; o
/// decides the output's dtype. Keep an AttentionPlan instead where the same problem comes again.
inline Status attention(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& o,
                        const AttentionOptions& options = {}) {
  Result<AttentionDesc> described = describe(options.scheme, q, k, v);
  if (!described.ok()) return described.status();
  AttentionDesc desc = described.take();
  if (desc.device != Device::cpu)
    return Status{Code::unsupported,
                  "q.device is cuda, and attention() takes its workspace from the host's memory; make an "
                  "AttentionPlan and give it a workspace on the device"};
  desc.output = o.dtype;
  desc.mask = options.mask;
  desc.window_left = options.window_left;
  desc.window_right = options.window_right;
  desc.key_block = options.key_block;
  desc.wants_lse = options.lse.data != nullptr;
  desc.options = options.scheme_options;
  if (options.softmax_scale) desc.softmax_scale = *options.softmax_scale;
  if (options.recipe) desc.recipe = *options.recipe;
  if (options.bias.data)
    desc.bias =
        options.bias.dtype == DType::boolean ? AttentionDesc::Bias::boolean : AttentionDesc::Bias::additive;
  Result<AttentionPlan> plan = AttentionPlan::create(desc, options.backend);
  if (!plan.ok()) return plan.status();
  Result<Workspace> workspace = Workspace::allocate(plan.value().workspace_bytes());
  if (!workspace.ok()) return workspace.status();
  AttentionArgs args;
  args.q.codes = q, args.k.codes = k, args.v.codes = v, args.o = o;
  args.lse = options.lse, args.o_scale = options.o_scale;
  args.bias = options.bias, args.k_anchor = options.k_anchor;
  args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
  args.parallel_for = options.parallel_for;
  return plan.value().run(args);
}

}  // namespace octet
