// The wall of the C interface: no exception passes it, and every failure leaves its sentence.
#pragma once
#include <exception>
#include <new>
#include <string>

#include "core/names.h"
#include "core/sentence.h"
#include "octet/octet.h"
#include "octet/status.hpp"

namespace octet::capi {

/// Keeps the status's sentence for octet_last_error and returns its code. Never throws: where memory for the
/// sentence is short, a fixed one stands in.
octet_status report(const Status& status) noexcept;
octet_status report_out_of_memory() noexcept;
octet_status report_internal(const char* what) noexcept;

/// Runs body, which returns a Status, with every exception turned into one.
template <class Body>
octet_status guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  } catch (const std::exception& error) {
    return report_internal(error.what());
  } catch (...) {
    return report_internal("an unknown exception");
  }
}

/// An argument that must not be NULL.
inline Status not_null(const char* argument, const void* pointer) {
  if (pointer) return {};
  return broken(argument, "NULL", "it is needed", "pass the address of one");
}

/// A struct of ours: there, and of the size that this library knows.
template <class Struct>
Status known_struct(const char* argument, const Struct* s) {
  if (!s) return not_null(argument, s);
  if (s->struct_size == sizeof(Struct)) return {};
  return broken(std::string(argument) + "->struct_size", s->struct_size,
                "this library's struct has " + std::to_string(sizeof(Struct)) + " bytes",
                "set it to sizeof of the struct and compile against this library's octet.h");
}

inline Status known_scheme(octet_scheme scheme) {
  if (is_valid(EnumKind::scheme, scheme)) return {};
  return broken("scheme", scheme, "it must be 0 to " + std::to_string(kSchemes - 1),
                "ask octet_scheme_count and octet_enum_value");
}

}  // namespace octet::capi
