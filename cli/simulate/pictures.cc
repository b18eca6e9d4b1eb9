#include "cli/simulate/pictures.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "pipewright/base/files.h"
#include "pipewright/timeline/chrome_trace.h"
#include "pipewright/timeline/draw.h"
#include "pipewright/timeline/svg.h"

namespace pipewright::cli {
namespace {

bool wants_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

Result<void> write(const std::string& file, const std::string& text) {
  auto written = write_file(file, text);
  if (written) std::cerr << "wrote " << file << "\n";
  return written;
}

}  // namespace

void add_picture_options(CLI::App& command, Pictures& pictures) {
  command.add_option("--trace", pictures.trace,
                     "Write a trace for Perfetto to this file");
  command.add_option("--svg", pictures.svg, "Write a picture to this file");
}

Result<void> write_pictures(const Pictures& pictures, const Program& program,
                            const Timeline& timeline,
                            const std::string& title) {
  if (!pictures.trace.empty())
    if (auto written = write(pictures.trace, chrome_trace(program, timeline));
        !written)
      return written;
  if (pictures.svg.empty()) return {};
  SvgOptions options;
  options.title = title;
  return write(pictures.svg, svg(program, timeline, options));
}

std::string drawn(const Timeline& timeline, const Output& output) {
  return draw(timeline, {output.width, wants_colour()});
}

}  // namespace pipewright::cli
