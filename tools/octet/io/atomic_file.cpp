#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "io/file_handle.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

struct Target {
  std::string path;            ///< symbolic links resolved
  std::optional<mode_t> mode;  ///< of the existing file
};

/// A temporary file that removes itself unless it was renamed.
struct Temporary {
  std::string path;
  FileHandle file;
  Temporary(std::string where, int fd) : path(std::move(where)), file(fd) {}
  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

/// Where the bytes really go. Refuses what a rename must not replace: as root it would turn /dev/null into a
/// plain file.
Result<Target> resolve(const std::string& path) {
  const std::string name = in_quotes(path);
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::io, name + " is no file name (it is empty or contains a NUL); use another name");
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && path.back() != '/') return Target{path, std::nullopt};
    return io_error(name + " could not be examined", "check the name and the permissions of its directory");
  }
  Target target{path, std::nullopt};
  if (S_ISLNK(info.st_mode)) {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    if (!real || ::stat(real.get(), &info) != 0) {
      return io_error(name + " is a symbolic link that leads nowhere",
                      "remove it, or create what it points to");
    }
    target.path = real.get();
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::io, name + " is " + std::string(kind_of_file(info.st_mode)) +
                                ", but output replaces only regular files; use another name");
  }
  target.mode = info.st_mode & mode_t{07777};
  return target;
}

/// Creates a file beside the target, on the same disk so that a rename is atomic, under a name that nobody
/// else has.
Result<std::unique_ptr<Temporary>> create_beside(const std::string& target, const std::string& name) {
  constexpr std::size_t kKept =
      200;  // of the name: with the suffix it stays below the 255 bytes that disks allow
  constexpr int kAttempts = 100;  // leftovers of earlier processes with our number
  const std::size_t base = target.find_last_of('/') == std::string::npos ? 0 : target.find_last_of('/') + 1;
  const std::string stem =
      target.substr(0, std::min(target.size(), base + kKept)) + ".octet-tmp-" + std::to_string(::getpid());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string path = attempt == 0 ? stem : stem + "-" + std::to_string(attempt);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return std::make_unique<Temporary>(path, fd);
    if (errno != EEXIST) break;
  }
  return io_error(name + " could not be written: no temporary file could be created beside it",
                  "check that its directory exists and that you may write to it");
}

bool write_all(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Status write_file_atomically(const std::string& path, std::span<const ByteSpan> pieces) {
  const std::string name = in_quotes(path);
  Result<Target> target = resolve(path);
  if (!target.ok()) return target.status();
  Result<std::unique_ptr<Temporary>> created = create_beside(target.value().path, name);
  if (!created.ok()) return created.status();
  Temporary& temporary = *created.value();

  bool done = !target.value().mode || ::fchmod(temporary.file.fd(), *target.value().mode) == 0;
  for (ByteSpan piece : pieces) done = done && write_all(temporary.file.fd(), piece);
  // The bytes must be on disk before the name is: after a power cut a rename may survive what it renamed. The
  // directory is not flushed: until it is, the old file is there, which is just as whole.
  done = done && ::fsync(temporary.file.fd()) == 0 && temporary.file.close();
  if (!done)
    return io_error(name + " could not be written", "check the free space and the limits of its disk");
  if (::rename(temporary.path.c_str(), target.value().path.c_str()) != 0) {
    return io_error(name + " could not be put in place", "check the permissions of its directory");
  }
  temporary.path.clear();
  return {};
}

Status write_file_atomically(const std::string& path, ByteSpan bytes) {
  return write_file_atomically(path, std::span<const ByteSpan>(&bytes, 1));
}

}  // namespace octet::tool
