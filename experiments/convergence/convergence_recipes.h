// The tasks of the study, in numbers, and how --set changes them.

#pragma once

#include <string>
#include <vector>

#include "experiments/convergence/convergence_task.h"

namespace pipewright {

std::vector<Recipe> recipes();
std::vector<Recipe> quick_recipes();  // what the tests train
std::vector<Recipe> gpu_recipes();    // too large for cores

// "steps=100", "rates=0.1,0.01". Fails with BadConfiguration.
Result<void> change(Recipe& recipe, const std::string& text);

}  // namespace pipewright
