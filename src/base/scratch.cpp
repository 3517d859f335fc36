#include "base/scratch.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>

namespace octet {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kLeast = 64 * 1024;

std::int64_t lines(std::int64_t count) { return (count + kLine - 1) / kLine * kLine; }

}  // namespace

Scratch::~Scratch() { drop(); }

void Scratch::drop() {
  while (chunk_) {
    Chunk* before = chunk_->before;
    ::operator delete (chunk_, std::align_val_t{kLine});
    chunk_ = before;
  }
}

void Scratch::reset() {
  if (chunk_ && chunk_->before) drop();  // several chunks: the next take() makes one that holds them all
  if (chunk_) chunk_->used = 0;
}

void* Scratch::bytes(std::int64_t count) {
  const std::int64_t header = lines(static_cast<std::int64_t>(sizeof(Chunk))), wanted = lines(count);
  if (!chunk_ || chunk_->used + wanted > chunk_->size) {
    const std::int64_t size = std::max({kLeast, demand_, wanted});
    void* memory = ::operator new (static_cast<std::size_t>(header + size), std::align_val_t{kLine});
    chunk_ = new (memory) Chunk{chunk_, size, 0};
  }
  std::byte* at = reinterpret_cast<std::byte*>(chunk_) + header + chunk_->used;
  chunk_->used += wanted;
  std::int64_t used = 0;
  for (const Chunk* c = chunk_; c; c = c->before) used += c->used;
  demand_ = std::max(demand_, used);
  return at;
}

namespace {

/// Each thread's scratch, which a key's destructor frees when the thread ends. A thread_local object would
/// keep the library loaded until then, for its destructor lies there; the key is given up with the library.
/// What other threads hold then stays: they may be in the middle of a call while the process exits.
class Scratches {
 public:
  Scratches() : has_key_(pthread_key_create(&key_, free_one) == 0) {}
  ~Scratches() {
    if (!has_key_) return;
    free_one(pthread_getspecific(key_));
    pthread_key_delete(key_);
  }
  Scratches(const Scratches&) = delete;
  Scratches& operator=(const Scratches&) = delete;

  Scratch& mine() const {
    if (!has_key_) throw std::bad_alloc();  // the system has no key left
    if (void* known = pthread_getspecific(key_)) return *static_cast<Scratch*>(known);
    auto fresh = std::make_unique<Scratch>();
    if (pthread_setspecific(key_, fresh.get()) != 0) throw std::bad_alloc();
    return *fresh.release();
  }

 private:
  static void free_one(void* scratch) { delete static_cast<Scratch*>(scratch); }

  pthread_key_t key_{};
  bool has_key_;
};

const Scratches& scratches() {
  static const Scratches all;
  return all;
}

}  // namespace

void keep_scratches() { scratches(); }

Scratch& thread_scratch() { return scratches().mine(); }

}  // namespace octet
