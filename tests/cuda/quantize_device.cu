// The GPU's quantiser against the CPU's: every byte of codes, scales, exponents and means, over formats,
// granularities, smoothing, rotation, equalisation, rules, floors, dtypes, strides, lengths, dims and packed
// sequences, each step in its own launch and short sequences in one; then dequantising, the shared amax, q's
// products with K's mean, and several operands in one call. Prints a line a group and the
// first difference with its place; where there is no GPU it says so and does nothing.
//   quantize_device [--cases N] [--seed N]    N inputs for each recipe
//   quantize_device --time                    GB/s of int8's default recipe beside a plain copy's; 1 where a
//                                             call's Q, K and V have not 80 % of that
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "capi/operands.h"
#include "cuda/quant/quantize.h"
#include "numerics/formats.h"
#include "octet/dtype.hpp"
#include "quant/rows.h"
#include "quantize_runs.cuh"
#include "quantize_time.cuh"

namespace octet {
namespace {

struct Options {
  int cases = 6;
  unsigned seed = 1;
  std::string only;  ///< one part, as sanitizers want; empty: all
  bool times = false;
};

int compare_recipes(const Options& options) {
  const DType formats[] = {DType::s8,  DType::s4,   DType::e4m3, DType::e5m2,
                           DType::f16, DType::bf16, DType::f32,  DType::f64};
  const char* granularities[] = {"tensor", "head", "block", "token", "channel", "block_channel"};
  std::mt19937 generator(options.seed);
  int failed = 0;
  for (const DType format : formats)
    for (int granularity = 0; granularity < 6; ++granularity) {
      const bool has_scales =
          format == DType::s8 || format == DType::s4 || format == DType::e4m3 || format == DType::e5m2;
      if (!has_scales && granularity != 3) continue;
      int bad = 0, ran = 0;
      for (const Smooth smooth : {Smooth::none, Smooth::mean, Smooth::anchor})
        for (const Rotate rotate : {Rotate::off, Rotate::on})
          for (const Equalise equalise : {Equalise::off, Equalise::on})
            for (int i = 0; i < options.cases; ++i) {
              Case c;
              c.recipe.format = format;
              c.recipe.granularity = static_cast<Granularity>(granularity);
              c.recipe.smooth = smooth, c.recipe.rotate = rotate, c.recipe.equalise = equalise;
              draw(c, generator);
              ++ran;
              for (const cuda::Launches launches : {cuda::Launches::fewest, cuda::Launches::one_a_step})
                if (bad < 3 && !runs(c, launches)) ++bad;
            }
      std::printf("%-5s %-13s %d of %d inputs differ\n", dtype_name(format).c_str(),
                  has_scales ? granularities[granularity] : "converted", bad, ran);
      std::fflush(stdout);
      failed += bad;
    }
  return failed;
}

double number_at(const TensorView& x, std::int64_t at) {
  if (x.dtype == DType::f32) return static_cast<const float*>(x.data)[at];
  const std::uint16_t code = static_cast<const std::uint16_t*>(x.data)[at];
  return x.dtype == DType::f16 ? f32_from_f16(code) : f32_from_bf16(code);
}

/// The CPU's order (capi/prepass.cpp): four sums beside each other.
float q_anchor(const TensorView& q, std::int64_t q_at, const TensorView& mean, std::int64_t mean_at,
               float scale) {
  double sum[4] = {};
  const std::int64_t dim = q.shape[3], fours = dim / 4 * 4;
  for (std::int64_t c = 0; c < dim; ++c)
    sum[c < fours ? c % 4 : 0] += number_at(q, q_at + c * q.stride[3]) * number_at(mean, mean_at + c);
  return static_cast<float>(double{scale} * ((sum[0] + sum[1]) + (sum[2] + sum[3])));
}

int compare_q_anchor(unsigned seed) {
  int bad = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t dim : {1, 7, 64, 80, 128})
      for (const bool packed : {false, true}) {
        Case c;
        c.shape = {packed ? 1 : 2, 6, 131, dim};
        c.dtype = dtype, c.data = 1, c.seed = seed, c.input_layout = 1;
        if (packed) c.cu_seqlens = {0, 31, 31, 131};
        const std::int64_t sequences = packed ? 3 : 1, count = packed ? 3 : 2;
        Twin q(input_view(c));
        fill(c, q.host);
        q.buffer.upload();
        Twin mean({nullptr,
                   DType::f32,
                   Device::cpu,
                   {c.shape[0], 2, sequences, dim},
                   {2 * sequences * dim, sequences * dim, dim, 1}});
        for (std::int64_t i = 0; i < c.shape[0] * 2 * sequences * dim; ++i)
          static_cast<float*>(mean.host.data)[i] = std::sin(static_cast<float>(i) * 1.7f);
        mean.buffer.upload();
        Twin out({nullptr, DType::f32, Device::cpu, {c.shape[0], 6, 131, 1}, {6 * 131, 131, 1, 1}});
        Buffer lengths(16);
        std::memcpy(lengths.host(), c.cu_seqlens.data(), c.cu_seqlens.size() * 4);
        lengths.upload();
        const Sequences on_host{count, 131, packed ? c.cu_seqlens.data() : nullptr};
        const Sequences on_device{count, 131,
                                  packed ? static_cast<const std::int32_t*>(lengths.device()) : nullptr};
        for (std::int64_t s = 0; s < count; ++s)
          for (std::int64_t h = 0; h < 6; ++h)
            for (std::int64_t t = 0; t < on_host.length(s); ++t) {
              const std::int64_t b = on_host.batch(s), token = on_host.begin(s) + t;
              static_cast<float*>(out.host.data)[quant::row_offset(out.host, b, h, token)] =
                  q_anchor(q.host, quant::row_offset(q.host, b, h, token), mean.host,
                           quant::row_offset(mean.host, b, h / 3, packed ? s : 0), 0.0884f);
            }
        if (!is_ok(cuda::fill_q_anchor(q.device, on_device, mean.device, 0.0884f, out.device, nullptr), c) ||
            !same("products with K's mean", out, c))
          ++bad;
      }
  std::printf("q_anchor: %d of 30 inputs differ\n", bad);
  return bad;
}

/// Operands that are read once (one_pass.cu): lengths that do not fill their leaves, more and fewer leaves
/// than processors, all dtypes and dims that it takes, and numbers that it leaves to others. And widths
/// that it does not take, of many leaves.
int compare_long(const Options& options) {
  int bad = 0, ran = 0, packed = 0;
  for (const Shape& shape :
       {Shape{1, 5, 14001, 64}, Shape{2, 18, 2000, 128}, Shape{1, 9, 15001, 128}, Shape{2, 24, 3001, 256}})
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const bool is_v : {false, true}) {
        // The largest ones take their time.
        if ((shape[2] == 15001 || shape[3] == 256) && data % 2 == 0) continue;
        Case c = long_case(shape, is_v);
        c.data = data, c.seed = options.seed + static_cast<unsigned>(ran);
        c.dtype = ran / 2 % 2 == 0 ? DType::bf16 : DType::f16;
        if (shape[3] == 256 && data == 3) c.dtype = DType::f32;
        c.input_layout = ran / 4 % 2;
        if (is_v) {
          c.recipe.block_floor_octaves = ran / 3 % 3 * 8;
          c.recipe.block = ran % 4 < 2 ? 128 : 64;
          if (ran % 7 == 3) c.recipe.rule = quant::ScaleRule::sixteenths;
        }
        ++ran;
        if (bad < 5 && !runs(c, cuda::Launches::fewest, &packed)) ++bad;
        // The same with scales of K's key blocks, and of V's heads or their channels.
        if (shape[2] == 15001 || shape[3] == 256) continue;
        c.recipe.block_floor_octaves = 0;
        c.recipe.granularity = !is_v       ? Granularity::block
                               : data == 1 ? Granularity::head
                                           : Granularity::channel;
        c.recipe.block = is_v ? 128 : std::int64_t{128} >> data % 3;
        if (is_v && (data + shape[3] / 64) % 2 == 0) c.recipe.equalise = Equalise::off;
        ++ran;
        if (bad < 5 && !runs(c, cuda::Launches::fewest, &packed)) ++bad;
      }
  // note: not where few inputs are asked for, as by sanitizers, under which kernels hardly run at once.
  if (options.cases > 1) bad += !runs_beside_others(options.seed), ++ran;
  std::printf("long operands: %d of %d inputs differ, %d with packed values\n", bad, ran, packed);
  std::fflush(stdout);
  return bad;
}

/// What has kernels of its own where scales are shared: V that is equalised, with a scale of all, of heads or
/// of their channels, or none (plain_rows.cu), and K by key block, shifted, and rotated or not
/// (encode_tiles.cu). Tokens that fill blocks of threads and that do not, and all kinds of numbers.
int compare_shared_scales(unsigned seed) {
  int bad = 0, ran = 0;
  const auto compare = [&](Case c) {
    c.seed = seed + static_cast<unsigned>(ran);
    c.dtype = ran % 2 == 0 ? DType::bf16 : DType::f16;
    c.input_layout = ran / 2 % 2;
    ++ran;
    if (bad < 5 && !runs(c, cuda::Launches::one_a_step)) ++bad;
  };
  for (const std::int64_t tokens : {1, 128, 197, 3001})
    for (int data = 0; data < 5; ++data) {
      Case c;
      c.data = data, c.recipe.equalise = Equalise::on;
      for (const std::int64_t dim : {8, 64, 256}) {
        c.shape = {2, 3, tokens, dim};
        for (const DType format : {DType::s8, DType::e4m3}) {
          c.recipe.format = format, c.recipe.largest_code = capi::largest_code(format);
          for (const Granularity of : {Granularity::tensor, Granularity::head, Granularity::channel})
            c.recipe.granularity = of, compare(c);
        }
        c.recipe.format = DType::f16, c.recipe.granularity = Granularity::token, compare(c);
      }
      Case k;
      k.data = data, k.recipe.smooth = Smooth::mean, k.recipe.granularity = Granularity::block;
      for (const Rotate rotate : {Rotate::on, Rotate::off})
        for (const std::int64_t dim : {64, 128})
          for (const std::int64_t block : {64, 100, 128, 129}) {
            k.shape = {2, 3, tokens, dim};
            k.recipe.rotate = rotate, k.recipe.block = block, compare(k);
          }
    }
  std::printf("shared scales: %d of %d inputs differ\n", bad, ran);
  std::fflush(stdout);
  return bad;
}

/// Heads, tokens and dims of their own, so that some share a launch, some have another kernel and some are
/// too long for any.
int compare_together(unsigned seed) {
  int bad = 0, ran = 0;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::int64_t dim : {32, 64, 80, 128})
      for (const std::int64_t keys : {1, 49, 197, 600, 1500, 2300})
        for (const Granularity of_k :
             {Granularity::token, Granularity::block, Granularity::channel, Granularity::tensor}) {
          Case c[3];
          for (int i = 0; i < 3; ++i) {
            const std::int64_t queries = keys < 600 ? 33 : keys + 33;
            c[i].shape = {2, i == 0 ? 6 : 3, i == 0 ? queries : keys, i == 2 ? 64 : dim};
            c[i].dtype = dtype, c[i].data = ran % 5, c[i].seed = seed + static_cast<unsigned>(i);
            c[i].recipe.largest_code = 127, c[i].recipe.block = 64;
          }
          c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on;
          c[1].recipe.smooth = Smooth::mean, c[1].recipe.granularity = of_k;
          c[2].recipe.equalise = Equalise::on, c[2].recipe.block_floor_octaves = 8;
          if (of_k == Granularity::tensor)  // qflash's recipe: one scale of each operand, and nothing else
            for (Case& of : c) {
              of.recipe.granularity = of_k, of.recipe.rotate = Rotate::off;
              of.recipe.smooth = Smooth::none, of.recipe.equalise = Equalise::off;
              of.recipe.block_floor_octaves = 0;
            }
          ++ran;
          bad += !runs_together(c);
        }
  std::printf("three operands: %d of %d inputs differ\n", bad, ran);
  std::fflush(stdout);
  return bad;
}

/// K and V that are read once, by one kernel (one_pass.cu), beside Q of as many tokens and without it: scales
/// of tokens, with floors and without, of K's key blocks and of V's channels and heads, of all kinds of
/// numbers. Then V of other channels than K, which has a kernel of its own.
int compare_long_together(const Options& options) {
  int bad = 0, ran = 0;
  ForAttention written;
  for (const Shape& keys : {Shape{2, 18, 2000, 128}, Shape{2, 18, 4500, 64}, Shape{1, 9, 8100, 64}})
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const bool is_of_tokens : {true, false}) {
        Case c[3];
        for (int i = 0; i < 3; ++i) {
          c[i].shape = keys, c[i].data = data, c[i].seed = options.seed + static_cast<unsigned>(3 * ran + i);
          c[i].dtype = ran % 3 == 0 ? DType::f16 : DType::bf16, c[i].input_layout = ran / 4 % 2;
          c[i].recipe.largest_code = 127, c[i].recipe.block = 128;
        }
        if ((data % 2 == 0) == is_of_tokens) c[0].shape[2] = 40;  // which others take, before or after
        if (keys[1] == 9) c[2].shape[3] = 128;
        c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on, c[1].recipe.smooth = Smooth::mean;
        c[2].recipe.equalise = Equalise::on;
        if (is_of_tokens) {
          c[2].recipe.block_floor_octaves = data % 3 * 10;
        } else {
          c[1].recipe.granularity = Granularity::block, c[1].recipe.block = std::int64_t{128} >> data % 3;
          c[2].recipe.granularity = data % 2 == 0 ? Granularity::channel : Granularity::head;
          if (data == 3) c[2].recipe.equalise = Equalise::off;
        }
        ++ran;
        if (bad < 5 && !runs_together(c, &written)) ++bad;
      }
  std::printf("long operands together: %d of %d inputs differ, %d with packed values\n", bad, ran,
              written.values);
  bad += written.values == 0;
  std::fflush(stdout);
  return bad;
}

struct Lengths {
  std::int64_t batch, heads, heads_kv, queries, keys, dim;
};

/// int8's operands, and those of schemes with scales of more tokens: what one launch gives beside a launch a
/// step.
int compare_lengths(const Options& options, const char* what, std::span<const Lengths> lengths,
                    ForAttention* written) {
  int bad = 0, ran = 0;
  // Five kinds of recipes, and as many kinds of numbers: each kind with each.
  for (const Lengths& of : lengths)
    for (int data = 0; data < std::min(options.cases, 5); ++data)
      for (const std::int64_t block : {128, 112}) {
        Case c[3];
        for (int i = 0; i < 3; ++i) {
          c[i].shape = {of.batch, i == 0 ? of.heads : of.heads_kv, i == 0 ? of.queries : of.keys, of.dim};
          c[i].dtype = ran % 2 == 0 ? DType::bf16 : DType::f16, c[i].data = data;
          c[i].seed = options.seed + static_cast<unsigned>(3 * ran + i), c[i].input_layout = ran / 2 % 2;
          c[i].recipe.largest_code = 127;
          c[i].recipe.block = block == 128 && ran % 3 == 0 ? 32 : block;
          if (block == 112 && ran % 4 == 3) c[i].recipe.block = ran % 8 == 3 ? 100 : 48;
        }
        const int kind = (ran + data) % 5;
        c[2].recipe.equalise = Equalise::on;
        if (kind != 2)
          c[0].recipe.rotate = c[1].recipe.rotate = Rotate::on, c[1].recipe.smooth = Smooth::mean;
        if (kind > 2) {
          c[1].recipe.granularity = Granularity::block;
          c[2].recipe.granularity = kind == 3 ? Granularity::channel : Granularity::head;
          if (ran % 2 == 1) c[2].recipe.equalise = Equalise::off;
        } else {
          c[2].recipe.block_floor_octaves = ran % 4 * 5;
        }
        // Windows' K may be shifted alone, as integer's is.
        if (of.dim == 32 && kind == 2)
          c[1].recipe.smooth = Smooth::mean, c[2].recipe.rule = quant::ScaleRule::sixteenths;
        ++ran;
        if (bad < 5 && !runs_together(c, written)) ++bad;
      }
  std::printf("%s: %d of %d inputs differ\n", what, bad, ran);
  std::fflush(stdout);
  return bad;
}

/// What blocks of threads hold (held_sequences.cu): one block a sequence, of one leaf to four, and clusters
/// of up to eight; floors of groups that end with a block's turns, that do not, and none.
int compare_held(const Options& options) {
  constexpr Lengths kHeld[] = {
      {2, 6, 3, 600, 600, 64},   {1, 8, 2, 1024, 1024, 128}, {1, 8, 2, 1, 2048, 128},
      {1, 4, 4, 4096, 4000, 64}, {1, 4, 2, 300, 1999, 64},   {1, 2, 2, 513, 513, 128},
      {30, 3, 3, 197, 197, 64},  {30, 3, 3, 130, 257, 64},   {23, 4, 4, 512, 511, 64},
      {45, 2, 2, 77, 128, 128},  {45, 2, 2, 200, 250, 128},  {130, 2, 1, 2, 127, 64},
      {1, 3, 3, 197, 197, 64},   {1, 12, 12, 384, 384, 64}};
  ForAttention written;
  const int bad = compare_lengths(options, "held sequences", kHeld, &written);
  std::printf("of which with packed values: %d, operands with constants: %d\n", written.values,
              written.constants);
  return bad + (written.values == 0 || written.constants == 0 ? 1 : 0);
}

/// Those of windows (windows.cu).
int compare_windows(const Options& options) {
  constexpr Lengths kWindows[] = {
      {64, 3, 3, 49, 49, 32}, {40, 4, 2, 64, 63, 32}, {2, 3, 3, 1, 33, 32}, {3, 2, 2, 50, 17, 32}};
  return compare_lengths(options, "windows", kWindows, nullptr);
}

int compare_amax(unsigned seed) {
  int bad = 0;
  for (int data = 0; data < 5; ++data) {
    Case c;
    c.shape = {2, 3, 197, 64}, c.data = data, c.seed = seed, c.dtype = DType::bf16;
    Twin x(input_view(c));
    fill(c, x.host);
    c.dtype = DType::f32, c.shape = {1, 2, 49, 32}, c.input_layout = 3, ++c.seed;
    Twin y(input_view(c));
    fill(c, y.host);
    x.buffer.upload(), y.buffer.upload();
    float expected = 0;
    for (const Twin* twin : {&x, &y})
      for (std::int64_t i = 0; i < twin->host.shape[0] * twin->host.shape[1] * twin->host.shape[2]; ++i)
        for (std::int64_t d = 0; d < twin->host.shape[3]; ++d) {
          const TensorView& v = twin->host;
          const std::int64_t t = i % v.shape[2], h = i / v.shape[2] % v.shape[1],
                             b = i / v.shape[2] / v.shape[1];
          const auto a = static_cast<float>(std::fabs(number_at(v, quant::row_offset(v, b, h, t) + d)));
          if (std::isfinite(a)) expected = std::max(expected, a);
        }
    Twin out({nullptr, DType::f32, Device::cpu, {1, 1, 1, 1}, {1, 1, 1, 1}});
    *static_cast<float*>(out.host.data) = expected;
    const TensorView tensors[] = {x.device, y.device};
    if (!is_ok(cuda::finite_amax(tensors, static_cast<float*>(out.device.data), nullptr), c) ||
        !same("amax", out, c))
      ++bad;
  }
  std::printf("amax of several tensors: %d of 5 inputs differ\n", bad);
  return bad;
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  octet::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--time") options.times = true;
    if (argument == "--cases" && i + 1 < argc) options.cases = std::atoi(argv[++i]);
    if (argument == "--seed" && i + 1 < argc) options.seed = static_cast<unsigned>(std::atoi(argv[++i]));
    if (argument == "--only" && i + 1 < argc) options.only = argv[++i];
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: this machine has no CUDA device");
    return 0;
  }
  if (options.times) {
    const bool heads_first = octet::time_default_recipe(false),
               tokens_first = octet::time_default_recipe(true);
    return heads_first && tokens_first ? 0 : 1;
  }
  std::printf("seed %u, %d inputs a recipe\n", options.seed, options.cases);
  const std::pair<const char*, int (*)(const octet::Options&)> parts[] = {
      {"long",
       [](const octet::Options& o) { return octet::compare_long(o) + octet::compare_long_together(o); }},
      {"shared", [](const octet::Options& o) { return octet::compare_shared_scales(o.seed); }},
      {"held", [](const octet::Options& o) { return octet::compare_held(o); }},
      {"windows", [](const octet::Options& o) { return octet::compare_windows(o); }},
      {"amax", [](const octet::Options& o) { return octet::compare_amax(o.seed); }},
      {"together", [](const octet::Options& o) { return octet::compare_together(o.seed); }},
      {"anchor", [](const octet::Options& o) { return octet::compare_q_anchor(o.seed); }},
      {"recipes", [](const octet::Options& o) { return octet::compare_recipes(o); }}};
  int failed = 0, ran = 0;
  for (const auto& [name, compare] : parts)
    if (options.only.empty() || options.only == name) failed += compare(options), ++ran;
  if (ran == 0) {
    std::printf("--only is %s; choose long, shared, held, windows, amax, together, anchor or recipes\n",
                options.only.c_str());
    return 2;
  }
  std::printf("%d inputs failed\n", failed);
  return failed != 0;
}
