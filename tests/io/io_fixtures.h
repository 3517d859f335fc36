// What the tests of the tool's files share: tensors to write, bytes to read, a directory of one's own.
#pragma once
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "io/host_tensor.h"

namespace octet::tool {

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A tensor whose bytes are all different where a byte can be: a mixed-up order shows. Booleans alternate.
HostTensor counted_tensor(DType dtype, std::vector<std::int64_t> shape);

/// Every dtype that a file can hold.
inline const std::vector<DType> kFileTypes{DType::f64, DType::f32, DType::f16,  DType::bf16, DType::s8,
                                           DType::u8,  DType::s32, DType::e4m3, DType::e5m2, DType::boolean};

inline const std::vector<std::vector<std::int64_t>> kShapes{
    {}, {3}, {2, 3}, {2, 1, 3}, {1, 2, 3, 2}, {2, 1, 2, 1, 3}, {0}, {2, 0, 4}, {0, 0}};

/// Expects a failure with this code whose message holds every one of the words and is one line.
void expect_refusal(const Status& status, Code code, const std::vector<std::string>& words);

std::string file_text(const std::string& path);

std::string golden(const std::string& name);

/// A directory that is gone after the test. Anyone may enter it, so that a test may become another user.
class TemporaryDirectory : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  void put(const std::string& name, const std::string& text) const;

  std::vector<std::string> names() const;

  std::string directory_;
};

/// Gives up root's power over permissions for a while; does nothing to other users, whom they bind anyway.
class WithoutPrivileges {
 public:
  WithoutPrivileges();
  ~WithoutPrivileges();

 private:
  bool root_;
};

}  // namespace octet::tool
