// Damage done to a file for the robustness test: at random, and value by value.

#pragma once

#include <cstddef>
#include <random>
#include <string>

#include "pipewright/base/json.h"

namespace pipewright::cli {

// One to four of: a byte changed, inserted or removed, a part removed, doubled
// or moved, a number replaced by an extreme one.
std::string mutated(std::string text, std::mt19937& random);

// Values in the tree, the root included.
std::size_t num_values(const Json& json);
// The tree with value number `index` (depth first) replaced by `other`.
Json with_value(const Json& json, std::size_t index, const Json& other);

}  // namespace pipewright::cli
