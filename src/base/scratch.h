// Memory of a thread's own that outlives a call: kernels need some hundred KiB a thread, and a call of fifty
// microseconds has no time to ask for them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet {

/// A growing buffer handed out in pieces of whole cache lines. What it handed out before is valid until
/// reset(), growth included: chunks never move.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// Takes everything back; the largest demand so far becomes one chunk.
  void reset();

  /// Uninitialised, aligned to 64 bytes. Throws std::bad_alloc.
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t wanted = lines(count * static_cast<std::int64_t>(sizeof(T)));
    if (end_ - next_ < wanted) grow(wanted);
    std::byte* const at = next_;
    next_ += wanted;
    return reinterpret_cast<T*>(at);
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static std::int64_t lines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

  struct Chunk {
    Chunk* before;
    std::int64_t used_before;  ///< bytes of all chunks before it
  };
  std::byte* begin() const;
  std::int64_t used() const;
  void grow(std::int64_t wanted);
  void drop();

  Chunk* chunk_ = nullptr;
  std::byte *next_ = nullptr, *end_ = nullptr;  ///< of the last chunk
  std::int64_t demand_ = 0;
};

/// The calling thread's. Throws std::bad_alloc.
Scratch& thread_scratch();

/// Scratches are freed for as long as what was made after this lives: who ends threads at the end of the
/// library calls it first.
void keep_scratches();

}  // namespace octet
