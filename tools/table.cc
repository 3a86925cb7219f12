#include "tools/table.h"

#include <algorithm>

namespace scramjet {

std::string table(const std::vector<TableRow>& rows, size_t left) {
  std::vector<size_t> widths(rows.front().size());
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (i < left ? row[i] + padding : padding + row[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace scramjet
