// Tables that a person reads: aligned text for a terminal, Markdown for a page.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace octet::tool {

enum class Align : int { left, right };

/// Rows of cells under headers. Cells are UTF-8; their width is counted in code points.
class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::right;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Headers, a rule, and the rows, two spaces between columns; every line ends in a newline.
  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<std::size_t> widths() const;
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   const char* before, const char* between, const char* after) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace octet::tool
