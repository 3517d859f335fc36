// Files on a disk: what is not a readable file is refused, and what is written is there whole or not at all.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "tests/io/io_fixtures.h"

namespace octet::tool {
namespace {

class ReadingFiles : public TemporaryDirectory {
 protected:
  void expect_unreadable(const std::string& where, const std::vector<std::string>& words) {
    expect_refusal(read_safetensors(where).status(), Code::io, words);
    expect_refusal(read_npy(where).status(), Code::io, words);
  }
};

TEST_F(ReadingFiles, WhatIsNoReadableFileIsRefused) {
  expect_unreadable(path("missing"), {"missing", "No such file"});
  expect_unreadable(path("missing/file"), {"No such file"});
  expect_unreadable("", {"No such file"});
  expect_unreadable(directory_, {"a directory"});
  expect_unreadable("/dev/null", {"/dev/null", "a device"});
  expect_unreadable(std::string("a\0b", 3), {"NUL"});
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0666), 0);
  expect_unreadable(path("pipe"), {"a pipe"});
}

TEST_F(ReadingFiles, AFileWithoutPermissionIsRefused) {
  put("secret", "x");
  ASSERT_EQ(::chmod(path("secret").c_str(), 0), 0);
  const WithoutPrivileges nobody;
  expect_unreadable(path("secret"), {"secret", "Permission denied"});
}

TEST_F(ReadingFiles, AnEmptyFileIsRefused) {
  put("empty", "");
  expect_refusal(read_safetensors(path("empty")).status(), Code::invalid_argument, {"0 bytes", "empty"});
  expect_refusal(read_npy(path("empty")).status(), Code::invalid_argument, {"0 bytes", "empty"});
}

TEST_F(ReadingFiles, AFileThatShrinksWhileItIsReadIsAnError) {
  put("file", std::string(100, 'x'));
  Result<ByteSource> source = file_source(path("file"));
  ASSERT_TRUE(source.ok());
  ASSERT_EQ(::truncate(path("file").c_str(), 10), 0);
  std::vector<std::byte> to(100);
  expect_refusal(source.value().read(0, to), Code::io, {"ended at byte 10"});
}

TEST_F(ReadingFiles, WrittenFilesReadBack) {
  const TensorFile file{
      {{"q", counted_tensor(DType::f32, {1, 2, 3, 4})}, {"m", counted_tensor(DType::boolean, {5})}},
      {{"k", "v"}}};
  ASSERT_TRUE(write_safetensors(path("f"), file).ok());
  Result<TensorFile> read = read_safetensors(path("f"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.value() == file);
  EXPECT_EQ(file_text(path("f")), encode_safetensors(file).value());

  ASSERT_TRUE(write_npy(path("n"), file.tensors.at("q")).ok());
  EXPECT_TRUE(read_npy(path("n")).take() == file.tensors.at("q"));
  EXPECT_EQ(file_text(path("n")), encode_npy(file.tensors.at("q")).value());
  EXPECT_EQ(names().size(), 2u);
}

class AtomicFile : public TemporaryDirectory {
 protected:
  Status write(const std::string& where, const std::string& text) {
    return write_file_atomically(where, bytes_of(text));
  }

  void expect_only(const std::string& name, const std::string& text) {
    EXPECT_EQ(names(), std::vector<std::string>{name});
    EXPECT_EQ(file_text(path(name)), text);
  }
};

TEST_F(AtomicFile, WritesNewAndReplacesOldFiles) {
  ASSERT_TRUE(write(path("f"), "first, and longer").ok());
  expect_only("f", "first, and longer");
  ASSERT_TRUE(write(path("f"), "second").ok());
  expect_only("f", "second");
  ASSERT_TRUE(write(path("f"), "").ok());
  expect_only("f", "");
}

TEST_F(AtomicFile, PiecesAreWrittenInOrder) {
  const std::string a = "one ", b, c = "three";
  const std::vector<ByteSpan> pieces{bytes_of(a), bytes_of(b), bytes_of(c)};
  ASSERT_TRUE(write_file_atomically(path("f"), pieces).ok());
  expect_only("f", "one three");
}

TEST_F(AtomicFile, NamesWithoutADirectoryAreOfTheCurrentOne) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  const Status status = write("f", "here");
  std::filesystem::current_path(before);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_only("f", "here");
}

TEST_F(AtomicFile, PermissionsAreKeptOrThoseOfTheUmask) {
  const mode_t before = ::umask(027);
  const auto mode = [this] {
    struct stat info {};
    EXPECT_EQ(::stat(path("f").c_str(), &info), 0);
    return info.st_mode & mode_t{07777};
  };
  EXPECT_TRUE(write(path("f"), "x").ok());
  EXPECT_EQ(mode(), mode_t{0640});
  EXPECT_EQ(::chmod(path("f").c_str(), 0604), 0);
  EXPECT_TRUE(write(path("f"), "y").ok());
  EXPECT_EQ(mode(), mode_t{0604});
  ::umask(before);
}

TEST_F(AtomicFile, SymbolicLinksStayAndTheirTargetIsReplaced) {
  put("real", "old");
  std::filesystem::create_symlink("real", path("link"));
  ASSERT_TRUE(write(path("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(file_text(path("real")), "new");
  EXPECT_EQ(names().size(), 2u);
  std::filesystem::create_symlink("nowhere", path("dangling"));
  expect_refusal(write(path("dangling"), "x"), Code::io, {"dangling", "leads nowhere"});
}

TEST_F(AtomicFile, OnlyRegularFilesAreReplaced) {
  expect_refusal(write(directory_, "x"), Code::io, {"a directory"});
  expect_refusal(write("/dev/null", "x"), Code::io, {"/dev/null", "a device"});
  expect_refusal(write("", "x"), Code::io, {"no file name"});
  expect_refusal(write(std::string("a\0b", 3), "x"), Code::io, {"no file name"});
  expect_refusal(write(path("new/"), "x"), Code::io, {"No such file"});
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0666), 0);
  expect_refusal(write(path("pipe"), "x"), Code::io, {"a pipe"});
  EXPECT_EQ(names(), std::vector<std::string>{"pipe"});
}

TEST_F(AtomicFile, AMissingDirectoryIsAnError) {
  expect_refusal(write(path("missing/f"), "x"), Code::io, {"missing/f", "No such file", "directory exists"});
  put("file", "x");
  expect_refusal(write(path("file/f"), "x"), Code::io, {"Not a directory"});
  expect_only("file", "x");
}

TEST_F(AtomicFile, AReadOnlyDirectoryIsAnErrorAndLeavesTheFile) {
  put("f", "old");
  ASSERT_EQ(::chmod(directory_.c_str(), 0555), 0);
  {
    const WithoutPrivileges nobody;
    expect_refusal(write(path("f"), "new"), Code::io, {"Permission denied", "may write"});
    expect_refusal(write(path("g"), "new"), Code::io, {"Permission denied", "may write"});
  }
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  expect_only("f", "old");
}

/// Lets no file grow beyond a limit, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit now{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(AtomicFile, AWriteThatFailsMidwayLeavesTheOldFileAndNothingElse) {
  put("f", "old");
  const std::string large(1 << 20, 'x');
  Status over, fresh;
  {
    const FileSizeLimit limit(100'000);  // some of it is written before it fails
    over = write(path("f"), large);
    fresh = write(path("g"), large);
  }
  expect_refusal(over, Code::io, {"could not be written", "File too large", "free space"});
  expect_refusal(fresh, Code::io, {"could not be written"});
  expect_only("f", "old");
}

TEST_F(AtomicFile, ALeftoverTemporaryDoesNotStopTheNextWrite) {
  const std::string leftover = "f.octet-tmp-" + std::to_string(::getpid());
  put(leftover, "of a killed process");
  ASSERT_TRUE(write(path("f"), "new").ok());
  EXPECT_EQ(file_text(path("f")), "new");
  EXPECT_EQ(file_text(path(leftover)), "of a killed process");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(AtomicFile, TheLongestNameThatTheDiskAllowsIsWritten) {
  const std::string longest(255, 'n');
  const Status status = write(path(longest), "x");
  ASSERT_TRUE(status.ok()) << status.message();
  expect_only(longest, "x");
  expect_refusal(write(path(longest + "n"), "x"), Code::io, {"too long"});
}

TEST_F(AtomicFile, ATensorThatCannotBeEncodedLeavesTheOldFile) {
  put("f", "old");
  HostTensor tensor = counted_tensor(DType::bf16, {2});
  expect_refusal(write_npy(path("f"), tensor), Code::unsupported, {"bf16"});
  tensor.shape = {3};
  expect_refusal(write_safetensors(path("f"), {{{"t", tensor}}, {}}), Code::invalid_argument,
                 {"\"t\"", "needs 6"});
  expect_only("f", "old");
}

}  // namespace
}  // namespace octet::tool
