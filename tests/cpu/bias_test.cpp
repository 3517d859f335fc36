// Biases and masks on every instruction set against the reference: every type and layout, rows and blocks
// that are hidden in part and wholly, values that leave the 16-bit forms. The integer schemes bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/formats.h"
#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A bias in a type and layout, whose gaps and margins hold NaN, or true in a mask: what must not be read.
class StoredBias {
 public:
  struct Layout {
    const char* name;
    std::array<std::int64_t, 4> shape;  ///< of the problem's, or 1
    std::array<std::int64_t, 4> stride;
  };

  /// value(b, h, i, j): the number, or whether the key is visible: -inf and anything else.
  template <class F>
  StoredBias(DType type, const Layout& layout, const F& value)
      : type_(type), layout_(layout), memory_(element_bytes() * elements(), std::byte{0xff}) {
    for (std::int64_t b = 0; b < layout.shape[0]; ++b)
      for (std::int64_t h = 0; h < layout.shape[1]; ++h)
        for (std::int64_t i = 0; i < layout.shape[2]; ++i)
          for (std::int64_t j = 0; j < layout.shape[3]; ++j)
            put(b * layout.stride[0] + h * layout.stride[1] + i * layout.stride[2] + j * layout.stride[3],
                value(b, h, i, j));
  }

  TensorView view() {
    return {memory_.data() + kMargin * element_bytes(), type_, Device::cpu, layout_.shape, layout_.stride};
  }

 private:
  static constexpr std::size_t kMargin = 64;

  std::size_t element_bytes() const { return type_ == DType::boolean ? 1 : type_ == DType::f32 ? 4 : 2; }
  std::size_t elements() const {
    std::int64_t last = 0;
    for (std::size_t a = 0; a < 4; ++a) last += (layout_.shape[a] - 1) * layout_.stride[a];
    return 2 * kMargin + static_cast<std::size_t>(last) + 1;
  }
  void put(std::int64_t at, float x) {
    std::byte* to = memory_.data() + (kMargin + static_cast<std::size_t>(at)) * element_bytes();
    const std::uint16_t half = type_ == DType::f16 ? f16_from_f32(x) : bf16_from_f32(x);
    const std::uint8_t visible = x != kMinusInfinity;
    const void* from = type_ == DType::f32    ? static_cast<const void*>(&x)
                       : element_bytes() == 2 ? static_cast<const void*>(&half)
                                              : &visible;
    std::memcpy(to, from, element_bytes());
  }

  DType type_;
  Layout layout_;
  std::vector<std::byte> memory_;
};

std::vector<StoredBias::Layout> layouts(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) {
  return {{"contiguous", {b, h, m, n}, {h * m * n, m * n, n, 1}},
          {"gaps after rows", {b, h, m, n}, {h * m * (n + 5), m * (n + 5), n + 5, 1}},
          {"gaps after keys", {b, h, m, n}, {h * m * n * 3, m * n * 3, n * 3, 3}},
          {"transposed", {b, h, m, n}, {h * m * n, m * n, 1, m}},
          {"heads inside", {b, h, m, n}, {m * n * h, 1, n * h, h}},
          {"one for all heads", {b, 1, m, n}, {m * n, 0, n, 1}},
          {"one for all windows", {1, h, m, n}, {0, m * n, n, 1}},
          {"one for all queries", {b, 1, 1, n}, {n, n, n, 1}},
          {"one for all keys", {b, h, m, 1}, {h * m, m, 1, 1}},
          {"stride 0 along heads and queries", {b, h, m, n}, {n, 0, 0, 1}},
          {"stride 0 along keys", {b, h, m, n}, {h * m, m, 1, 0}}};
}

StoredBias::Layout row_major(std::int64_t m, std::int64_t n) {
  return {"", {1, 1, m, n}, {m * n, m * n, n, 1}};
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::boolean};

/// N(0, 1), and -inf for every eighth on average.
struct Noise {
  mutable Random random{7};
  float operator()(std::int64_t, std::int64_t, std::int64_t, std::int64_t) const {
    const double x = random.normal();
    return random.unit() < 0.125 ? kMinusInfinity : static_cast<float>(x);
  }
};

/// Those with a form in words, and qflash; f32 itself has few digits left where biases are large.
const std::vector<Scheme>& of_integers() {
  static const std::vector<Scheme> some{Scheme::int8, Scheme::int8_shift, Scheme::int4, Scheme::integer,
                                        Scheme::qflash};
  return some;
}

class CpuBias : public OnSet {
 protected:
  /// An f32 bias for all heads.
  template <class F>
  void expect_reference_with(const std::vector<Scheme>& some, Call call, const std::string& what,
                             const F& value) const {
    StoredBias bias(DType::f32, row_major(call.q.size(2), call.k.size(2)), value);
    call.any_bias = bias.view();
    expect_reference(some, call, what);
  }
  template <class F>
  void expect_reference_with(const Call& call, const std::string& what, const F& value) const {
    expect_reference_with(schemes(), call, what, value);
  }
};

TEST_P(CpuBias, IsReadInEveryTypeAndLayout) {
  Call call = normal_call(2, 2, 13, 150, 16);
  for (DType type : kTypes) {
    for (const StoredBias::Layout& layout : layouts(2, 2, 13, 150)) {
      StoredBias bias(type, layout, Noise{});
      call.any_bias = bias.view();
      expect_reference(call, std::string(name_of(type)) + " " + layout.name);
    }
  }
}

TEST_P(CpuBias, IsReadAtEveryLength) {
  for (DType type : kTypes) {
    for (std::int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 49, 63, 64, 65, 127, 128, 129, 197}) {
      Call call = normal_call(1, 1, n % 11 + 1, n, 16, static_cast<std::uint64_t>(n));
      StoredBias bias(type, row_major(n % 11 + 1, n), Noise{});
      call.any_bias = bias.view();
      expect_reference(call, std::string(name_of(type)) + ", keys " + std::to_string(n));
    }
  }
}

/// Subnormals among them: the set's decoder against the reference's.
TEST_P(CpuBias, DecodesEveryF16) {
  constexpr std::int64_t kRows = 64, kKeys = 1024;
  Call call = normal_call(1, 1, kRows, kKeys, 8);
  std::vector<std::uint16_t> codes(kRows * kKeys);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  for (std::uint16_t& code : codes)
    if (!(std::fabs(f32_from_f16(code)) <= 300)) code = static_cast<std::uint16_t>(code & 0x83ff);
  call.any_bias = view_bhsd(codes.data(), DType::f16, {1, 1, kRows, kKeys});
  expect_reference(Scheme::integer, call, "every f16 up to 300");
  expect_reference(Scheme::f32, call, "every f16 up to 300");
}

TEST_P(CpuBias, HidesRowsBlocksAndEndsOfThem) {
  for (std::int64_t n : {49, 200, 300}) {
    const Call call = normal_call(1, 2, 30, n, 16);
    const std::string keys = ", keys " + std::to_string(n);
    expect_reference_with(call, "rows without keys" + keys, [](auto, auto, std::int64_t i, std::int64_t) {
      return i % 3 == 0 || i >= 24 ? kMinusInfinity : 0.5f;
    });
    expect_reference_with(call, "the first keys" + keys, [](auto, auto, std::int64_t i, std::int64_t j) {
      return j < 7 * i ? kMinusInfinity : 0.25f;
    });
    expect_reference_with(call, "the last keys" + keys, [n](auto, auto, std::int64_t i, std::int64_t j) {
      return j >= n - 7 * i ? kMinusInfinity : 0.25f;
    });
    expect_reference_with(call, "all but one key" + keys, [n](auto, auto, std::int64_t i, std::int64_t j) {
      return j != (i * 37) % n ? kMinusInfinity : -3.0f;
    });
    expect_reference_with(call, "all but both ends" + keys, [n](auto, auto, std::int64_t i, std::int64_t j) {
      return j > i % 4 && j < n - 1 - i % 5 ? kMinusInfinity : 0.0f;
    });
  }
}

TEST_P(CpuBias, JoinsOtherMasks) {
  Call call = normal_call(1, 2, 150, 200, 16);
  call.options.mask = Mask::causal;
  expect_reference_with(call, "causal", Noise{});
  call.options.mask = Mask::none, call.options.window_left = 21, call.options.window_right = 9;
  expect_reference_with(call, "window", Noise{});
  call.options.key_block = 64;
  expect_reference_with(call, "window, key block 64", Noise{});
}

/// Hidden keys that would win, were they seen.
TEST_P(CpuBias, HidesTheLargestScores) {
  Call call = normal_call(1, 1, 20, 130, 32);
  call.k.each([](float& x, auto, auto, std::int64_t t, auto) { x *= t % 5 == 2 ? 8.0f : 1.0f; });
  expect_reference_with(call, "loud keys", [](auto, auto, std::int64_t, std::int64_t j) {
    return j % 5 == 2 ? kMinusInfinity : 0.0f;
  });
}

/// The nearest key may lie farther from the largest accumulator than the 16 bits of `integer` reach. Scores
/// in steps of a fraction of an octave, whatever the mantissa of an accumulator's unit; the largest of them
/// lie behind a bias.
TEST_P(CpuBias, LeavesWordsWhereTheyDoNotReach) {
  constexpr std::int64_t kRows = 24, kKeys = 128, kDim = 32;
  Call call = normal_call(1, 1, kRows, kKeys, kDim);
  call.options.softmax_scale = 1.0f / kDim;
  const auto octaves_a_key = [](std::int64_t row) { return 0.4 * std::exp2(static_cast<double>(row) / 12); };
  call.q.each([&](float& x, auto, auto, std::int64_t i, auto) {
    x = static_cast<float>(octaves_a_key(i) / double{kLog2E});
  });
  call.k.each([](float& x, auto, auto, std::int64_t j, auto) {
    x = static_cast<float>(j) - static_cast<float>(kKeys - 1) / 2;
  });
  for (double far = 4; far < 72; far += 3) {
    expect_reference_with(of_integers(), call, std::to_string(far) + " octaves",
                          [&](auto, auto, std::int64_t i, std::int64_t j) {
                            const double below = octaves_a_key(i) * static_cast<double>(kKeys - 1 - j);
                            return below < far ? -300.0f : 0.0f;
                          });
  }
}

/// All that a row sees scores as low as its numbers allow: a hidden key is lower still.
TEST_P(CpuBias, HidesKeysBelowTheLowestScores) {
  constexpr std::int64_t kDim = 32;
  for (double octaves = 200; octaves < 262; octaves += 1.5) {
    Call call = normal_call(1, 1, 12, 128, kDim);
    call.options.softmax_scale = 1.0f;
    call.options.recipe = default_recipe_of(Scheme::int8).take();
    call.options.recipe->rotate = Rotate::off;  // so that a score can be as large as |q| allows
    const auto size = static_cast<float>(std::sqrt(octaves / (kDim * kLog2E)));
    call.q.each([&](float& x, auto...) { x = size; });
    call.k.each([&](float& x, auto, auto, std::int64_t t, auto) { x = t % 2 ? -size : size; });
    expect_reference_with(
        {Scheme::int8, Scheme::int8_shift}, call, std::to_string(octaves) + " octaves",
        [](auto, auto, std::int64_t, std::int64_t j) { return j % 2 ? 0.0f : kMinusInfinity; });
  }
}

TEST_P(CpuBias, TakesLargeNumbers) {
  for (float far : {-100.0f, -1e4f, -1e9f, -1e30f, 1e3f, 1e4f}) {
    const Call call = normal_call(1, 1, 20, 200, 32);
    const std::string what = std::to_string(far);
    expect_reference_with(
        of_integers(), call, what + " for some keys",
        [&](auto, auto, std::int64_t i, std::int64_t j) { return (i + j) % 3 ? 0.0f : far; });
    if (std::fabs(far) < 1e5f)  // beyond, the schemes of floats have no scores left
      expect_reference_with(
          call, what + " for rows and a block",
          [&](auto, auto, std::int64_t i, std::int64_t j) { return i % 4 == 1 || j < 128 ? far : 0.0f; });
  }
}

/// f32's lowest number is what masks are made of: it is no -inf, and a row or a block may have nothing else.
TEST_P(CpuBias, TakesTheLowestNumberForAMask) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  Call call = normal_call(1, 1, 20, 300, 32);
  StoredBias bias(DType::f32, row_major(20, 300), [](auto, auto, std::int64_t i, std::int64_t j) {
    return i % 4 == 1 || j < 128 || j % 5 == i % 5 ? kLowest : 0.5f;
  });
  call.any_bias = bias.view();
  expect_reference(call, "the lowest number for rows, a block and some keys");
  // Against exact, but for rows of nothing else: their scores drown in that number.
  const auto seeing = [](Tensor o) {
    o.each([](float& x, auto, auto, std::int64_t i, auto) { x = i % 4 == 1 && std::isfinite(x) ? 0.0f : x; });
    return o;
  };
  const Output exact = run(call, Scheme::exact);
  ASSERT_TRUE(exact.status.ok());
  for (Scheme scheme : schemes()) {
    if (!has(scheme)) continue;
    call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output got = run(call, scheme);
    if (got.status.code() == Code::unsupported) continue;
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    EXPECT_LE(relative_error(seeing(got.o), seeing(exact.o)), tolerance(scheme).o)
        << scheme_info(scheme).name;
  }
}

/// NaN adds what the reference adds: the saturated bias of `integer`, NaN of float schemes' rows.
TEST_P(CpuBias, TreatsNanAsTheReferenceDoes) {
  Call call = normal_call(1, 1, 14, 150, 16);
  const auto value = [](auto, auto, std::int64_t i, std::int64_t j) {
    if (i == 3 && j == 70) return kNaN;
    if (i == 5 && j >= 128) return kNaN;
    return i == 8 ? kNaN : i == 9 && j % 2 ? kMinusInfinity : 0.5f;
  };
  StoredBias bias(DType::f32, row_major(14, 150), value);
  call.any_bias = bias.view();
  expect_reference(Scheme::integer, call, "NaN");
  expect_reference(Scheme::qflash, call, "NaN");
  for (Scheme scheme : {Scheme::f32, Scheme::bf16, Scheme::int8, Scheme::int8_shift, Scheme::int4}) {
    if (!has(scheme)) continue;
    call.options.backend = "reference";
    const Output want = run(call, scheme);
    call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output got = run(call, scheme);
    ASSERT_TRUE(want.status.ok() && got.status.ok());
    for (std::int64_t i = 0; i < 14; ++i)
      EXPECT_EQ(std::isnan(got.o.at(0, 0, i, 0)), std::isnan(want.o.at(0, 0, i, 0)))
          << scheme_info(scheme).name << ", row " << i;
  }
}

TEST_P(CpuBias, StaysWithinTheBound) {
  for (Scheme scheme :
       {Scheme::f32, Scheme::bf16, Scheme::int8, Scheme::int8_shift, Scheme::int4, Scheme::integer}) {
    if (!has(scheme)) continue;
    for (DType type : kTypes) {
      Call call = normal_call(1, 1, 49, 197, 32);
      StoredBias bias(type, row_major(49, 197), Noise{});
      call.any_bias = bias.view();
      const Output exact = run(call, Scheme::exact), bound = error_bound(call, scheme);
      call.options.backend = std::string(cpu::name_of(GetParam()));
      const Output got = run(call, scheme);
      ASSERT_TRUE(exact.status.ok() && bound.status.ok() && got.status.ok());
      for (std::int64_t i = 0; i < 49; ++i)
        for (std::int64_t c = 0; c < 32; ++c)
          EXPECT_LE(std::fabs(got.o.at(0, 0, i, c) - exact.o.at(0, 0, i, c)), bound.o.at(0, 0, i, c))
              << scheme_info(scheme).name << " " << name_of(type) << ", row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, CpuBias, every_set(), name_of_set);

}  // namespace
}  // namespace octet::testing
