// What a fuzz target demands of the code under test: a broken promise aborts, which libFuzzer reports with
// its input.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "octet/status.hpp"

namespace octet::fuzz {

inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// An error that a terminal can show: printable ASCII in one line, of bounded length, with a remedy, and
/// nobody's bug.
inline void require_sentence(const Status& status) {
  constexpr std::size_t kLongest = 2000;  // a shape of 64 sizes with 19 digits each is the longest part
  const std::string& text = status.message();
  require(status.code() != Code::ok && status.code() != Code::internal,
          "an error of the input has its own code");
  require(!text.empty() && text.size() < kLongest, "a message is one sentence");
  require(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }),
          "a message is printable");
  require(text.find("; ") != std::string::npos, "a message has a remedy");
}

}  // namespace octet::fuzz
