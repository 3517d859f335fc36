// Arbitrary bytes as the life of a cache: appends of any size, some refused, truncations and calls. Whatever
// has happened to it, a cache holds the tokens that a plain list of them would, and its calls have the bits
// of a cache to which those tokens were appended at once.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "octet/octet.hpp"
#include "tests/fuzz/require.h"

namespace {

using namespace octet;
using octet::fuzz::require;

/// The input, a byte at a time; zeros when it is used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool any() const { return size_ > 0; }
  std::int64_t below(int count) {
    if (size_ == 0) return 0;
    --size_;
    return *data_++ % count;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

/// Numbers of both signs over a few octaves, the same for the same seed.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : state_(seed * 2654435761u + 1) {}
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    const float whole = static_cast<float>(static_cast<std::int32_t>(state_)) * 0x1p-31f;
    return whole * static_cast<float>(1 << (state_ >> 8 & 3));
  }
  std::vector<float> take(std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = next();
    return numbers;
  }

 private:
  std::uint32_t state_;
};

/// Schemes with recipes that a cache takes: as they are, with tokens' scales alone, with the first key for an
/// anchor, with fixed scales.
struct Problem {
  AttentionDesc desc;
  KvCacheOptions options;
};
Problem problem_of(Bytes& bytes) {
  constexpr Scheme kSchemes[] = {Scheme::int8,      Scheme::int8_shift, Scheme::int4,    Scheme::int8_full,
                                 Scheme::int8_half, Scheme::int8_fp8,   Scheme::integer, Scheme::qflash,
                                 Scheme::f32,       Scheme::f16,        Scheme::bf16};
  const Scheme scheme = kSchemes[bytes.below(std::size(kSchemes))];
  const std::int64_t heads_kv = 1 + bytes.below(2), group = 1 + bytes.below(2),
                     capacity = 1 + bytes.below(200);
  const std::int64_t tokens_q = 1 + bytes.below(3), dim = 1 + bytes.below(72);
  const TensorView q = view_bhsd(nullptr, DType::f32, {1, heads_kv * group, tokens_q, dim});
  const TensorView k = view_bhsd(nullptr, DType::f32, {1, heads_kv, capacity, dim});
  Result<AttentionDesc> described = describe(scheme, q, k, k);
  require(described.ok(), "small shapes are a problem");
  Problem p{described.take(), {}};
  p.desc.wants_lse = true;
  if (bytes.below(2)) p.desc.mask = Mask::causal;
  if (bytes.below(4) == 0) p.desc.window_left = bytes.below(40);
  p.desc.recipe.smooth = bytes.below(2) ? Smooth::anchor : Smooth::none;
  p.desc.recipe.equalise = Equalise::off;
  if (bytes.below(2)) p.desc.recipe.rotate = Rotate::off;
  constexpr float kAmax = 3;  // below the largest numbers: some are clamped
  if (bytes.below(2)) p.desc.recipe.k = Granularity::token;
  if (bytes.below(2)) p.desc.recipe.v = Granularity::token;
  if (p.desc.recipe.k != Granularity::token) p.options.k_amax = kAmax;
  if (p.desc.recipe.v != Granularity::token) p.options.v_amax = kAmax;
  return p;
}

/// K or V of one token of all heads.
struct Token {
  std::vector<float> k, v;
};

/// Tokens as a tensor [1, heads, tokens, dim], in the order (head, token) or, as engines have it, (token,
/// head).
TensorView laid_out(const std::vector<Token>& tokens, std::vector<float> Token::*which,
                    const AttentionDesc& d, bool heads_last, std::vector<float>& memory) {
  const std::int64_t dim = which == &Token::k ? d.head_dim : d.head_dim_v;
  const auto count = static_cast<std::int64_t>(tokens.size());
  memory.assign(static_cast<std::size_t>(std::max<std::int64_t>(count * d.heads_kv * dim, 1)), 0);
  TensorView view = view_bhsd(memory.data(), DType::f32, {1, d.heads_kv, count, dim});
  if (heads_last) view.stride[1] = dim, view.stride[2] = d.heads_kv * dim;
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t h = 0; h < d.heads_kv; ++h)
      std::copy_n((tokens[static_cast<std::size_t>(t)].*which).data() + h * dim, dim,
                  memory.data() + h * view.stride[1] + t * view.stride[2]);
  return view;
}

Status append(KvCache& cache, const std::vector<Token>& tokens, const AttentionDesc& d, bool heads_last) {
  std::vector<float> k, v;
  return cache.append(laid_out(tokens, &Token::k, d, heads_last, k),
                      laid_out(tokens, &Token::v, d, heads_last, v));
}

/// o and the LSE of a call, as bits.
std::vector<std::uint32_t> answer(const KvCache& cache, const AttentionPlan& plan, const AttentionDesc& d) {
  std::vector<float> q = Numbers(99).take(d.heads_q * d.tokens_q * d.head_dim),
                     o(static_cast<std::size_t>(d.heads_q * d.tokens_q * d.head_dim_v)),
                     lse(static_cast<std::size_t>(d.heads_q * d.tokens_q));
  const std::int64_t bytes = cache.workspace_bytes(plan);
  require(bytes >= 0, "a cache serves its own plan");
  Result<Workspace> workspace = Workspace::allocate(bytes);
  require(workspace.ok(), "a small workspace is there");
  AttentionArgs args;
  args.q.codes = view_bhsd(q.data(), DType::f32, {1, d.heads_q, d.tokens_q, d.head_dim});
  args.o = view_bhsd(o.data(), DType::f32, {1, d.heads_q, d.tokens_q, d.head_dim_v});
  args.lse = view_bhsd(lse.data(), DType::f32, {1, d.heads_q, d.tokens_q, 1});
  args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
  require(cache.attend(plan, args).ok(), "a call against a cache succeeds");
  std::vector<std::uint32_t> bits;
  for (const std::vector<float>* x : {&o, &lse})
    for (const float f : *x) bits.push_back(std::bit_cast<std::uint32_t>(f));
  return bits;
}

bool keeps_codes_of_integers(Scheme scheme) {
  return scheme != Scheme::f32 && scheme != Scheme::f16 && scheme != Scheme::bf16;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const Problem p = problem_of(bytes);
  const AttentionDesc& d = p.desc;
  Result<AttentionPlan> planned = AttentionPlan::create(d);
  if (!planned.ok()) return octet::fuzz::require_sentence(planned.status()), 0;
  const AttentionPlan plan = planned.take();
  Result<KvCache> made = KvCache::create(plan, p.options);
  if (!made.ok()) return octet::fuzz::require_sentence(made.status()), 0;
  KvCache cache = made.take();
  std::vector<Token> held;
  Numbers numbers(1);
  while (bytes.any()) {
    switch (bytes.below(4)) {
      case 0:
      case 1: {
        std::vector<Token> more(static_cast<std::size_t>(bytes.below(60)));
        for (Token& t : more)
          t = {numbers.take(d.heads_kv * d.head_dim), numbers.take(d.heads_kv * d.head_dim_v)};
        // A number that codes have no word for is refused, wherever it stands.
        const bool is_spoilt = keeps_codes_of_integers(d.scheme) && !more.empty() && bytes.below(8) == 7;
        if (is_spoilt) {
          Token& t = more[static_cast<std::size_t>(bytes.below(static_cast<int>(more.size())))];
          (bytes.below(2) ? t.k : t.v).back() = std::numeric_limits<float>::infinity();
        }
        const bool has_room = held.size() + more.size() <= static_cast<std::size_t>(d.tokens_k);
        const Status status = append(cache, more, d, bytes.below(2) != 0);
        if (!status.ok()) octet::fuzz::require_sentence(status);
        require(status.ok() == has_room || is_spoilt, "what has room is appended, and nothing else");
        if (is_spoilt && has_room && d.scheme == Scheme::integer)
          require(!status.ok(), "no integer stands for infinity");
        if (status.ok()) held.insert(held.end(), more.begin(), more.end());
        if (status.ok() && is_spoilt) return 0;  // what NaN becomes is another test's
        break;
      }
      case 2: {
        const std::int64_t length = bytes.below(static_cast<int>(held.size()) + 3) - 1;
        const Status status = cache.truncate(length);
        if (!status.ok()) octet::fuzz::require_sentence(status);
        const bool is_there = length >= 0 && length <= static_cast<std::int64_t>(held.size());
        require(status.ok() == is_there, "a cache is cut to any length that it has");
        if (status.ok()) held.resize(static_cast<std::size_t>(length));
        break;
      }
      default: {
        KvCache fresh = KvCache::create(plan, p.options).take();
        require(append(fresh, held, d, false).ok(), "a fresh cache takes what another held");
        require(answer(cache, plan, d) == answer(fresh, plan, d), "calls have the bits of a fresh cache");
      }
    }
    require(cache.length() == static_cast<std::int64_t>(held.size()), "a cache counts its tokens");
  }
  return 0;
}
