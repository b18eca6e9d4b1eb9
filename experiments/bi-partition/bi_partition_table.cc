// Bi-Partition against PipeDream's plan and against the best equal cuts under
// its own cost model, with and without replicas of stages, all scored by the
// same simulator, on every profile that PipeDream's authors published.
//
//   bi_partition_table NET

#include <algorithm>
#include <iostream>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/bi_partition/bi_partition.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/planner.h"

namespace pipewright {
namespace {

constexpr int kBand = 6, kReplicas = 16;

struct Row {
  std::string net, machines;
  Method method = Method::Stash;
  int microbatches = 1;
};

bool is_split(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& s) { return s.forward != s.backward; });
}

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

    PIPEWRIGHT_TRY(const Planner* rival, find_planner("pipedream"));
    const auto pipedream = rival->plan(problem);
    const auto plan = [&](int band, int replicas) {
      return bi_partition_planner(band, replicas)->plan(problem);
    };
    add_row(row, pipedream, plan(0, 1), plan(kBand, 1), plan(0, kReplicas),
            plan(kBand, kReplicas));
    return {};
  }

  void print() const { std::cout << table_.to_text(160); }

 private:
  static std::string step(const Result<Planned>& planned) {
    if (!planned) return "-";
    return to_text(planned->estimate.step) +
           (is_split(planned->plan) ? "*" : "");
  }
  // Of rows in which the plan has separate cuts.
  static std::string ratio(const Result<Planned>& slow,
                           const Result<Planned>& fast) {
    if (!slow || !fast || !is_split(fast->plan)) return "-";
    return to_text(slow->estimate.step / fast->estimate.step) + "x";
  }

  void add_row(const Row& row, const Result<Planned>& pipedream,
               const Result<Planned>& equal_alone,
               const Result<Planned>& split_alone, const Result<Planned>& equal,
               const Result<Planned>& split) {
    table_.add_row({row.net, row.machines, to_text(row.method),
                    std::to_string(row.microbatches), step(pipedream),
                    step(equal_alone), step(split_alone),
                    ratio(equal_alone, split_alone), step(equal), step(split),
                    ratio(equal, split), ratio(pipedream, split),
                    split ? replicas_text(split->plan) : "does not fit"});
  }

  TextTable table_{{{"net"},
                    {"cluster"},
                    {"method"},
                    {"U", TextTable::Align::Right},
                    {"pipedream", TextTable::Align::Right},
                    {"1 each: equal", TextTable::Align::Right},
                    {"separate", TextTable::Align::Right},
                    {"gain", TextTable::Align::Right},
                    {"replicas: equal", TextTable::Align::Right},
                    {"separate", TextTable::Align::Right},
                    {"gain", TextTable::Align::Right},
                    {"/pipedream", TextTable::Align::Right},
                    {"devices"}}};
};

int print_table(const std::string& net) {
  Table table;
  for (const char* machines :
       {"4xV100@1GB/s", "4xV100@10GB/s", "2xV100@nvlink", "4xV100@nvlink",
        "8xV100@nvlink", "12xV100@nvlink", "16xV100@nvlink", "8xV100@nvlink3",
        "12xV100@nvlink3", "16xV100@nvlink3"})
    for (const auto& [method, microbatches] :
         {std::pair{Method::Stash, 1}, std::pair{Method::TwoBw, 16},
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

int main(int argc, char** argv) {
  if (argc == 2) return pipewright::print_table(argv[1]);
  std::cerr << "usage: bi_partition_table NET\n";
  return 64;
}
