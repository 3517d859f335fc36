// Any bytes: the safetensors reader gives an error in one line, or tensors that are written and read back the
// same.
#include "io/safetensors.h"
#include "tests/fuzz/require.h"

using namespace octet::tool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file.ok()) {
    octet::fuzz::require_sentence(file.status());
    return 0;
  }
  const auto bytes = encode_safetensors(file.value());
  octet::fuzz::require(bytes.ok(), "what was read can be written");
  const auto again = parse_safetensors(std::as_bytes(std::span(bytes.value())), "again");
  octet::fuzz::require(again.ok(), "what was written can be read");
  octet::fuzz::require(again.value() == file.value(), "it reads back the same");
  return 0;
}
