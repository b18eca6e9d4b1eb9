// Every generator by its function: one a file, named as the file is.
// registry.cc puts them in order; everyone else asks for them by name
// (generator.h).

#pragma once

#include "pipewright/schedules/generator.h"

namespace pipewright {

ScheduleGenerator gpipe();
ScheduleGenerator one_f_one_b();

}  // namespace pipewright
