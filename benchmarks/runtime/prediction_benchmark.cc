// Prediction against reality: each layer is measured, the program is simulated
// with those figures, then it is run. Prints both step times of every case and
// the error, its median and 95th percentile.
//
//   prediction_benchmark [MAX_WORKERS]

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "benchmarks/runtime/pipelines.h"
#include "cli/program_arguments.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/runtime/execution/cores.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "pipewright/simulate/in_process_costs.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::bench {
namespace {

struct Case {
  std::string model;
  int microbatch, microbatches;
  std::string schedule;
  int workers;                     // before replicas
  std::vector<int> replicas = {};  // of each; none: one each
  bool balanced = true;            // else as many layers on each stage
};

const char* const kGpt = "gpt:layers=4,hidden=128,heads=4,vocab=256,seq=64";
const char* const kMlp = "mlp:layers=8,hidden=512";
const char* const kCnn = "lenet";
const char* const kBlocks = "residual-256";

std::vector<Case> cases() {
  return {
      {kMlp, 32, 8, "gpipe", 1},
      {kMlp, 32, 8, "1f1b", 2},
      {kMlp, 32, 8, "gpipe", 2, {}, false},
      {kMlp, 32, 8, "zb-h1", 2},
      {kMlp, 32, 8, "1f1b", 1, {2}},
      {kBlocks, 64, 8, "1f1b", 1},
      {kBlocks, 64, 8, "1f1b", 2},
      {kBlocks, 64, 8, "interleaved", 2},
      {kBlocks, 64, 8, "zb-v", 2},
      {kBlocks, 64, 8, "gpipe", 1, {2}},
      {kGpt, 4, 8, "gpipe", 1},
      {kGpt, 4, 8, "1f1b", 2},
      {kGpt, 4, 8, "zb-h2", 2},
      {kGpt, 4, 8, "gpipe", 2, {}, false},
      {kCnn, 32, 8, "1f1b", 1},
      {kCnn, 32, 8, "1f1b", 2},
      {kCnn, 32, 8, "gpipe", 2, {}, false},
      {kCnn, 32, 8, "1f1b", 1, {2}},
      {kMlp, 32, 16, "1f1b", 4},
      {kBlocks, 64, 16, "1f1b", 4},
      {kBlocks, 64, 16, "zb-h1", 4},
      {kBlocks, 64, 16, "1f1b", 2, {2, 2}},
      {kGpt, 4, 16, "interleaved", 4},
      {kGpt, 4, 8, "1f1b", 2, {1, 2}},
      {kCnn, 32, 16, "1f1b", 4},
      {kBlocks, 64, 32, "1f1b", 8},
      {kMlp, 32, 32, "zb-h1", 8},
      {kGpt, 4, 32, "1f1b", 8},
      {kBlocks, 64, 32, "1f1b", 8, {2, 2, 2, 2, 2, 2, 2, 2}},
  };
}

int num_workers(const Case& one) {
  int count = 0;
  for (const int r : one.replicas) count += r;
  return one.replicas.empty() ? one.workers : count;
}

std::string text(const std::vector<int>& replicas) {
  std::vector<std::string> parts;
  for (const int r : replicas) parts.push_back(std::to_string(r));
  return parts.empty() ? "" : join(parts, "+");
}

Model model_of(const std::string& name) {
  return name == kBlocks ? residual_blocks(256, 8) : *load_model(name);
}

// Figures with as many workers at once as the case has.
const Profile& profile_of(const Model& model, const Case& one) {
  static std::map<std::string, Profile> known;
  std::vector<int> sizes = {one.microbatch};
  for (const int r : one.replicas)
    if (r > 1) sizes.insert(sizes.begin(), one.microbatch / r);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  ProfilerOptions options;
  options.budget = Seconds(1);
  options.workers = num_workers(one);
  const std::string key = one.model + " " + std::to_string(options.workers) +
                          " " + std::to_string(sizes.front());
  if (!known.count(key)) known[key] = *measured_profile(model, sizes, options);
  return known.at(key);
}

Plan plan_of(const Model& model, const Profile& profile, const Case& one) {
  Schedule schedule = schedule_for(one.schedule, profile, one.workers,
                                   one.microbatches, one.microbatch);
  if (!one.replicas.empty())
    schedule = *with_replicas(schedule, one.replicas, Replication::Split);
  return one.balanced ? balanced_plan(model, profile, schedule, one.microbatch)
                      : even_plan(model, schedule, one.microbatch);
}

double share(std::vector<double> sorted, double part) {
  std::sort(sorted.begin(), sorted.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(part * last))];
}

void print_table(int max_workers) {
  const InProcessChannelCosts channel{channel_latency(Seconds(0.1)).median,
                                      reduction_rate(Seconds(0.1))};
  using Align = TextTable::Align;
  TextTable table({{"model", Align::Left},
                   {"schedule", Align::Left},
                   {"workers", Align::Right},
                   {"replicas", Align::Left},
                   {"partition", Align::Left},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right}});
  std::vector<double> errors;
  for (const Case& one : cases()) {
    if (num_workers(one) > max_workers) continue;
    const Model model = model_of(one.model);
    const Profile& profile = profile_of(model, one);
    const Program program = *lower(plan_of(model, profile, one), profile);
    const Seconds predicted =
        simulate(program, *in_process_costs(program, profile, channel))
            .step_seconds;
    Executor executor(model, program, momentum_sgd());
    const MicrobatchSource source = steady_source(model, one.microbatch);
    const int steps =
        std::clamp(static_cast<int>(0.1 / predicted.value()), 1, 50);
    const Seconds measured = step_time(executor, source, steps, 7);
    const double error = (predicted - measured) / measured * 100;
    errors.push_back(std::abs(error));
    std::cerr << one.model << " " << one.schedule << " " << num_workers(one)
              << ": " << to_text(predicted) << ", " << to_text(measured) << ", "
              << to_text(error) << " %\n";
    table.add_row({one.model.substr(0, one.model.find(':')), one.schedule,
                   std::to_string(num_workers(one)), text(one.replicas),
                   one.balanced ? "balanced" : "even", to_text(predicted),
                   to_text(measured), to_text(error) + " %"});
  }
  std::cout << table.to_text(100) << "\n"
            << errors.size() << " cases: median error "
            << to_text(share(errors, 0.5)) << " %, 95th percentile "
            << to_text(share(errors, 0.95)) << " %, largest "
            << to_text(share(errors, 1)) << " %\n";
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  int max_workers = pipewright::num_usable_cores();
  CLI::App app{"Compares predicted with measured step times"};
  app.add_option("MAX_WORKERS", max_workers, "Workers of the largest cases")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  pipewright::bench::print_table(max_workers);
}
