#pragma once

#include <string>
#include <vector>

namespace scramjet {

using TableRow = std::vector<std::string>;

/// The rows as text, all of them as long as the first: the first `left` columns to the left, the
/// others to the right, each as wide as it needs to be. The cells are ASCII.
std::string table(const std::vector<TableRow>& rows, size_t left = 1);

}  // namespace scramjet
