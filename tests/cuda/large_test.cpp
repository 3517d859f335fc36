// Calls whose elements, heads or sequences no 32-bit number or index of a grid counts: what they give a head
// is what a call of that head alone gives. Skipped without a GPU, or where one has not the memory.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/schemes.h"
#include "numerics/formats.h"
#include "octet/octet.hpp"
#include "tests/attention/distributions.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

struct LargeShape {
  const char* name;
  std::int64_t batch, heads, heads_kv, tokens_q, tokens_k, dim;
  std::int64_t window;  ///< keys before a query; -1: all, and no causal mask
};

class LargeCalls : public OnDevice {
 protected:
  static constexpr std::int64_t kBytes = 2;  // of bf16

  static std::int64_t elements(const TensorView& x) {
    return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3];
  }
  static TensorView view_of(void* data, const std::array<std::int64_t, 4>& shape, Layout layout) {
    TensorView x =
        layout == Layout::bshd ? view_bshd(data, DType::bf16, shape) : view_bhsd(data, DType::bf16, shape);
    x.device = Device::cuda;
    return x;
  }
  /// One head of a batch entry; its tokens lie where they lay.
  static TensorView head_of(TensorView x, std::int64_t b, std::int64_t h) {
    x.data = static_cast<std::byte*>(x.data) + kBytes * (b * x.stride[0] + h * x.stride[1]);
    x.shape[0] = x.shape[1] = 1;
    return x;
  }

  /// Memory for a tensor filled with pieces of N(0, 1) numbers, begun at another one each time.
  static TensorView numbers(DeviceMemory& device, const std::array<std::int64_t, 4>& shape, Layout layout,
                            std::int64_t begin) {
    constexpr std::int64_t kPool = (1 << 22) + 7919, kPiece = 1 << 20;
    Random random(static_cast<std::uint64_t>(begin));
    std::vector<std::uint16_t> pool(kPool);
    for (std::uint16_t& x : pool) x = bf16_from_f32(static_cast<float>(random.normal()));
    const auto* const from = static_cast<const std::byte*>(device.put(pool.data(), kPool * kBytes));
    const std::int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    auto* const to = static_cast<std::byte*>(device.take(count * kBytes));
    for (std::int64_t at = 0, i = 0; at < count && device.status.ok(); at += kPiece, ++i)
      cudaMemcpyAsync(to + at * kBytes, from + (i * 104729 + begin) % (kPool - kPiece) * kBytes,
                      static_cast<std::size_t>(std::min(kPiece, count - at) * kBytes),
                      cudaMemcpyDeviceToDevice);
    return view_of(to, shape, layout);
  }

  static Status attend(const LargeShape& s, const TensorView& q, const TensorView& k, const TensorView& v,
                       const TensorView& o) {
    Result<AttentionDesc> described = describe(GetParam(), q, k, v);
    if (!described.ok()) return described.status();
    AttentionDesc desc = described.take();
    desc.output = DType::bf16;
    if (s.window >= 0) desc.mask = Mask::causal, desc.window_left = s.window;
    Result<AttentionPlan> plan = AttentionPlan::create(desc);
    if (!plan.ok()) return plan.status();
    DeviceMemory workspace;
    AttentionArgs args;
    args.q.codes = q, args.k.codes = k, args.v.codes = v, args.o = o;
    args.workspace_bytes = plan.value().workspace_bytes();
    args.workspace = workspace.take(args.workspace_bytes);
    if (!workspace.status.ok()) return workspace.status;
    const Status status = plan.value().run(args);
    workspace.wait();
    workspace.look_at_margins();
    return status.ok() ? workspace.status : status;
  }

  static std::vector<std::uint16_t> tokens(const TensorView& x, std::int64_t first, std::int64_t count) {
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(count * x.shape[3]));
    const auto row_bytes = static_cast<std::size_t>(x.shape[3] * kBytes);
    cudaMemcpy2D(rows.data(), row_bytes, static_cast<const std::byte*>(x.data) + first * x.stride[2] * kBytes,
                 static_cast<std::size_t>(x.stride[2] * kBytes), row_bytes, static_cast<std::size_t>(count),
                 cudaMemcpyDeviceToHost);
    return rows;
  }

  static void expect_heads_alone(const LargeShape& s, Layout layout) {
    const std::string name = s.name + std::string(layout == Layout::bshd ? ", tokens before heads" : "");
    DeviceMemory device;
    const std::array<std::int64_t, 4> of_q{s.batch, s.heads, s.tokens_q, s.dim},
        of_k{s.batch, s.heads_kv, s.tokens_k, s.dim};
    const TensorView q = numbers(device, of_q, layout, 1), k = numbers(device, of_k, layout, 2),
                     v = numbers(device, of_k, layout, 3),
                     o = view_of(device.take(s.batch * s.heads * s.tokens_q * s.dim * kBytes), of_q, layout),
                     alone = view_of(device.take(s.tokens_q * s.dim * kBytes), {1, 1, s.tokens_q, s.dim},
                                     Layout::bhsd);
    device.wait();
    ASSERT_TRUE(device.status.ok()) << name << ": " << device.status.message();
    const Status status = attend(s, q, k, v, o);
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    const std::int64_t group = s.heads / s.heads_kv, some = std::min<std::int64_t>(s.tokens_q, 200);
    for (const auto& [b, h] : {std::pair<std::int64_t, std::int64_t>{0, 0},
                               {s.batch / 2, s.heads / 2},
                               {s.batch - 1, s.heads - 1}}) {
      const Status one =
          attend(s, head_of(q, b, h), head_of(k, b, h / group), head_of(v, b, h / group), alone);
      ASSERT_TRUE(one.ok()) << name << ": " << one.message();
      for (const std::int64_t first : {std::int64_t{0}, s.tokens_q - some})
        EXPECT_EQ(tokens(head_of(o, b, h), first, some), tokens(alone, first, some))
            << name << ", head " << h << " of entry " << b << ", tokens from " << first << " on";
    }
    device.look_at_margins();
    EXPECT_TRUE(device.status.ok()) << name << ": " << device.status.message();
  }
};

TEST_P(LargeCalls, GiveAHeadWhatACallOfItsOwnDoes) {
  const Recipe& recipe = scheme_info(GetParam()).recipe;
  if (recipe.q == Granularity::tensor) GTEST_SKIP() << "a head's scales are the tensor's";
  constexpr std::size_t kNeeded = std::size_t{60} << 30;
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  if (free < kNeeded) GTEST_SKIP() << "60 GiB of device memory are needed";
  const LargeShape long_heads{"2^31 elements of each operand", 1, 34, 34, 500000, 500000, 128, 200};
  static_assert(34LL * 500000 * 128 > 1LL << 31);
  expect_heads_alone(long_heads, Layout::bhsd);
  expect_heads_alone(long_heads, Layout::bshd);
  expect_heads_alone({"2^17 entries", 140000, 1, 1, 16, 70, 64, -1}, Layout::bhsd);
  expect_heads_alone({"2^16 - 1 heads", 2, 65535, 65535, 20, 33, 64, -1}, Layout::bhsd);
  expect_heads_alone({"4,500,000 tokens of queries", 1, 1, 1, 4500000, 700, 64, -1}, Layout::bhsd);
}

INSTANTIATE_TEST_SUITE_P(Schemes, LargeCalls, every_scheme(), name_of_scheme);

}  // namespace
}  // namespace octet::testing
