// .npy files: what is written reads back, numpy's variants of the header are understood, and the rest is
// refused with a reason.
#include "io/npy.h"

#include <cstring>

#include "tests/io/io_fixtures.h"

namespace octet::tool::npy_test {
namespace {

/// A file of this version with this dict and this much data.
std::string file_with(const std::string& dict, std::size_t data_bytes, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  const auto length = static_cast<std::uint32_t>(dict.size());
  std::string field(version == 1 ? 2 : 4, '\0');
  std::memcpy(field.data(), &length, field.size());
  file += field + dict;
  for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

Result<HostTensor> parse(const std::string& file) { return parse_npy(bytes_of(file), "f.npy"); }

void expect_invalid(const std::string& file, const std::vector<std::string>& words,
                    Code code = Code::invalid_argument) {
  SCOPED_TRACE(in_quotes(file.substr(0, 200)));
  std::vector<std::string> all = words;
  all.push_back("f.npy");
  expect_refusal(parse(file).status(), code, all);
}

TEST(Npy, EveryDtypeAndRankReadsBackAsWritten) {
  int written = 0;
  for (DType dtype : kFileTypes) {
    for (const auto& shape : kShapes) {
      SCOPED_TRACE(dtype_name(dtype) + " " + shape_text(shape));
      const HostTensor tensor = counted_tensor(dtype, shape);
      Result<std::string> bytes = encode_npy(tensor);
      if (dtype == DType::bf16 || dtype == DType::e4m3 || dtype == DType::e5m2) {
        expect_refusal(bytes.status(), Code::unsupported, {dtype_name(dtype), "safetensors"});
        continue;
      }
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      EXPECT_EQ((bytes.value().size() - tensor.bytes.size()) % 64, 0u);
      Result<HostTensor> read = parse(bytes.value());
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_TRUE(read.value() == tensor);
      ++written;
    }
  }
  EXPECT_EQ(written, 7 * static_cast<int>(kShapes.size()));
}

TEST(Npy, ThreeVersionsAreRead) {
  for (char version : {1, 2, 3}) {
    Result<HostTensor> read = parse(file_with(dict("'<f4'", "False", "(2, 3)"), 24, version));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value().shape, (std::vector<std::int64_t>{2, 3}));
  }
}

TEST(Npy, DictsAreReadWhateverTheirSpacesQuotesAndOrder) {
  for (const char* text : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
                           "{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                           "  {'shape' : ( 2 , 3 ) ,'descr':'<f4','fortran_order':False}",
                           "{'descr':\t'<f4',\n'fortran_order':False,\r\n'shape':(2L, 3L)}\f"}) {
    Result<HostTensor> read = parse(file_with(text, 24));
    ASSERT_TRUE(read.ok()) << text << ": " << read.status().message();
    EXPECT_EQ(read.value().shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(read.value().dtype, DType::f32);
  }
}

TEST(Npy, ByteOrderOfOneByteTypesDoesNotMatter) {
  for (const char* descr : {"'|i1'", "'<i1'", "'>i1'"}) {
    Result<HostTensor> read = parse(file_with(dict(descr, "False", "(2,)"), 2));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value().dtype, DType::s8);
  }
}

TEST(Npy, FortranOrderBecomesCOrder) {
  for (const auto& [descr, size] :
       std::vector<std::pair<std::string, int>>{{"'|u1'", 1}, {"'<f2'", 2}, {"'<i4'", 4}, {"'<f8'", 8}}) {
    SCOPED_TRACE(descr);
    constexpr int kRows = 2, kColumns = 3, kDeep = 4;
    const auto bytes = static_cast<std::size_t>(kRows * kColumns * kDeep * size);
    Result<HostTensor> read = parse(file_with(dict(descr, "True", "(2, 3, 4)"), bytes));
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_EQ(read.value().bytes.size(), bytes);
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) {
        for (int d = 0; d < kDeep; ++d) {
          const int in_file = r + kRows * (c + kColumns * d), in_memory = d + kDeep * (c + kColumns * r);
          for (int b = 0; b < size; ++b) {
            ASSERT_EQ(
                std::to_integer<int>(read.value().bytes[static_cast<std::size_t>(in_memory * size + b)]),
                in_file * size + b)
                << r << " " << c << " " << d << " byte " << b;
          }
        }
      }
    }
  }
  for (const char* shape : {"()", "(4,)", "(0, 3)", "(3, 0, 2)", "(1, 4, 1)"}) {
    const std::size_t bytes = std::string(shape) == "()"                          ? 4
                              : std::string(shape).find('0') == std::string::npos ? 16
                                                                                  : 0;
    Result<HostTensor> c = parse(file_with(dict("'<f4'", "False", shape), bytes));
    Result<HostTensor> fortran = parse(file_with(dict("'<f4'", "True", shape), bytes));
    ASSERT_TRUE(c.ok() && fortran.ok()) << shape;
    EXPECT_TRUE(c.value() == fortran.value()) << shape;
  }
}

TEST(Npy, EveryTruncationAndEveryExtensionIsRefused) {
  const std::string whole = encode_npy(counted_tensor(DType::f32, {2, 3})).take();
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    expect_invalid(whole.substr(0, length), {});
  }
  expect_invalid(whole + "x", {"25 bytes of data", "needs 24"});
}

TEST(Npy, NoSingleWrongBitCrashesOrChangesTheSize) {
  const std::string whole = encode_npy(counted_tensor(DType::f32, {2, 3})).take();
  for (std::size_t at = 0; at < 128; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Result<HostTensor> read = parse(damaged);
      if (read.ok()) {
        EXPECT_EQ(read.value().bytes.size(), 24u) << at << " " << bit;
      }
    }
  }
}

TEST(Npy, MagicVersionAndLengthAreChecked) {
  const std::string good = file_with(dict("'<f4'", "False", "(2,)"), 8);
  std::string file = good;
  file[0] = 'P';
  expect_invalid(file, {"does not begin with"});
  for (const auto& [major, minor] : std::vector<std::pair<char, char>>{{0, 0}, {4, 0}, {1, 1}, {127, 0}}) {
    file = good;
    file[6] = major;
    file[7] = minor;
    expect_invalid(file, {"version " + std::to_string(major) + "." + std::to_string(minor)},
                   Code::unsupported);
  }
  file = file_with(dict("'<f4'", "False", "(2,)"), 8, 2);
  for (int i = 8; i < 12; ++i) file[static_cast<std::size_t>(i)] = '\xff';
  expect_invalid(file, {"claims a header of 4294967295"});
  file = good;
  file[9] = '\x40';
  expect_invalid(file, {"cut short"});
  expect_invalid("", {"0 bytes"});
}

TEST(Npy, DictsOfAnotherGrammarAreRefused) {
  for (const char* text : {"", "{", "}", "{}", "[]", "{'descr': '<f4', 'fortran_order': False}",
                           "{'descr': '<f4', 'shape': (2,)}", "{'fortran_order': False, 'shape': (2,)}",
                           "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
                           "{,'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,),,}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
                           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'descr: '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'descr\": '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{descr: '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'d\\x65scr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'descr': <f4, 'fortran_order': False, 'shape': (2,)}"}) {
    expect_invalid(file_with(text, 8), {"header", "numpy.save"});
  }
  expect_invalid(file_with(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\0", 56), 8),
                 {"spaces after"});
  for (const char* order : {"0", "1", "None", "false", "Truex", "'True'", "()"}) {
    expect_invalid(file_with(dict("'<f4'", order, "(2,)"), 8), {"header"});
  }
  for (const char* shape : {"2", "(2)", "[2]", "(2", "(,)", "(2,,)", "(2 2)", "(-2,)", "(+2,)", "(2.0,)",
                            "(0x2,)", "(02,)", "('2',)", "((2,),)", "(2,)(", "None", "(9223372036854775808,)",
                            "(99999999999999999999999,)", "(1_0,)"}) {
    expect_invalid(file_with(dict("'<f4'", "False", shape), 8), {"header"});
  }
}

TEST(Npy, DeepNestingIsRefusedWithoutDepth) {
  const std::string deep(60'000, '(');
  expect_invalid(file_with(dict("'<f4'", "False", deep), 8), {"\"shape\""});
  expect_invalid(file_with(std::string(60'000, '{'), 8), {"a quoted key"});
}

TEST(Npy, ImpossibleShapesAreRefused) {
  expect_invalid(file_with(dict("'<f4'", "False", "(2305843009213693952,)"), 8), {"63 bits"});
  expect_invalid(file_with(dict("'|u1'", "False", "(4294967296, 4294967296)"), 0), {"63 bits"});
  expect_invalid(file_with(dict("'|u1'", "False", "(4294967296, 4294967296, 0)"), 0), {"63 bits"});
  expect_invalid(file_with(dict("'|u1'", "False", "(4611686018427387904,)"), 8),
                 {"needs 4611686018427387904"});
  std::string ones = "(1";
  for (int i = 0; i < 64; ++i) ones += ", 1";
  expect_invalid(file_with(dict("'|u1'", "False", ones + ")"), 1), {"\"shape\""});
}

TEST(Npy, OtherDtypesAreRefusedByName) {
  for (const char* descr : {"<i2", "<u2", "<u4", "<u8", "<c8", "<c16", "<f16", "|O", "|S4", "<U4", "|V2",
                            "<M8[ns]", "f4", "=f4", "|f4", "", "<f", "<f44"}) {
    expect_invalid(file_with(dict(std::string("'") + descr + "'", "False", "(2,)"), 8),
                   {in_quotes(descr), "convert"}, Code::unsupported);
  }
  for (const char* descr : {">f4", ">f2", ">f8", ">i4", ">i8"}) {
    expect_invalid(file_with(dict(std::string("'") + descr + "'", "False", "(2,)"), 8),
                   {in_quotes(descr), "big-endian", "newbyteorder"}, Code::unsupported);
  }
  expect_invalid(file_with(dict("[('a', '<f4')]", "False", "(2,)"), 8), {"structured"}, Code::unsupported);
}

TEST(Npy, BooleansAndWideIntegersAreChecked) {
  EXPECT_TRUE(parse(file_with(dict("'|b1'", "False", "(2,)"), 2)).ok());
  expect_invalid(file_with(dict("'|b1'", "False", "(3,)"), 3), {"byte 2 at index 2"});
  std::string file = file_with(dict("'<i8'", "False", "(2,)"), 0);
  const std::int64_t fits[2] = {-5, INT32_MAX}, wide[2] = {0, std::int64_t{1} << 40};
  Result<HostTensor> read = parse(file + std::string(reinterpret_cast<const char*>(fits), 16));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().dtype, DType::s32);
  EXPECT_EQ(read.value().values<std::int32_t>()[0], -5);
  EXPECT_EQ(read.value().values<std::int32_t>()[1], INT32_MAX);
  expect_invalid(file + std::string(reinterpret_cast<const char*>(wide), 16), {"1099511627776 at index 1"},
                 Code::unsupported);
}

}  // namespace
}  // namespace octet::tool::npy_test
