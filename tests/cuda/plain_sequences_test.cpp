// Short sequences of 64 channels that one launch takes from plain rows to outputs. Skipped without a GPU.
#include "cuda/runtime/device.h"
#include "tests/cuda/plain_calls.h"

namespace octet::testing {
namespace {

using namespace plain_calls;

class PlainSequences : public PlainCalls {
 protected:
  static Ask of(const Lengths& lengths, DType dtype = DType::bf16) {
    Ask ask{.of = lengths, .dim = 64, .scheme = Scheme::int8_half, .dtype = dtype};
    ask.name = title(ask);
    return ask;
  }
  /// Whether a block of threads may have the shared memory for so many keys: an A100's has not for more than
  /// three key blocks.
  static bool have_room(const Lengths& lengths) {
    constexpr std::int64_t kThreeBlocks = 384, kOfMore = 176 * 1024;
    return lengths.tokens_k <= kThreeBlocks || cuda::runtime::shared_bytes() >= kOfMore;
  }
  void expect_halves(const Ask& ask, const char* why) {
    EXPECT_FALSE(run(ask, given(ask), By::one_launch).leaves_workspace) << ask.name << ": " << why;
  }
};

TEST_F(PlainSequences, HaveTheOutputsOfTheHalves) {
  // Tiles of rows and sixteens of keys that end within, one to five key blocks, and few of either.
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Lengths& lengths :
         {Lengths{1, 3, 197, 197},  Lengths{8, 12, 197, 197}, Lengths{2, 2, 256, 256},
          Lengths{3, 2, 128, 128},  Lengths{3, 2, 129, 129},  Lengths{2, 3, 127, 145},
          Lengths{2, 3, 65, 81},    Lengths{4, 2, 77, 77},    Lengths{4, 2, 50, 50},
          Lengths{2, 2, 1, 1},      Lengths{2, 2, 17, 255},   Lengths{2, 2, 300, 5},
          Lengths{1, 2, 4096, 77},  Lengths{1, 2, 1, 200},    Lengths{1, 1, 197, 197},
          Lengths{1, 1, 150, 129},  Lengths{1, 2, 257, 257},  Lengths{2, 3, 261, 261},
          Lengths{1, 2, 64, 288},   Lengths{1, 2, 33, 300},   Lengths{2, 1, 384, 384},
          Lengths{1, 1, 1000, 272}, Lengths{1, 2, 1, 273},    Lengths{1, 1, 128, 577},
          Lengths{1, 2, 64, 640},   Lengths{2, 1, 40, 385},   Lengths{1, 1, 65, 500},
          Lengths{1, 1, 1, 513}}) {
      if (!have_room(lengths)) continue;
      // Calls of few heads have their keys cut in parts, with maxima of their own, and so other codes of P:
      // not always the same ones by one launch and by halves.
      Ask ask = of(lengths, dtype);
      ask.seldom = 1;
      expect_same(ask);
    }
}

TEST_F(PlainSequences, OfManyHeadsKeepKeysForSeveralTilesOfRows) {
  expect_same(of({100, 8, 197, 197}));
  expect_same(of({150, 8, 65, 130}, DType::f16));
  // Of more key blocks there are no more heads than processors have blocks of threads.
  for (const Lengths& lengths :
       {Lengths{40, 16, 257, 257}, Lengths{1, 4, 577, 577}, Lengths{2, 3, 197, 640}}) {
    if (!have_room(lengths)) continue;
    Ask ask = of(lengths);
    ask.seldom = 1;
    expect_same(ask);
  }
}

TEST_F(PlainSequences, OfKeyBlocksThatAreNoTiles) {
  for (const std::int64_t key_block : {112, 96, 80, 64, 16})
    for (const std::int64_t tokens :
         {2 * key_block, 2 * key_block - 15, key_block + 1, key_block, key_block - 3}) {
      Ask ask = of({2, 3, tokens, tokens});
      ask.key_block = key_block, ask.name = title(ask), ask.seldom = 1;
      expect_same(ask);
    }
  // Of more blocks halves.
  for (const std::int64_t key_block : {112, 80})
    for (const std::int64_t tokens : {5 * key_block, 4 * key_block + 1, 3 * key_block + 1}) {
      Ask ask = of({1, 1, 100, tokens});
      ask.key_block = key_block, ask.name = title(ask), ask.seldom = 1;
      if (have_room(ask.of)) expect_same(ask);
    }
  // Of a third block some keys at a time have maxima of their own.
  for (const std::int64_t key_block : {112, 80, 48, 16})
    for (const std::int64_t tokens :
         {3 * key_block, 3 * key_block - 15, 2 * key_block + 1, 2 * key_block + 16}) {
      Ask ask = of({2, 3, tokens, tokens});
      ask.key_block = key_block, ask.name = title(ask), ask.seldom = 1;
      expect_same(ask);
    }
}

TEST_F(PlainSequences, TellTheLse) {
  for (const Lengths& lengths :
       {Lengths{100, 8, 197, 197}, Lengths{1, 1, 197, 197}, Lengths{2, 1, 257, 257}}) {
    Ask ask = of(lengths);
    ask.wants_lse = true, ask.name += ", LSE", ask.seldom = 1;
    expect_same(ask);
  }
}

TEST_F(PlainSequences, MayLieTokensBeforeHeads) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Ask ask = of({5, 3, 197, 197}, dtype);
    ask.layout = Layout::bshd, ask.name += ", tokens before heads", ask.seldom = 1;
    expect_same(ask);
  }
}

TEST_F(PlainSequences, MakeZerosOfRowsThatAreNotFinite) {
  // Many heads, whose halves have the same maxima: P of another may be 0, and times V's Inf NaN.
  const Lengths many{100, 8, 197, 197};
  for (Ask ask : {of(many), of(many, DType::f16)}) {
    ask.has_bad_rows = true, ask.name += ", NaN and Inf";
    expect_same(ask);
  }
}

TEST_F(PlainSequences, GoByHalvesWhereThereIsNoKernel) {
  expect_halves(of({2, 2, 197, 641}), "more than five key blocks");
  expect_halves(of({200, 2, 64, 385}), "more than three key blocks of many heads");
  Ask ask = of({2, 2, 197, 197});
  ask.mask = Mask::causal;
  expect_halves(ask, "rows do not see all keys");
  ask = of({2, 2, 197, 197});
  ask.window_left = 5;
  expect_halves(ask, "rows do not see all keys");
  ask = of({2, 2, 197, 197});
  ask.bias = AttentionDesc::Bias::additive;
  expect_halves(ask, "a bias is added");
  ask = of({2, 2, 197, 197});
  ask.scheme = Scheme::int8_full;
  expect_halves(ask, "V has a scale of all tokens");
  ask = of({2, 2, 197, 197});
  ask.dim = 32;
  expect_halves(ask, "rows are of 64 channels");
  ask = of({2, 2, 197, 197});
  Recipe recipe = scheme_info(ask.scheme).recipe;
  recipe.k = Granularity::head;
  ask.recipe = recipe;
  expect_halves(ask, "K has a scale of all tokens");
}

}  // namespace
}  // namespace octet::testing
