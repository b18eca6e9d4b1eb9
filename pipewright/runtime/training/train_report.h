// What a training reports: of each step, and at its end.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/runtime/training/evaluation.h"
#include "pipewright/timeline/pipeline_run.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct StepReport {
  std::int64_t step = 0, steps = 0;  // done, of
  double loss = 0;
  double rate = 0;
  Seconds seconds;  // since the step before
  double samples_per_second = 0;
  std::optional<double> bubble;  // of the last piece, once there is one
  Seconds left;
};

// Of the steps between two pauses (milestones.h).
struct PieceReport {
  std::int64_t step = 0, steps = 0;  // done at its end, of
  std::vector<double> busy;          // per worker: share of the time, computing
  std::vector<Bytes> memory;         // per worker: peak
  std::vector<double> rates;      // per stage: learning rate of the next step
  std::vector<double> staleness;  // per stage: steps, of a forward's weights
};

struct TrainReport {
  std::int64_t first_step = 0, steps = 0;  // done before and after
  double first_loss = 0, last_loss = 0;    // of this run's steps
  // Of this run, by NotFinitePolicy: steps that were left out, and how often
  // steps were finite when they were repeated.
  std::int64_t skipped = 0, repeated = 0;
  Seconds step_seconds;                  // median
  std::optional<Evaluation> evaluation;  // the last one
  Timeline timeline;                     // of the last piece
  Bytes memory;            // by how much the process grew, at its peak
  std::string checkpoint;  // the last one written
  std::string weights;     // the file with them, of an exported model
  // Why a device that can record was given actions kernel by kernel; empty: it
  // was not, or there was none.
  std::string why_not_recorded;
  std::string recorded_as;  // what was recorded as one piece; empty: nothing
  std::string kernels;  // of GPUs, where others than the default were chosen
  std::string between_ranks;  // what messages go over; empty: no ranks
  int signal = 0;             // that ended it early
  // Of ranks: before the first step; see handovers.h.
  std::optional<PipelineRun> handovers;
};

}  // namespace pipewright
