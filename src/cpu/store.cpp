#include "cpu/store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/parallel.h"
#include "cpu/driver.h"

namespace octet::cpu {
namespace {

/// Zeroed memory that costs nothing until it is used: calloc's pages come from the system when they are first
/// written.
class ZeroedMemory {
 public:
  explicit ZeroedMemory(std::int64_t bytes)
      : block_(std::calloc(1, static_cast<std::size_t>(bytes + kAlignment))) {
    if (!block_) throw std::bad_alloc();
    // Steps that stream tens of MiB spend 3 to 8 % of their time on pages of 4 KiB (Zen 3, 143 MiB).
    const auto begin = reinterpret_cast<std::uintptr_t>(block_),
               end = begin + static_cast<std::size_t>(bytes);
    const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
    if (first < end / kPage * kPage)
      madvise(reinterpret_cast<void*>(first), end / kPage * kPage - first, MADV_HUGEPAGE);
  }
  ZeroedMemory(const ZeroedMemory&) = delete;
  ~ZeroedMemory() { std::free(block_); }

  std::byte* data() const {
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(block_));
    return static_cast<std::byte*>(block_) + (round_up(address, kAlignment) - address);
  }

 private:
  static constexpr std::uintptr_t kPage = 1 << 21;
  void* block_;
};

/// An operand without its codes: scales that this store owns, f32 [batch, kv head, tokens or 1, 1].
class Scales {
 public:
  explicit Scales(const QuantizedTensor& layout) : view_(layout) {
    view_.mean = {};
    if (layout.scales.shape == std::array<std::int64_t, 4>{}) return;
    values_.assign(
        static_cast<std::size_t>(layout.scales.shape[0] * layout.scales.shape[1] * layout.scales.shape[2]),
        1.0f);
    view_.scales.data = values_.data();
  }
  Scales(const Scales&) = delete;

  const QuantizedTensor& view() const { return view_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values_.size() * sizeof(float)); }

  /// The scales of tokens begin, begin + 1, ... from those of x, or the one that all tokens have.
  void take(const QuantizedTensor& x, std::int64_t begin) {
    if (values_.empty()) return;
    const std::int64_t tokens = view_.tokens_per_scale == 0 ? 1 : x.codes.shape[2];
    const std::int64_t first = view_.tokens_per_scale == 0 ? 0 : begin;
    for (std::int64_t b = 0; b < x.codes.shape[0]; ++b)
      for (std::int64_t h = 0; h < x.codes.shape[1]; ++h)
        for (std::int64_t t = 0; t < tokens; ++t)
          *const_cast<float*>(call::row_of<float>(view_.scales, b, h, first + t)) =
              *call::row_of<float>(x.scales, b, h, t);
  }

 private:
  QuantizedTensor view_;
  std::vector<float> values_;
};

class Store final : public KvStore {
 public:
  Store(const Nest& nest, const AttentionDesc& desc, const QuantizedTensor& k, const QuantizedTensor& v)
      : nest_(nest),
        desc_(desc),
        packed_(nest, desc, k.codes.shape[3]),
        k_(k),
        v_(v),
        table_(static_cast<std::size_t>(nest.table_entries(desc.options))),
        memory_(packed_.bytes()) {
    nest.fill_table(desc.options, table_.data());
  }

  std::int64_t bytes() const override { return packed_.bytes() + k_.bytes() + v_.bytes(); }

  void append(const QuantizedTensor& k, const QuantizedTensor& v, std::int64_t begin,
              const ParallelFor& parallel_for) override {
    const std::int64_t count = k.codes.shape[2], end = begin + count;
    k_.take(k, begin), v_.take(v, begin);
    const AttentionDesc desc = with_tokens(end);
    const AttentionArgs args = with_operands({});
    const call::Problem problem(desc, args);
    const Prepare prepare = call::prepare_input(problem, table_.data());
    const Sequences given{desc.batch, count, nullptr};
    for_each_parallel(parallel_for, desc.batch * desc.heads_kv, [&](std::int64_t i) {
      const HeadIndex head{i / desc.heads_kv, i % desc.heads_kv};
      const call::HeadOperand new_k(k, given, head.sequence, head.kv_head);
      const call::HeadOperand new_v(v, given, head.sequence, head.kv_head);
      packed_.put(memory_.data(), problem, prepare, head, {new_k, new_v, 0, count, begin});
      packed_.note_values(memory_.data(), problem, head, begin, end);
      for (std::int64_t block = begin / desc.key_block; block * desc.key_block < end; ++block)
        packed_.close(memory_.data(), problem, prepare, head, block);
    });
  }

  /// note: tokens beyond the last are zero at all times, as kernels expect up to the next whole vector.
  void truncate(std::int64_t from, std::int64_t to) override {
    const AttentionDesc desc = with_tokens(to);
    const AttentionArgs args = with_operands({});
    const call::Problem problem(desc, args);
    const Prepare prepare = call::prepare_input(problem, table_.data());
    for (std::int64_t i = 0; i < desc.batch * desc.heads_kv; ++i) {
      const HeadIndex head{i / desc.heads_kv, i % desc.heads_kv};
      packed_.take_off_sums(memory_.data(), problem, head, to, from);
      packed_.clear(memory_.data(), problem, head, to, from);
      packed_.note_values(memory_.data(), problem, head, to / desc.key_block * desc.key_block, to);
      if (to % desc.key_block != 0)
        packed_.close(memory_.data(), problem, prepare, head, to / desc.key_block);
    }
  }

  std::int64_t workspace_bytes(const AttentionDesc& desc) const override {
    return states_bytes(nest_, desc, packed_.dim_v());
  }

  void attend(const AttentionDesc& desc, const AttentionArgs& args) const override {
    const AttentionArgs complete = with_operands(args);
    const call::Problem problem(desc, complete);
    attend_packed(nest_, problem, packed_, {memory_.data(), static_cast<std::byte*>(args.workspace)});
  }

 private:
  AttentionDesc with_tokens(std::int64_t tokens) const {
    AttentionDesc desc = desc_;
    desc.tokens_k = tokens;
    return desc;
  }
  AttentionArgs with_operands(AttentionArgs args) const {
    args.k = k_.view(), args.v = v_.view();
    return args;
  }

  const Nest& nest_;
  const AttentionDesc desc_;
  const PackedCall packed_;
  Scales k_, v_;
  std::vector<float> table_;
  const ZeroedMemory memory_;
};

}  // namespace

std::unique_ptr<KvStore> make_store(Isa isa, const AttentionDesc& desc, const QuantizedTensor& k,
                                    const QuantizedTensor& v) {
  return std::make_unique<Store>(*nest_of(isa, desc.scheme), desc, k, v);
}

}  // namespace octet::cpu
