// One stored run, asked for its figures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/command.h"

namespace octet::tool {

/// A row's number; NaN where there is none, and for a null row.
double number(const Json* row, const char* field);
/// A row's text, or what stands where there is no figure.
std::string text(const Json& row, const char* field);

/// What a row is looked up by; a block or quantisation that is not given matches any. input: peers' rows and
/// those of earlier runs, which do not say, are as of f32.
struct Wanted {
  std::string workload, variant;
  std::int64_t threads = 1;
  std::string quantisation = {};
  std::int64_t key_block = 0;
  std::int64_t busy = 0;
  std::string input = "f32";
};

class StoredRun {
 public:
  explicit StoredRun(const Json& document) : document_(document) {}

  const Json& document() const { return document_; }
  const Json& rows() const { return document_["rows"]; }
  std::int64_t threads() const { return document_["threads"].get<std::int64_t>(); }

  /// The fastest row that fits; null where none was measured.
  const Json* best(const Wanted& wanted) const;
  /// The same with codes given; what has no codes has nothing to leave out.
  const Json* best_without_quantisation(Wanted wanted) const;

  /// Values of a text field in the order in which rows first have them; of octet's own rows, or of peers'.
  enum class Side { octet, peer, both };
  std::vector<std::string> names(const char* field, Side side, const std::string& workload = {}) const;

  /// Whether the workload's queries are fewer than its keys.
  bool is_decode(const std::string& workload) const;

 private:
  const Json& document_;
};

}  // namespace octet::tool
