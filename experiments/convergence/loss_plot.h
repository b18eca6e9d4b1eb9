// Loss against time as an SVG picture: one line an arm.

#pragma once

#include <string>
#include <vector>

namespace pipewright {

struct LossLine {
  std::string name;
  std::vector<double> losses;  // of the steps
  double seconds = 1;          // a step takes
};

// Losses on a logarithmic scale, smoothed over `window` steps.
std::string loss_plot(const std::string& title,
                      const std::vector<LossLine>& lines, int window);

// The mean of the last `window` values at each place.
std::vector<double> smoothed(const std::vector<double>& values, int window);

}  // namespace pipewright
