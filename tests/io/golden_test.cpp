// Files that the safetensors and numpy libraries wrote (tests/data/io/make_golden.py): we read what they
// wrote, and write the same bytes, so they read what we write.
#include "io/npy.h"
#include "io/safetensors.h"
#include "tests/io/io_fixtures.h"

namespace octet::tool {
namespace {

template <class T>
void fill(HostTensor& tensor, int first, int step) {
  for (std::size_t i = 0; T & value : tensor.values<T>())
    value = static_cast<T>(first + step * static_cast<int>(i++));
}

/// The tensor that make_golden.py describes.
HostTensor expected(DType dtype, std::vector<std::int64_t> shape) {
  HostTensor tensor = make_host_tensor(dtype, std::move(shape)).take();
  switch (dtype) {
    case DType::f64:
      fill<double>(tensor, -2, 1);
      break;
    case DType::f32:
      fill<float>(tensor, -2, 1);
      break;
    case DType::s32:
      fill<std::int32_t>(tensor, -2, 1);
      break;
    case DType::s8:
      fill<std::int8_t>(tensor, -2, 1);
      break;
    case DType::u8:
      fill<std::uint8_t>(tensor, 0, 1);
      break;
    case DType::bf16:
      fill<std::uint16_t>(tensor, 0, 16);
      break;
    case DType::e4m3:
    case DType::e5m2:
      fill<std::uint8_t>(tensor, 0, 16);
      break;
    case DType::boolean:
      for (std::size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i % 2);
      break;
    case DType::f16: {
      const std::uint16_t bits[] = {0xC000, 0xBC00, 0x0000, 0x3C00, 0x4000, 0x4200};  // -2 to 3
      std::copy_n(bits, tensor.values<std::uint16_t>().size(), tensor.values<std::uint16_t>().begin());
      break;
    }
    case DType::s4:
      ADD_FAILURE() << "no file holds s4";
      break;
  }
  return tensor;
}

TEST(Golden, SafetensorsOfTheLibraryReadsAndIsWrittenByteForByte) {
  TensorFile want;
  const std::vector<std::pair<std::string, DType>> types{
      {"float64", DType::f64},     {"float32", DType::f32},  {"float16", DType::f16},
      {"bfloat16", DType::bf16},   {"int8", DType::s8},      {"uint8", DType::u8},
      {"int32", DType::s32},       {"bool", DType::boolean}, {"float8_e4m3fn", DType::e4m3},
      {"float8_e5m2", DType::e5m2}};
  for (const auto& [name, dtype] : types) want.tensors[name] = expected(dtype, {1, 2, 3});
  want.tensors["scalar"] = expected(DType::f32, {});
  want.tensors["empty"] = expected(DType::f16, {2, 0, 4});
  want.metadata["made"] = "by \"safetensors\", \u00e9";

  const std::string path = golden("every_dtype.safetensors");
  Result<TensorFile> read = read_safetensors(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (const auto& [name, tensor] : want.tensors) EXPECT_TRUE(read.value().tensors[name] == tensor) << name;
  EXPECT_TRUE(read.value() == want);
  Result<std::string> written = encode_safetensors(want);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written.value(), file_text(path));
}

TEST(Golden, SafetensorsWithInt64LengthsReads) {
  Result<TensorFile> read = read_safetensors(golden("int64.safetensors"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.value().tensors.at("cu_seqlens") == expected(DType::s32, {4}));
}

TEST(Golden, NpyOfNumpyReadsAndIsWrittenByteForByte) {
  struct Case {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
  };
  const std::vector<Case> cases{{"float64", DType::f64, {2, 3}},  {"float32", DType::f32, {2, 3}},
                                {"float16", DType::f16, {2, 3}},  {"int8", DType::s8, {2, 3}},
                                {"uint8", DType::u8, {2, 3}},     {"int32", DType::s32, {2, 3}},
                                {"bool", DType::boolean, {2, 3}}, {"scalar", DType::f32, {}},
                                {"vector", DType::f32, {3}},      {"empty", DType::f16, {2, 0, 4}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const HostTensor want = expected(c.dtype, c.shape);
    Result<HostTensor> read = read_npy(golden(c.name + ".npy"));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(read.value() == want);
    Result<std::string> written = encode_npy(want);
    ASSERT_TRUE(written.ok()) << written.status().message();
    EXPECT_EQ(written.value(), file_text(golden(c.name + ".npy")));
  }
}

TEST(Golden, NpyVariantsOfNumpyRead) {
  EXPECT_TRUE(read_npy(golden("int64.npy")).take() == expected(DType::s32, {2, 3}));
  EXPECT_TRUE(read_npy(golden("version2.npy")).take() == expected(DType::f32, {2, 3}));
  EXPECT_TRUE(read_npy(golden("version3.npy")).take() == expected(DType::f32, {2, 3}));
  EXPECT_TRUE(read_npy(golden("fortran.npy")).take() == expected(DType::f32, {2, 3, 4}));
  expect_refusal(read_npy(golden("big_endian.npy")).status(), Code::unsupported, {"big-endian"});
  expect_refusal(read_npy(golden("structured.npy")).status(), Code::unsupported, {"structured"});
}

}  // namespace
}  // namespace octet::tool
