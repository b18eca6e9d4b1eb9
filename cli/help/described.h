// The commands and their options as data, read from the parser: what completion
// and man page are written from, so that no list of options is kept twice.

#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace pipewright::cli {

struct DescribedOption {
  std::vector<std::string> names;  // "-o", "--output"; or the positional's one
  std::string value;               // "TEXT"; empty for a flag
  std::string text;
  bool is_positional = false;
};

struct DescribedCommand {
  std::string name, text;
  std::vector<DescribedOption> options;
};

// Those of the program itself, as --version.
std::vector<DescribedOption> options_of(const CLI::App& app);

// In the order of --help, hidden ones left out.
std::vector<DescribedCommand> commands_of(const CLI::App& app);

}  // namespace pipewright::cli
