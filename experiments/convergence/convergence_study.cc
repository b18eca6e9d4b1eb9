#include "experiments/convergence/convergence_study.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// One training. Each writes to a place of its own.
struct Job {
  std::size_t place = 0;  // of its arm among those that are trained
  ArmResult* result = nullptr;
  bool is_trial = false;
  int steps = 0;
  double rate = 0;
  std::size_t seed = 0;
  Outcome* outcome = nullptr;
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

// What one task has to train yet.
class Course {
 public:
  Course(const Task& task, const StudySettings& settings)
      : task_(task),
        num_seeds_(static_cast<std::size_t>(settings.seeds)),
        results_(planned(task, settings)) {
    for (ArmResult& result : results_) {
      if (!result.refusal.empty() || same_before(results_, result)) continue;
      for (const double rate : task.recipe.rates)
        result.trials.push_back({rate, {}});
      trained_.push_back({&result});
    }
  }

  const Task& task() const { return task_; }

  // One that can begin; none now where they wait for trials, or none is left.
  // From the back: the first arms take the least time a step, and what comes
  // last keeps one thread waiting for the other.
  std::optional<Job> begin() {
    for (std::size_t i = trained_.size(); i-- > 0;)
      if (Training& arm = trained_[i]; arm.begun < arm.result->trials.size()) {
        Trial& trial = arm.result->trials[arm.begun++];
        return Job{.place = i,
                   .result = arm.result,
                   .is_trial = true,
                   .steps = trial_steps(),
                   .rate = trial.rate,
                   .seed = 0,
                   .outcome = &trial.outcome};
      }
    for (std::size_t i = trained_.size(); i-- > 0;)
      if (Training& arm = trained_[i]; arm.seeds_begun < arm.num_seeds()) {
        const std::size_t seed = arm.seeds_begun++;
        return Job{.place = i,
                   .result = arm.result,
                   .is_trial = false,
                   .steps = task_.recipe.steps,
                   .rate = arm.result->rate,
                   .seed = seed,
                   .outcome = &arm.result->outcomes[seed]};
      }
    return std::nullopt;
  }

  void end(const Job& job) {
    Training& arm = trained_[job.place];
    if (!job.is_trial) {
      ++arm.seeds_ended;
    } else if (++arm.ended == arm.result->trials.size() &&
               arm.result->refusal.empty()) {
      arm.result->outcomes.resize(num_seeds_);
      choose_rate(*arm.result);
      // Where a trial is all, the first seed has been trained.
      arm.seeds_begun = arm.seeds_ended =
          trial_steps() < task_.recipe.steps ? 0 : 1;
    }
  }

  bool is_done() const {
    return std::all_of(
        trained_.begin(), trained_.end(), [](const Training& arm) {
          return arm.ended == arm.result->trials.size() &&
                 arm.seeds_ended == std::max(arm.num_seeds(), arm.seeds_begun);
        });
  }

  // Once it is done.
  const std::vector<ArmResult>& results() {
    for (ArmResult& result : results_)
      if (const ArmResult* same = same_before(results_, result)) {
        result.trials = same->trials;
        result.rate = same->rate;
        result.outcomes = same->outcomes;
        result.refusal = same->refusal;
      }
    return results_;
  }

 private:
  struct Training {
    ArmResult* result;
    std::size_t begun = 0, ended = 0;  // trials
    std::size_t seeds_begun = 0, seeds_ended = 0;

    // To train; none before the rate is known.
    std::size_t num_seeds() const {
      return result->refusal.empty() ? result->outcomes.size() : 0;
    }
  };

  int trial_steps() const {
    return std::max(1,
                    static_cast<int>(task_.recipe.steps * task_.recipe.trial));
  }

  const Task& task_;
  const std::size_t num_seeds_;
  std::vector<ArmResult> results_;
  std::vector<Training> trained_;
};

// Synchronous training is the same to the last bit over any number of stages,
// and takes the least time over one.
Result<Outcome> outcome_of(const Task& task, const Job& job) {
  const Arm& arm = job.result->arm;
  const int stages = arm.method == Method::Sync ? 1 : job.result->stages;
  return outcome_of(task, arm, stages, job.steps, job.rate, job.seed + 1);
}

void record(const Task& task, const Job& job, Result<Outcome> outcome) {
  std::cerr << task.recipe.task << ": " << job.result->arm.name
            << ", P = " << job.result->stages << ", " << job.steps
            << " steps, rate " << to_text(job.rate) << ", seed "
            << job.seed + 1;
  if (outcome) {
    *job.outcome = *std::move(outcome);
    std::cerr << ": loss " << to_text(job.outcome->final_loss()) << ", tested "
              << to_text(job.outcome->result, 4) << std::endl;
  } else {
    job.result->refusal = outcome.error().message;
    std::cerr << ": " << job.result->refusal << std::endl;
  }
}

// Threads that train what can begin, of the first course that has such.
class Pool {
 public:
  Pool(std::deque<Course>& courses, const StudyEnded& ended)
      : courses_(courses), ended_(ended) {}

  void run(int num_threads) {
    std::vector<std::thread> threads;
    for (int t = 0; t < num_threads; ++t)
      threads.emplace_back([this, t] {
        stay_on_core(t);
        work();
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      Course* course = nullptr;
      std::optional<Job> job;
      for (Course& other : courses_)
        if (!job && (job = other.begin())) course = &other;
      if (!job) {
        if (is_done()) return;
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      Result<Outcome> outcome = outcome_of(course->task(), *job);
      lock.lock();
      record(course->task(), *job, std::move(outcome));
      course->end(*job);
      if (course->is_done()) ended_(course->task(), course->results());
      changed_.notify_all();
    }
  }

  bool is_done() const {
    return std::all_of(courses_.begin(), courses_.end(),
                       [](const Course& course) { return course.is_done(); });
  }

  std::deque<Course>& courses_;
  const StudyEnded& ended_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

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

void study(const std::vector<Task>& tasks, const StudySettings& settings,
           const StudyEnded& ended) {
  std::deque<Course> courses;
  for (const Task& task : tasks) {
    Course& course = courses.emplace_back(task, settings);
    if (course.is_done()) ended(task, course.results());  // all are refused
  }
  Pool(courses, ended).run(settings.threads);
}

}  // namespace pipewright
