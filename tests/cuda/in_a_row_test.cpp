// Calls one after the other in one workspace, nothing waited for between them: kernels of a call begin beside
// those before, of the call before too, whose outputs may be its operands. Skipped without a GPU.
#include "tests/cuda/plain_calls.h"

namespace octet::testing {
namespace {

using namespace plain_calls;

/// Whether the host waits for each call.
enum class Waits { no, for_each };

class InARow : public PlainCalls {
 protected:
  using Outputs = std::vector<std::vector<std::uint16_t>>;

  /// Of every second call V is what the call before has put out; of the others it is the one given.
  Outputs run_in_a_row(const Ask& ask, Waits waits, std::size_t calls) {
    Given g = given(ask);
    g.desc.output = ask.dtype;
    const std::array<std::int64_t, 4> shape{ask.of.batch, ask.of.heads, ask.of.tokens_q, ask.dim};
    Outputs all(calls, std::vector<std::uint16_t>(
                           static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3])));
    DeviceMemory memory;
    const AttentionPlan plan = AttentionPlan::create(g.desc).take();
    AttentionArgs args = g.args;
    args.workspace_bytes = plan.workspace_bytes(), args.workspace = memory.take(args.workspace_bytes);
    std::vector<TensorView> hosts, outputs;
    for (std::vector<std::uint16_t>& o : all) {
      hosts.push_back(view_bhsd(o.data(), ask.dtype, shape));
      outputs.push_back(memory.put(hosts.back()));
    }
    memory.wait();
    for (std::size_t i = 0; i < calls && memory.status.ok(); ++i) {
      args.o = outputs[i];
      args.v.codes = i % 2 == 0 ? g.args.v.codes : outputs[i - 1];
      memory.status = plan.run(args);
      if (waits == Waits::for_each) memory.wait();
    }
    for (std::size_t i = 0; i < calls; ++i) memory.get(outputs[i], hosts[i]);
    memory.look_at_margins();
    EXPECT_TRUE(memory.status.ok()) << ask.name << ": " << memory.status.message();
    return all;
  }

  void expect_same_bits(const Ask& ask) {
    constexpr std::size_t kCalls = 24;
    const Outputs want = run_in_a_row(ask, Waits::for_each, 2);
    EXPECT_NE(want[0], want[1]) << ask.name;
    const Outputs got = run_in_a_row(ask, Waits::no, kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) EXPECT_TRUE(got[i] == want[i % 2]) << ask.name << ", call " << i;
  }

  static Ask of(Scheme scheme, const Lengths& lengths, std::int64_t dim, DType dtype = DType::bf16) {
    Ask ask{.of = lengths, .dim = dim, .scheme = scheme, .dtype = dtype};
    ask.name = title(ask) + " of " + std::to_string(dim) + " channels";
    return ask;
  }
};

TEST_F(InARow, HaveTheSameBitsAsOneByOne) {
  for (const Scheme scheme : {Scheme::f16, Scheme::bf16, Scheme::fp8, Scheme::fp8_hybrid, Scheme::int8_full,
                              Scheme::int8_half, Scheme::int8, Scheme::int8_shift, Scheme::int8_fp8,
                              Scheme::int8_lut, Scheme::int4, Scheme::qflash, Scheme::integer})
    for (const std::int64_t dim : {64, 128}) expect_same_bits(of(scheme, {1, 6, 577, 577}, dim));
}

/// The quantiser has one launch for Q and K, or one each, and V is packed beside it.
TEST_F(InARow, HaveTheSameBitsWhereVIsPackedBesideTheQuantiser) {
  for (const Scheme scheme : {Scheme::int8_half, Scheme::f16, Scheme::bf16}) {
    for (const std::int64_t dim : {32, 64, 128, 256})
      for (const Lengths& lengths : {Lengths{2, 3, 300, 300}, Lengths{1, 4, 2048, 2048}})
        expect_same_bits(of(scheme, lengths, dim));
    expect_same_bits(of(scheme, {2, 20, 1024, 1024}, 64));
  }
}

/// Attention reads V where the call before has put it.
TEST_F(InARow, HaveTheSameBitsWhereVStaysWhereItIs) {
  for (const std::int64_t dim : {64, 128, 256}) {
    for (const Lengths& lengths : {Lengths{1, 6, 577, 577}, Lengths{1, 4, 2048, 2048}}) {
      for (const Scheme scheme : {Scheme::f16, Scheme::int8_half, Scheme::fp8_hybrid})
        expect_same_bits(of(scheme, lengths, dim, DType::f16));
      expect_same_bits(of(Scheme::bf16, lengths, dim));
    }
  }
}

}  // namespace
}  // namespace octet::testing
