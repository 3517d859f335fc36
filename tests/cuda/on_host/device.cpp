// A block's threads by turns: each is a fiber, which runs until it waits for others.
#include "tests/cuda/on_host/device.h"

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
#ifdef OCTET_HAS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) static_cast<void>(from)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) static_cast<void>(from)
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace octet::on_host {

LaneWords* lane_words;
unsigned* lane_turn;
void** lane_places;

namespace {

using boost::context::fiber;

constexpr unsigned kWarp = 32, kMostThreads = 1024, kMostBeside = 16, kBarriers = 16;
constexpr std::size_t kMostShared = 228 << 10, kStack = 128 << 10;

/// Threads that wait for each other; `turn` counts how often all have come.
struct Meeting {
  int threads = 0, waiting = 0;
  unsigned turn = 0;

  void let_go_if_all_wait() {
    if (waiting < threads) return;
    waiting = 0, ++turn;
  }
};
struct Block {
  Meeting meeting;
  Meeting of_some[kBarriers];
  uint3 place;
  uint4* shared;
  int votes = 0;
};
struct Warp {
  Meeting meeting;
  LaneWords words;
  void* places[kWarp];
};
struct Thread {
  fiber rest;  ///< of its way, or none
  uint3 place;
  Block* block;
  Warp* warp;
  unsigned turn = 0;
  const Meeting* waits_at = nullptr;
  unsigned waits_since = 0;

  bool can_go() const { return rest && (!waits_at || waits_at->turn != waits_since); }
};

// Of the blocks that run beside each other.
std::vector<Block> all_blocks;
std::vector<Warp> all_warps;
std::vector<Thread> all_threads;
Meeting together;

// note: static, as what kernels declare: addresses there have 32 bits (cuda/ptx/ldmatrix.cuh). Each block's
// is from a multiple of 4 KiB on, which is more than places are turned around in.
constexpr std::size_t kAlignment = 4096;
static_assert(kMostShared % kAlignment == 0);
alignas(kAlignment) uint4 shared[kMostBeside][kMostShared / sizeof(uint4)];

Thread* current;
fiber scheduler;  ///< who goes on when the current thread waits
bool has_let_others_go;

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "block (%u, %u, %u) of %u threads: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               blockDim.x, why);
  std::abort();
}

void go_away() { scheduler = std::move(scheduler).resume(); }

void wait_at(Meeting& meeting) {
  const unsigned turn = meeting.turn;
  ++meeting.waiting;
  meeting.let_go_if_all_wait();
  if (meeting.turn != turn) return;
  Thread& own = *current;
  own.waits_at = &meeting, own.waits_since = turn;
  go_away();
  own.waits_at = nullptr;
}
/// Threads that have ended are not waited for.
void leave(Meeting& meeting) {
  if (--meeting.threads > 0) meeting.let_go_if_all_wait();
}

void resume(Thread& thread) {
  current = &thread;
  threadIdx = thread.place, blockIdx = thread.block->place;
  lane_words = &thread.warp->words, lane_turn = &thread.turn;
  lane_places = thread.warp->places;
  thread.rest = std::move(thread.rest).resume();
}

/// Until each of its threads waits for others than the warp's, or lets these go. Whether one has gone on.
bool run_warp(std::size_t first, std::size_t end) {
  const Meeting& meeting = all_threads[first].warp->meeting;
  bool has_gone = false;
  unsigned turn;
  has_let_others_go = false;
  do {
    turn = meeting.turn;
    for (std::size_t i = first; i < end; ++i)
      if (all_threads[i].can_go()) resume(all_threads[i]), has_gone = true;
  } while (meeting.turn != turn && !has_let_others_go);
  return has_gone;
}

void run_beside(dim3 of_block, const std::function<void()>& thread) {
  static boost::context::pooled_fixedsize_stack stacks(kStack);
  const unsigned threads = of_block.x * of_block.y, warps = (threads + kWarp - 1) / kWarp;
  all_threads.clear();
  all_warps.assign(all_blocks.size() * warps, {});
  together = {static_cast<int>(all_blocks.size() * threads)};
  for (std::size_t b = 0; b < all_blocks.size(); ++b) {
    all_blocks[b].meeting = {static_cast<int>(threads)};
    for (unsigned i = 0; i < threads; ++i) {
      Warp& warp = all_warps[b * warps + i / kWarp];
      ++warp.meeting.threads;
      fiber way(std::allocator_arg, stacks, [&thread](fiber&& caller) {
        scheduler = std::move(caller);
        thread();
        leave(current->warp->meeting), leave(current->block->meeting), leave(together);
        return std::move(scheduler);
      });
      all_threads.push_back({std::move(way), {i % of_block.x, i / of_block.x, 0}, &all_blocks[b], &warp});
    }
  }
  while (together.threads > 0) {
    bool has_gone = false;
    for (std::size_t first = 0; first < all_threads.size();) {
      std::size_t end = first + 1;
      while (end < all_threads.size() && all_threads[end].warp == all_threads[first].warp) ++end;
      has_gone |= run_warp(first, end);
      first = end;
    }
    if (!has_gone) fail("threads wait for others, which wait elsewhere");
  }
}

}  // namespace

void launch(dim3 blocks, dim3 threads, std::size_t shared_bytes, dim3 cluster,
            const std::function<void()>& thread) {
  blockDim = threads, gridDim = blocks;
  if (shared_bytes > kMostShared) fail("more shared memory than a block has");
  if (threads.x * threads.y > kMostThreads || threads.z != 1) fail("more threads than a block has here");
  const bool are_whole = blocks.x % cluster.x == 0 && blocks.y % cluster.y == 0 && blocks.z % cluster.z == 0;
  const unsigned beside = cluster.x * cluster.y * cluster.z;
  if (!are_whole || beside > kMostBeside) fail("blocks that are no whole clusters");
  for (unsigned z = 0; z < blocks.z; z += cluster.z)
    for (unsigned y = 0; y < blocks.y; y += cluster.y)
      for (unsigned x = 0; x < blocks.x; x += cluster.x) {
        all_blocks.clear();
        for (unsigned i = 0; i < beside; ++i) {
          const unsigned row = i / cluster.x;
          const uint3 place{x + i % cluster.x, y + row % cluster.y, z + row / cluster.y};
          all_blocks.push_back({{}, {}, place, shared[i]});
        }
        for (const Block& of : all_blocks) {
          ASAN_UNPOISON_MEMORY_REGION(of.shared, kMostShared);
          std::memset(of.shared, 0xff, shared_bytes);
          ASAN_POISON_MEMORY_REGION(reinterpret_cast<std::byte*>(of.shared) + shared_bytes,
                                    kMostShared - shared_bytes);  // what a block has not asked for
        }
        run_beside(threads, thread);
      }
}

uint4* dynamic_shared() { return current->block->shared; }
uint4* dynamic_shared_of(unsigned rank) { return all_blocks[rank].shared; }
void wait_for_warp() { wait_at(current->warp->meeting); }
void wait_for_block() { wait_at(current->block->meeting); }
void wait_for_some(int barrier, int threads) {
  Meeting& meeting = current->block->of_some[barrier];
  meeting.threads = threads;
  wait_at(meeting);
}
void wait_for_blocks_beside() { wait_at(together); }
bool is_last_of_warp() {
  const Meeting& meeting = current->warp->meeting;
  return meeting.waiting + 1 == meeting.threads;
}
void let_others_go() {
  has_let_others_go = true;
  go_away();
}

int votes(bool vote) {
  int& now = current->block->votes;
  now += vote ? 1 : 0;
  wait_for_block();
  const int of_all = now;
  wait_for_block();
  now = 0;
  wait_for_block();
  return of_all;
}

}  // namespace octet::on_host
