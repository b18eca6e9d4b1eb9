// All commands of the program.

#pragma once

#include "cli/command.h"

namespace pipewright::cli {

void add_commands(CLI::App& app, Exit& exit);

}  // namespace pipewright::cli
