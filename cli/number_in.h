// For options that are numbers.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pipewright/base/text.h"

namespace pipewright::cli {

// From `least` to `most`; neither NaN nor infinite.
inline CLI::Validator number_in(double least, double most) {
  const std::string range =
      "FLOAT in [" + to_text(least) + " - " + to_text(most) + "]";
  return CLI::Validator(
      [least, most, range](std::string& text) -> std::string {
        const auto number = parse_real(text);
        if (number && *number >= least && *number <= most) return "";
        return "Value " + printable(text) + " is not a " + range;
      },
      range);
}

}  // namespace pipewright::cli
