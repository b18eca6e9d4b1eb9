// Pictures of a timeline that commands write to files or to the terminal.

#pragma once

#include <string>

#include "cli/command.h"
#include "pipewright/base/result.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

struct Pictures {
  std::string trace, svg;  // files; empty: none
};

// Adds --trace and --svg.
void add_picture_options(CLI::App& command, Pictures& pictures);

// Says on stderr what it wrote. Needs spans.
Result<void> write_pictures(const Pictures& pictures, const Program& program,
                            const Timeline& timeline);

// The drawing for this terminal, in colour unless NO_COLOR is set.
std::string drawn(const Timeline& timeline, const Output& output);

}  // namespace pipewright::cli
