// BaPipe with each of its parts switched off in turn: the other schedule of the
// platform, the coarse partition, memory tuning, data parallelism and split
// layers, on GPUs with measured profiles and on FPGAs with estimated ones.
// Memory is limited so that tuning has something to do.

#include <algorithm>
#include <iostream>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/bapipe/bapipe.h"
#include "pipewright/planners/choice.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

struct Row {
  std::string net, machines, numbers;  // numbers empty: a measured profile
  int minibatch = 128;
  std::vector<int> microbatches;
  std::int64_t megabytes = 0;  // limit; 0: the device's memory
};

// One part switched off, and what that costs in each row.
struct Arm {
  std::string part;  // empty: all are on
  BaPipeParts parts;
  std::vector<double> losses = {};  // percent
  int refused = 0;

  std::string name() const { return part.empty() ? "all" : "without " + part; }
  std::string summary() {
    std::sort(losses.begin(), losses.end());
    return "lost without " + part + ": median " +
           to_text(losses[(losses.size() - 1) / 2]) + " %, largest " +
           to_text(losses.back()) + " %; no plan in " +
           std::to_string(refused) + " rows";
  }
};

Result<Profile> profile_of(const Row& row, const Cluster& cluster) {
  if (row.numbers.empty()) {
    const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                             "/examples/profiles/" + row.net + "-v100.json";
    PIPEWRIGHT_TRY(const std::string text, read_file(path));
    return parse_profile(text, path);
  }
  PIPEWRIGHT_TRY(const Model model, load_model(row.net));
  AnalyticOptions options;
  options.number_type = row.numbers;
  return analytic_profile(model, cluster.kinds(), row.microbatches, options);
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
  for (Arm& arm : arms) {
    const auto planned = bapipe_planner(arm.parts)->plan(problem);
    const double step = planned ? planned->estimate.step.value() : 0;
    if (arm.part.empty()) whole = step;
    if (planned)
      arm.losses.push_back(100 * (step / whole - 1));
    else
      ++arm.refused;
    const std::string memory =
        row.megabytes == 0 ? "" : to_text(problem.memory_limit);
    table.add_row({row.net, row.numbers.empty() ? "measured" : row.numbers,
                   row.machines, memory, arm.name(),
                   planned ? to_text(planned->estimate.step) : "does not fit",
                   planned ? to_text(arm.losses.back()) + " %" : "-",
                   planned ? shape_text(planned->plan) : ""});
  }
  table.add_rule();
  return {};
}

int print_table() {
  std::vector<Arm> arms = {{"", {}},
                           {"the second schedule", {false, true, true, true}},
                           {"the coarse partition", {true, false, true, true}},
                           {"memory tuning", {true, true, false, true}},
                           {"data parallelism", {true, true, true, false}},
                           {"split layers", {.split_layers = false}}};
  TextTable table{{{"net"},
                   {"profile"},
                   {"cluster"},
                   {"memory", TextTable::Align::Right},
                   {"parts"},
                   {"step", TextTable::Align::Right},
                   {"lost", TextTable::Align::Right},
                   {"plan"}}};
  const std::vector<int> gpu = {8, 16, 32}, fpga = {1, 4, 32};
  for (const Row& row : std::vector<Row>{
           {"vgg16", "4x1xV100/10GbE", "", 128, gpu, 0},
           {"vgg16", "4x1xV100/10GbE", "", 128, gpu, 1600},
           {"gnmt", "4x1xV100/10GbE", "", 128, gpu, 0},
           {"gnmt", "8xV100@pcie3", "", 256, gpu, 500},
           {"resnet50", "4xV100@pcie3", "", 128, gpu, 0},
           {"resnet50", "2xVCU118+2xVCU129", "float32", 128, fpga, 0},
           {"resnet50", "2xVCU118+2xVCU129", "int16", 128, fpga, 0},
           {"vgg16", "2xVCU118+2xVCU129", "float32", 128, fpga, 0},
           {"vgg16", "2xVCU118+2xVCU129", "int16", 128, fpga, 0}}) {
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

int main() { return pipewright::print_table(); }
