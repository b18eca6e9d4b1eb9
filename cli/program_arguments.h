// The command line of an experiment or a benchmark: --help prints the usage,
// and what the program does not know is refused.

#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace pipewright::cli {

// The exit code if the program is to end here: 0 after --help, 64 after a wrong
// command line, whose error is on standard error.
inline std::optional<int> parse_arguments(CLI::App& app, int argc,
                                          char** argv) {
  constexpr int kWrongUsage = 64;
  try {
    app.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
}

}  // namespace pipewright::cli
