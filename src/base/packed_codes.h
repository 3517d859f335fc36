// Codes of tokens in the order in which products read them: who makes codes can put them there at once.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet {

/// Where s8 codes of one sequence of one head go: all of its tokens, and codes of 0 up to a multiple of
/// `tokens`. A token has a byte a channel, so groups of tokens follow each other as they do in rows.
struct PackedCodes {
  enum class Order : std::int32_t {
    columns,  ///< K: [token / tokens][channel / 4][token % tokens][channel % 4]
    quads,    ///< V: [token / 4][channel][token % 4]
  };

  std::byte* data = nullptr;  ///< of token 0; null: codes are not packed
  Order order = Order::columns;
  std::int64_t tokens = 0;  ///< of a column, a multiple of 4; V's come in as many
  std::uint32_t flip = 0;   ///< bits of every 4 bytes of columns that are changed
};

}  // namespace octet
