#include "pipewright/estimate/remembering_estimator.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pipewright {
namespace {

// Bytes of all remembered estimates.
constexpr std::size_t kMaxRemembered = 64'000'000;

// 128 bits that are equal for equal plans, and for unequal ones only with a
// probability that does not matter: two independent hashes of 64 bits.
class PlanKey {
 public:
  explicit PlanKey(const Plan& plan) {
    add(plan.model);
    add(plan.method);
    add(plan.minibatch);
    add(plan.microbatch);
    add(plan.replication);
    add(plan.optimizer_words);
    add(plan.number_type);
    add_all(plan.devices);
    add_all(plan.device_kinds);
    add_all(plan.stages);
    add(plan.schedule);
  }

  auto operator<=>(const PlanKey&) const = default;

 private:
  void add_number(std::uint64_t number) {
    first_ = (first_ ^ number) * 0x9e3779b97f4a7c15ULL;
    first_ ^= first_ >> 32;
    second_ = (second_ + number) * 0xd6e8feb86659fd93ULL;
    second_ ^= second_ >> 29;
  }
  template <typename Value>
  requires std::is_integral_v<Value> || std::is_enum_v<Value>
  void add(Value value) { add_number(static_cast<std::uint64_t>(value)); }
  template <typename Tag>
  void add(Id<Tag> id) {
    add(id.value);
  }
  template <typename Value>
  void add_all(const std::vector<Value>& values) {
    add(values.size());
    for (const Value& value : values) add(value);
  }
  void add(const std::string& text) {
    add(text.size());
    for (char letter : text) add(letter);
  }
  void add(const Stage& stage) {
    add_all(stage.forward);
    add_all(stage.backward);
    add_all(stage.workers);
    add(stage.recompute);
    add(stage.continues);
    add_all(stage.samples);
    add(stage.bucket);
  }
  void add(const ComputeAction& action) {
    add(action.stage);
    add(action.microbatch);
    add(static_cast<int>(action.kind) * 2 + (action.joined ? 1 : 0));
  }
  void add(const std::vector<ComputeAction>& order) { add_all(order); }
  void add(const Schedule& schedule) {
    const ScheduleSections& sections = schedule.sections();
    add(schedule.num_stages());
    add(schedule.num_microbatches());
    add_all(sections.prologue);
    add_all(sections.body);
    add_all(sections.epilogue);
    add(sections.minibatches_outside);
  }

  std::uint64_t first_ = 0, second_ = 0;
};

class Remembered {
 public:
  std::optional<Estimate> find(const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(key);
    if (known == known_.end()) return {};
    return known->second;
  }

  void add(const PlanKey& key, const Estimate& estimate) {
    const std::lock_guard lock(mutex_);
    const std::size_t size =
        sizeof(estimate) + sizeof(Bytes) * estimate.memory.size();
    if (size > left_ || !known_.emplace(key, estimate).second) return;
    left_ -= size;
  }

 private:
  std::mutex mutex_;
  std::map<PlanKey, Estimate> known_;
  std::size_t left_ = kMaxRemembered;
};

}  // namespace

Estimator remembering_estimator(Estimator estimate) {
  return
      [estimate = std::move(estimate), known = std::make_shared<Remembered>()](
          const Plan& plan) -> Result<Estimate> {
        const PlanKey key(plan);
        if (std::optional<Estimate> before = known->find(key))
          return *std::move(before);
        Result<Estimate> result = estimate(plan);
        if (result) known->add(key, *result);
        return result;
      };
}

void remember_estimates(Problem& problem) {
  problem.estimate = remembering_estimator(problem.estimate);
  if (!problem.estimator_for) return;
  problem.estimator_for =
      [own = problem.estimate, own_profile = problem.profile,
       own_cluster = problem.cluster, own_limit = problem.memory_limit,
       others = problem.estimator_for](const Profile& profile,
                                       const Cluster& cluster, Bytes limit) {
        const bool is_own = &profile == own_profile &&
                            &cluster == own_cluster && limit == own_limit;
        return is_own ? own : others(profile, cluster, limit);
      };
}

}  // namespace pipewright
