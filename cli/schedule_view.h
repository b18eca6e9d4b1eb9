// A schedule on the clock, and its picture: for `pipewright schedule`, where
// there is no model, cluster or program yet, only times per stage.
//
//   0 |F0F1F2F3        B0==F4B1==...
//   1 |  F0F1F2    B0==F3B1==F4...

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/plan/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::cli {

struct ScheduleView {
  struct Box {
    ComputeAction action;
    double start = 0, end = 0;
  };
  int num_stages = 0, num_microbatches = 0;
  bool is_asynchronous = false;
  std::vector<std::vector<Box>> workers;  // a run of some minibatches
  std::vector<double> busy;               // seconds per step
  std::vector<int> peak;                  // activations held
  double duration = 0;                    // of the run
  double step_seconds = 0;                // steady state if asynchronous
  double bubble = 0;
};

// request.times has one entry per stage.
ScheduleView view_of(const Schedule& schedule, const ScheduleRequest& request);

std::string to_text(const ScheduleView& view, const std::string& name,
                    int width);
Json to_json(const ScheduleView& view, const std::string& name);

}  // namespace pipewright::cli
