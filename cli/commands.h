// All commands of the program.

#pragma once

namespace pipewright::cli {

// What main() does: the exit code of a command line. A program that adds kinds
// of layers of its own does so before.
int run(int argc, char** argv);

}  // namespace pipewright::cli
