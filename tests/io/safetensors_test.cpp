// Safetensors files: what is written reads back, and what breaks the format is refused with a reason.
#include "io/safetensors.h"

#include <cstring>

#include "tests/io/io_fixtures.h"

namespace octet::tool::safetensors_test {
namespace {

/// A file with this header, its length before it, and this much data.
std::string file_with(const std::string& header, std::size_t data_bytes = 0) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\1');
}

Status status_of(const std::string& file) {
  return parse_safetensors(bytes_of(file), "f.safetensors").status();
}

void expect_invalid(const std::string& file, const std::vector<std::string>& words) {
  SCOPED_TRACE(in_quotes(file.substr(0, 200)));
  std::vector<std::string> all = words;
  all.push_back("f.safetensors");
  expect_refusal(status_of(file), Code::invalid_argument, all);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

/// One tensor "a" with these claims.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":)" + entry(dtype, shape, offsets) + "}";
}

TEST(Safetensors, EveryDtypeAndRankReadsBackAsWritten) {
  for (DType dtype : kFileTypes) {
    for (const auto& shape : kShapes) {
      SCOPED_TRACE(dtype_name(dtype) + " " + shape_text(shape));
      const TensorFile file{{{"t", counted_tensor(dtype, shape)}}, {}};
      Result<std::string> bytes = encode_safetensors(file);
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      EXPECT_EQ(bytes.value().size() % 8, static_cast<std::size_t>(*total_bytes(dtype, shape)) % 8);
      Result<TensorFile> read = parse_safetensors(bytes_of(bytes.value()), "f");
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_TRUE(read.value() == file);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.value().tensors.at("t").bytes.data()) % 64, 0u);
    }
  }
}

TEST(Safetensors, ManyTensorsWithMetadataReadBackAsWritten) {
  TensorFile file;
  for (DType dtype : kFileTypes) {
    for (const auto& shape : kShapes) {
      file.tensors[dtype_name(dtype) + shape_text(shape)] = counted_tensor(dtype, shape);
    }
  }
  file.tensors[""] = counted_tensor(DType::f32, {1});
  file.tensors["quote\" back\\slash \n \u00e9"] = counted_tensor(DType::s8, {3});
  file.metadata = {{"", ""}, {"key", "va\"lue"}, {"\u00e9", std::string("a\0b", 3)}};
  Result<std::string> bytes = encode_safetensors(file);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  Result<TensorFile> read = parse_safetensors(bytes_of(bytes.value()), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.value() == file);
}

TEST(Safetensors, AFileWithNoTensorsIsValid) {
  for (const char* header : {"{}", "{}      ", "{ } ", "{}\n", R"({"__metadata__":{}})"}) {
    Result<TensorFile> read = parse_safetensors(bytes_of(file_with(header)), "f");
    ASSERT_TRUE(read.ok()) << header << ": " << read.status().message();
    EXPECT_TRUE(read.value() == TensorFile{});
  }
}

TEST(Safetensors, OrderOfTheHeaderDoesNotMatter) {
  const std::string header =
      R"({ "b" : {"data_offsets":[2,4],"shape":[2],"dtype":"U8"} , "__metadata__":{"x":"y"},)"
      R"("e":{"shape":[0,9],"dtype":"F32","data_offsets":[2,2]},)"
      R"("a":{"shape":[],"dtype":"F16","data_offsets":[0,2]}})";
  Result<TensorFile> read = parse_safetensors(bytes_of(file_with(header, 4)), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().tensors.size(), 3u);
  EXPECT_EQ(read.value().metadata.at("x"), "y");
  EXPECT_EQ(read.value().tensors.at("e").shape, (std::vector<std::int64_t>{0, 9}));
}

TEST(Safetensors, EveryTruncationAndEveryExtensionIsRefused) {
  const TensorFile file{
      {{"a", counted_tensor(DType::f32, {2, 3})}, {"b", counted_tensor(DType::boolean, {3})}}, {{"k", "v"}}};
  const std::string whole = encode_safetensors(file).take();
  ASSERT_TRUE(status_of(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    expect_invalid(whole.substr(0, length), {});
  }
  expect_invalid(whole + '\0', {"every byte must belong"});
}

TEST(Safetensors, NoSingleWrongByteCrashesOrChangesWhatIsThere) {
  const TensorFile file{{{"a", counted_tensor(DType::f32, {2})}}, {{"k", "v"}}};
  const std::string whole = encode_safetensors(file).take();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size() - 8; ++at) {  // the last 8 bytes are values: anything goes
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Result<TensorFile> read = parse_safetensors(bytes_of(damaged), "f");
      refused += read.ok() ? 0 : 1;
      if (read.ok()) {
        // What stays valid is another name or text, the twin dtype I32, or other white space: 8 bytes of data
        // all the same.
        ASSERT_EQ(read.value().tensors.size(), 1u) << at << " " << bit;
        EXPECT_EQ(read.value().tensors.begin()->second.bytes.size(), 8u) << at << " " << bit;
      }
    }
  }
  EXPECT_GT(refused, 400);
}

TEST(Safetensors, LengthOfTheHeaderIsCheckedBeforeItIsAllocated) {
  for (std::uint64_t claim : {std::uint64_t{100'000'001}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string file = file_with("{}");
    std::memcpy(file.data(), &claim, 8);
    expect_invalid(file, {"claims a header of " + std::to_string(claim), "100000000"});
  }
  std::string file = file_with("{}");
  file[0] = 3;
  expect_invalid(file, {"claims a header of 3 bytes, but has only 2"});
  expect_invalid("", {"0 bytes", "empty"});
  expect_invalid(std::string(8, '\0'), {"begin with '{'"});
}

TEST(Safetensors, HeadersThatAreNotJsonAreRefused) {
  for (const char* header : {"{", "{}}", "{} x", "{]", "{\"a\"}", "{\"a\":}", "{\"__metadata__\":{},}", "{,}",
                             "{'a':1}", "{\"a\":tru}", "{\"a\":{\"shape\":[01]}}", "{}//", "{}/**/", "{\"a",
                             "{\"a\\q\":1}", "{\"\\ud800\":{}}", "{\"a\":-}"}) {
    expect_invalid(file_with(header), {"not valid UTF-8 JSON"});
  }
  for (const char* header : {" {}", "[]", "\"\"", "1", "null", "\xef\xbb\xbf{}", "\x80"}) {
    expect_invalid(file_with(header), {"begin with '{'"});
  }
}

TEST(Safetensors, NulInTheHeaderIsRefusedWhereverItIs) {
  expect_invalid(file_with(std::string("{}\0", 3)), {"NUL", "byte 2"});
  expect_invalid(file_with(std::string("{}\0{\"a\":1}", 10)), {"NUL"});
  expect_invalid(file_with(std::string("{\"a\0\":{}}", 9)), {"NUL"});
}

TEST(Safetensors, TextThatIsNotUtf8IsRefused) {
  for (const char* name : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe9", "\xf5\x80\x80\x80"}) {
    const std::string text = std::string("\"") + name + "\":";
    expect_invalid(file_with("{" + text + entry("U8", "[0]", "[0,0]") + "}"), {"UTF-8"});
    expect_invalid(file_with("{\"__metadata__\":{" + text + "\"x\"}}"), {"UTF-8"});
  }
}

TEST(Safetensors, DeepNestingIsRefusedWithoutDepth) {
  const std::string deep(100'000, '['), objects = [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
    return text;
  }();
  expect_invalid(file_with("{\"a\":" + deep), {"an array"});
  expect_invalid(file_with("{\"a\":{\"shape\":" + deep), {"an array"});
  expect_invalid(file_with("{\"__metadata__\":{\"a\":" + deep), {"an array"});
  expect_invalid(file_with(objects), {"the key \"a\""});
}

TEST(Safetensors, DuplicateKeysAreRefused) {
  const std::string a = entry("U8", "[0]", "[0,0]");
  expect_invalid(file_with("{\"a\":" + a + ",\"a\":" + a + "}"), {"\"a\" twice"});
  expect_invalid(file_with("{\"a\":" + a + ",\"\\u0061\":" + a + "}"), {"\"a\" twice"});
  expect_invalid(file_with(R"({"__metadata__":{},"__metadata__":{}})"), {"\"__metadata__\" twice"});
  expect_invalid(file_with(R"({"__metadata__":{"k":"1","k":"1"}})"), {"\"k\" twice"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                 {"\"dtype\" twice"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})"),
                 {"\"shape\" twice"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"data_offsets":[0,0]}})"),
                 {"\"data_offsets\" twice"});
}

TEST(Safetensors, ValuesOfTheWrongKindAreRefused) {
  for (const char* value : {"null", "true", "1", "-1", "1.5", "\"x\"", "[]", "[1]"}) {
    expect_invalid(file_with("{\"a\":" + std::string(value) + "}"), {"maps to an object"});
    expect_invalid(file_with("{\"__metadata__\":" + std::string(value) + "}"), {"maps to an object"});
  }
  for (const char* value : {"null", "true", "1", "-1", "1.5", "[]", "{}"}) {
    expect_invalid(file_with(R"({"__metadata__":{"k":)" + std::string(value) + "}}"),
                   {"metadata are strings"});
    expect_invalid(file_with(R"({"a":{"dtype":)" + std::string(value) + "}}"), {"it is a string"});
  }
  for (const char* value : {"null", "true", "1", "-1", "\"x\"", "{}", "[-1]", "[-0]", "[1.0]", "[1e3]",
                            "[\"1\"]", "[null]", "[[1]]", "[{}]", "[18446744073709551616]", "[1e999]"}) {
    expect_invalid(file_with(R"({"a":{"shape":)" + std::string(value) + "}}"), {});
    expect_invalid(file_with(R"({"a":{"data_offsets":)" + std::string(value) + "}}"), {});
  }
}

TEST(Safetensors, MissingAndUnknownKeysAreRefused) {
  expect_invalid(file_with(R"({"a":{}})"), {"\"a\" lacks dtype"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), {"lacks shape"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","shape":[0]}})"), {"lacks data_offsets"});
  expect_invalid(file_with(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})"),
                 {"the key \"x\""});
}

TEST(Safetensors, OtherDtypesAreRefusedByName) {
  for (const char* dtype :
       {"F4", "F6_E2M3", "F8_E8M0", "I16", "U16", "U32", "U64", "C64", "f32", "", "F32 "}) {
    expect_refusal(status_of(file_with(one(dtype, "[0]", "[0,0]"))), Code::unsupported,
                   {"f.safetensors", "\"a\"", in_quotes(dtype), "F8_E4M3", "convert"});
  }
}

TEST(Safetensors, ImpossibleShapesAreRefused) {
  expect_invalid(file_with(one("U8", "[9223372036854775808]", "[0,0]")),
                 {"9223372036854775808", "below 2^63"});
  expect_invalid(file_with(one("U8", "[18446744073709551615]", "[0,0]")), {"below 2^63"});
  expect_invalid(file_with(one("F32", "[2305843009213693952]", "[0,0]")), {"63 bits"});
  expect_invalid(file_with(one("U8", "[4294967296,4294967296]", "[0,0]")), {"63 bits"});  // wraps to 0
  expect_invalid(file_with(one("U8", "[0,4294967296,4294967296]", "[0,0]")), {"63 bits"});
  expect_invalid(file_with(one("U8", "[4294967296,4294967296,0]", "[0,0]")), {"63 bits"});
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  expect_invalid(file_with(one("U8", ones + "]", "[0,1]"), 1), {"more than 64"});
}

TEST(Safetensors, OffsetsMustMatchTheShapeAndTheFile) {
  expect_invalid(file_with(one("U8", "[1]", "[0]"), 1), {"begin <= end"});
  expect_invalid(file_with(one("U8", "[1]", "[]"), 1), {"begin <= end"});
  expect_invalid(file_with(one("U8", "[1]", "[0,1,1]"), 1), {"begin <= end"});
  expect_invalid(file_with(one("U8", "[1]", "[1,0]"), 1), {"begin <= end"});
  expect_invalid(file_with(one("F32", "[2]", "[0,7]"), 7), {"7 bytes", "needs 8"});
  expect_invalid(file_with(one("F32", "[2]", "[0,9]"), 9), {"9 bytes", "needs 8"});
  expect_invalid(file_with(one("F32", "[2]", "[0,8]"), 7), {"only 7 bytes", "cut short"});
  // Terabytes that are not there: an error, and no allocation.
  expect_invalid(file_with(one("U8", "[4611686018427387904]", "[0,4611686018427387904]"), 8),
                 {"only 8 bytes"});
  expect_invalid(file_with(one("U8", "[1]", "[18446744073709551614,18446744073709551615]"), 1),
                 {"only 1 bytes"});
}

TEST(Safetensors, OverlapsAndHolesAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return "{\"a\":" + entry("U8", "[4]", a) + ",\"b\":" + entry("U8", "[4]", b) + "}";
  };
  EXPECT_TRUE(status_of(file_with(two("[4,8]", "[0,4]"), 8)).ok());
  expect_invalid(file_with(two("[0,4]", "[0,4]"), 4), {"neither overlaps nor holes"});
  expect_invalid(file_with(two("[0,4]", "[3,7]"), 7), {"\"b\"", "end at 4", "neither overlaps nor holes"});
  expect_invalid(file_with(two("[0,4]", "[5,9]"), 9), {"neither overlaps nor holes"});
  expect_invalid(file_with(two("[1,5]", "[5,9]"), 9), {"\"a\"", "end at 0", "neither overlaps nor holes"});
  expect_invalid(file_with(two("[0,4]", "[4,8]"), 9), {"every byte must belong"});
  expect_invalid(file_with(one("U8", "[0]", "[1,1]"), 2), {"neither overlaps nor holes"});
}

TEST(Safetensors, BooleansOtherThanZeroAndOneAreRefused) {
  std::string file = file_with(one("BOOL", "[3]", "[0,3]"), 3);
  EXPECT_TRUE(status_of(file).ok());
  file.back() = 2;
  expect_invalid(file, {"\"a\"", "byte 2 at index 2"});
}

TEST(Safetensors, WideIntegersAreNarrowedOrRefusedNeverCut) {
  std::string file = file_with(one("I64", "[2]", "[0,16]"));
  const auto with = [&file](std::int64_t x, std::int64_t y) {
    std::string data(16, '\0');
    std::memcpy(data.data(), &x, 8);
    std::memcpy(data.data() + 8, &y, 8);
    return file + data;
  };
  Result<TensorFile> read = parse_safetensors(bytes_of(with(INT32_MIN, INT32_MAX)), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const HostTensor& a = read.value().tensors.at("a");
  EXPECT_EQ(a.dtype, DType::s32);
  EXPECT_EQ(a.values<std::int32_t>()[0], INT32_MIN);
  EXPECT_EQ(a.values<std::int32_t>()[1], INT32_MAX);
  expect_refusal(status_of(with(0, std::int64_t{INT32_MAX} + 1)), Code::unsupported,
                 {"\"a\"", "2147483648 at index 1"});
  expect_refusal(status_of(with(std::int64_t{INT32_MIN} - 1, 0)), Code::unsupported,
                 {"-2147483649 at index 0"});
}

TEST(Safetensors, MessagesNeverRepeatBytesThatATerminalWouldObey) {
  const std::string name = "\\u001b[2J" + std::string(500, 'x');
  const Status status = status_of(file_with("{\"" + name + "\":1}"));
  EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
  EXPECT_NE(status.message().find("\\x1b[2J"), std::string::npos) << status.message();
  EXPECT_LT(status.message().size(), 300u);
}

TEST(Safetensors, WhatCannotBeReadBackIsNotWritten) {
  const auto refused = [](const TensorFile& file) { return encode_safetensors(file).status(); };
  const HostTensor good = counted_tensor(DType::f32, {2});
  HostTensor shorter = good, negative = good, packed = good, deep = good,
             mask = counted_tensor(DType::boolean, {2});
  shorter.bytes.pop_back();
  negative.shape = {-2};
  packed.dtype = DType::s4;
  deep.shape.assign(65, 1);
  mask.bytes[1] = std::byte{7};
  expect_refusal(refused({{{"t", shorter}}, {}}), Code::invalid_argument, {"\"t\"", "7 bytes", "needs 8"});
  expect_refusal(refused({{{"t", negative}}, {}}), Code::invalid_argument, {"\"t\"", "[-2]"});
  expect_refusal(refused({{{"t", packed}}, {}}), Code::unsupported, {"\"t\"", "s4", "u8"});
  expect_refusal(refused({{{"t", deep}}, {}}), Code::invalid_argument, {"at most 64"});
  expect_refusal(refused({{{"t", mask}}, {}}), Code::invalid_argument, {"\"t\"", "byte 7 at index 1"});
  expect_refusal(refused({{{"__metadata__", good}}, {}}), Code::invalid_argument, {"__metadata__"});
  expect_refusal(refused({{{"\xff", good}}, {}}), Code::invalid_argument, {"\\xff", "UTF-8"});
  expect_refusal(refused({{}, {{"k", "\xff"}}}), Code::invalid_argument, {"\\xff", "UTF-8"});
}

TEST(HostTensor, ImpossibleShapesGiveNoTensor) {
  EXPECT_EQ(make_host_tensor(DType::f32, {-1}).status().code(), Code::invalid_argument);
  EXPECT_EQ(make_host_tensor(DType::f32, {INT64_MAX}).status().code(), Code::invalid_argument);
  EXPECT_EQ(make_host_tensor(DType::f32, {INT64_MAX, 0, 8}).status().code(), Code::invalid_argument);
  EXPECT_EQ(make_host_tensor(DType::s4, {2}).status().code(), Code::unsupported);
  EXPECT_EQ(make_host_tensor(DType::u8, {INT64_MAX}).status().code(), Code::out_of_memory);
}

}  // namespace
}  // namespace octet::tool::safetensors_test
