// The tool's own threads: as many as --threads says, with a progress bar over a call's work items.
#pragma once
#include <cstdint>
#include <string>

#include "octet/types.hpp"

namespace octet::tool {

/// Processors that this process may use; 1 and more.
int available_processors();

class Threads {
 public:
  /// `count` threads, the caller among them; 0: all that the process may use.
  explicit Threads(int count) : count_(count > 0 ? count : available_processors()) {}
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return count_; }

  /// What the progress bar of the calls that follow says; empty: no bar.
  void announce(std::string what) { what_ = std::move(what); }

  /// For AttentionArgs. Points at this object, which must outlive the call.
  ParallelFor parallel_for() { return {&run, this}; }

 private:
  static void run(void* pool, std::int64_t count, void (*body)(void* context, std::int64_t i), void* context);

  int count_;
  std::string what_;
};

}  // namespace octet::tool
