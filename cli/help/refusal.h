// What the parser of the command line refuses, in our words: those of the
// library change with its version.

#pragma once

#include "cli/command.h"

namespace pipewright::cli {

// The command that was asked for; the program itself if none was.
const CLI::App& command_in(const CLI::App& app);

// Names the option, what it was given and what it takes.
Error refusal(const CLI::App& app, const CLI::ParseError& parsed);

}  // namespace pipewright::cli
