#include "common/table.h"

#include <algorithm>

namespace octet::tool {
namespace {

/// Code points of a UTF-8 string: every byte that does not continue one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].header);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                        const char* before, const char* between, const char* after) const {
  std::string line = before;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string padding(widths[c] - width_of(cells[c]), ' ');
    if (c > 0) line += between;
    line += columns_[c].align == Align::left ? cells[c] + padding : padding + cells[c];
  }
  line += after;
  return line.erase(line.find_last_not_of(' ') + 1) + "\n";
}

std::string Table::text() const {
  const std::vector<std::size_t> w = widths();
  std::vector<std::string> headers, rules;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    headers.push_back(columns_[c].header);
    rules.push_back(std::string(w[c], '-'));
  }
  std::string text = line(headers, w, "", "  ", "") + line(rules, w, "", "  ", "");
  for (const auto& row : rows_) text += line(row, w, "", "  ", "");
  return text;
}

std::string Table::markdown() const {
  std::vector<std::size_t> w = widths();
  std::vector<std::string> headers, rules;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    w[c] = std::max<std::size_t>(w[c], 3);  // Markdown wants three dashes
    headers.push_back(columns_[c].header);
    rules.push_back(columns_[c].align == Align::left ? std::string(w[c], '-')
                                                     : std::string(w[c] - 1, '-') + ":");
  }
  std::string text = line(headers, w, "| ", " | ", " |") + line(rules, w, "| ", " | ", " |");
  for (const auto& row : rows_) text += line(row, w, "| ", " | ", " |");
  return text;
}

}  // namespace octet::tool
