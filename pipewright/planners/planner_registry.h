// The functions that create the planners. For planner_registry.cc and the files
// that define them; everyone else uses planners() and find_planner().
//
// To add a planner: write a file that defines its function, declare the
// function here, and list it in planner_registry.cc.

#pragma once

#include <memory>

#include "pipewright/planners/planner.h"

namespace pipewright {

std::unique_ptr<Planner> data_parallel_planner();
std::unique_ptr<Planner> uniform_planner();
std::unique_ptr<Planner> balanced_planner();
std::unique_ptr<Planner> torchgpipe_planner();
std::unique_ptr<Planner> gpipe_planner();
std::unique_ptr<Planner> pipedream_planner();
std::unique_ptr<Planner> exact_planner();
std::unique_ptr<Planner> dapple_planner();
std::unique_ptr<Planner> piper_planner();
std::unique_ptr<Planner> bapipe_planner();
std::unique_ptr<Planner> bi_partition_planner();
std::unique_ptr<Planner> pipemare_planner();
std::unique_ptr<Planner> spp_planner();
std::unique_ptr<Planner> auto_planner();

}  // namespace pipewright
