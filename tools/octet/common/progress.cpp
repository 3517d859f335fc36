#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace octet::tool {
namespace {
using namespace std::chrono_literals;
constexpr auto kPatience = 700ms;  // shorter work shows nothing
constexpr auto kRefresh = 100ms;
constexpr int kWidth = 24;
}  // namespace

Progress::Progress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::advance(std::int64_t steps, const std::string& now) {
  done_ = std::min(done_ + steps, total_);
  const auto time = std::chrono::steady_clock::now();
  if (!terminal_ || time - start_ < kPatience || time - last_ < kRefresh) return;
  last_ = time;
  draw(now);
}

void Progress::draw(const std::string& now) {
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const int filled = static_cast<int>(share * kWidth);
  const double elapsed = std::chrono::duration<double>(last_ - start_).count();
  const double left = share > 0 ? elapsed * (1 - share) / share : 0;
  fmt::print(stderr, "\r\x1b[K{} [{:=<{}}{:<{}}] {:3.0f} %  {:.0f} s left  {}", what_, "", filled, "",
             kWidth - filled, 100 * share, left, now);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace octet::tool
