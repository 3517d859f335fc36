// What the suite measured, read back: the pages are made from this alone.
#pragma once
#include <string>
#include <vector>

#include "json/json.h"
#include "octet/status.hpp"

namespace octet::tool {

/// Where a figure stands: part, experiment and row, as in {"protocols", "qflash/a2", "int8_half"}.
struct Place {
  std::string part, experiment, row;
};

class Measurements {
 public:
  Measurements() = default;
  explicit Measurements(std::vector<Json> parts) : parts_(std::move(parts)) {}

  const std::vector<Json>& parts() const { return parts_; }
  /// Null where there is none.
  const Json* part(const std::string& name) const;
  const Json* experiment(const std::string& part, const std::string& name) const;
  const Json* row(const Place& place) const;

  /// A figure of all seeds together, or of "least" or "most" of single seeds; NaN where it was not measured.
  double figure(const Place& place, const std::string& name) const;
  double extreme(const Place& place, const std::string& side, const std::string& name) const;

 private:
  std::vector<Json> parts_;
};

/// Reads the file of every part that is there, in a fixed order. Errors (io): a file is not what the suite
/// writes.
Result<Measurements> load_measurements(const std::string& directory);

}  // namespace octet::tool
