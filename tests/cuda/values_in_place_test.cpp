// V of 16 bits that attention reads where it is, beside V whose rows are no multiples of 16 bytes and are
// packed first: the same bits, wherever rows lie and whatever stands between them. Skipped without a GPU.
#include <bit>

#include "tests/cuda/plain_calls.h"

namespace octet::testing {
namespace {

using namespace plain_calls;

/// Where rows of V lie: head after head; wider than they are; token after token, heads beside each other; the
/// last token first; all heads the same; all tokens the same.
enum class Place { dense, wide, by_token, backwards, one_head, one_token };
constexpr Place kPlaces[] = {Place::dense,     Place::wide,     Place::by_token,
                             Place::backwards, Place::one_head, Place::one_token};
const char* name_of(Place place) {
  constexpr const char* kNames[] = {"dense", "wide", "by token", "backwards", "one head", "one token"};
  return kNames[static_cast<std::size_t>(place)];
}

/// Whether rows begin at multiples of 16 bytes.
enum class Rows { in_chunks, odd };

class ValuesInPlace : public PlainCalls {
 protected:
  /// Numbers of so many heads, NaN between rows and behind each head's tokens. Rows of one place hold the
  /// same numbers whether they are odd or not.
  TensorView values(const Ask& ask, std::int64_t heads, Place place, Rows rows) {
    constexpr std::int64_t kTokensBehind = 3, kChunk = 8;
    const Lengths& of = ask.of;
    const std::int64_t own_heads = place == Place::one_head ? 1 : heads,
                       own_tokens = place == Place::one_token ? 1 : of.tokens_k;
    const std::int64_t row = ask.dim + (rows == Rows::odd ? 1 : place == Place::wide ? 3 * kChunk : 0);
    const bool by_token = place == Place::by_token;
    const std::int64_t token_stride = by_token ? own_heads * row : row,
                       head_stride = by_token ? row : (own_tokens + kTokensBehind) * row,
                       sequence_stride = (own_tokens + kTokensBehind) * own_heads * row;
    const auto code = [&](float x) { return ask.dtype == DType::bf16 ? bf16_from_f32(x) : f16_from_f32(x); };
    std::vector<std::uint16_t> all(static_cast<std::size_t>(of.batch * sequence_stride), code(NAN));
    Random random(23);
    for (std::int64_t b = 0; b < of.batch; ++b)
      for (std::int64_t h = 0; h < own_heads; ++h)
        for (std::int64_t t = 0; t < own_tokens; ++t)
          for (std::int64_t c = 0; c < ask.dim; ++c)
            all[static_cast<std::size_t>(b * sequence_stride + h * head_stride + t * token_stride + c)] =
                code(static_cast<float>(random.normal()));
    TensorView v;
    auto* const data = static_cast<std::uint16_t*>(
        device_.put(all.data(), static_cast<std::int64_t>(all.size() * sizeof(std::uint16_t))));
    const bool is_backwards = place == Place::backwards;
    v.data = is_backwards ? data + (own_tokens - 1) * token_stride : data;
    v.dtype = ask.dtype, v.device = Device::cuda;
    v.shape = {of.batch, heads, of.tokens_k, ask.dim};
    v.stride = {sequence_stride, place == Place::one_head ? 0 : head_stride,
                place == Place::one_token ? 0
                : is_backwards            ? -token_stride
                                          : token_stride,
                1};
    return v;
  }

  /// heads_kv: of K and V; 0: as many as Q has.
  void expect_same_bits(Ask ask, Place place = Place::dense, std::int64_t heads_kv = 0) {
    ask.name = title(ask) + " of " + std::to_string(ask.dim) + " channels" +
               (ask.mask == Mask::causal ? ", causal" : "") + (ask.window_left >= 0 ? ", window" : "") +
               (ask.bias != AttentionDesc::Bias::none ? ", bias" : "") + ", " + name_of(place) +
               (heads_kv > 0 ? ", heads of K and V " + std::to_string(heads_kv) : "");
    const std::int64_t heads = heads_kv > 0 ? heads_kv : ask.of.heads;
    Given in_place = given(ask);
    in_place.args.k.codes.shape[1] = heads, in_place.desc.heads_kv = heads;
    Given packed = in_place;
    in_place.args.v.codes = values(ask, heads, place, Rows::in_chunks);
    packed.args.v.codes = values(ask, heads, place, Rows::odd);
    expect_same_bits(ask, in_place, packed);
  }
  void expect_same_bits(const Ask& ask, const Given& in_place, const Given& packed) {
    const Run got = run(ask, in_place, By::halves), want = run(ask, packed, By::halves);
    std::size_t other = 0, bad = 0;
    for (std::size_t i = 0; i < want.o.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(got.o[i]) != std::bit_cast<std::uint32_t>(want.o[i])) ++other;
      if (!std::isfinite(got.o[i])) ++bad;
    }
    EXPECT_EQ(other, 0u) << ask.name << ": of " << want.o.size() << " elements";
    EXPECT_EQ(bad, 0u) << ask.name << ": not finite";
  }

  /// Sequences behind each other, each with as many queries as keys, one of them empty.
  void expect_same_bits_of_packed_sequences(Ask ask, const std::vector<std::int32_t>& cu_seqlens,
                                            Place place) {
    ask.of.batch = 1, ask.of.tokens_q = ask.of.tokens_k = cu_seqlens.back();
    ask.name =
        title(ask) + " of " + std::to_string(ask.dim) + " channels, packed sequences, " + name_of(place);
    Given in_place = given(ask);
    const auto sequences = static_cast<std::int64_t>(cu_seqlens.size()) - 1;
    in_place.desc.sequences = sequences;
    const auto* const offsets = static_cast<const std::int32_t*>(
        device_.put(cu_seqlens.data(), static_cast<std::int64_t>(cu_seqlens.size() * sizeof(std::int32_t))));
    in_place.args.cu_seqlens_q = in_place.args.cu_seqlens_k = offsets;
    Given packed = in_place;
    in_place.args.v.codes = values(ask, ask.of.heads, place, Rows::in_chunks);
    packed.args.v.codes = values(ask, ask.of.heads, place, Rows::odd);
    expect_same_bits(ask, in_place, packed);
  }

  struct Kind {
    Scheme scheme;
    DType dtype;
  };
  static constexpr Kind kKinds[] = {{Scheme::f16, DType::f16},
                                    {Scheme::bf16, DType::bf16},
                                    {Scheme::int8_half, DType::f16},
                                    {Scheme::fp8_hybrid, DType::f16}};

 private:
  DeviceMemory device_;
};

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnes) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {32, 64, 128, 256})
      for (const std::int64_t tokens : {1, 15, 49, 64, 65, 127, 128, 129, 197, 257})
        expect_same_bits({.of = {2, 2, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype});
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesAtEveryKeyBlock) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t key_block : {16, 64, 80, 112})
      for (const std::int64_t tokens : {63, 197, 333})
        for (const std::int64_t dim : {32, 64, 128})
          expect_same_bits({.of = {1, 3, 70, tokens},
                            .dim = dim,
                            .key_block = key_block,
                            .scheme = scheme,
                            .dtype = dtype});
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereRowsAreLong) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128, 256})
      for (const Mask mask : {Mask::none, Mask::causal})
        for (const std::int64_t tokens : {2048, 1999})
          expect_same_bits(
              {.of = {1, 4, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype, .mask = mask});
}

/// Few queries, of whose keys ranges are cut.
TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereQueriesAreFew) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128})
      for (const std::int64_t queries : {1, 17})
        expect_same_bits({.of = {2, 2, queries, 4001}, .dim = dim, .scheme = scheme, .dtype = dtype});
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereverTheyLie) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const Place place : kPlaces)
      for (const std::int64_t dim : {64, 128})
        for (const std::int64_t tokens : {49, 129, 333})
          expect_same_bits({.of = {2, 3, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype},
                           place);
}

/// By Hopper's own kernels, whose rows are many.
TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereverLongRowsLie) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const Place place : kPlaces)
      for (const std::int64_t dim : {64, 128, 256})
        expect_same_bits({.of = {2, 4, 1100, 1100}, .dim = dim, .scheme = scheme, .dtype = dtype}, place);
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesWhereHeadsShareThem) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t heads_kv : {1, 2})
      for (const Lengths& of : {Lengths{1, 8, 5, 700}, Lengths{2, 4, 197, 197}})
        for (const Place place : {Place::dense, Place::by_token})
          expect_same_bits({.of = of, .dim = 128, .scheme = scheme, .dtype = dtype}, place, heads_kv);
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesUnderMasksWindowsAndBiases) {
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128})
      for (const std::int64_t tokens : {130, 333}) {
        const Ask plain{.of = {1, 2, tokens, tokens}, .dim = dim, .scheme = scheme, .dtype = dtype};
        Ask causal = plain, window = plain, bias = plain;
        causal.mask = Mask::causal;
        window.window_left = 40, window.window_right = 9;
        bias.bias = AttentionDesc::Bias::additive;
        for (const Ask& ask : {causal, window, bias}) expect_same_bits(ask, Place::wide);
      }
}

TEST_F(ValuesInPlace, HaveTheBitsOfPackedOnesOfPackedSequences) {
  const std::vector<std::int32_t> few{0, 1, 1, 130, 333}, many{0, 700, 709, 1800};
  for (const auto& [scheme, dtype] : kKinds)
    for (const std::int64_t dim : {64, 128})
      for (const Place place : {Place::dense, Place::by_token})
        for (const std::vector<std::int32_t>& cu_seqlens : {few, many})
          expect_same_bits_of_packed_sequences(
              {.of = {1, 3, 0, 0}, .dim = dim, .scheme = scheme, .dtype = dtype}, cu_seqlens, place);
}

}  // namespace
}  // namespace octet::testing
