// A timeline as a picture: the grid of draw.h with colours, and a line from
// sender to receiver for every transfer.

#pragma once

#include <string>

#include "pipewright/plan/program/program.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct SvgOptions {
  int width = 1000;       // pixels
  bool transfers = true;  // lines between rows
};

// An SVG document; needs spans. The program says where transfers go.
std::string svg(const Program& program, const Timeline& timeline,
                const SvgOptions& options = {});

}  // namespace pipewright
