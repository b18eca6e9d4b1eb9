// The functions that create the generators, each named as its file. For
// registry.cc and the files that define them; everyone else uses names
// (generator.h).

#pragma once

#include "pipewright/schedules/generator.h"

namespace pipewright {

ScheduleGenerator gpipe();
ScheduleGenerator one_f_one_b();
ScheduleGenerator one_f_one_b_so();
ScheduleGenerator fbp();
ScheduleGenerator interleaved();
ScheduleGenerator looped_bfs();
ScheduleGenerator zb_h1();
ScheduleGenerator zb_h2();
ScheduleGenerator zb_v();
ScheduleGenerator v_half();
ScheduleGenerator v_min();
ScheduleGenerator dualpipev();
ScheduleGenerator zero_bubble();
ScheduleGenerator chimera();
ScheduleGenerator hanayo();
ScheduleGenerator async_1f1b();
ScheduleGenerator async_1f1b_so();
ScheduleGenerator async_deep();
ScheduleGenerator spp_pe();
ScheduleGenerator spp_pe_capped();

}  // namespace pipewright
