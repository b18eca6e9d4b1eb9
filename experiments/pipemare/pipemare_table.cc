// PipeMare at depth: programs of each method over the same stages, one worker
// per stage, run by the simulator. Stages are balanced as the planner balances
// them; "equal" is the paper's case, in which every stage takes as long. Costs
// are analytic; those of nets with (m) were measured by PipeDream's authors.

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <optional>

#include "cli/program_arguments.h"
#include "pipewright/base/files.h"
#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_report.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

const std::string kMeasured = " (m)";

struct Row {
  std::string model;
  int stages = 1, microbatches = 1, samples = 1;
  int optimizer_words = 1;

  bool is_measured() const { return model.ends_with(kMeasured); }
  std::string to_text() const {
    return model + ", P = " + std::to_string(stages) +
           ", N = " + std::to_string(microbatches);
  }
};

struct Arm {
  std::string name;
  Method method = Method::Sync;
  std::string schedule;
  bool recompute = false;
};

const std::string kSync = "sync (gpipe)", kAgain = " + recompute";

const std::vector<Arm> kArms = {
    {kSync, Method::Sync, "gpipe", false},
    {kSync + kAgain, Method::Sync, "gpipe", true},
    {"sync (1f1b)", Method::Sync, "1f1b", false},
    {"stash", Method::Stash, "async-1f1b", false},
    {"2bw", Method::TwoBw, "async-1f1b", false},
    {"pipemare", Method::PipeMare, "async-1f1b", false},
    {"pipemare" + kAgain, Method::PipeMare, "async-1f1b", true}};

// A chain of equal layers, with a megabyte of weights and of activations each.
Profile equal_layers(int layers, int samples) {
  Profile profile;
  profile.model = "equal";
  const Bytes bytes(1'000'000);
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs = {LayerId(l - 1)};
    if (l > 0) layer.keeps_input = {true};
    layer.parameters = {ParameterId(l)};
    profile.parameters.push_back({"weights" + std::to_string(l), bytes});
    profile.layers.push_back(layer);
    profile.sizes[samples].push_back({bytes, Bytes(0), Bytes(0)});
    profile.times["V100"][samples].push_back(
        {Seconds(0.001), Seconds(0.001), Seconds(0.001), Seconds(0)});
  }
  return profile;
}

// Ratios of one kind over all rows.
struct Ratios {
  std::vector<std::pair<double, std::string>> seen;

  std::string summary() {
    std::sort(seen.begin(), seen.end());
    if (seen.empty()) return "no row";
    return "median " + to_text(seen[(seen.size() - 1) / 2].first) +
           "x, largest " + to_text(seen.back().first) + "x (" +
           seen.back().second + ")";
  }
};

class Table {
 public:
  Result<void> add(const Row& row) {
    PIPEWRIGHT_TRY(const Cluster cluster,
                   load_cluster(std::to_string(row.stages) + "xV100@nvlink"));
    PIPEWRIGHT_TRY(const Profile profile, profile_of(row, cluster));
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    problem.microbatches = {row.samples};
    problem.minibatch = row.samples * row.microbatches;
    problem.optimizer_words = row.optimizer_words;
    problem.memory_limit = Bytes(0);
    PIPEWRIGHT_TRY(const DeepStages stages,
                   deep_stages(problem, row.samples, row.stages));
    PIPEWRIGHT_TRY(const CostTable costs,
                   CostTable::create(profile, cluster, row.samples));
    const DepthCosts depth = depth_costs(costs, stages.ends, row.microbatches,
                                         row.optimizer_words, Slots::Alternate);
    add_rows(row, problem, stages, costs, depth.segment);
    return {};
  }

  void print() {
    std::cout << table_.to_text(140) << "\n"
              << "2bw has rows where N >= P - 1: there is no such program "
                 "elsewhere\n";
    for (const std::string& bound : bounds_) std::cout << bound << "\n";
    for (auto& [name, ratios] : ratios_)
      std::cout << name << ": " << ratios.summary() << "\n";
    std::cout << "the paper: 14.3x the utilisation with equal stages (MLSys "
                 "2021), 4.3x in arXiv v2 under another budget; 2.7x less "
                 "memory for weights than stashing\n";
  }

 private:
  static Result<Profile> profile_of(const Row& row, const Cluster& cluster) {
    if (row.model == "equal") return equal_layers(row.stages, row.samples);
    if (row.is_measured()) {
      const std::string net =
          row.model.substr(0, row.model.size() - kMeasured.size());
      const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                               "/examples/profiles/" + net + "-v100.json";
      PIPEWRIGHT_TRY(const std::string text, read_file(path));
      return parse_profile(text, path);
    }
    PIPEWRIGHT_TRY(const Model model, load_model(row.model));
    const std::array sizes = {row.samples};
    return analytic_profile(model, cluster.kinds(), sizes);
  }

  struct Run {
    Seconds step;
    Bytes weights;  // versions, gradients, optimizer, velocity; all workers
    Bytes memory;   // of all workers
  };
  using Runs = std::map<std::string, Run>;  // by arm

  // The program of one arm, simulated; none if it cannot exist.
  static std::optional<Run> simulated(const Arm& arm, Problem problem,
                                      const DeepStages& stages, int segment) {
    problem.method = arm.method;
    problem.estimate = simulating_estimator(problem);
    Pipeline pipeline;
    pipeline.microbatch = problem.microbatches[0];
    pipeline.schedule = arm.schedule;
    for (std::size_t s = 0; s < stages.ends.size(); ++s)
      pipeline.stages.push_back(
          {stages.ends[s], -1, {DeviceId(s)}, arm.recompute});
    auto plan = plan_of(pipeline, problem, "pipemare");
    if (plan && arm.recompute && is_asynchronous(arm.method)) {
      for (Stage& stage : plan->stages) stage.recompute = false;
      plan = recomputing(*plan, segment);
    }
    if (!plan) return std::nullopt;
    const auto estimate = problem.estimate(*plan);
    const auto program = lower(*plan, *problem.profile);
    if (!estimate || !program) return std::nullopt;
    Run result{estimate->step, Bytes(0), Bytes(0)};
    for (Bytes bytes : estimate->memory) result.memory += bytes;
    for (int w = 0; w < program->num_workers(); ++w)
      result.weights += constant_memory(*program, WorkerId(w)).of_program();
    return result;
  }

  void add_rows(const Row& row, const Problem& problem,
                const DeepStages& stages, const CostTable& costs, int segment) {
    const double work = costs.compute(0, 0, costs.num_layers()).value();
    const double most =
        work / (row.stages * slowest(row, *problem.profile, stages, costs));
    Runs runs;
    for (const Arm& arm : kArms) {
      const std::optional<Run> run = simulated(arm, problem, stages, segment);
      if (!run) continue;
      runs[arm.name] = *run;
      const Run& sync = runs.at(kSync);
      const double used =
          work * row.microbatches / (row.stages * run->step.value());
      table_.add_row({row.model, std::to_string(row.stages),
                      std::to_string(row.microbatches), arm.name,
                      to_text(run->step), to_text(used), to_text(most),
                      to_text(sync.step / run->step) + "x",
                      to_text(run->weights), to_text(run->memory),
                      to_text(run->memory / sync.memory) + "x"});
    }
    table_.add_rule();
    remember(row, runs);
  }

  // The time of the slowest stage, a forward and a backward. Notes the layer
  // that makes it so, if it is one.
  double slowest(const Row& row, const Profile& profile,
                 const DeepStages& stages, const CostTable& costs) {
    double slowest = 0;
    int first = 0;
    for (const int end : stages.ends) {
      slowest = std::max(slowest, costs.compute(0, first, end).value());
      first = end;
    }
    int largest = 0;
    for (int l = 1; l < costs.num_layers(); ++l)
      if (costs.compute(0, l, l + 1) > costs.compute(0, largest, largest + 1))
        largest = l;
    const double alone = costs.compute(0, largest, largest + 1).value(),
                 mean = costs.compute(0, 0, costs.num_layers()).value() /
                        row.stages;
    if (alone > 1.2 * mean)
      bounds_.push_back(row.to_text() + ": layer \"" +
                        profile.layers[at(largest)].name + "\" alone takes " +
                        to_text(alone / mean) +
                        " times the mean of the stages, whatever the method");
    return slowest;
  }

  void remember(const Row& row, const Runs& runs) {
    const auto note = [&](const std::string& name, double ratio) {
      const auto known =
          std::find_if(ratios_.begin(), ratios_.end(),
                       [&](const auto& each) { return each.first == name; });
      Ratios& ratios = known == ratios_.end()
                           ? ratios_.emplace_back(name, Ratios{}).second
                           : known->second;
      ratios.seen.emplace_back(ratio, row.to_text());
    };
    const Run &sync = runs.at(kSync), &sync_again = runs.at(kSync + kAgain),
              &stash = runs.at("stash"), &pipemare = runs.at("pipemare"),
              &again = runs.at("pipemare" + kAgain);
    note("speed over sync (gpipe), " +
             std::string(row.model == "equal" ? "equal stages"
                         : row.is_measured()  ? "measured stages"
                                              : "stages as they are"),
         sync.step / pipemare.step);
    note("weights of stash over pipemare", stash.weights / pipemare.weights);
    note("weights of stash over sync", stash.weights / sync.weights);
    note("weights of pipemare over sync", pipemare.weights / sync.weights);
    note("memory of stash over pipemare", stash.memory / pipemare.memory);
    note("memory of stash over pipemare with recompute",
         stash.memory / again.memory);
    note("memory of pipemare over pipemare with recompute",
         pipemare.memory / again.memory);
    note("memory of stash over sync (gpipe)", stash.memory / sync.memory);
    note("memory of pipemare over sync (gpipe)", pipemare.memory / sync.memory);
    note("memory of pipemare with recompute over sync (gpipe) without",
         again.memory / sync.memory);
    note("memory of both with recompute", again.memory / sync_again.memory);
  }

  TextTable table_{{{"model"},
                    {"P", TextTable::Align::Right},
                    {"N", TextTable::Align::Right},
                    {"method"},
                    {"step", TextTable::Align::Right},
                    {"used", TextTable::Align::Right},
                    {"at most", TextTable::Align::Right},
                    {"speed", TextTable::Align::Right},
                    {"weights", TextTable::Align::Right},
                    {"memory", TextTable::Align::Right},
                    {"/sync", TextTable::Align::Right}}};
  std::vector<std::string> bounds_;
  std::vector<std::pair<std::string, Ratios>> ratios_;  // in order of printing
};

int print_table() {
  Table table;
  for (const Row& row :
       std::vector<Row>{{"equal", 107, 8, 8, 1},
                        {"equal", 8, 8, 8, 1},
                        {"resnet50", 107, 8, 8, 1},
                        {"resnet50", 107, 16, 16, 1},
                        {"resnet50", 32, 8, 8, 1},
                        {"resnet50", 8, 8, 8, 1},
                        {"resnet50 (m)", 107, 8, 128, 1},
                        {"resnet50 (m)", 32, 8, 128, 1},
                        {"gnmt (m)", 16, 16, 32, 2},
                        {"gpt:layers=12,hidden=768", 48, 16, 1, 2},
                        {"gpt:layers=12,hidden=768", 12, 16, 1, 2}}) {
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
  CLI::App app{"Prints each method's programs at depth, as simulated"};
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  return pipewright::print_table();
}
