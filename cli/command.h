// What all commands share. Each command is in a file of its own that defines
// `void add_NAME(CLI::App&, Exit&)`; commands.cc lists them.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pipewright/base/error.h"
#include "pipewright/base/json.h"

namespace pipewright::cli {

// The largest numbers that options take: products of them fit an int.
inline constexpr int kMaxMinibatch = 1 << 20;
inline constexpr int kMaxWorkers = 1024;

// The exit code of the program.
struct Exit {
  int code = 0;
  char** arguments = nullptr;  // as main() was given them
};

// Output options of every command.
struct Output {
  bool json = false;
  int width = 100;  // of the terminal
};

// Adds --json. The width comes from the terminal or $COLUMNS.
void add_output_options(CLI::App& command, Output& output);

// A share as "12.3 %", with at most one decimal place: in tables more digits of
// a share near 0 would only look exact.
std::string percent(double share);

// Prints a line on stderr, in one write, because several workers may share it.
void say(const std::string& line);

// "measuring [####      ] 40 %", if stderr is a terminal; at 1 it is cleared.
void show_progress(const char* what, double share);

// Prints the error on stderr ("pipewright: ...") and sets the exit code.
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
void add_report(CLI::App& app, Exit& exit);
void add_export(CLI::App& app, Exit& exit);
void add_serve(CLI::App& app, Exit& exit);
void add_calibrate(CLI::App& app, Exit& exit);
void add_train(CLI::App& app, Exit& exit);
void add_rehearse(CLI::App& app, Exit& exit);
void add_place(CLI::App& app, Exit& exit);
void add_validate(CLI::App& app, Exit& exit);
void add_completion(CLI::App& app, Exit& exit);
void add_man_page(CLI::App& app, Exit& exit);

}  // namespace pipewright::cli
