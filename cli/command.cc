#include "cli/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

int terminal_width() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (auto n = parse_integer(columns); n && *n >= 20 && *n <= 1000)
      return static_cast<int>(*n);
  winsize size{};
  if (::isatty(STDOUT_FILENO) &&
      ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
    return size.ws_col;
  return 100;
}

}  // namespace

void add_output_options(CLI::App& command, Output& output) {
  output.width = terminal_width();
  command.add_flag("--json", output.json,
                   "Print one JSON object on standard output");
}

std::string percent(double share) {
  return to_text(std::round(share * 1000) / 10 + 0.0) + " %";  // not -0
}

void say(const std::string& line) { std::cerr << line + "\n"; }

void show_progress(const char* what, double share) {
  if (!::isatty(STDERR_FILENO)) return;
  constexpr int kCells = 30;
  const int full = static_cast<int>(share * kCells);
  std::cerr << "\r" << what << " [" << std::string(full, '#')
            << std::string(kCells - full, ' ') << "] "
            << static_cast<int>(share * 100) << " %"
            << (share >= 1 ? "\r\x1b[K" : "") << std::flush;
}

void report(const Error& error, Exit& exit) {
  say("pipewright: " + error.to_text());
  exit.code = static_cast<int>(error.code);
}

}  // namespace pipewright::cli
