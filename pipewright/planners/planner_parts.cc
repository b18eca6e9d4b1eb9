#include "pipewright/planners/planner_parts.h"

#include <algorithm>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// The parts that are switched off.
using PartsOff = std::vector<std::string>;

bool has_part(const PartsOff& off, const char* name) {
  return std::find(off.begin(), off.end(), name) == off.end();
}

std::unique_ptr<Planner> bapipe_without(const PartsOff& off) {
  BaPipeParts parts;
  parts.sno = has_part(off, "1f1b-sno");
  parts.so = has_part(off, "1f1b-so");
  parts.one_as = has_part(off, "1f1b-as");
  parts.fbp_as = has_part(off, "fbp-as");
  parts.coarse_partition = has_part(off, "coarse-partition");
  parts.memory_tuning = has_part(off, "memory-tuning");
  parts.data_parallelism = has_part(off, "data-parallelism");
  parts.split_layers = has_part(off, "split-layers");
  return bapipe_planner(parts);
}

std::unique_ptr<Planner> spp_without(const PartsOff& off) {
  return spp_planner(SppParts{has_part(off, "device-order"),
                              has_part(off, "partition"),
                              has_part(off, "microbatch-order")});
}

std::unique_ptr<Planner> bi_partition_without(const PartsOff& off) {
  return bi_partition_planner(BiPartitionParts{has_part(off, "separate-cuts"),
                                               has_part(off, "replicas"),
                                               has_part(off, "recompute")});
}

std::unique_ptr<Planner> pipedream_without(const PartsOff& off) {
  return pipedream_planner(PipeDreamParts{has_part(off, "replicas")});
}

struct PartedPlanner {
  const char* name;
  std::unique_ptr<Planner> (*without)(const PartsOff& off);
};
constexpr PartedPlanner kPartedPlanners[] = {
    {"bapipe", bapipe_without},
    {"spp", spp_without},
    {"bi-partition", bi_partition_without},
    {"pipedream", pipedream_without}};

std::vector<std::string> part_names(const std::string& planner) {
  std::vector<std::string> names;
  for (const PlannerPart& part : planner_parts())
    if (part.planner == planner) names.push_back(part.name);
  return names;
}

Error no_parts(const std::string& planner) {
  std::vector<std::string> names;
  for (const PartedPlanner& each : kPartedPlanners) names.push_back(each.name);
  return bad_configuration(
      "the planner \"" + planner + "\" has no parts to switch off",
      "these have: " + join(names, ", "));
}

}  // namespace

const std::vector<PlannerPart>& planner_parts() {
  static const std::vector<PlannerPart> kParts = {
      {"bapipe", "1f1b-sno", "the other schedule of GPUs only"},
      {"bapipe", "1f1b-so", "the other schedule of GPUs only"},
      {"bapipe", "1f1b-as", "the other schedule of FPGAs only"},
      {"bapipe", "fbp-as", "the other schedule of FPGAs only"},
      {"bapipe", "coarse-partition", "balanced compute, whatever links carry"},
      {"bapipe", "memory-tuning", "nothing, where no partition fits"},
      {"bapipe", "data-parallelism", "a pipeline, even if it is slower"},
      {"bapipe", "split-layers", "whole layers"},
      {"spp", "device-order", "devices as the cluster lists them"},
      {"spp", "partition", "balanced compute, one device per stage"},
      {"spp", "microbatch-order", "1F1B"},
      {"bi-partition", "separate-cuts", "equal cuts for forward and backward"},
      {"bi-partition", "replicas", "one device per stage"},
      {"bi-partition", "recompute", "saved tensors kept, or sent"},
      {"pipedream", "replicas", "one device per stage"}};
  return kParts;
}

Result<std::unique_ptr<Planner>> planner_without(
    const std::string& planner, const std::vector<std::string>& parts) {
  if (const auto known = find_planner(planner); !known) return known.error();
  const std::vector<std::string> names = part_names(planner);
  if (names.empty()) return no_parts(planner);
  for (const std::string& part : parts)
    if (std::find(names.begin(), names.end(), part) == names.end())
      return bad_configuration(
          "the planner \"" + planner + "\" has no part \"" + part + "\"",
          "its parts: " + join(names, ", "));
  for (const PartedPlanner& each : kPartedPlanners)
    if (planner == each.name) return each.without(parts);
  return no_parts(planner);
}

}  // namespace pipewright
