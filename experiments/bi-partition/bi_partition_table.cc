// Bi-Partition against PipeDream's plan and against the best equal cuts under
// its own cost model, with and without replicas of stages, all scored by the
// same simulator, on every profile that PipeDream's authors published; and how
// much faster than PipeDream's plan any plan could be. Replicas sum gradients
// in buckets while backward goes on, on all sides.
//
//   bi_partition_table NET [CLUSTER METHOD U]

#include <iostream>
#include <string>

#include "cli/program_arguments.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/bi_partition/bi_partition_search.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright {
namespace {

struct Row {
  std::string net, machines;
  Method method = Method::Stash;
  int microbatches = 1;
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

    const auto plan = [&](const char* planner,
                          const std::vector<std::string>& off) {
      return default_plan(*planner_without(planner, off).value(), problem);
    };
    const std::string cuts = "separate-cuts";
    const Plans alone{plan("pipedream", {"replicas"}),
                      plan("bi-partition", {"replicas", cuts}),
                      plan("bi-partition", {"replicas"})};
    const Plans free{plan("pipedream", {}), plan("bi-partition", {cuts}),
                     plan("bi-partition", {})};
    PIPEWRIGHT_TRY(const Seconds bound, bound_alone(problem));
    add_row(row, alone, bound, free);
    if (alone.separate && has_recompute(alone.separate->plan))
      add_kept(row, "1 each", alone.separate,
               plan("bi-partition", {"replicas", "recompute"}));
    if (free.separate && has_recompute(free.separate->plan))
      add_kept(row, "replicas", free.separate,
               plan("bi-partition", {"recompute"}));
    return {};
  }

  void print() const {
    std::cout << table_.to_text(200);
    if (kept_.has_rows()) std::cout << "\n" << kept_.to_text(200);
  }

 private:
  // PipeDream's, and Bi-Partition's with equal and with separate cuts.
  struct Plans {
    Result<Planned> pipedream, equal, separate;
  };

  // No cuts of layers over one device per stage are faster, however far apart:
  // the least largest load without transfers and memory.
  static Result<Seconds> bound_alone(const Problem& problem) {
    BiPartitionOptions options;
    PIPEWRIGHT_TRY(
        const BiPartitionCosts costs,
        BiPartitionCosts::create(problem, problem.microbatches[0], options));
    return Seconds(communication_free_bound(costs) * costs.microbatches());
  }
  static std::string step(const Result<Planned>& planned) {
    if (!planned) return "-";
    return to_text(planned->estimate.step) +
           (has_separate_cuts(planned->plan) ? "*" : "");
  }
  // Of rows in which the plan has separate cuts.
  static std::string ratio(const Result<Planned>& slow,
                           const Result<Planned>& fast) {
    if (!slow || !fast || !has_separate_cuts(fast->plan)) return "-";
    return to_text(slow->estimate.step / fast->estimate.step) + "x";
  }

  // By how much any plan could be faster.
  static std::string at_most(const Result<Planned>& planned, Seconds bound) {
    return planned ? to_text(planned->estimate.step / bound) + "x" : "-";
  }

  void add_row(const Row& row, const Plans& alone, Seconds bound,
               const Plans& free) {
    std::vector<std::string> cells = {row.net, row.machines,
                                      to_text(row.method),
                                      std::to_string(row.microbatches)};
    const Seconds any =
        free.separate ? free.separate->lower_bound : Seconds::max();
    for (const auto& [plans, least] :
         {std::pair{&alone, bound}, std::pair{&free, any}})
      for (const std::string& cell :
           {step(plans->pipedream), step(plans->equal), step(plans->separate),
            ratio(plans->equal, plans->separate),
            ratio(plans->pipedream, plans->separate),
            at_most(plans->pipedream, least)})
        cells.push_back(cell);
    cells.push_back(free.separate ? replicas_text(free.separate->plan)
                                  : "does not fit");
    table_.add_row(cells);
  }

  void add_kept(const Row& row, const std::string& stages,
                const Result<Planned>& with, const Result<Planned>& without) {
    const std::string lost =
        without ? to_text(without->estimate.step / with->estimate.step) + "x"
                : "does not fit";
    kept_.add_row({row.net, row.machines, to_text(row.method),
                   std::to_string(row.microbatches), stages, step(with),
                   step(without), lost});
  }

  TextTable table_{{{"net"},
                    {"cluster"},
                    {"method"},
                    {"U", TextTable::Align::Right},
                    {"1 each: pipedream", TextTable::Align::Right},
                    {"equal", TextTable::Align::Right},
                    {"separate", TextTable::Align::Right},
                    {"gain", TextTable::Align::Right},
                    {"/pipedream", TextTable::Align::Right},
                    {"at most", TextTable::Align::Right},
                    {"replicas: pipedream", TextTable::Align::Right},
                    {"equal", TextTable::Align::Right},
                    {"separate", TextTable::Align::Right},
                    {"gain", TextTable::Align::Right},
                    {"/pipedream", TextTable::Align::Right},
                    {"at most", TextTable::Align::Right},
                    {"devices"}}};
  // Plans that recompute, and what is lost without it.
  TextTable kept_{{{"net"},
                   {"cluster"},
                   {"method"},
                   {"U", TextTable::Align::Right},
                   {"stages"},
                   {"recompute", TextTable::Align::Right},
                   {"none", TextTable::Align::Right},
                   {"lost", TextTable::Align::Right}}};
};

std::vector<Row> rows_of(const std::string& net) {
  std::vector<Row> rows;
  for (const char* machines :
       {"4x1xV100/10GbE", "4xV100@pcie3", "2xV100@nvlink", "4xV100@nvlink",
        "8xV100@nvlink", "12xV100@nvlink", "16xV100@nvlink", "8xV100@nvlink3",
        "12xV100@nvlink3", "16xV100@nvlink3"})
    for (const auto& [method, microbatches] :
         {std::pair{Method::Stash, 1}, std::pair{Method::TwoBw, 16},
          std::pair{Method::Sync, 16}})
      rows.push_back({net, machines, method, microbatches});
  return rows;
}

int print_table(const std::vector<Row>& rows) {
  Table table;
  for (const Row& row : rows) {
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

int main(int argc, char** argv) {
  using pipewright::print_table;
  pipewright::Row row;
  CLI::App app{
      "Prints Bi-Partition's plans beside PipeDream's: on many clusters with "
      "every method, or on one with one"};
  app.add_option("NET", row.net, "As alexnet")->required();
  CLI::Option* const cluster =
      app.add_option("CLUSTER", row.machines, "As 4xV100@nvlink");
  CLI::Option* const method = app.add_option_function<std::string>(
      "METHOD",
      [&](const std::string& name) {
        const auto parsed = pipewright::parse_method(name);
        if (!parsed) throw CLI::ValidationError("METHOD", "unknown: " + name);
        row.method = *parsed;
      },
      "As stash");
  CLI::Option* const number =
      app.add_option("U", row.microbatches, "Microbatches per minibatch")
          ->check(CLI::PositiveNumber);
  cluster->needs(method)->needs(number);
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  return print_table(cluster->empty() ? pipewright::rows_of(row.net)
                                      : std::vector<pipewright::Row>{row});
}
