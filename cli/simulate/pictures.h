// Pictures of a timeline for `simulate` and `schedule`: files, or a drawing for
// the terminal.

#pragma once

#include <string>

#include "cli/command.h"
#include "pipewright/base/result.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

struct Pictures {
  std::string trace, svg;  // files; empty: none

  bool is_empty() const { return trace.empty() && svg.empty(); }
};

// Adds --trace and --svg.
void add_picture_options(CLI::App& command, Pictures& pictures);

// Reports written files on stderr. Needs spans. The title stands above the
// picture.
Result<void> write_pictures(const Pictures& pictures, const Program& program,
                            const Timeline& timeline, const std::string& title);

// A drawing for this terminal, in colour unless NO_COLOR is set.
std::string drawn(const Timeline& timeline, const Output& output);

}  // namespace pipewright::cli
