// One command of the command line. Each lives in a file of its own, which
// defines `void add_NAME(CLI::App&, Exit&)`; commands.cc lists them.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pipewright/base/error.h"
#include "pipewright/base/json.h"

namespace pipewright::cli {

// How the command ended; main() returns it.
struct Exit {
  int code = 0;
  char** arguments = nullptr;  // as main() was given them
};

// What every command takes.
struct Output {
  bool json = false;
  int width = 100;  // of the terminal
};

// Adds --json; the width comes from the terminal or $COLUMNS.
void add_output_options(CLI::App& command, Output& output);

// A line on stderr, in one write: many ranks may share it.
void say(const std::string& line);

// The error goes to stderr as one line ("pipewright: ..."), its code to exit.
void report(const Error& error, Exit& exit);

void add_schedule(CLI::App& app, Exit& exit);
void add_env(CLI::App& app, Exit& exit);
void add_models(CLI::App& app, Exit& exit);
void add_cluster(CLI::App& app, Exit& exit);
void add_import(CLI::App& app, Exit& exit);
void add_profile(CLI::App& app, Exit& exit);
void add_plan(CLI::App& app, Exit& exit);
void add_compare(CLI::App& app, Exit& exit);
void add_simulate(CLI::App& app, Exit& exit);
void add_train(CLI::App& app, Exit& exit);
void add_place(CLI::App& app, Exit& exit);
void add_validate(CLI::App& app, Exit& exit);
void add_completion(CLI::App& app, Exit& exit);
void add_man_page(CLI::App& app, Exit& exit);

}  // namespace pipewright::cli
