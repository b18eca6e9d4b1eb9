// Does it train? Every method on the same data in the same order, from the same
// weights, at several depths.
//
//   convergence [--quick] [--only TASK] [--seeds N] [--threads N] [--plots DIR]
//
// Prints a table a task. With --quick digits alone, in a minute or two; fails
// where synchronous training does not learn them, or PipeMare stays far behind.

#include <ATen/Context.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <thread>

#include "experiments/convergence/convergence_report.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

struct Options {
  bool quick = false;
  std::string only;
  int seeds = 3;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string plots;
  double rate = 0;  // instead of the task's
  int steps = 0;    // instead of the task's
  std::vector<int> depths;
};

struct Study {
  Task task;
  std::vector<int> depths;
  bool with_warm_up = false;
};

// One training: an arm and a seed.
struct Job {
  ArmResult* result;
  std::size_t seed;
};

void run_job(const Task& task, const Job& job) {
  Result<Outcome> outcome =
      outcome_of(task, job.result->arm, job.result->stages, job.seed + 1);
  if (outcome)
    job.result->outcomes[job.seed] = *std::move(outcome);
  else if (job.seed == 0)
    job.result->refusal = outcome.error().message;
}

// The only worker of an executor takes the first core that its caller may use:
// callers take one each.
void stay_on_core(int number) {
  cpu_set_t may, one;
  CPU_ZERO(&may);
  CPU_ZERO(&one);
  if (::sched_getaffinity(0, sizeof may, &may) != 0) return;
  number %= CPU_COUNT(&may);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &may) && number-- == 0) CPU_SET(core, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

void run_jobs(const Task& task, const std::vector<Job>& jobs, int threads) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      stay_on_core(t);
      for (std::size_t i = next++; i < jobs.size(); i = next++) {
        run_job(task, jobs[i]);
        const std::lock_guard lock(mutex);
        std::cerr << task.name << ": " << jobs[i].result->arm.name
                  << ", P = " << jobs[i].result->stages << ", seed "
                  << jobs[i].seed + 1 << " (" << i + 1 << " of " << jobs.size()
                  << ")\n";
      }
    });
  for (std::thread& thread : pool) thread.join();
}

// Synchronous training is trained once and shown at every depth.
std::vector<ArmResult> results_of(const Study& study, const Options& options) {
  std::vector<ArmResult> results;
  for (const int stages : study.depths)
    for (const Arm& arm : arms(study.with_warm_up)) {
      ArmResult& result = results.emplace_back();
      result.arm = arm;
      result.depth = result.stages = stages;
      if (arm.method == Method::TwoBw)
        result.stages = std::min(stages, study.task.microbatches());
      const Result<ArmFacts> facts = facts_of(study.task, arm, result.stages);
      if (facts)
        result.facts = *facts;
      else
        result.refusal = facts.error().message;
      result.outcomes.resize(static_cast<std::size_t>(options.seeds));
    }
  std::vector<Job> jobs;
  for (ArmResult& result : results)
    if (result.refusal.empty() &&
        (result.arm.method != Method::Sync || &result == &results.front()))
      for (std::size_t seed = 0; seed < result.outcomes.size(); ++seed)
        jobs.push_back({&result, seed});
  run_jobs(study.task, jobs, options.threads);
  for (ArmResult& result : results)
    if (result.arm.method == Method::Sync)
      result.outcomes = results.front().outcomes;
  return results;
}

Result<void> write_plots(const Study& study, const Options& options,
                         const std::vector<ArmResult>& results) {
  if (options.plots.empty()) return {};
  std::filesystem::create_directories(options.plots);
  for (const int stages : study.depths)
    if (auto written = write_file(options.plots + "/" + study.task.name + "-" +
                                      std::to_string(stages) + ".svg",
                                  plot_text(study.task, results, stages));
        !written)
      return written;
  return {};
}

Result<std::vector<Study>> studies(const Options& options) {
  std::vector<Study> all;
  if (options.quick) {
    PIPEWRIGHT_TRY(Task digits, digits_task(2, 6, 200));
    all.push_back({std::move(digits), {11}});
    return all;
  }
  PIPEWRIGHT_TRY(Task digits, digits_task(8, 8, 400));
  const int of_digits = digits.num_weighted();
  all.push_back({std::move(digits), {of_digits}});
  PIPEWRIGHT_TRY(Task deep, deep_task(49, 32, 400));
  all.push_back({std::move(deep), {8, 32, 107, 150}});
  const char* data = std::getenv("PIPEWRIGHT_DATA");
  if (!data) {
    std::cerr << "digits alone: PIPEWRIGHT_DATA is not set\n";
    return all;
  }
  PIPEWRIGHT_TRY(Task fashion, fashion_task(8, 8, 480));
  const int weighted = fashion.num_weighted();
  all.push_back({std::move(fashion), {weighted}});
  PIPEWRIGHT_TRY(
      Task text,
      text_task(
          std::string(data) + "/tinyshakespeare/data/tinyshakespeare/input.txt",
          6, 600));
  const int of_text = text.num_weighted();
  all.push_back({std::move(text), {of_text}, true});
  return all;
}

// What continuous integration holds against: far from the figures, so that
// other kernels pass too.
bool is_fine(const std::vector<ArmResult>& results) {
  const auto mean = [&](const std::string& name) {
    for (const ArmResult& result : results)
      if (result.arm.name == name && result.num_diverged() == 0)
        return result.mean();
    return 0.0;
  };
  return mean("sync") > 0.9 && mean("pipemare T1+T2") > mean("sync") - 0.05;
}

Result<bool> run(const Options& options) {
  PIPEWRIGHT_TRY(std::vector<Study> all, studies(options));
  bool fine = true;
  for (Study& study : all) {
    if (!options.only.empty() && options.only != study.task.name) continue;
    if (options.rate > 0) study.task.rate = options.rate;
    if (options.steps > 0) study.task.steps = options.steps;
    if (!options.depths.empty()) study.depths = options.depths;
    const std::vector<ArmResult> results = results_of(study, options);
    std::cout << report_text(study.task, results) << "\n"
              << verdict_text(study.task, results) << std::endl;
    if (auto written = write_plots(study, options, results); !written)
      return written.error();
    if (options.quick) fine = is_fine(results);
  }
  return fine;
}

Options parsed(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      return std::string(i + 1 < count ? words[++i] : "");
    };
    if (word == "--quick")
      options.quick = true, options.seeds = 1;
    else if (word == "--only")
      options.only = value();
    else if (word == "--seeds")
      options.seeds = std::max(1, std::atoi(value().c_str()));
    else if (word == "--threads")
      options.threads = std::max(1, std::atoi(value().c_str()));
    else if (word == "--plots")
      options.plots = value();
    else if (word == "--rate")
      options.rate = std::atof(value().c_str());
    else if (word == "--steps")
      options.steps = std::atoi(value().c_str());
    else if (word == "--stages")
      options.depths.push_back(std::max(1, std::atoi(value().c_str())));
  }
  return options;
}

}  // namespace
}  // namespace pipewright

int main(int count, char** words) {
  // For convolutions as small as these oneDNN takes several times as long as
  // ATen's own kernels.
  at::globalContext().setUserEnabledMkldnn(false);
  const auto done = pipewright::run(pipewright::parsed(count, words));
  if (!done) {
    std::cerr << done.error().to_text() << "\n";
    return static_cast<int>(done.error().code);
  }
  if (!*done) std::cerr << "the methods did not do what they should\n";
  return *done ? 0 : 1;
}
