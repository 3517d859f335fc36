// Any bytes: the .npy reader gives an error in one line, or an array that is written and read back the same.
#include "io/npy.h"
#include "tests/fuzz/require.h"

using namespace octet::tool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensor = parse_npy(std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensor.ok()) {
    octet::fuzz::require_sentence(tensor.status());
    return 0;
  }
  const auto bytes = encode_npy(tensor.value());
  octet::fuzz::require(bytes.ok(), "what was read can be written");
  const auto again = parse_npy(std::as_bytes(std::span(bytes.value())), "again");
  octet::fuzz::require(again.ok(), "what was written can be read");
  octet::fuzz::require(again.value() == tensor.value(), "it reads back the same");
  return 0;
}
