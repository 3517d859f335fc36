#include "tests/core/support.h"

#include "tests/sentence.h"

namespace octet::testing {

AttentionDesc valid(Scheme scheme) {
  AttentionDesc d;
  d.scheme = scheme;
  d.batch = 2, d.heads_q = 4, d.heads_kv = 2;
  d.tokens_q = 7, d.tokens_k = 9;
  d.head_dim = 64, d.head_dim_v = 32;
  d.softmax_scale = 0.125f;
  d.recipe = scheme_info(scheme).recipe;
  return d;
}

void expect_sentence(const Status& status, Code code, const std::string& argument, const std::string& value) {
  ASSERT_FALSE(status.ok()) << argument << " = " << value << " was accepted";
  const std::string& text = status.message();
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << text;
  ASSERT_TRUE(is_sentence(text)) << text;
  EXPECT_EQ(text.rfind(argument + " is " + value, 0), 0u)
      << text << "\nshould begin with: " << argument << " is " << value;
}

}  // namespace octet::testing
