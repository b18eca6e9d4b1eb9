// Bi-Partition against PipeDream's plan and against the best equal cuts under
// its own cost model, all scored by the same simulator, on profiles measured
// by PipeDream's authors.

#include <algorithm>
#include <iostream>
#include <optional>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/bi_partition/bi_partition.h"
#include "pipewright/planners/planner.h"

namespace pipewright {
namespace {

struct Row {
  std::string net, machines;
  Method method = Method::Stash;
  int microbatches = 1;
};

// What a table remembers of its largest ratio.
struct Largest {
  double ratio = 0;
  std::string where;

  void see(double ratio_here, const std::string& where_here) {
    if (ratio_here <= ratio) return;
    ratio = ratio_here;
    where = where_here;
  }
};

class Table {
 public:
  Result<void> add(const Row& row) {
    const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                             "/examples/profiles/" + row.net + "-v100.json";
    PIPEWRIGHT_TRY(const std::string text, read_file(path));
    PIPEWRIGHT_TRY(const Profile profile, parse_profile(text, path));
    PIPEWRIGHT_TRY(const Cluster cluster, load_cluster(row.machines));
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    problem.microbatches = {profile.sizes.begin()->first};
    problem.minibatch = row.microbatches * problem.microbatches[0];
    problem.method = row.method;
    problem.estimate = simulating_estimator(problem);

    const auto split = bi_partition_planner(6)->plan(problem);
    const auto equal = bi_partition_planner(0)->plan(problem);
    const auto rival = find_planner("pipedream");
    std::optional<Planned> pipedream;
    if (rival) {
      auto planned = (*rival)->plan(problem);
      if (planned) pipedream = *std::move(planned);
    }
    add_row(row, split, equal, pipedream);
    return {};
  }

  void print() const {
    std::cout << table_.to_text(110) << "\n";
    if (over_pipedream_.ratio > 0)
      std::cout << "largest over PipeDream's plan: "
                << to_text(over_pipedream_.ratio) << "x ("
                << over_pipedream_.where << "); the paper: up to 1.9x\n";
    std::cout << "largest over the best equal cuts: "
              << to_text(over_equal_.ratio) << "x (" << over_equal_.where
              << ")\n";
  }

 private:
  static std::string step(const Planned* planned) {
    return planned ? to_text(planned->estimate.step) : "-";
  }
  static bool is_split(const Plan& plan) {
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const Stage& s) { return s.forward != s.backward; });
  }

  void add_row(const Row& row, const Result<Planned>& split,
               const Result<Planned>& equal,
               const std::optional<Planned>& pipedream) {
    const std::string where = row.net + ", " + row.machines + ", " +
                              to_text(row.method) + ", " +
                              std::to_string(row.microbatches) + " a step";
    std::string over_pipedream = "-", over_equal = "-";
    if (split && pipedream) {
      const double ratio = pipedream->estimate.step / split->estimate.step;
      over_pipedream_.see(ratio, where);
      over_pipedream = to_text(ratio) + "x";
    }
    if (split && equal) {
      const double ratio = equal->estimate.step / split->estimate.step;
      over_equal_.see(ratio, where);
      over_equal = to_text(ratio) + "x";
    }
    table_.add_row({row.net, row.machines, to_text(row.method),
                    std::to_string(row.microbatches),
                    step(pipedream ? &*pipedream : nullptr),
                    step(equal ? &*equal : nullptr),
                    step(split ? &*split : nullptr), over_pipedream, over_equal,
                    !split                  ? "does not fit"
                    : is_split(split->plan) ? "split"
                                            : "equal"});
  }

  TextTable table_{{{"net"},
                    {"cluster"},
                    {"method"},
                    {"U", TextTable::Align::Right},
                    {"pipedream", TextTable::Align::Right},
                    {"equal cuts", TextTable::Align::Right},
                    {"bi-partition", TextTable::Align::Right},
                    {"/pipedream", TextTable::Align::Right},
                    {"/equal", TextTable::Align::Right},
                    {"cuts"}}};
  Largest over_pipedream_, over_equal_;
};

int print_table() {
  Table table;
  for (const char* net : {"vgg16", "resnet50", "gnmt", "alexnet"})
    for (const char* machines :
         {"2xV100@10GB/s", "4xV100@1GB/s", "4xV100@10GB/s", "4xV100@nvlink",
          "8xV100@nvlink"})
      for (const auto& [method, microbatches] :
           {std::pair{Method::Stash, 1}, std::pair{Method::TwoBw, 8},
            std::pair{Method::Sync, 16}}) {
        const auto added = table.add({net, machines, method, microbatches});
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
