// The driver: what a call is cut into, and what goes around the nests.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "base/shifted.h"
#include "call/operand.h"
#include "call/problem.h"
#include "call/store.h"
#include "call/visibility.h"
#include "cpu/ahead.h"
#include "cpu/cpu.h"
#include "cpu/driver.h"
#include "cpu/packed.h"
#include "cpu/units.h"

namespace octet::cpu {
namespace {

/// One call on one instruction set.
class Call {
 public:
  Call(const Nest& nest, const call::Problem& problem, const PackedCall& packed, const CallMemory& memory)
      : nest_(nest),
        problem_(problem),
        packed_(packed),
        states_(nest, problem.desc, packed.dim_v()),
        memory_(memory),
        longest_q_(longest(problem.q, problem.desc.tokens_q)),
        longest_k_(longest(problem.k, problem.desc.tokens_k)),
        rows_(longest_q_, problem.q.count * problem.desc.heads_q, nest.packing, packed.dim_v()),
        asks_(asks_for_rows(problem)),
        prepare_(call::prepare_input(problem, nullptr)) {}

  void pack() {
    const AttentionDesc& d = problem_.desc;
    const std::int64_t key_blocks = pieces(longest_k_, d.key_block);
    for_each_parallel(
        problem_.args.parallel_for, problem_.k.count * d.heads_kv * key_blocks, [&](std::int64_t i) {
          const std::int64_t block = i % key_blocks, unit = i / key_blocks;
          const std::int64_t sequence = unit / d.heads_kv;
          if (block * d.key_block >= problem_.k.length(sequence)) return;
          packed_.pack(memory_.packed, problem_, prepare_, {sequence, unit % d.heads_kv}, block, 0);
        });
  }

  KeyPacker::Packed packed(const PackedHeadIndex& head) const {
    return packed_.places(workspace_of(head), problem_, {head.sequence, head.kv_head});
  }

  void pack_head(const PackedHeadIndex& head, const HeadCodes& codes) const {
    if (codes.k_shift == 0 && codes.v_shift == 0) return pack_head(problem_, head, codes.packed);
    AttentionArgs args = problem_.args;
    args.k.codes = shifted(args.k.codes, codes.k_shift), args.v.codes = shifted(args.v.codes, codes.v_shift);
    pack_head(call::Problem(problem_.desc, args), head, codes.packed);
  }

  /// Before attend_head(): packing asks for no table. False: the keys of some heads are cut.
  bool begin_attending() {
    table_.resize(static_cast<std::size_t>(nest_.table_entries(problem_.desc.options)));
    nest_.fill_table(problem_.desc.options, table_.data());
    prepare_.table = table_.data();
    return !cuts_any();
  }
  void attend_head(const PackedHeadIndex& head) const {
    const std::int64_t units = units_of_head(),
                       first = (head.sequence * problem_.desc.heads_kv + head.kv_head) * units;
    std::byte* const packed = workspace_of(head);
    for (std::int64_t i = first; i < first + units; ++i) compute(unit(i), 0, packed);
  }

  /// Units in parallel; where the keys of some are cut, their ranges first and then what merges them.
  void attend() {
    const bool whole = begin_attending();
    const std::int64_t units = this->units();
    const std::int64_t ranges = whole ? 1 : pieces(longest_k_, range_keys());
    // The query blocks of the heads that share one K and V come one after another.
    for_each_parallel(problem_.args.parallel_for, units * ranges,
                      [&](std::int64_t i) { compute(unit(i % units), i / units, memory_.packed); });
    if (ranges == 1) return;
    for_each_parallel(problem_.args.parallel_for, units, [&](std::int64_t i) { merge(unit(i)); });
  }

 private:
  /// What the head's region is counted from.
  std::byte* workspace_of(const PackedHeadIndex& head) const {
    return memory_.packed +
           (head.place - head.sequence * problem_.desc.heads_kv - head.kv_head) * packed_.head_bytes();
  }

  /// packed: tokens whose codes are packed already.
  void pack_head(const call::Problem& problem, const PackedHeadIndex& head, std::int64_t packed) const {
    const std::int64_t key_blocks = pieces(problem.k.length(head.sequence), problem.desc.key_block);
    for (std::int64_t block = 0; block < key_blocks; ++block)
      packed_.pack(workspace_of(head), problem, prepare_, {head.sequence, head.kv_head}, block, packed);
  }

  static std::int64_t pieces(std::int64_t tokens, std::int64_t size) { return (tokens + size - 1) / size; }
  static std::int64_t longest(const Sequences& sequences, std::int64_t tokens) {
    if (!sequences.cu_seqlens) return tokens;
    std::int64_t most = 0;
    for (std::int64_t s = 0; s < sequences.count; ++s) most = std::max(most, sequences.length(s));
    return most;
  }
  std::int64_t range_keys() const { return RangeStates::range_keys(problem_.desc.key_block); }

  // --- Units: short query blocks take the heads of one K and V together, which are read once for all of
  // them.

  std::int64_t group() const { return problem_.desc.heads_q / problem_.desc.heads_kv; }
  std::int64_t heads_together() const {
    return std::clamp<std::int64_t>(nest_.packing.unit.few / std::max<std::int64_t>(longest_q_, 1), 1,
                                    group());
  }
  std::int64_t query_blocks() const { return rows_.units(longest_q_); }
  std::int64_t units_of_head() const { return pieces(group(), heads_together()) * query_blocks(); }
  std::int64_t units() const { return problem_.q.count * problem_.desc.heads_kv * units_of_head(); }
  Unit unit(std::int64_t i) const {
    const std::int64_t block = i % query_blocks(),
                       share = i / query_blocks() % pieces(group(), heads_together());
    const std::int64_t kv = i / query_blocks() / pieces(group(), heads_together());
    const std::int64_t sequence = kv / problem_.desc.heads_kv, kv_head = kv % problem_.desc.heads_kv;
    const std::int64_t first = share * heads_together();
    const RowShares::Rows rows = rows_.rows(block, problem_.q.length(sequence));
    return {sequence, kv_head * group() + first, std::min(heads_together(), group() - first), rows.begin,
            rows.end};
  }

  // --- Ranges of keys.

  bool cuts(std::int64_t sequence) const {
    return nest_.merge && problem_.q.length(sequence) <= kFewQueries &&
           problem_.k.length(sequence) > range_keys();
  }
  bool cuts_any() const {
    for (std::int64_t s = 0; s < problem_.q.count; ++s)
      if (cuts(s)) return true;
    return false;
  }
  call::KeyRange visible(const Unit& unit, std::int64_t token) const {
    return call::visible_range(problem_.desc, token, problem_.q.length(unit.sequence),
                               problem_.k.length(unit.sequence));
  }
  /// The ranges with keys that some row sees; one where no row sees any, which then ends the rows.
  call::KeyRange ranges(const Unit& unit) const {
    call::KeyRange keys{problem_.k.length(unit.sequence), 0};
    for (std::int64_t t = unit.begin; t < unit.end; ++t) {
      const call::KeyRange seen = visible(unit, t);
      if (seen.begin == seen.end) continue;
      keys = {std::min(keys.begin, seen.begin), std::max(keys.end, seen.end)};
    }
    if (keys.begin >= keys.end) return {0, 1};
    return {keys.begin / range_keys(), pieces(keys.end, range_keys())};
  }
  Parts parts(const Unit& unit, const call::KeyRange& of) const {
    return {memory_.states + states_.offset(problem_, unit, of.begin), of.end - of.begin, states_.stride()};
  }

  void compute(const Unit& unit, std::int64_t range, std::byte* packed) const {
    if (unit.begin >= unit.end) return;
    const std::int64_t keys = problem_.k.length(unit.sequence);
    if (!cuts(unit.sequence)) {
      if (range > 0) return;
      const RowsCall call = open(unit, {0, keys}, packed);
      nest_.attend(call);
      write(call, unit);
      return;
    }
    const call::KeyRange used = ranges(unit);
    if (range < used.begin || range >= used.end) return;
    const std::int64_t begin = range * range_keys();
    RowsCall call = open(unit, {begin, std::min(begin + range_keys(), keys)}, packed);
    call.parts = parts(unit, {range, range + 1});
    nest_.part(call);
  }

  void merge(const Unit& unit) const {
    if (unit.begin >= unit.end || !cuts(unit.sequence)) return;
    RowsCall call = open(unit, {0, 0}, memory_.packed);
    call.parts = parts(unit, ranges(unit));
    nest_.merge(call);
    write(call, unit);
  }

  /// A call on some of the keys, in the thread's scratch. packed: what the regions of heads are counted from.
  RowsCall open(const Unit& unit, const call::KeyRange& keys, std::byte* packed) const {
    const AttentionDesc& d = problem_.desc;
    const std::int64_t rows = unit.rows(), padded = round_up(rows, nest_.packing.rows);
    const std::int64_t dim_v = packed_.dim_v(), groups = packed_.dim_groups();
    const call::HeadOperand v(problem_.args.v, problem_.v(), unit.sequence, problem_.kv_head(unit.head));

    Scratch& scratch = thread_scratch();
    scratch.reset();
    RowsCall call{};
    call.prepare = prepare_, call.code_products = nest_.code_products;
    call.head = packed_.head(packed, problem_, unit.sequence, problem_.kv_head(unit.head));
    call.rows = rows, call.dim_groups = groups, call.dim_v = dim_v;
    call.ahead = ahead_of_few_rows();

    std::byte* q_packed = scratch.take<std::byte>(padded * groups * 4);
    std::int32_t* q_size = scratch.take<std::int32_t>(padded + kRowsBeyond);
    std::int32_t* q_sum = scratch.take<std::int32_t>(padded);
    float* q_scale = scratch.take<float>(padded + kRowsBeyond);
    std::memset(q_packed + rows * groups * 4, 0, static_cast<std::size_t>((padded - rows) * groups * 4));
    std::int64_t r = 0;
    for (std::int64_t h = unit.head; h < unit.head + unit.heads; ++h) {
      const call::HeadOperand q(problem_.args.q, problem_.q, unit.sequence, h);
      q.token_scales(unit.begin, unit.tokens(), q_scale + r);
      packed_.pack_queries(q, unit.begin, unit.tokens(), q_packed + r * groups * 4);
      r += unit.tokens();
    }
    packed_.sum_queries(q_packed, padded, {q_sum, q_size});
    std::fill(q_scale + rows, q_scale + padded + kRowsBeyond, q_scale[rows - 1]);
    std::fill(q_size + padded, q_size + padded + kRowsBeyond, 0);
    call.q = q_packed, call.q_size = q_size, call.q_sum = q_sum, call.q_scale = q_scale;
    see(unit, keys, scratch, call);
    call.bias = bias_rows(unit, scratch);

    float* channel = scratch.take<float>(dim_v);
    std::int32_t* exponent = scratch.take<std::int32_t>(dim_v);
    const bool at_the_end = v.has_scales() && !v.scales_vary_by_token();
    std::fill_n(channel, dim_v, 1.0f);
    for (std::int64_t c = 0; at_the_end && c < v.dim(); ++c) channel[c] = v.scale(0, c);
    v.channel_exponents(exponent);
    std::fill(exponent + v.dim(), exponent + dim_v, 0);
    call.channel = channel, call.channel_exponent = exponent;

    if (float* const rows_of_o = f32_rows(unit)) {
      call.values = rows_of_o, call.values_row = problem_.args.o.stride[2];
    } else if (nest_.output == Output::values || problem_.args.o.dtype != DType::s8) {
      call.values = scratch.take<float>(rows * dim_v), call.values_row = dim_v;
    } else {
      call.codes = scratch.take<std::int8_t>(rows * dim_v);
    }
    if (asks_) want_rows(problem_, unit, call);
    call.scale = scratch.take<float>(rows);
    call.lse = problem_.args.lse.data ? scratch.take<float>(rows) : nullptr;
    call.scratch = scratch.take<std::byte>(nest_.scratch_bytes(rows, d.key_block, dim_v));
    return call;
  }

  /// Which of `keys` the rows see.
  void see(const Unit& unit, const call::KeyRange& keys, Scratch& scratch, RowsCall& call) const {
    call.seen_by_any = call.seen_by_all = {keys.begin, keys.end};
    if (call::sees_all(problem_.desc)) return;
    std::int64_t* first = scratch.take<std::int64_t>(unit.rows());
    std::int64_t* last = scratch.take<std::int64_t>(unit.rows());
    KeySpan any{keys.end, 0}, all{0, keys.end};
    for (std::int64_t r = 0; r < unit.rows(); ++r) {
      const call::KeyRange seen = visible(unit, unit.begin + r % unit.tokens());
      first[r] = std::max(seen.begin, keys.begin);
      last[r] = std::max(first[r], std::min(seen.end, keys.end));
      any = {std::min(any.first, first[r]), std::max(any.last, last[r])};
      all = {std::max(all.first, first[r]), std::min(all.last, last[r])};
    }
    call.first = first, call.last = last, call.seen_by_any = any, call.seen_by_all = all;
  }

  BiasRows bias_rows(const Unit& unit, Scratch& scratch) const {
    const TensorView& bias = problem_.args.bias;
    if (!bias.data) return {};
    std::int64_t* row = scratch.take<std::int64_t>(unit.rows());
    std::int64_t key_stride = 0;
    for (std::int64_t h = 0; h < unit.heads; ++h) {
      const call::HeadBias head(problem_.desc, bias, problem_.k.batch(unit.sequence), unit.head + h);
      key_stride = head.key_stride();
      for (std::int64_t t = 0; t < unit.tokens(); ++t)
        row[h * unit.tokens() + t] = head.offset(unit.begin + t);
    }
    return {bias.data, bias.dtype, key_stride, row};
  }

  /// The unit's rows of o where a nest may write them itself: f32, channels one after the other without
  /// padding, one head.
  float* f32_rows(const Unit& unit) const {
    const TensorView& o = problem_.args.o;
    if (o.dtype != DType::f32 || o.stride[3] != 1 || unit.heads != 1 ||
        problem_.desc.head_dim_v != packed_.dim_v())
      return nullptr;
    return rows_of_o<float>(unit, unit.head);
  }
  template <class T>
  T* rows_of_o(const Unit& unit, std::int64_t head) const {
    const TensorView& o = problem_.args.o;
    return static_cast<T*>(o.data) + problem_.q.batch(unit.sequence) * o.stride[0] + head * o.stride[1] +
           (problem_.q.begin(unit.sequence) + unit.begin) * o.stride[2];
  }

  /// Values of all rows together, where they are not there already; false: o takes them row by row.
  bool write_values(const RowsCall& call, const Unit& unit) const {
    const TensorView& o = problem_.args.o;
    if (call.values && call.values == f32_rows(unit)) return true;
    if (!call.values || o.stride[3] != 1 || (o.dtype != DType::f16 && o.dtype != DType::bf16)) return false;
    const NarrowRows narrow = pack_kernels(nest_.packing.lanes).narrow;
    const float* values = call.values;
    for (std::int64_t h = unit.head; h < unit.head + unit.heads; ++h) {
      narrow({values, call.values_row, unit.tokens(), problem_.desc.head_dim_v}, o.dtype,
             rows_of_o<std::uint16_t>(unit, h), o.stride[2]);
      values += unit.tokens() * call.values_row;
    }
    return true;
  }

  void write(const RowsCall& call, const Unit& unit) const {
    const std::int64_t dim_v = problem_.desc.head_dim_v, batch = problem_.q.batch(unit.sequence),
                       first = problem_.q.begin(unit.sequence);
    const bool has_values = write_values(call, unit);
    if (has_values && !call.lse && !problem_.args.o_scale.data) return;
    std::int64_t r = 0;
    for (std::int64_t h = unit.head; h < unit.head + unit.heads; ++h)
      for (std::int64_t token = unit.begin; token < unit.end; ++token, ++r) {
        const call::RowWriter writer(problem_.args, batch, h, first + token);
        if (call.lse) {
          const bool empty = call.lse[r] == kMinusInfinity;
          writer.lse(empty ? double{kMinusInfinity} : double{call.lse[r]} + writer.lse_shift());
        }
        if (call.codes)
          writer.codes(call.codes + r * call.dim_v, dim_v, call.scale[r]);
        else if (!has_values)
          writer.values(call.values + r * call.values_row, dim_v);
        writer.scale(nest_.output == Output::values ? 0 : call.scale[r]);
      }
  }

  const Nest& nest_;
  const call::Problem& problem_;
  const PackedCall packed_;
  const RangeStates states_;
  const CallMemory memory_;
  const std::int64_t longest_q_, longest_k_;
  const RowShares rows_;
  const bool asks_;
  std::vector<float> table_;
  Prepare prepare_;
};

/// A call whose K and V are packed into the workspace.
Call in_workspace(const Nest& nest, const call::Problem& problem) {
  const PackedCall packed(nest, problem.desc, problem.args.k.codes.shape[3]);
  auto* const workspace = static_cast<std::byte*>(problem.args.workspace);
  return {nest, problem, packed, {workspace, workspace + round_up(packed.bytes(), kAlignment)}};
}

class Packer final : public KeyPacker {
 public:
  Packer(const Nest& nest, const AttentionDesc& desc, const AttentionArgs& args)
      : problem_(desc, args), call_(in_workspace(nest, problem_)) {}

  Packed packed(const PackedHeadIndex& head) const override { return call_.packed(head); }
  void pack(const PackedHeadIndex& head, const HeadCodes& codes) const override {
    call_.pack_head(head, codes);
  }
  bool begin_attending() override { return call_.begin_attending(); }
  void attend(const PackedHeadIndex& head) const override { call_.attend_head(head); }

 private:
  const call::Problem problem_;
  Call call_;
};

}  // namespace

/// More than the channels of any operand's codes: rotation pads a head dim to a multiple of its Hadamard
/// block.
std::int64_t most_code_dim(const AttentionDesc& desc) {
  constexpr std::int64_t kLargestHadamard = 64;
  return desc.recipe.rotate == Rotate::on ? round_up(desc.head_dim, kLargestHadamard) : desc.head_dim;
}

std::int64_t states_bytes(const Nest& nest, const AttentionDesc& desc, std::int64_t dim_v) {
  return RangeStates(nest, desc, dim_v).bytes();
}

void attend_packed(const Nest& nest, const call::Problem& problem, const PackedCall& packed,
                   const CallMemory& memory) {
  Call(nest, problem, packed, memory).attend();
}

std::string refusal(Isa isa, const AttentionDesc& desc) {
  const std::string unavailable = refusal(isa);
  if (!unavailable.empty()) return unavailable;
  if (!nest_of(isa, desc.scheme))
    return nest_of(Isa::avx2, desc.scheme)
               ? "the scheme has no code of its own for " + std::string(name_of(isa))
               : "the scheme exists on the reference backend only";
  return {};
}

std::int64_t workspace_bytes(Isa isa, const AttentionDesc& desc) {
  const Nest& nest = *nest_of(isa, desc.scheme);
  const PackedCall packed(nest, desc, most_code_dim(desc));
  return round_up(packed.bytes(), kAlignment) + states_bytes(nest, desc, packed.dim_v());
}

Status attend(Isa isa, const AttentionDesc& desc, const AttentionArgs& args) {
  pack(isa, desc, args);
  attend_packed(isa, desc, args);
  return {};
}

void pack(Isa isa, const AttentionDesc& desc, const AttentionArgs& args) {
  const call::Problem problem(desc, args);
  in_workspace(*nest_of(isa, desc.scheme), problem).pack();
}

void attend_packed(Isa isa, const AttentionDesc& desc, const AttentionArgs& args) {
  const call::Problem problem(desc, args);
  in_workspace(*nest_of(isa, desc.scheme), problem).attend();
}

std::unique_ptr<KeyPacker> make_packer(Isa isa, const AttentionDesc& desc, const AttentionArgs& args) {
  return std::make_unique<Packer>(*nest_of(isa, desc.scheme), desc, args);
}

}  // namespace octet::cpu
