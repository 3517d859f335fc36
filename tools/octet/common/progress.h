// A progress bar on standard error for work of more than a second; silent where that is no terminal. Debian
// 12 has no C++ library for it.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace octet::tool {

class Progress {
 public:
  /// `what` stands before the bar; `total` steps are to come.
  Progress(std::string what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `steps` more are done. `now` says what is being worked on.
  void advance(std::int64_t steps, const std::string& now = {});

 private:
  void draw(const std::string& now);

  std::string what_;
  std::int64_t total_, done_ = 0;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace octet::tool
