// A timeline as text for the terminal: one row per worker, time to the right.
//
//   0 F0F1F2F3            B0──F4B1──F5 ...   73 %
//   1   F0F1F2        B0──F3B1──F4B2── ...   73 %
//
// A cell is a letter (F forward, B backward, I input gradients, W weight
// gradients, R recompute, S step), the microbatch, and as many dashes as the
// action lasts. The letter is lower-case for all but the first of a worker's
// stages. If the number does not fit, it is one digit of base 36; if only one
// character fits, a forward is its digit and anything else its letter. ~ is an
// all-reduce while the worker is idle.
//
// What is too long for one line is drawn in up to four bands below each other;
// of a longer run only the beginning is drawn, and the last line says so.

#pragma once

#include <string>

#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct DrawOptions {
  int width = 80;       // of a line
  bool colour = false;  // ANSI; the caller knows terminal and NO_COLOR
};

// Lines that end in a newline; needs spans.
std::string draw(const Timeline& timeline, const DrawOptions& options = {});

}  // namespace pipewright
