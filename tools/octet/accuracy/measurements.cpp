#include "accuracy/measurements.h"

#include <fmt/format.h>
#include <filesystem>
#include <fstream>
#include <limits>

namespace octet::tool {
namespace {

const Json* named(const Json& list, const char* key, const std::string& name) {
  for (const Json& item : list)
    if (item.value(key, "") == name) return &item;
  return nullptr;
}

double number(const Json* object, const std::string& name) {
  if (object && object->contains(name) && (*object)[name].is_number()) return (*object)[name].get<double>();
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

const Json* Measurements::part(const std::string& name) const {
  for (const Json& part : parts_)
    if (part.value("part", "") == name) return &part;
  return nullptr;
}

const Json* Measurements::experiment(const std::string& part_name, const std::string& name) const {
  const Json* found = part(part_name);
  return found ? named(found->at("experiments"), "name", name) : nullptr;
}

const Json* Measurements::row(const Place& place) const {
  const Json* found = experiment(place.part, place.experiment);
  return found ? named(found->at("rows"), "name", place.row) : nullptr;
}

double Measurements::figure(const Place& place, const std::string& name) const {
  return number(row(place), name);
}

double Measurements::extreme(const Place& place, const std::string& side, const std::string& name) const {
  const Json* found = row(place);
  return number(found && found->contains(side) ? &found->at(side) : nullptr, name);
}

Result<Measurements> load_measurements(const std::string& directory) {
  std::vector<Json> parts;
  for (const char* name :
       {"distributions", "lengths", "capture", "protocols", "features", "colfax", "robustness", "numerics"}) {
    const auto path = std::filesystem::path(directory) / (std::string(name) + ".json");
    std::ifstream file(path);
    if (!file) continue;
    Json part = Json::parse_or_null(file);
    bool sound = part.is_object() && part.value("part", "") == name && part.contains("experiments");
    if (sound)
      for (const Json& e : part["experiments"]) sound = sound && e.contains("name") && e.contains("rows");
    if (!sound)
      return Status{Code::io,
                    fmt::format("{} is not a file that the suite wrote; delete it and run the suite again",
                                path.string())};
    parts.push_back(std::move(part));
  }
  return Measurements(std::move(parts));
}

}  // namespace octet::tool
