// BaPipe with each of its parts switched off in turn, as `plan --set PART=off`
// does it: on GPUs with measured profiles, and on FPGAs with estimated ones in
// float32 and in 16 bits. Memory is limited and links are slow where that gives
// memory tuning and the coarse partition something to do. Parts of a pipeline
// are compared among pipelines: data parallelism, which hides what they are
// worth wherever it is faster, is off with and without them. Streaming belongs
// to the boards, not to the planner: without it the same planner is given
// estimates in which a transfer starts when its tensor is complete.

#include <algorithm>
#include <iostream>

#include "cli/program_arguments.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/tuned_replicas.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

struct Row {
  std::string net, machines, numbers;  // numbers empty: measured, on GPUs
  int minibatch = 128;
  std::vector<int> microbatches;
  std::int64_t megabytes = 0;  // limit; 0: the device's memory

  bool is_on_gpus() const { return numbers.empty(); }
};

const std::string kDataParallelism = "data-parallelism",
                  kStreaming = "streaming";

// One part switched off, and what that costs in each row.
struct Arm {
  std::string part;                 // empty: all are on
  std::vector<double> losses = {};  // percent
  int refused = 0;

  bool is_of_pipelines() const {
    return !part.empty() && part != kDataParallelism;
  }
  std::string name() const {
    if (is_of_pipelines()) return "  and without " + part;
    return part.empty() ? "all" : "without " + part;
  }
  std::vector<std::string> parts_off() const {
    if (part.empty()) return {};
    if (part == kDataParallelism || part == kStreaming)
      return {kDataParallelism};
    return {part, kDataParallelism};
  }
  // A platform has two of the four schedules, and only FPGAs stream and split
  // layers.
  bool concerns(const Row& row) const {
    if (part == "1f1b-sno" || part == "1f1b-so") return row.is_on_gpus();
    if (part == "1f1b-as" || part == "fbp-as" || part == "split-layers" ||
        part == kStreaming)
      return !row.is_on_gpus();
    return true;
  }
  std::string summary() {
    std::sort(losses.begin(), losses.end());
    const std::string head = "lost without " + part + ": ";
    if (losses.empty()) return head + "no plan in any row";
    return head + "median " + to_text(losses[(losses.size() - 1) / 2]) +
           " %, largest " + to_text(losses.back()) + " % of " +
           std::to_string(losses.size()) + " rows; no plan in " +
           std::to_string(refused);
  }
};

std::vector<Arm> all_arms() {
  std::vector<Arm> arms = {Arm{""}, Arm{kDataParallelism}};
  for (const PlannerPart& part : planner_parts())
    if (part.planner == "bapipe" && part.name != kDataParallelism)
      arms.push_back({part.name});
  arms.push_back({kStreaming});
  return arms;
}

Result<Profile> profile_of(const Row& row, const Cluster& cluster) {
  if (row.is_on_gpus()) {
    const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                             "/examples/profiles/" + row.net + "-v100.json";
    PIPEWRIGHT_TRY(const std::string text, read_file(path));
    return parse_profile(text, path);
  }
  // Tensors of two bytes where the rates are those of 16 bits.
  const bool is_half = row.numbers != "float32";
  PIPEWRIGHT_TRY(const Model model,
                 load_model(row.net + (is_half ? ":type=float16" : "")));
  AnalyticOptions options;
  options.number_type = row.numbers;
  return analytic_profile(model, cluster.kinds(), row.microbatches, options);
}

void stop_streaming(Costs& costs) {
  for (Costs::TransferCost& transfer : costs.transfers)
    transfer.streams = false;
}

Problem without_streaming(Problem problem) {
  problem.estimator_for = [](const Profile& profile, const Cluster& cluster,
                             Bytes memory_limit) {
    return simulating_estimator(profile, cluster, memory_limit, stop_streaming);
  };
  problem.estimate = problem.estimator_for(*problem.profile, *problem.cluster,
                                           problem.memory_limit);
  problem.estimate_copies = nullptr;
  return problem;
}

// `whole` is the step that an arm's is compared with: that of all parts, then
// that of all parts of a pipeline.
void add_arm(const Row& row, Arm& arm, const Problem& problem, double& whole,
             TextTable& table) {
  const auto planner = planner_without("bapipe", arm.parts_off()).value();
  const auto planned = default_plan(
      *planner, arm.part == kStreaming ? without_streaming(problem) : problem);
  const double step = planned ? planned->estimate.step.value() : 0;
  if (arm.part.empty()) whole = step;
  if (planned)
    arm.losses.push_back(100 * (step / whole - 1));
  else
    ++arm.refused;
  table.add_row(
      {row.net, row.is_on_gpus() ? "measured" : row.numbers, row.machines,
       row.megabytes == 0 ? "" : to_text(problem.memory_limit), arm.name(),
       planned ? to_text(planned->estimate.step) : "no plan",
       planned ? to_text(arm.losses.back()) + " %" : "-",
       planned ? shape_text(planned->plan) : ""});
  if (arm.part == kDataParallelism) whole = step;
}

Result<void> add(const Row& row, std::vector<Arm>& arms, TextTable& table) {
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster(row.machines));
  PIPEWRIGHT_TRY(const Profile profile, profile_of(row, cluster));
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = row.minibatch;
  problem.microbatches = row.microbatches;
  problem.memory_limit = Bytes(row.megabytes * 1'000'000);
  problem.may_split_layers = true;
  set_estimators(problem);
  double whole = 0;
  for (Arm& arm : arms)
    if (arm.concerns(row)) add_arm(row, arm, problem, whole, table);
  table.add_rule();
  return {};
}

std::vector<Row> rows() {
  const std::vector<int> gpu = {8, 16, 32}, fpga = {1, 4, 8, 32};
  return {{"vgg16", "4x1xV100/10GbE", "", 128, gpu, 0},
          {"vgg16", "4x1xV100/10GbE", "", 128, gpu, 1600},
          {"gnmt", "4x1xV100/10GbE", "", 128, gpu, 0},
          {"gnmt", "8xV100@pcie3", "", 256, gpu, 500},
          {"resnet50", "4xV100@pcie3", "", 128, gpu, 0},
          {"resnet50", "2xVCU118+2xVCU129", "float32", 128, fpga, 0},
          {"resnet50", "2xVCU118+2xVCU129", "int16", 128, fpga, 0},
          {"vgg16", "2xVCU118+2xVCU129", "float32", 128, fpga, 0},
          {"vgg16", "2xVCU118+2xVCU129", "int16", 128, fpga, 0},
          {"vgg16", "2xVCU118+2xVCU129", "int16", 128, fpga, 700},
          {"vgg16", "2x1xVCU118+2x1xVCU129/10GbE", "float32", 128, fpga, 0},
          {"vgg16", "2x1xVCU118+2x1xVCU129/10GbE", "int16", 128, fpga, 0},
          {"vgg16", "2x1xVCU118+2x1xVCU129/1GbE", "float32", 128, fpga, 0},
          {"vgg16", "2x1xVCU118+2x1xVCU129/1GbE", "int16", 128, fpga, 0}};
}

int print_table() {
  std::vector<Arm> arms = all_arms();
  TextTable table{{{"net"},
                   {"profile"},
                   {"cluster"},
                   {"memory", TextTable::Align::Right},
                   {"parts"},
                   {"step", TextTable::Align::Right},
                   {"lost", TextTable::Align::Right},
                   {"plan"}}};
  for (const Row& row : rows()) {
    const auto added = add(row, arms, table);
    if (added) continue;
    std::cerr << added.error().to_text() << "\n";
    return static_cast<int>(added.error().code);
  }
  std::cout << table.to_text(140) << "\n";
  for (std::size_t i = 1; i < arms.size(); ++i)
    std::cout << arms[i].summary() << "\n";
  return 0;
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  CLI::App app{"Prints what each part of BaPipe is worth"};
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  return pipewright::print_table();
}
