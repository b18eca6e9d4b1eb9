// SPP with each of its three parts switched off in turn, and the best rival
// twice: with devices as the cluster lists them, and in SPP's order of devices,
// so that what is left is not due to the order. Microbatches of 8 samples.

#include <algorithm>
#include <array>
#include <iostream>

#include "cli/program_arguments.h"
#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/spp/spp_device_order.h"
#include "pipewright/planners/tuned_replicas.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

constexpr int kMinibatch = 128, kMicrobatch = 8;
const std::array kRivals = {"data-parallel", "gpipe", "pipedream", "dapple"};

// The same cluster with its devices in another order.
Result<Cluster> reordered(const Cluster& cluster,
                          const std::vector<DeviceId>& order) {
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
  for (const SharedResource& resource : cluster.resources())
    builder.add_resource(resource);
  for (DeviceId device : order)
    builder.add_device(cluster.devices()[device.index()]);
  for (std::size_t u = 0; u < order.size(); ++u)
    for (std::size_t v = 0; v < order.size(); ++v)
      if (const Link* link =
              u == v ? nullptr : cluster.link(order[u], order[v]))
        builder.connect(DeviceId(u), DeviceId(v), *link);
  return builder.build();
}

Problem problem_of(const Profile& profile, const Cluster& cluster) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = kMinibatch;
  problem.microbatches = {kMicrobatch};
  problem.estimate = simulating_estimator(problem);
  return problem;
}

// Steps of one row; 0: no plan.
struct Steps {
  double whole = 0;
  std::array<double, 3> without{};
  double rival = 0, rival_in_order = 0;
};

double step_of(const Planner& planner, const Problem& problem) {
  const auto planned = default_plan(planner, problem);
  return planned ? planned->estimate.step.value() : 0;
}

double best_rival(const Problem& problem) {
  double best = 0;
  for (const char* name : kRivals) {
    const double step = step_of(**find_planner(name), problem);
    if (step > 0 && (best == 0 || step < best)) best = step;
  }
  return best;
}

Result<Steps> measured(const Profile& profile, const Cluster& cluster) {
  const Problem problem = problem_of(profile, cluster);
  Steps steps;
  steps.whole = step_of(*spp_planner(SppParts()), problem);
  const std::array<SppParts, 3> parts = {SppParts{false, true, true},
                                         SppParts{true, false, true},
                                         SppParts{true, true, false}};
  for (std::size_t i = 0; i < parts.size(); ++i)
    steps.without[i] = step_of(*spp_planner(parts[i]), problem);
  steps.rival = best_rival(problem);
  PIPEWRIGHT_TRY(const Cluster line,
                 reordered(cluster, recursive_device_order(cluster)));
  steps.rival_in_order = best_rival(problem_of(profile, line));
  return steps;
}

// Of one column: by how much the step is longer than SPP's.
struct Column {
  std::string title;
  std::vector<double> losses;

  std::string cell(double step, double whole) {
    if (step <= 0 || whole <= 0) return "-";
    losses.push_back(100 * (step / whole - 1));
    return to_text(losses.back()) + " %";
  }
  std::string summary() {
    std::sort(losses.begin(), losses.end());
    if (losses.empty()) return title + ": no row";
    return title + ": median " + to_text(losses[(losses.size() - 1) / 2]) +
           " %, smallest " + to_text(losses.front()) + " %, largest " +
           to_text(losses.back()) + " %";
  }
};

class Table {
 public:
  Result<void> add(const std::string& model_name, const std::string& machines) {
    PIPEWRIGHT_TRY(const Cluster cluster, load_cluster(machines));
    PIPEWRIGHT_TRY(const Model model, load_model(model_name));
    PIPEWRIGHT_TRY(const Profile profile,
                   analytic_profile(model, cluster.kinds(),
                                    std::array{1, 2, 4, kMicrobatch}));
    PIPEWRIGHT_TRY(const Steps steps, measured(profile, cluster));
    const auto slash = machines.rfind('/');
    const bool is_file = machines.find(".json") != std::string::npos;
    table_.add_row({model_name, is_file ? machines.substr(slash + 1) : machines,
                    to_text(Seconds(steps.whole)),
                    columns_[0].cell(steps.without[0], steps.whole),
                    columns_[1].cell(steps.without[1], steps.whole),
                    columns_[2].cell(steps.without[2], steps.whole),
                    columns_[3].cell(steps.rival, steps.whole),
                    columns_[4].cell(steps.rival_in_order, steps.whole)});
    return {};
  }

  void print() {
    std::cout << table_.to_text(140) << "\n";
    for (Column& column : columns_) std::cout << column.summary() << "\n";
  }

 private:
  TextTable table_{{{"model"},
                    {"cluster"},
                    {"spp", TextTable::Align::Right},
                    {"no device order", TextTable::Align::Right},
                    {"no partition", TextTable::Align::Right},
                    {"no microbatch order", TextTable::Align::Right},
                    {"best rival", TextTable::Align::Right},
                    {"in SPP's order", TextTable::Align::Right}}};
  std::array<Column, 5> columns_ = {
      Column{"lost without the device order", {}},
      Column{"lost without the partition", {}},
      Column{"lost without the microbatch order", {}},
      Column{"the best rival is slower by", {}},
      Column{"the best rival in SPP's order of devices is slower by", {}}};
};

int print_table() {
  const std::string here =
      std::string(PIPEWRIGHT_SOURCE_DIR) + "/experiments/spp/";
  Table table;
  for (const char* model : {"vgg19", "gnmt:layers=8"})
    for (const std::string& machines :
         {std::string("8xV100@nvlink"), std::string("2x4xV100@nvlink/10GbE"),
          here + "uneven.json", here + "random8.json"}) {
      const auto added = table.add(model, machines);
      if (added) continue;
      std::cerr << added.error().to_text() << "\n";
      return static_cast<int>(added.error().code);
    }
  table.print();
  return 0;
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  CLI::App app{"Prints what each part of SPP is worth"};
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  return pipewright::print_table();
}
