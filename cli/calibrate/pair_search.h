// Where a function of two variables is least. It need not be smooth.
//
// It does not know what the variables are: step_fit.h.

#pragma once

#include <array>
#include <functional>

#include "pipewright/base/result.h"

namespace pipewright::cli {

using Point = std::array<double, 2>;  // both from 0 to 1

// Looks at a grid, then goes from its best point in eight directions, with
// shorter steps where none is better. Fails as the function does.
Result<Point> least_point(
    const std::function<Result<double>(const Point&)>& function);

}  // namespace pipewright::cli
