#include "tests/io/io_fixtures.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace octet::tool {

HostTensor counted_tensor(DType dtype, std::vector<std::int64_t> shape) {
  Result<HostTensor> made = make_host_tensor(dtype, std::move(shape));
  EXPECT_TRUE(made.ok()) << made.status().message();
  HostTensor tensor = made.take();
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
    tensor.bytes[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : (i * 37 + 11) % 256);
  }
  return tensor;
}

void expect_refusal(const Status& status, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "no '" << word << "' in: " << status.message();
  }
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(';'), std::string::npos) << "no remedy in: " << status.message();
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string golden(const std::string& name) { return std::string(OCTET_SOURCE_DIR "/tests/data/io/") + name; }

void TemporaryDirectory::SetUp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "octet-io-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  directory_ = pattern;
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
}

void TemporaryDirectory::TearDown() { std::filesystem::remove_all(directory_); }

void TemporaryDirectory::put(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::vector<std::string> TemporaryDirectory::names() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    found.push_back(entry.path().filename());
  return found;
}

WithoutPrivileges::WithoutPrivileges() : root_(::geteuid() == 0) {
  constexpr uid_t kNobody = 65534;
  if (root_) {
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
}

WithoutPrivileges::~WithoutPrivileges() {
  if (root_) {
    EXPECT_EQ(::seteuid(0), 0);
  }
}

}  // namespace octet::tool
