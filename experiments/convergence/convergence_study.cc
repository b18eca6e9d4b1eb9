#include "experiments/convergence/convergence_study.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <limits>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "pipewright/base/text.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// The only worker of an executor takes the first core that its caller may use:
// callers take one each. Those that give kernels to a GPU go where one is free.
void stay_on_core(int number) {
  const std::vector<int> cores = usable_cores();
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[static_cast<std::size_t>(number) % cores.size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

bool is_wanted(const Arm& arm, const StudySettings& settings) {
  return settings.arms.empty() ||
         std::find(settings.arms.begin(), settings.arms.end(), arm.name) !=
             settings.arms.end();
}

std::vector<ArmResult> planned(const Task& task,
                               const StudySettings& settings) {
  std::vector<int> depths = task.recipe.depths;
  if (depths.empty()) depths = {task.num_weighted()};
  std::vector<ArmResult> results;
  for (const int depth : depths)
    for (const Arm& arm : arms(task.recipe)) {
      if (!is_wanted(arm, settings)) continue;
      ArmResult& result = results.emplace_back();
      result.arm = arm;
      result.depth = depth;
      result.stages = arm.method == Method::TwoBw
                          ? std::min(depth, task.microbatches())
                          : depth;
    }
  return results;
}

// Every rate, and every K where the arm has T1.
std::vector<Trial> trials_of(const Recipe& recipe, const Arm& arm) {
  const std::vector<double> annealings =
      arm.rescheduling ? recipe.annealings : std::vector<double>{0};
  std::vector<Trial> trials;
  for (const double annealing : annealings)
    for (const double rate : recipe.rates)
      trials.push_back({rate, annealing, std::nullopt});
  return trials;
}

double loss_of(const Trial& trial) {
  return trial.outcome ? trial.outcome->final_loss()
                       : std::numeric_limits<double>::infinity();
}

// The least loss, of those that were trained; none if none was.
const Trial* best(const std::vector<Trial>& trials) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials)
    if (trial.outcome && (!best || loss_of(trial) < loss_of(*best)))
      best = &trial;
  return best;
}

// One training that can begin.
struct Job {
  std::size_t place = 0;   // of its arm
  std::size_t number = 0;  // of its trial or seed
  bool is_trial = false;
  Training training;
};

// What one task has to train yet.
class Course {
 public:
  Course(const Task& task, const StudySettings& settings)
      : task_(task), results_(planned(task, settings)) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      Progress& arm = arms_.emplace_back();
      arm.tuner = place_of(results_[i].arm.tuned_as, results_[i].depth, i);
      if (arm.tuner == i)
        results_[i].trials = trials_of(task.recipe, results_[i].arm);
      arm.seeds.resize(static_cast<std::size_t>(task.recipe.seeds));
    }
  }

  const Task& task() const { return task_; }
  const ArmResult& result(const Job& job) const { return results_[job.place]; }

  // One that can begin; none now where they wait for trials, or none is left.
  // Synchronous training comes first: all others are compared with it.
  std::optional<Job> begin() {
    for (std::size_t i = 0; i < arms_.size(); ++i)
      if (arms_[i].begun < results_[i].trials.size())
        return trial_job(i, arms_[i].begun++);
    for (std::size_t i = 0; i < arms_.size(); ++i)
      if (choice(i) && arms_[i].seeds_begun < arms_[i].seeds.size())
        return seed_job(i, arms_[i].seeds_begun++);
    return std::nullopt;
  }

  // Without an outcome where it was not trained.
  void end(const Job& job, std::optional<Outcome> outcome) {
    Progress& arm = arms_[job.place];
    if (job.is_trial) {
      results_[job.place].trials[job.number].outcome = std::move(outcome);
      ++arm.ended;
    } else {
      arm.seeds[job.number] = std::move(outcome);
      ++arm.seeds_ended;
    }
  }
  void refuse(const Job& job, const std::string& why) {
    results_[job.place].refusal = why;
    end(job, std::nullopt);
  }

  bool is_done() const {
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      if (!has_tried(arms_[i].tuner)) return false;
      const Progress& arm = arms_[i];
      if (arm.seeds_ended < (choice(i) ? arm.seeds.size() : arm.seeds_begun))
        return false;
    }
    return true;
  }

  // Once it is done. Takes a while: it simulates every arm.
  void sum_up() {
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      ArmResult& result = results_[i];
      if (const Trial* chosen = choice(i)) {
        result.rate = chosen->rate;
        result.annealing = chosen->annealing;
      }
      for (const std::optional<Outcome>& outcome : arms_[i].seeds)
        if (outcome) result.outcomes.push_back(*outcome);
      const Result<ArmFacts> facts = facts_of(task_, result.arm, result.stages);
      if (facts)
        result.facts = *facts;
      else
        result.refusal = facts.error().message;
    }
  }
  const std::vector<ArmResult>& results() const { return results_; }

 private:
  struct Progress {
    std::size_t tuner = 0;             // place of the arm whose trials count
    std::size_t begun = 0, ended = 0;  // trials
    std::vector<std::optional<Outcome>> seeds;
    std::size_t seeds_begun = 0, seeds_ended = 0;
  };

  // Of the arm with this name, or `otherwise` where it is not trained.
  std::size_t place_of(const std::string& name, int depth,
                       std::size_t otherwise) const {
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (results_[i].arm.name == name && results_[i].depth == depth) return i;
    return otherwise;
  }

  bool has_tried(std::size_t place) const {
    return arms_[place].ended == results_[place].trials.size();
  }

  // What its seeds are trained with; none before that is known.
  const Trial* choice(std::size_t place) const {
    const std::size_t tuner = arms_[place].tuner;
    const bool is_known = has_tried(tuner) && results_[place].refusal.empty();
    return is_known ? best(results_[tuner].trials) : nullptr;
  }

  // Synchronous training is the same to the last bit over any number of
  // stages, and takes the least time over one.
  Job job(std::size_t place, std::size_t number, const Trial& trial) const {
    const ArmResult& result = results_[place];
    const int stages = result.arm.method == Method::Sync ? 1 : result.stages;
    return {place,
            number,
            false,
            {stages, task_.recipe.steps, trial.rate, trial.annealing, 1}};
  }

  Job trial_job(std::size_t place, std::size_t number) const {
    Job trial = job(place, number, results_[place].trials[number]);
    trial.is_trial = true;
    trial.training.steps =
        std::max(1, static_cast<int>(task_.recipe.steps * task_.recipe.trial));
    return trial;
  }

  Job seed_job(std::size_t place, std::size_t number) const {
    Job seed = job(place, number, *choice(place));
    seed.training.seed += number;
    return seed;
  }

  const Task& task_;
  std::vector<ArmResult> results_;
  std::vector<Progress> arms_;
};

void report(const Course& course, const Job& job, const std::string& result) {
  const Training& training = job.training;
  std::cerr << course.task().recipe.task << ": " << course.result(job).arm.name
            << ", P = " << course.result(job).stages << ", " << training.steps
            << " steps, rate " << to_text(training.rate) << ", K "
            << to_text(training.annealing) << ", seed " << training.seed << ": "
            << result << std::endl;
}

std::string outcome_text(const Outcome& outcome) {
  return "loss " + to_text(outcome.final_loss()) + ", tested " +
         to_text(outcome.result, 4) + ", in " +
         to_text(Seconds(outcome.seconds));
}

// Threads that train what can begin, of the first course that has such.
class Pool {
 public:
  Pool(std::deque<Course>& courses, const StudySettings& settings,
       const StudyEnded& ended)
      : courses_(courses),
        settings_(settings),
        store_(settings.results),
        ended_(ended) {}

  Result<void> run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < settings_.threads; ++t)
      threads.emplace_back([this, t] {
        if (are_on_cores()) stay_on_core(t);
        work(t);
      });
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

 private:
  bool are_on_cores() const {
    return std::all_of(courses_.begin(), courses_.end(),
                       [](const Course& course) {
                         return course.task().recipe.device == "cpu";
                       });
  }

  void work(int thread) {
    std::unique_lock lock(mutex_);
    while (failure_) {
      Course* course = nullptr;
      std::optional<Job> job;
      for (Course& other : courses_)
        if (!job && (job = other.begin())) course = &other;
      if (!job && is_done()) return;
      if (!job && elsewhere_.empty()) {
        changed_.wait(lock);
        continue;
      }
      if (!job) std::tie(course, job) = next_elsewhere(lock);
      job->training.place = thread;
      train(*course, *job, lock);
      if (course->is_done()) sum_up(*course, lock);
      changed_.notify_all();
    }
  }

  // One that another process has claimed, a while later: it may have ended.
  std::pair<Course*, Job> next_elsewhere(std::unique_lock<std::mutex>& lock) {
    const auto next = elsewhere_.front();
    elsewhere_.pop_front();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lock.lock();
    return next;
  }

  // The lock is free while it trains.
  void train(Course& course, const Job& job,
             std::unique_lock<std::mutex>& lock) {
    const Arm arm = course.result(job).arm;
    lock.unlock();
    auto stored = store_.find(course.task(), arm, job.training);
    std::optional<Result<Outcome>> outcome;
    Result<void> kept;
    if (stored && !*stored && !settings_.only_stored) {
      const auto claim = store_.claim(course.task(), arm, job.training);
      if (!claim) {
        lock.lock();
        elsewhere_.emplace_back(&course, job);
        return;
      }
      stored = store_.find(course.task(), arm, job.training);
      if (stored && !*stored) {
        outcome = outcome_of(course.task(), arm, job.training);
        if (*outcome)
          kept = store_.keep(course.task(), arm, job.training, **outcome);
      }
    }
    if (stored && *stored) outcome = **stored;
    lock.lock();
    if (!stored) failure_ = stored.error();
    if (!kept) failure_ = kept.error();
    if (!outcome) {
      course.end(job, std::nullopt);
    } else if (!*outcome) {
      report(course, job, outcome->error().message);
      course.refuse(job, outcome->error().message);
    } else {
      report(course, job, outcome_text(**outcome));
      course.end(job, **outcome);
    }
  }

  void sum_up(Course& course, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    course.sum_up();
    lock.lock();
    ended_(course.task(), course.results());
  }

  bool is_done() const {
    return std::all_of(courses_.begin(), courses_.end(),
                       [](const Course& course) { return course.is_done(); });
  }

  std::deque<Course>& courses_;
  const StudySettings& settings_;
  TrainingStore store_;
  const StudyEnded& ended_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Course*, Job>> elsewhere_;
  Result<void> failure_;
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

double ArmResult::final_loss() const {
  double sum = 0;
  int count = 0;
  for (const Outcome& outcome : outcomes)
    if (!outcome.diverged) sum += outcome.final_loss(), ++count;
  return count > 0 ? sum / count : std::numeric_limits<double>::infinity();
}

int ArmResult::num_missing_trials() const {
  return static_cast<int>(
      std::count_if(trials.begin(), trials.end(),
                    [](const Trial& trial) { return !trial.outcome; }));
}

Result<void> study(const std::vector<Task>& tasks,
                   const StudySettings& settings, const StudyEnded& ended) {
  std::deque<Course> courses;
  for (const Task& task : tasks) {
    Course& course = courses.emplace_back(task, settings);
    if (course.is_done()) ended(task, course.results());  // no arm is wanted
  }
  return Pool(courses, settings, ended).run();
}

}  // namespace pipewright
