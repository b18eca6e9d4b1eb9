// For options that are numbers.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "pipewright/base/text.h"

namespace pipewright::cli {

// From `least` to `most`; neither NaN nor infinite.
inline CLI::Validator number_in(double least, double most) {
  const std::string low = to_text(least), high = to_text(most);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto number = parse_real(text);
        if (number && *number >= least && *number <= most) return "";
        return "expected a number from " + low + " to " + high + ", found \"" +
               printable(text) + "\"";
      },
      "FLOAT in [" + low + " - " + high + "]");
}

inline CLI::Validator integer_in(std::int64_t least, std::int64_t most) {
  const std::string low = std::to_string(least), high = std::to_string(most);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto number = parse_integer(text);
        if (number && *number >= least && *number <= most) return "";
        return "expected an integer from " + low + " to " + high +
               ", found \"" + printable(text) + "\"";
      },
      "INT in [" + low + " - " + high + "]");
}

}  // namespace pipewright::cli
