// PipeMare at depth: utilisation, weights and activations of each method, one
// layer with weights a stage where the depth asks for it.

#include <algorithm>
#include <array>
#include <iostream>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_report.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

struct Row {
  std::string model;
  int stages = 1, microbatches = 1, samples = 1;
  int optimizer_words = 1;
};

class Table {
 public:
  Result<void> add(const Row& row) {
    PIPEWRIGHT_TRY(const Model model, load_model(row.model));
    PIPEWRIGHT_TRY(const Cluster cluster, load_cluster("2xV100"));
    const std::array sizes = {row.samples};
    PIPEWRIGHT_TRY(const Profile profile,
                   analytic_profile(model, cluster.kinds(), sizes));
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    PIPEWRIGHT_TRY(const DeepStages stages,
                   deep_stages(problem, row.samples, row.stages));
    PIPEWRIGHT_TRY(const CostTable costs,
                   CostTable::create(profile, cluster, row.samples));
    const DepthCosts depth = depth_costs(costs, stages.ends, row.microbatches,
                                         row.optimizer_words, Slots::Together);
    for (const MethodCost& method : depth.methods) add_row(row, method, depth);
    table_.add_rule();
    return {};
  }

  void print() const {
    std::cout << table_.to_text(120) << "\n"
              << "utilisation over sync: up to " << to_text(utilisation_, 4)
              << "x (paper: 14.3x in MLSys 2021, 4.3x in arXiv v2 under "
                 "another budget)\n"
              << "weights of stash over pipemare: up to " << to_text(weights_)
              << "x; of stash over sync: up to " << to_text(over_sync_)
              << "x (paper: 2.7x)\n";
  }

 private:
  void add_row(const Row& row, const MethodCost& method,
               const DepthCosts& depth) {
    const MethodCost& sync = depth.methods.front();
    const auto found =
        std::find_if(depth.methods.begin(), depth.methods.end(),
                     [](const MethodCost& m) { return m.name == "pipemare"; });
    utilisation_ =
        std::max(utilisation_, method.utilisation / sync.utilisation);
    if (method.name == "stash") {
      weights_ = std::max(weights_, method.weights / found->weights);
      over_sync_ = std::max(over_sync_, method.weights / sync.weights);
    }
    const bool segments = method.name == "pipemare + recompute";
    table_.add_row({row.model, std::to_string(row.stages),
                    std::to_string(row.microbatches), method.name,
                    to_text(method.utilisation),
                    to_text(method.utilisation / sync.utilisation, 4) + "x",
                    to_text(method.weights),
                    to_text(method.weights / sync.weights) + "x",
                    to_text(method.activations),
                    to_text(method.activations / found->activations) + "x",
                    segments ? std::to_string(depth.segment) : ""});
  }

  TextTable table_{{{"model"},
                    {"P", TextTable::Align::Right},
                    {"N", TextTable::Align::Right},
                    {"method"},
                    {"used", TextTable::Align::Right},
                    {"/sync", TextTable::Align::Right},
                    {"weights", TextTable::Align::Right},
                    {"/sync", TextTable::Align::Right},
                    {"activations", TextTable::Align::Right},
                    {"/pipemare", TextTable::Align::Right},
                    {"segment", TextTable::Align::Right}}};
  double utilisation_ = 0, weights_ = 0, over_sync_ = 0;
};

int print_table() {
  Table table;
  for (const Row& row :
       std::vector<Row>{{"resnet50", 107, 8, 8, 1},
                        {"resnet50", 107, 16, 16, 1},
                        {"resnet50", 32, 8, 8, 1},
                        {"resnet50", 8, 8, 8, 1},
                        {"gpt:layers=12,hidden=768", 48, 16, 1, 2}}) {
    const auto added = table.add(row);
    if (added) continue;
    std::cerr << added.error().to_text() << "\n";
    return static_cast<int>(added.error().code);
  }
  table.print();
  return 0;
}

}  // namespace
}  // namespace pipewright

int main() { return pipewright::print_table(); }
