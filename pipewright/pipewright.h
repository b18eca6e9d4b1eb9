// Everything a program needs that uses Pipewright as a library; see
// examples/embed for one that plans, simulates and trains.
//
//   model     load_model("gpt:layers=12") or a file; layers and tensors
//   cluster   load_cluster("4xV100@nvlink") or a file; devices and links
//   profile   analytic_profile() estimates what layers cost; parse_profile()
//             reads what was measured
//   plan      find_planner("spp"), Planner::plan(Problem) -> Plan; lower() and
//             validate() make the Program that is simulated and run
//   simulate  costs_of(), simulate() -> Timeline; draw() shows it
//   train     train(Model, TrainRequest) -> TrainReport
//
// Functions that may fail return Result<T> (base/result.h). CMake:
//
//   find_package(Pipewright REQUIRED COMPONENTS runtime)
//   target_link_libraries(program Pipewright::pipewright Pipewright::runtime)
//
// Only train() needs Pipewright::runtime, and with it LibTorch; no header here
// includes LibTorch.

#pragma once

#include "pipewright/base/files.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/planner.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/draw.h"
#include "pipewright/timeline/timeline.h"
