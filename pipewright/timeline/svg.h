// A timeline as a picture: the grid of draw.h with colours, and a line from
// sender to receiver for every transfer.

#pragma once

#include <string>

#include "pipewright/plan/program/program.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct SvgOptions {
  // Pixels; 0: as many as the actions need to be told apart, 1000 to 4000.
  int width = 0;
  // Lines between rows. They are left out where they would be so close that
  // they cover the rows.
  bool transfers = true;
  std::string title;  // above the picture; "": none
};

// An SVG document; needs spans. The program says where transfers go.
std::string svg(const Program& program, const Timeline& timeline,
                const SvgOptions& options = {});

}  // namespace pipewright
