// K and V as the attention kernels read them: constants of keys and key blocks, V of bytes dim-major in key
// order, and, where their rows cannot be read as they are, padded ones of K and of V of 16 bits. One block of
// threads a key block of a head.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/mma/pack_constants.cuh"
#include "cuda/mma/tile.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/key_order.h"
#include "cuda/tile/quad.cuh"
#include "lanes/scalar.h"

namespace octet::cuda::mma {

/// Threads of a block. Windows of 64 places and 32 channels of 8 bits are one warp's work beside the two of
/// keys' constants, and three warps of twelve blocks fill a processor.
inline constexpr int kMostPackThreads = 128;
static_assert(kMostKeys <= kMostPackThreads, "a thread has the constants of one key");
constexpr int pack_threads(const Tile& tile, int value_bytes) {
  constexpr int kWarp = 32;
  const int of_values = tile.keys * tile.head_dim * value_bytes * value_bytes / 64;
  return std::min(kMostPackThreads, tile.keys + (of_values + kWarp - 1) / kWarp * kWarp);
}

constexpr int log2(std::int32_t power) { return std::countr_zero(static_cast<std::uint32_t>(power)); }

/// Places of a packed key block, powers of two, and the threads that write it: known to the compiler ...
template <class S, int kIndex>
struct TileShape {
  static constexpr Tile kTile = kTileTable[kIndex];
  static constexpr int log2_channels = log2(kTile.head_dim), log2_keys = log2(kTile.keys);
  static constexpr int threads = pack_threads(kTile, attn::Element<S::kV>::kBytes);
};
/// ... or to the launch.
struct AnyShape {
  int log2_channels, log2_keys, threads;

  AnyShape(const Tile& tile, int value_bytes)
      : log2_channels(log2(tile.head_dim)),
        log2_keys(log2(tile.keys)),
        threads(pack_threads(tile, value_bytes)) {}
};
/// Whether a tile has a packing kernel of its own: those of windows and of short rows, of whose calls packing
/// is a good part (with one for all tiles they took up to 8 % longer, docs/cuda-measurements.md). The others
/// share one, for the build's sake.
constexpr bool packs_by_itself(int tile) {
  constexpr Tile kWindows = {32, 64}, kShortRows = {64, 128};
  const auto is = [&](const Tile& one) {
    return kTileTable[tile].head_dim == one.head_dim && kTileTable[tile].keys == one.keys;
  };
  return is(kWindows) || is(kShortRows);
}

template <class S, class Shape>
class Packing {
 public:
  __device__ Packing(const Call& call, const Shape& shape)
      : call_(call), shape_(shape), scheme_(attn::scheme_of<S>(call)) {}

  /// Addresses come before the wait for whoever wrote codes and scales, and cost no time of their own then.
  __device__ void run() {
    const std::int32_t group = this->group();
    const Divider size = call_.key_block;
    const std::int32_t index = attn::sequence_of_group(call_.keys, group, size);
    const attn::Sequence keys = attn::sequence_at(call_.keys, index);
    const std::int32_t begin = (group - attn::first_group_bound(call_.keys, index, size)) * size;
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    const std::int64_t slot = std::int64_t{head} * call_.packed.blocks_per_head + group;
    const std::int32_t count = min(size, keys.length - begin);
    const attn::HeadOperand k(call_.k, call_.keys, keys, head), v(call_.v, call_.keys, keys, head);
    const ScalesAt scales_at(k, v, begin, count);
    const ValuesAt values_at(call_, shape_, v, begin, slot);
    // V that stood before those kernels began is packed beside the last of them.
    const bool is_beside = call_.begins == Begins::beside_own;
    if (is_beside)
      __threadfence();  // what the processor's cache has from before is read anew
    else
      ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
    if (begin >= keys.length) return ptx::wait_for_earlier_kernels();
    Scales scales = scales_at.none();
    if (!is_beside) scales = scales_at.read();  // on their way while values are
    put_values(v, values_at, begin, count, slot);
    if (is_beside) {
      ptx::wait_for_earlier_kernels();
      scales = scales_at.read();
    }
    put_constants(scales, count, slot);
    if (call_.packed.k) put_keys(k, begin, count, slot);
    if (call_.packed.channels) put_channels(v, begin, slot);
  }

 private:
  using Key = typename S::Key;
  using Block = typename S::Block;
  template <Operand kOperand>
  using ElementOf = typename attn::Element<kOperand>::Type;

  static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  /// The key block of the block of threads, as those of all sequences are numbered.
  __device__ std::int32_t group() const {
    const auto number = static_cast<std::int32_t>(blockIdx.x);
    if (!call_.packs_part) [[likely]]
      return number;
    const std::int32_t sequence = number / call_.part.count;
    return sequence * call_.keys.groups + call_.part.first + (number - sequence * call_.part.count);
  }
  __device__ int keys() const { return 1 << shape_.log2_keys; }
  __device__ int channels() const { return 1 << shape_.log2_channels; }

  struct Scales {
    float k_of_block;  ///< of K's first key
    KeyScales<ScalarLane> own;
    bool exists, in_p;  ///< the thread's key; whether P carries V's scales
  };
  /// Where the scales of the thread's own key lie; null: there are none.
  struct ScalesAt {
    const float *k_of_block, *k, *v;
    bool exists, in_p;

    __device__ ScalesAt(const attn::HeadOperand& of_k, const attn::HeadOperand& of_v, std::int32_t begin,
                        std::int32_t count)
        : exists(static_cast<std::int32_t>(threadIdx.x) < count), in_p(of_v.template scales_in_p<S>()) {
      const std::int32_t own = begin + static_cast<std::int32_t>(threadIdx.x);
      k_of_block = tile::kept(of_k.has_scales() ? of_k.scale_at(begin, 0) : nullptr);
      k = tile::kept(of_k.has_scales() && exists ? of_k.scale_at(own, 0) : nullptr);
      v = tile::kept(in_p && exists ? of_v.scale_at(own, 0) : nullptr);
    }
    __device__ Scales read() const { return {at(k_of_block), {at(k), at(v)}, exists, in_p}; }
    __device__ Scales none() const { return {1.0f, {1.0f, 1.0f}, exists, in_p}; }
    __device__ static float at(const float* scale) { return scale ? *scale : 1.0f; }
  };

  __device__ void put_constants(const Scales& scales, std::int32_t count, std::int64_t slot) {
    if constexpr (std::is_empty_v<Key> && std::is_empty_v<Block>) return;
    const int j = thread();
    const Block block = block_of(scales);
    if constexpr (!std::is_empty_v<Block>) {
      if (j == 0) reinterpret_cast<Block*>(call_.packed.blocks)[slot] = block;
    }
    if constexpr (!std::is_empty_v<Key>) {
      const int keys = this->keys();
      if (j >= keys) return;
      Key key{};
      if constexpr (requires { S::no_key(); }) key = S::no_key();
      if (j < count) key = scheme_.key(scales.own, block);
      attn::put_key(
          reinterpret_cast<std::uint32_t*>(call_.packed.keys) + slot * attn::key_words<Key>() * keys, keys, j,
          key);
    }
  }

  /// Some schemes need the largest of V's scales that P carries in the block.
  __device__ Block block_of(const Scales& scales) {
    const float k_scale = scales.k_of_block;
    if constexpr (requires(S s) { s.block(1.0f, 1.0f); }) {
      if (!scales.in_p) return scheme_.block(k_scale, 1.0f);
      __shared__ float largest_of_warp[kMostPackThreads / 32];
      float largest = scales.exists ? scales.own.v : 0.0f;
#pragma unroll
      for (int lane = 1; lane < 32; lane *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(tile::kAllLanes, largest, lane));
      if (thread() % 32 == 0) largest_of_warp[thread() / 32] = largest;
      __syncthreads();
#pragma unroll
      for (int w = 0; w < kMostPackThreads / 32; ++w)
        if (w < shape_.threads / 32) largest = fmaxf(largest, largest_of_warp[w]);
      return scheme_.block(k_scale, largest);
    } else {
      return scheme_.block(k_scale);
    }
  }

  /// V's elements are numbers of bf16 that the products take as f16.
  __device__ bool converts_values() const {
    return S::kV == Operand::f16 && call_.v.codes.dtype == DType::bf16;
  }
  /// V's elements are what the products take or as wide, so many bytes of its rows hold them whole, and no
  /// scheme wants others.
  __device__ bool values_in_pieces(int bytes) const {
    if constexpr (requires(const S& s) { s.value(1.0f); }) return false;
    const DeviceTensor& x = call_.v.codes;
    const std::int64_t strides = x.stride[0] | x.stride[1] | x.stride[2];
    const auto are_whole = [&](std::int64_t elements) { return elements * kValueBytes % bytes == 0; };
    return (x.dtype == attn::native_dtype(S::kV) || converts_values()) && x.stride[3] == 1 &&
           reinterpret_cast<std::uintptr_t>(x.data) % bytes == 0 && are_whole(strides) &&
           are_whole(call_.dim_v);
  }

  /// Where a key block's values begin, in the tensor and packed.
  struct ValuesAt {
    const std::byte* from;
    std::byte* to;
    std::int64_t row_bytes;  ///< of the tensor

    __device__ ValuesAt(const Call& call, const Shape& shape, const attn::HeadOperand& v, std::int32_t begin,
                        std::int64_t slot)
        : from(tile::kept(static_cast<const std::byte*>(call.v.codes.data) +
                          v.offset(begin, 0) * kValueBytes)),
          to(tile::kept(call.packed.v + ((slot << (shape.log2_channels + shape.log2_keys)) * kValueBytes))),
          row_bytes(tile::kept(call.v.codes.stride[2] * kValueBytes)) {}
  };
  static constexpr bool kByKeys = attn::kValuesByKeys<S>;
  static constexpr int kValueBytes = attn::Element<S::kV>::kBytes;
  static constexpr int kElements = 4 / kValueBytes;  ///< of V in a word
  static constexpr int kKeys = 16 / kValueBytes;     ///< of a channel in 16 bytes

  /// Rows of keys as they come, a Piece of 4 or 16 bytes at a time; zeros behind the block's last key and V's
  /// last channel.
  template <class Piece>
  __device__ void put_rows(const ValuesAt& at, std::int32_t count) const {
    constexpr int kWords = sizeof(Piece) / 4, kOfPiece = kElements * kWords;
    constexpr int kAtOnce = kWords > 1 ? 4 : 8;  // on their way at a time, as many as registers hold
    union Words {
      Piece piece;
      std::uint32_t of[kWords];
    };
    const int log2_row = shape_.log2_channels - log2(kOfPiece), step = shape_.threads;
    const int pieces = 1 << (shape_.log2_keys + log2_row);
    auto* const to = reinterpret_cast<Piece*>(at.to);
    for (int first = first_word(); first < pieces; first += kAtOnce * step) {
      Words some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int piece = first + i * step, key = piece >> log2_row, of_row = piece & ((1 << log2_row) - 1);
        const bool exists = key < count && of_row * kOfPiece < call_.dim_v;
        some[i].piece = {};
        if (exists) some[i].piece = reinterpret_cast<const Piece*>(at.from + key * at.row_bytes)[of_row];
      }
      if (converts_values()) {
#pragma unroll
        for (Words& words : some)
#pragma unroll
          for (std::uint32_t& word : words.of) word = ptx::f16_pair_of_bf16(word);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i * step < pieces) to[first + i * step] = some[i].piece;
    }
  }

  /// V whose rows become channels: a thread reads a word of a row, some channels, of as many keys as 16 bytes
  /// of a channel hold, and writes these. Lanes beside each other have two such groups of keys, whose 32
  /// bytes of a channel lie together, of words that the row has together.
  struct WordsOfKeys {
    std::uint32_t of[kKeys];
  };
  struct WordPlace {
    int word;   ///< of a row
    int group;  ///< of keys
  };
  __device__ int log2_row_words() const { return shape_.log2_channels - log2(kElements); }
  __device__ int words_of_values() const { return 1 << (shape_.log2_keys - log2(kKeys) + log2_row_words()); }
  /// Beside keys' constants, where these leave threads over.
  __device__ int first_word() const {
    const int of_keys = keys() < shape_.threads ? keys() : 0;
    return thread() >= of_keys ? thread() - of_keys : thread() - of_keys + shape_.threads;
  }
  __device__ WordPlace place_of_word(int i) const {
    const int pair = i >> 1;
    return {pair & ((1 << log2_row_words()) - 1), (pair >> log2_row_words()) * 2 + (i & 1)};
  }
  /// Zeros for keys behind the block's last and channels behind V's.
  __device__ WordsOfKeys read_words(const ValuesAt& at, int i, std::int32_t count) const {
    const WordPlace place = place_of_word(i);
    const int first = place.group * kKeys, left = place.word * kElements < call_.dim_v ? count - first : 0;
    WordsOfKeys words;
    const std::byte* row = at.from + first * at.row_bytes + place.word * 4;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      words.of[k] = k < left ? *reinterpret_cast<const std::uint32_t*>(row) : 0;
      row = tile::kept(row + at.row_bytes);  // the compiler would multiply anew
    }
    return words;
  }
  __device__ void put_words(const ValuesAt& at, int i, const WordsOfKeys& words) const {
    const WordPlace place = place_of_word(i);
    const int row_bytes = keys() * kValueBytes;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      std::uint32_t slots[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const auto key = [&](int s) { return words.of[tile::key_of_slot(w * kElements + s)]; };
        slots[w] = joined_bytes(key(0), key(1), key(2), key(3), e);
      }
      *reinterpret_cast<uint4*>(at.to + (place.word * kElements + e) * row_bytes + place.group * 16) = {
          slots[0], slots[1], slots[2], slots[3]};
    }
  }
  /// Byte number `byte` of each of four words.
  __device__ static std::uint32_t joined_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                               std::uint32_t d, int byte) {
    const std::uint32_t both = static_cast<std::uint32_t>(byte | (byte + 4) << 4);
    return __byte_perm(__byte_perm(a, b, both), __byte_perm(c, d, both), 0x5410);
  }

  __device__ void put_values(const attn::HeadOperand& v, const ValuesAt& at, std::int32_t begin,
                             std::int32_t count, std::int64_t slot) {
    if constexpr (kByKeys) {
      if (!call_.packed.v) return;  // they are read where they are
      if (values_in_pieces(sizeof(uint4)))
        put_rows<uint4>(at, count);
      else if (values_in_pieces(sizeof(std::uint32_t)))
        put_rows<std::uint32_t>(at, count);
      else
        put_each_value(v, begin, count, slot);
    } else if (values_in_pieces(sizeof(std::uint32_t))) {
      // note: as many on their way at a time as registers hold.
      constexpr int kAtOnce = 16 / kKeys;
      const int step = shape_.threads, words = words_of_values();
      for (int word = first_word(); word < words; word += kAtOnce * step) {
        WordsOfKeys some[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (word + i * step < words) some[i] = read_words(at, word + i * step, count);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (word + i * step < words) put_words(at, word + i * step, some[i]);
      }
    } else {
      put_each_value(v, begin, count, slot);
    }
  }
  /// A word of the tile's V is the slots 4 / kBytes w ... of one channel, or channels of one key; threads
  /// beside each other have channels beside each other, which the tensor has together.
  __device__ void put_each_value(const attn::HeadOperand& v, std::int32_t begin, std::int32_t count,
                                 std::int64_t slot) {
    constexpr int kSlots = kElements;
    const int channels = this->channels(), words = keys() / kSlots * channels;
    auto* to = reinterpret_cast<std::uint32_t*>(call_.packed.v) + slot * words;
    for (int i = thread(); i < words; i += shape_.threads) {
      const int in_row = i & ((kByKeys ? channels / kSlots : channels) - 1);
      const int row = i >> (shape_.log2_channels - (kByKeys ? log2(kSlots) : 0));
      attn::Elements<S::kV, 4> element;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        const int key = kByKeys ? row : tile::key_of_slot(row * kSlots + s),
                  channel = kByKeys ? in_row * kSlots + s : in_row;
        const bool exists = key < count && channel < call_.dim_v;
        element.of[s] = exists ? element_of_value(v, begin + key, channel) : ElementOf<S::kV>{};
      }
      to[kByKeys ? i : in_row * (keys() / kSlots) + row] = __builtin_bit_cast(std::uint32_t, element);
    }
  }
  /// V's scales of the block by channel; those beyond V's, whose sums are zeros, have the last one's.
  __device__ void put_channels(const attn::HeadOperand& v, std::int32_t begin, std::int64_t slot) {
    using Channel = typename S::Channel;
    if constexpr (!std::is_empty_v<Channel>) {
      auto* to = reinterpret_cast<Channel*>(call_.packed.channels) + slot * channels();
#pragma unroll 1
      for (int c = thread(); c < channels(); c += shape_.threads)
        to[c] = scheme_.channel({v.scale(begin, min(c, call_.dim_v - 1)), 0});
    }
  }
  __device__ ElementOf<S::kV> element_of_value(const attn::HeadOperand& v, std::int32_t token,
                                               std::int32_t channel) const {
    if constexpr (requires { scheme_.value(1.0f); })
      return attn::element_of<S::kV>(scheme_.value(v.number(token, channel)));
    if (converts_values()) return attn::element_of<S::kV>(v.number(token, channel));
    return v.element<S::kV>(token, channel);
  }

  __device__ void put_keys(const attn::HeadOperand& k, std::int32_t begin, std::int32_t count,
                           std::int64_t slot) {
    constexpr int kOfWord = 4 / attn::Element<S::kQk>::kBytes;  // elements
    const int log2_row_words = shape_.log2_channels - log2(kOfWord);
    const int row_words = 1 << log2_row_words;
    auto* to = reinterpret_cast<std::uint32_t*>(call_.packed.k) + slot * keys() * row_words;
    for (int i = thread(); i < keys() * row_words; i += shape_.threads) {
      const int word = i & (row_words - 1), key = i >> log2_row_words;
      attn::Elements<S::kQk, 4> element;
#pragma unroll
      for (int e = 0; e < kOfWord; ++e) {
        const int channel = word * kOfWord + e;
        const bool exists = key < count && channel < k.operand().dim;
        element.of[e] = exists ? k.element<S::kQk>(begin + key, channel) : ElementOf<S::kQk>{};
      }
      to[i] = __builtin_bit_cast(std::uint32_t, element);
    }
  }

  const Call& call_;
  const Shape shape_;
  const S scheme_;
};

/// Eight blocks a processor leave 64 registers, of which 40 are used; asked for less, the compiler stops at
/// 32 and spills.
inline constexpr int kPackBlocks = 8;
template <class S, int kIndex>
__global__ void __launch_bounds__((TileShape<S, kIndex>::threads), kPackBlocks)
    pack(const __grid_constant__ Call call) {
  if (call.is_placed_by_memory) ptx::wait_for_earlier_kernels();
  if constexpr (kPacksConstantsAlone<S> && kTileTable[kIndex].keys == kMostKeys) {
    if (call.has_packed_v) return ConstantPacking<S>(call).run();
  }
  Packing<S, TileShape<S, kIndex>>(call, {}).run();
}
template <class S>
__global__ void __launch_bounds__(kMostPackThreads, kPackBlocks)
    pack_any(const __grid_constant__ Call call, const __grid_constant__ AnyShape shape) {
  if (call.is_placed_by_memory) ptx::wait_for_earlier_kernels();
  if constexpr (kPacksConstantsAlone<S>) {
    if (call.has_packed_v) return ConstantPacking<S>(call).run();
  }
  Packing<S, AnyShape>(call, shape).run();
}

}  // namespace octet::cuda::mma
