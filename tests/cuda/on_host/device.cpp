// A block's threads by turns: each is a fiber, which runs until it waits for others.
#include "tests/cuda/on_host/device.h"

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace octet::on_host {

LaneWords* lane_words;
unsigned* lane_turn;

namespace {

using boost::context::fiber;

constexpr int kWarp = 32, kMostWarps = 32;
constexpr std::size_t kMostShared = 227 << 10, kStack = 128 << 10;

/// Threads that wait for each other; `turn` counts how often all have come.
struct Meeting {
  int threads = 0, waiting = 0;
  unsigned turn = 0;

  void let_go_if_all_wait() {
    if (waiting < threads) return;
    waiting = 0, ++turn;
  }
};
struct Warp {
  Meeting meeting;
  LaneWords words;
};
struct Thread {
  fiber rest;  ///< of its way, or none
  unsigned turn = 0;
  const Meeting* waits_at = nullptr;
  unsigned waits_since = 0;

  bool can_go() const { return rest && (!waits_at || waits_at->turn != waits_since); }
};

alignas(4096) uint4 shared[kMostShared / sizeof(uint4)];
Warp warps[kMostWarps];
Meeting block;
int votes_now;
std::vector<Thread> all;  ///< of the block
fiber scheduler;          ///< who goes on when the thread that runs waits

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "block (%u, %u, %u) of %u threads: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               blockDim.x, why);
  std::abort();
}

Warp& warp() { return warps[threadIdx.x / kWarp]; }

void wait_at(Meeting& meeting) {
  const unsigned turn = meeting.turn;
  ++meeting.waiting;
  meeting.let_go_if_all_wait();
  if (meeting.turn != turn) return;
  Thread& own = all[threadIdx.x];
  own.waits_at = &meeting, own.waits_since = turn;
  let_others_go();
  own.waits_at = nullptr;
}
/// Threads that have ended are not waited for.
void leave(Meeting& meeting) {
  if (--meeting.threads > 0) meeting.let_go_if_all_wait();
}

/// Until each of its threads waits for other warps, or for what it looks at. Whether one has gone on.
bool run_warp(unsigned first, unsigned end) {
  lane_words = &warps[first / kWarp].words;
  bool has_gone = false;
  unsigned turn;
  do {
    turn = warps[first / kWarp].meeting.turn;
    for (unsigned i = first; i < end; ++i) {
      if (!all[i].can_go()) continue;
      threadIdx = {i, 0, 0};
      lane_turn = &all[i].turn;
      all[i].rest = std::move(all[i].rest).resume();
      has_gone = true;
    }
  } while (warps[first / kWarp].meeting.turn != turn);
  return has_gone;
}

void run_block(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  static boost::context::pooled_fixedsize_stack stacks(kStack);
  std::memset(shared, 0xff, shared_bytes);
  for (Warp& w : warps) w.meeting = {};
  block = {static_cast<int>(threads)};
  votes_now = 0;
  all.clear();
  for (unsigned i = 0; i < threads; ++i) {
    ++warps[i / kWarp].meeting.threads;
    all.push_back({fiber(std::allocator_arg, stacks, [&thread](fiber&& caller) {
      scheduler = std::move(caller);
      thread();
      leave(warp().meeting), leave(block);
      return std::move(scheduler);
    })});
  }
  while (block.threads > 0) {
    bool has_gone = false;
    for (unsigned first = 0; first < threads; first += kWarp)
      has_gone |= run_warp(first, std::min(first + kWarp, threads));
    if (!has_gone) fail("threads wait for others, which wait elsewhere");
  }
}

}  // namespace

void launch(dim3 blocks, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  blockDim = threads, gridDim = blocks;
  if (shared_bytes > kMostShared) fail("more shared memory than a block has");
  if (threads.x > kWarp * kMostWarps || threads.y * threads.z != 1)
    fail("more threads than a block has here");
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) {
        blockIdx = {x, y, z};
        run_block(threads.x, shared_bytes, thread);
      }
}

void let_others_go() { scheduler = std::move(scheduler).resume(); }
uint4* dynamic_shared() { return shared; }
void wait_for_warp() { wait_at(warp().meeting); }
void wait_for_block() { wait_at(block); }

int votes(bool vote) {
  votes_now += vote ? 1 : 0;
  wait_for_block();
  const int of_all = votes_now;
  wait_for_block();
  votes_now = 0;
  wait_for_block();
  return of_all;
}

}  // namespace octet::on_host
