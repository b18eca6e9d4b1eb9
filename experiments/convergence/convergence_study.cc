#include "experiments/convergence/convergence_study.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/runtime/cores.h"

namespace pipewright {
namespace {

// One training. Each writes to a place of its own.
struct Job {
  ArmResult* result;
  int steps = 0;
  double rate = 0;
  std::size_t seed = 0;
  Outcome* outcome;
};

// The only worker of an executor takes the first core that its caller may use:
// callers take one each.
void stay_on_core(int number) {
  const std::vector<int> cores = usable_cores();
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[static_cast<std::size_t>(number) % cores.size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

class Pool {
 public:
  Pool(const Task& task, int threads) : task_(task), threads_(threads) {}

  // From the back: the first arms take the least time a step, and what comes
  // last keeps one thread waiting for the other.
  void run(const std::vector<Job>& jobs) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> pool;
    for (int t = 0; t < threads_; ++t)
      pool.emplace_back([&, t] {
        stay_on_core(t);
        for (std::size_t i = next++; i < jobs.size(); i = next++)
          train(jobs[jobs.size() - 1 - i]);
      });
    for (std::thread& thread : pool) thread.join();
  }

 private:
  void train(const Job& job) {
    // Synchronous training is the same to the last bit over any number of
    // stages, and takes the least time over one.
    const Arm& arm = job.result->arm;
    const int stages = arm.method == Method::Sync ? 1 : job.result->stages;
    Result<Outcome> outcome =
        outcome_of(task_, arm, stages, job.steps, job.rate, job.seed + 1);
    const std::lock_guard lock(mutex_);
    std::cerr << task_.recipe.task << ": " << job.result->arm.name
              << ", P = " << job.result->stages << ", " << job.steps
              << " steps, rate " << to_text(job.rate) << ", seed "
              << job.seed + 1;
    if (outcome) {
      *job.outcome = *std::move(outcome);
      std::cerr << ": loss " << to_text(job.outcome->final_loss())
                << ", tested " << to_text(job.outcome->result, 4) << std::endl;
    } else {
      job.result->refusal = outcome.error().message;
      std::cerr << ": " << job.result->refusal << std::endl;
    }
  }

  const Task& task_;
  const int threads_;
  std::mutex mutex_;
};

std::vector<ArmResult> planned(const Task& task,
                               const StudySettings& settings) {
  std::vector<int> depths = task.recipe.depths;
  if (depths.empty()) depths = {task.num_weighted()};
  std::vector<ArmResult> results;
  for (const int stages : depths)
    for (const Arm& arm : arms(task.recipe.warm_up)) {
      if (!settings.arms.empty() &&
          std::find(settings.arms.begin(), settings.arms.end(), arm.name) ==
              settings.arms.end())
        continue;
      ArmResult& result = results.emplace_back();
      result.arm = arm;
      result.depth = result.stages = stages;
      if (arm.method == Method::TwoBw)
        result.stages = std::min(stages, task.microbatches());
      const Result<ArmFacts> facts = facts_of(task, arm, result.stages);
      if (facts)
        result.facts = *facts;
      else
        result.refusal = facts.error().message;
    }
  return results;
}

// Synchronous training is the same at every depth, and so is an arm of as many
// stages: those are trained once.
ArmResult* same_before(std::vector<ArmResult>& results,
                       const ArmResult& result) {
  for (ArmResult& other : results) {
    if (&other == &result) return nullptr;
    if (other.arm.name == result.arm.name &&
        (other.stages == result.stages || other.arm.method == Method::Sync))
      return &other;
  }
  return nullptr;
}

void choose_rate(ArmResult& result) {
  const auto best =
      std::min_element(result.trials.begin(), result.trials.end(),
                       [](const Trial& a, const Trial& b) {
                         return a.outcome.final_loss() < b.outcome.final_loss();
                       });
  result.rate = best->rate;
  result.outcomes.front() = best->outcome;  // as it is where a trial is all
}

}  // namespace

int ArmResult::num_diverged() const {
  return static_cast<int>(
      std::count_if(outcomes.begin(), outcomes.end(),
                    [](const Outcome& outcome) { return outcome.diverged; }));
}

double ArmResult::mean() const {
  double sum = 0;
  int count = 0;
  for (const Outcome& outcome : outcomes)
    if (!outcome.diverged) sum += outcome.result, ++count;
  return count > 0 ? sum / count : 0;
}

double ArmResult::spread() const {
  double least = 1e300, most = -1e300;
  for (const Outcome& outcome : outcomes) {
    if (outcome.diverged) continue;
    least = std::min(least, outcome.result);
    most = std::max(most, outcome.result);
  }
  return most >= least ? most - least : 0;
}

std::vector<ArmResult> study(const Task& task, const StudySettings& settings) {
  std::vector<ArmResult> results = planned(task, settings);
  Pool pool(task, settings.threads);
  std::vector<ArmResult*> trained;
  for (ArmResult& result : results)
    if (result.refusal.empty() && !same_before(results, result))
      trained.push_back(&result);
  const int steps = task.recipe.steps;
  const int trial_steps =
      std::max(1, static_cast<int>(steps * task.recipe.trial));
  std::vector<Job> jobs;
  for (ArmResult* result : trained) {
    for (const double rate : task.recipe.rates)
      result->trials.push_back({rate, {}});
    for (Trial& trial : result->trials)
      jobs.push_back({result, trial_steps, trial.rate, 0, &trial.outcome});
  }
  pool.run(jobs);
  jobs.clear();
  for (ArmResult* result : trained) {
    if (!result->refusal.empty()) continue;
    result->outcomes.resize(static_cast<std::size_t>(settings.seeds));
    choose_rate(*result);
    for (std::size_t seed = trial_steps < steps ? 0 : 1;
         seed < result->outcomes.size(); ++seed)
      jobs.push_back(
          {result, steps, result->rate, seed, &result->outcomes[seed]});
  }
  pool.run(jobs);
  for (ArmResult& result : results)
    if (const ArmResult* same = same_before(results, result)) {
      result.trials = same->trials;
      result.rate = same->rate;
      result.outcomes = same->outcomes;
      result.refusal = same->refusal;
    }
  return results;
}

}  // namespace pipewright
