// What there is: schemes, their defaults, backends.
#include "base/try.h"
#include "capi/guard.h"
#include "core/names.h"
#include "core/registry.h"
#include "core/schemes.h"
#include "octet/abi.hpp"

namespace {

using namespace octet;

int32_t flag(bool on) { return on ? 1 : 0; }

octet_scheme_info describe(const SchemeInfo& s) {
  octet_scheme_info c{};
  c.struct_size = sizeof c;
  c.scheme = static_cast<octet_scheme>(s.scheme);
  c.name = s.name.data();  // note: the table's views are of literals, which end in NUL
  c.summary = s.summary.data();
  c.source = s.source.data();
  c.qk = static_cast<octet_dtype>(s.qk);
  c.v = static_cast<octet_dtype>(s.v);
  c.recipe = abi::to_c(s.recipe);
  c.q_granularities = s.q_set;
  c.k_granularities = s.k_set;
  c.v_granularities = s.v_set;
  c.smooths = flag(s.smooths);
  c.rotates = flag(s.rotates);
  c.equalises = flag(s.equalises);
  c.additive_bias = flag(s.additive_bias);
  c.baseline = flag(s.baseline);
  c.output_codes = static_cast<int32_t>(s.output_codes);
  c.has_row_sum = flag(s.options.row_sum);
  c.has_table = flag(s.options.table);
  c.has_quotient = flag(s.options.quotient);
  c.has_rescale = flag(s.options.rescale);
  c.max_tokens_k = s.max_tokens_k;
  return c;
}

}  // namespace

extern "C" {

int32_t octet_scheme_count(void) { return kSchemes; }

octet_status octet_scheme_describe(octet_scheme scheme, octet_scheme_info* info) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::known_scheme(scheme));
    OCTET_TRY(capi::known_struct("info", info));
    *info = describe(scheme_info(static_cast<Scheme>(scheme)));
    return {};
  });
}

octet_status octet_default_recipe(octet_scheme scheme, octet_recipe* recipe) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::known_scheme(scheme));
    OCTET_TRY(capi::not_null("recipe", recipe));
    *recipe = abi::to_c(scheme_info(static_cast<Scheme>(scheme)).recipe);
    return {};
  });
}

int32_t octet_backend_count(void) { return static_cast<int32_t>(kernels().size()); }

const char* octet_backend_name(int32_t i) {
  const auto list = kernels();
  if (i < 0 || static_cast<std::size_t>(i) >= list.size()) return nullptr;
  return list[static_cast<std::size_t>(i)].backend.data();
}

}  // extern "C"
