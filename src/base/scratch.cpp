#include "base/scratch.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>

namespace octet {
namespace {

constexpr std::int64_t kLeast = 64 * 1024;

}  // namespace

Scratch::~Scratch() { drop(); }

void Scratch::drop() {
  while (chunk_) {
    Chunk* before = chunk_->before;
    ::operator delete (chunk_, std::align_val_t{kLine});
    chunk_ = before;
  }
  next_ = end_ = nullptr;
}

std::byte* Scratch::begin() const {
  static_assert(sizeof(Chunk) <= kLine);
  return reinterpret_cast<std::byte*>(chunk_) + kLine;
}

std::int64_t Scratch::used() const { return chunk_ ? chunk_->used_before + (next_ - begin()) : 0; }

void Scratch::reset() {
  demand_ = std::max(demand_, used());
  if (chunk_ && chunk_->before) drop();  // several chunks: the next take() makes one that holds them all
  if (chunk_) next_ = begin();
}

void Scratch::grow(std::int64_t wanted) {
  const std::int64_t before = used(), size = std::max({kLeast, demand_, wanted});
  void* const memory = ::operator new (static_cast<std::size_t>(kLine + size), std::align_val_t{kLine});
  chunk_ = new (memory) Chunk{chunk_, before};
  next_ = begin(), end_ = next_ + size;
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
