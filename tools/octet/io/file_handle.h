// What reading and writing files share: an owned descriptor, errno in words, the kind of a file that is not
// regular.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "octet/status.hpp"

namespace octet::tool {

/// One read or write moves at most this much: Linux stops at 2 GiB - 4 KiB, and other systems refuse more
/// than 2 GiB.
inline constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

/// Owns a descriptor; -1 is none.
class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() {
    if (valid()) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  /// Closes and says whether that worked: a network disk reports a failed write here. False leaves errno set.
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

/// "WHAT (No such file or directory); REMEDY", from errno as it is on entry.
inline Status io_error(const std::string& what, std::string_view remedy) {
  const int error = errno;
  return Status(Code::io, what + " (" + std::generic_category().message(error) + "); " + std::string(remedy));
}

inline std::string_view kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "no regular file";
}

}  // namespace octet::tool
