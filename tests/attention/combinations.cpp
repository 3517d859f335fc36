#include "tests/attention/combinations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "core/schemes.h"
#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::testing {
namespace {

/// Draws; what they came to is written down.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  /// 0 .. count - 1, all alike.
  std::int64_t below(std::int64_t count) {
    return std::min(count - 1, static_cast<std::int64_t>(random_.unit() * static_cast<double>(count)));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <class T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }
  /// 1 .. most, short ones as often as long ones.
  std::int64_t length(std::int64_t most) {
    return static_cast<std::int64_t>(std::exp(random_.uniform(0, std::log(static_cast<double>(most) + 1))));
  }
  Random& random() { return random_; }

 private:
  Random random_;
};

/// As the command line has it.
template <class Enum>
const char* spelled(octet_enum which, Enum value) {
  return enum_name(which, static_cast<std::int32_t>(value));
}

Granularity any_granularity(Dice& dice, GranularitySet set) {
  std::vector<Granularity> accepted;
  for (const Granularity g : {Granularity::tensor, Granularity::head, Granularity::block, Granularity::token,
                              Granularity::channel, Granularity::block_channel})
    if (contains(set, g)) accepted.push_back(g);
  return accepted.empty()
             ? Granularity::token
             : accepted[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(accepted.size())))];
}

Recipe any_recipe(Dice& dice, const SchemeInfo& info) {
  Recipe recipe = info.recipe;
  if (info.q_set) recipe.q = any_granularity(dice, info.q_set);
  if (info.k_set) recipe.k = any_granularity(dice, info.k_set);
  if (info.v_set) recipe.v = any_granularity(dice, info.v_set);
  if (info.smooths) recipe.smooth = dice.any_of({Smooth::none, Smooth::mean, Smooth::anchor});
  if (info.rotates) recipe.rotate = dice.any_of({Rotate::off, Rotate::on});
  if (info.equalises) recipe.equalise = dice.any_of({Equalise::off, Equalise::on});
  return recipe;
}

SchemeOptions any_options(Dice& dice, const OptionSet& has) {
  SchemeOptions options;
  if (has.row_sum) options.row_sum = dice.any_of({options.row_sum, SchemeOptions::RowSum::codes});
  if (has.table) {
    options.table = dice.any_of(
        {SchemeOptions::Table::direct, SchemeOptions::Table::linear, SchemeOptions::Table::range});
    options.table_bits = static_cast<std::int32_t>(3 + dice.below(14));
  }
  if (has.quotient) options.quotient = dice.any_of({options.quotient, SchemeOptions::Quotient::divide});
  if (has.rescale) options.rescale = dice.any_of({options.rescale, SchemeOptions::Rescale::accumulate});
  return options;
}

Layout any_layout(Dice& dice) {
  return dice.any_of({Layout::bhsd, Layout::bhsd, Layout::bshd, Layout::gapped});
}

/// Numbers of an operand: N(0, 1), and sometimes a few large ones, a constant in every channel, tokens of
/// very different size, tokens of zeros.
void fill(Dice& dice, Tensor& x) {
  x.fill_normal(dice.random());
  const std::int64_t kind = dice.below(8);
  if (kind > 3) return;
  Random& random = dice.random();
  std::vector<float> of_channel(static_cast<std::size_t>(x.size(3))),
      of_token(static_cast<std::size_t>(x.size(2)));
  for (float& value : of_channel) value = static_cast<float>(3 * random.normal());
  for (float& value : of_token) value = static_cast<float>(std::exp(1.5 * random.normal()));
  x.each([&](float& value, auto, auto, std::int64_t t, std::int64_t c) {
    if (kind == 0 && random.unit() < 0.002) value += static_cast<float>(20 * random.normal());
    if (kind == 1) value += of_channel[static_cast<std::size_t>(c)];
    if (kind == 2) value *= of_token[static_cast<std::size_t>(t)];
    if (kind == 3 && of_token[static_cast<std::size_t>(t)] < 0.5f) value = 0;
  });
}

float rounded_to(DType dtype, float x) {
  if (dtype == DType::f16) return f32_from_f16(f16_from_f32(x));
  return dtype == DType::bf16 ? f32_from_bf16(bf16_from_f32(x)) : x;
}

/// Where sequences begin, and the end of the last: some are empty.
std::vector<std::int32_t> any_starts(Dice& dice, std::int64_t sequences, std::int64_t tokens) {
  std::vector<std::int32_t> starts{0, static_cast<std::int32_t>(tokens)};
  for (std::int64_t i = 1; i < sequences; ++i) {
    const std::int32_t again = starts[static_cast<std::size_t>(dice.below(i + 1))];
    starts.push_back(dice.one_in(4) ? again : static_cast<std::int32_t>(dice.below(tokens + 1)));
  }
  std::sort(starts.begin(), starts.end());
  return starts;
}

/// Additive or boolean, by head, batch entry and row or shared by all of them.
void add_any_bias(Dice& dice, bool additive, Combination& made, std::ostream& what) {
  Call& call = made.call;
  const std::int64_t b = dice.any_of({std::int64_t{1}, call.q.size(0)}),
                     h = dice.any_of({std::int64_t{1}, call.q.size(1)}),
                     m = dice.one_in(4) ? 1 : call.q.size(2), n = call.k.size(2);
  const double hidden = dice.any_of({0.0, 0.1, 0.6}), size = dice.any_of({0.3, 1.0, 6.0});
  const bool hides_ends = dice.one_in(3);  // as the padding of a batch does
  const auto is_hidden = [&](std::int64_t j) {
    return dice.random().unit() < hidden || (hides_ends && 3 * j > 2 * n);
  };
  const DType dtype = additive ? dice.any_of({DType::f32, DType::f16, DType::bf16}) : DType::boolean;
  what << (additive ? ", bias of " : ", mask of ") << name_of(dtype) << " [" << b << ", " << h << ", " << m
       << "]";
  if (dtype == DType::f32) {
    call.bias = Tensor(b, h, m, n, any_layout(dice));
    call.bias.each([&](float& x, auto, auto, auto, std::int64_t j) {
      x = is_hidden(j) ? kMinusInfinity : static_cast<float>(size * dice.random().normal());
    });
    return;
  }
  made.bias_memory = std::make_shared<std::vector<std::uint16_t>>(static_cast<std::size_t>(b * h * m * n));
  call.any_bias = view_bhsd(made.bias_memory->data(), dtype, {b, h, m, n});
  auto* const flags = reinterpret_cast<std::uint8_t*>(made.bias_memory->data());
  for (std::int64_t i = 0; i < b * h * m * n; ++i) {
    const bool hides = is_hidden(i % n);
    const float x = hides ? kMinusInfinity : static_cast<float>(size * dice.random().normal());
    if (dtype == DType::boolean)
      flags[i] = hides ? 0 : 1;
    else
      (*made.bias_memory)[static_cast<std::size_t>(i)] =
          dtype == DType::f16 ? f16_from_f32(x) : bf16_from_f32(x);
  }
}

std::int64_t any_dim(Dice& dice) {
  return dice.one_in(3) ? 1 + dice.below(256) : dice.any_of<std::int64_t>({16, 32, 64, 64, 80, 96, 128});
}

}  // namespace

Combination combination(Scheme scheme, std::uint64_t seed) {
  const SchemeInfo& info = scheme_info(scheme);
  Dice dice(seed * 64 + static_cast<std::uint64_t>(scheme));
  Combination made;
  Call& call = made.call;
  const bool is_packed = dice.one_in(4);
  const std::int64_t batch = is_packed ? 1 : 1 + dice.below(2), heads = 1 + dice.below(3),
                     group = dice.any_of<std::int64_t>({1, 1, 2, 5}), rows = dice.length(200),
                     keys = dice.one_in(4) ? rows : dice.length(1100), dim = any_dim(dice),
                     dim_v = dice.one_in(4) ? any_dim(dice) : dim;
  call.q = Tensor(batch, heads * group, rows, dim, any_layout(dice));
  call.k = Tensor(batch, heads, keys, dim, any_layout(dice));
  call.v = Tensor(batch, heads, keys, dim_v, any_layout(dice));
  call.output_layout = any_layout(dice);
  for (Tensor* x : {&call.q, &call.k, &call.v}) fill(dice, *x);
  std::ostringstream what;
  what << "seed " << seed << ": " << batch << " x " << heads * group << " (" << heads << ") x " << rows
       << " x " << keys << " x " << dim << " (" << dim_v << ")";
  call.storage = dice.any_of({DType::f32, DType::f32, DType::f16, DType::bf16});
  for (Tensor* x : {&call.q, &call.k, &call.v})
    x->each([&](float& value, auto...) { value = rounded_to(call.storage, value); });
  what << ", " << name_of(call.storage);
  if (is_packed) {
    const std::int64_t sequences = 1 + dice.below(4);
    call.cu_q = any_starts(dice, sequences, rows), call.cu_k = any_starts(dice, sequences, keys);
    what << ", " << sequences << " sequences";
  }
  if (dice.one_in(3)) call.options.mask = Mask::causal, what << ", causal";
  if (dice.one_in(4)) {
    call.options.window_left = dice.length(keys + 1) - 1;
    if (call.options.mask == Mask::none) call.options.window_right = dice.length(keys + 1) - 1;
    what << ", window " << call.options.window_left << " " << call.options.window_right;
  }
  if (dice.one_in(2)) {
    call.options.key_block = dice.any_of<std::int64_t>({16, 48, 64, 96, 112, 256, 512, 1024});
    what << ", key block " << call.options.key_block;
  }
  if (dice.one_in(4)) {
    call.options.softmax_scale = static_cast<float>(std::exp(dice.random().uniform(-7, 1)));
    what << ", softmax_scale " << *call.options.softmax_scale;
  }
  if (dice.one_in(2)) {
    const Recipe recipe = any_recipe(dice, info);
    call.options.recipe = recipe;
    what << ", scales by " << name_of(recipe.q) << " " << name_of(recipe.k) << " " << name_of(recipe.v)
         << ", smooth " << name_of(recipe.smooth) << ", rotate " << spelled(OCTET_ENUM_ROTATE, recipe.rotate)
         << ", equalise " << spelled(OCTET_ENUM_EQUALISE, recipe.equalise);
  }
  if (dice.one_in(2)) {
    SchemeOptions& options = call.options.scheme_options;
    options = any_options(dice, info.options);
    if (info.options.table)
      what << ", table " << spelled(OCTET_ENUM_TABLE, options.table) << " of " << options.table_bits;
    if (info.options.row_sum) what << ", row sum of " << spelled(OCTET_ENUM_ROW_SUM, options.row_sum);
    if (info.options.quotient) what << ", " << spelled(OCTET_ENUM_QUOTIENT, options.quotient);
    if (info.options.rescale) what << ", " << spelled(OCTET_ENUM_RESCALE, options.rescale);
  }
  if (dice.one_in(3)) add_any_bias(dice, info.additive_bias && dice.one_in(2), made, what);
  made.what = what.str();
  return made;
}

std::string fault_in(const Combination& made, Scheme scheme, Output got) {
  if (!got.o.intact() || !got.lse.intact()) return "written outside the output";
  Call call = made.call;
  call.storage = DType::f32, call.options.backend.clear();  // inputs are the same numbers
  const Output bound = error_bound(call, scheme);
  call.options.recipe.reset(), call.options.scheme_options = {};
  const Output exact = run(call, Scheme::exact);
  if (!bound.status.ok() || !exact.status.ok()) return bound.status.message() + exact.status.message();
  // Half a step of the type: of a number, and of the least ones.
  const DType type = made.call.storage;
  const double relative = type == DType::f16    ? 0x1p-11
                          : type == DType::bf16 ? 0x1p-8
                                                : 0,
               least = type == DType::f16 ? 0x1p-25 : 0;
  std::ostringstream fault;
  got.o.each([&](float& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    const double want = exact.o.at(b, h, i, c), most = bound.o.at(b, h, i, c);
    if (std::fabs(double{x} - want) <= most + relative * (std::fabs(want) + most) + least) return;
    if (fault.tellp() == 0)
      fault << "element (" << b << ", " << h << ", " << i << ", " << c << ") is " << x << " against " << want
            << ", bound " << most;
  });
  return fault.str();
}

Seeds seeds(std::uint64_t usual) {
  const char* const wanted = std::getenv("OCTET_COMBINATIONS");
  if (!wanted) return {1, usual};
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(wanted, &end, 10);
  const Seeds chosen = *end == '-' ? Seeds{number, std::strtoull(end + 1, &end, 10)} : Seeds{1, number};
  if (*end != '\0' || chosen.first < 1 || chosen.last < chosen.first)
    throw std::invalid_argument(
        "OCTET_COMBINATIONS is \"" + std::string(wanted) +
        "\", but it must be a number of seeds, or the first and the last as in 1-2000");
  return chosen;
}

}  // namespace octet::testing
