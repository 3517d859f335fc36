// Version, status names and the thread's last sentence.
#include <cstdio>
#include <string>

#include "capi/guard.h"
#include "core/names.h"

namespace octet::capi {
namespace {

/// A fixed buffer, so that even a failure for want of memory can say so.
thread_local char last_error[1024];

void keep(const char* text) noexcept { std::snprintf(last_error, sizeof last_error, "%s", text); }

}  // namespace

octet_status report(const Status& status) noexcept {
  if (!status.ok()) keep(status.message().c_str());
  return static_cast<octet_status>(status.code());
}

octet_status report_out_of_memory() noexcept {
  keep("memory is short, but the call needs a little of its own; free some and call again");
  return OCTET_OUT_OF_MEMORY;
}

octet_status report_internal(const char* what) noexcept {
  std::snprintf(last_error, sizeof last_error, "octet made a mistake of its own (%s); please report it",
                what);
  return OCTET_INTERNAL;
}

}  // namespace octet::capi

extern "C" {

const char* octet_version(void) { return OCTET_VERSION; }

const char* octet_status_name(octet_status status) {
  const char* name = octet_enum_name(OCTET_ENUM_STATUS, status);
  return name ? name : "unknown";
}

const char* octet_last_error(void) { return octet::capi::last_error; }

int32_t octet_enum_count(octet_enum which) {
  return static_cast<int32_t>(octet::names_of(static_cast<octet::EnumKind>(which)).size());
}

const char* octet_enum_name(octet_enum which, int32_t value) {
  const auto kind = static_cast<octet::EnumKind>(which);
  return octet::is_valid(kind, value) ? octet::names_of(kind)[static_cast<std::size_t>(value)] : nullptr;
}

octet_status octet_enum_value(octet_enum which, const char* name, int32_t* value) {
  using namespace octet;
  return capi::guarded([&]() -> Status {
    const auto kind = static_cast<EnumKind>(which);
    if (names_of(kind).empty())
      return broken("which", which, "there is no such enumeration", "pass one of OCTET_ENUM_*");
    if (!name) return capi::not_null("name", name);
    if (!value) return capi::not_null("value", value);
    const Result<std::int32_t> found = value_of(kind, name);
    if (found.ok()) *value = found.value();
    return found.status();
  });
}

}  // extern "C"
