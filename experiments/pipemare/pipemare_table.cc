// PipeMare at depth: programs of each method over the same stages, one worker
// per stage, run by the simulator. Stages are balanced as the planner balances
// them; "equal" is the paper's case, in which every stage takes as long.

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_report.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

struct Row {
  std::string model;
  int stages = 1, microbatches = 1, samples = 1;
  int optimizer_words = 1;

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

const std::vector<Arm> kArms = {
    {"sync (gpipe)", Method::Sync, "gpipe", false},
    {"sync (gpipe) + recompute", Method::Sync, "gpipe", true},
    {"sync (1f1b)", Method::Sync, "1f1b", false},
    {"stash", Method::Stash, "async-1f1b", false},
    {"2bw", Method::TwoBw, "async-1f1b", false},
    {"pipemare", Method::PipeMare, "async-1f1b", false},
    {"pipemare + recompute", Method::PipeMare, "async-1f1b", true}};

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
    add_rows(row, problem, stages, costs, depth);
    return {};
  }

  void print() {
    std::cout
        << table_.to_text(140) << "\n"
        << "speed over sync (gpipe), stages as they are: " << speed_.summary()
        << "\n"
        << "speed over sync (gpipe), equal stages: " << equal_.summary() << "\n"
        << "the paper, equal stages: 14.3x in MLSys 2021, 4.3x in arXiv v2 "
           "under another budget\n"
        << "weights of stash over pipemare: " << weights_.summary() << "\n"
        << "weights of stash over sync: " << over_sync_.summary()
        << "; the paper: 2.7x\n"
        << "memory of pipemare over sync (gpipe): " << memory_.summary() << "\n"
        << "the same, both with recompute: " << recompute_.summary() << "\n";
  }

 private:
  static Result<Profile> profile_of(const Row& row, const Cluster& cluster) {
    if (row.model == "equal") return equal_layers(row.stages, row.samples);
    PIPEWRIGHT_TRY(const Model model, load_model(row.model));
    const std::array sizes = {row.samples};
    return analytic_profile(model, cluster.kinds(), sizes);
  }

  struct Run {
    Seconds step;
    Bytes memory;  // of all workers
  };

  // The program of one arm, simulated; none if it cannot exist.
  static std::optional<Run> run(const Arm& arm, Problem problem,
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
    if (!estimate) return std::nullopt;
    Run result{estimate->step, Bytes(0)};
    for (Bytes bytes : estimate->memory) result.memory += bytes;
    return result;
  }

  void add_rows(const Row& row, const Problem& problem,
                const DeepStages& stages, const CostTable& costs,
                const DepthCosts& depth) {
    const double work = costs.compute(0, 0, costs.num_layers()).value();
    double slowest = 0;
    int first = 0;
    for (int end : stages.ends) {
      slowest = std::max(slowest, costs.compute(0, first, end).value());
      first = end;
    }
    std::optional<Run> sync, sync_recompute;
    for (const Arm& arm : kArms) {
      const std::optional<Run> result =
          run(arm, problem, stages, depth.segment);
      if (arm.name == "sync (gpipe)") sync = result;
      if (arm.name == "sync (gpipe) + recompute") sync_recompute = result;
      const auto cost = std::find_if(
          depth.methods.begin(), depth.methods.end(), [&](const MethodCost& m) {
            return arm.name.find(m.name) == 0 &&
                   (m.name.find("recompute") != std::string::npos) ==
                       (arm.recompute && is_asynchronous(arm.method));
          });
      if (!result) {
        table_.add_row({row.model, std::to_string(row.stages),
                        std::to_string(row.microbatches), arm.name,
                        "needs N >= P - 1"});
        continue;
      }
      const double used =
          work * row.microbatches / (row.stages * result->step.value());
      table_.add_row({row.model, std::to_string(row.stages),
                      std::to_string(row.microbatches), arm.name,
                      to_text(result->step), to_text(used),
                      to_text(work / (row.stages * slowest)),
                      to_text(sync->step / result->step) + "x",
                      to_text(cost->weights), to_text(result->memory),
                      to_text(result->memory / sync->memory) + "x"});
      remember(row, arm, *result, *sync, sync_recompute, depth, *cost);
    }
    table_.add_rule();
  }

  void remember(const Row& row, const Arm& arm, const Run& run, const Run& sync,
                const std::optional<Run>& sync_recompute,
                const DepthCosts& depth, const MethodCost& cost) {
    const std::string where = row.to_text();
    if (arm.name == "stash") {
      weights_.seen.emplace_back(cost.weights / depth.methods[4].weights,
                                 where);
      over_sync_.seen.emplace_back(cost.weights / depth.methods[0].weights,
                                   where);
    }
    if (arm.name == "pipemare + recompute" && sync_recompute)
      recompute_.seen.emplace_back(run.memory / sync_recompute->memory, where);
    if (arm.name != "pipemare") return;
    (row.model == "equal" ? equal_ : speed_)
        .seen.emplace_back(sync.step / run.step, where);
    memory_.seen.emplace_back(run.memory / sync.memory, where);
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
  Ratios speed_, equal_, weights_, over_sync_, memory_, recompute_;
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

int main() { return pipewright::print_table(); }
