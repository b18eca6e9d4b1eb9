// Draws compute orders for error messages: one row per worker, the actions in
// question in brackets. Knows nothing of times; timeline/ draws those.
//
//   0: 0F0 0F1 [0B0] 0B1
//   1: 1F0 1B0 1F1  1B1

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pipewright/plan/schedule/compute_order.h"

namespace pipewright {

struct GridMark {
  WorkerId worker;
  std::size_t position = 0;
};

// A window of the orders around the marks, a few rows and columns on each side,
// with "..." where something was left out.
std::string drawn(const Orders& orders, const std::vector<GridMark>& marks);

}  // namespace pipewright
