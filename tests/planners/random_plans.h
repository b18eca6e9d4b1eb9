// Random plans of a small problem, improved change by change: stages on any
// devices, several per device, replicas that split microbatches or take turns
// in any order, other cuts for backward, backwards in one or two halves. Bounds
// are compared with the fastest of them.

#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

// What makes a plan. Any values do: those that do not fit are wrapped around.
struct PlanChoice {
  int microbatch = 0;          // which of the problem's sizes
  bool rotates = false;        // replicas take turns
  bool separate_cuts = false;  // for backward
  bool splits_backward = false;
  bool weights_last = false;             // after all other work of a worker
  int window = 1;                        // microbatches whose forwards go first
  std::vector<int> cuts, backward_cuts;  // by layer but the first: 0 is none
  // By stage: devices as bits, or the group of devices whose replicas split.
  std::vector<unsigned> devices;
  std::vector<int> group_of;                 // by device
  std::vector<std::vector<unsigned>> turns;  // by stage and microbatch
};

class RandomPlans {
 public:
  RandomPlans(const Problem& problem, unsigned seed)
      : problem_(problem), random_(seed) {}

  // The fastest of so many, each the change of the fastest so far.
  Seconds fastest(int tries) {
    Seconds best = Seconds::max();
    PlanChoice kept = any();
    for (int i = 0; i < tries; ++i) {
      PlanChoice next = i % 40 == 0 && i < tries / 2 ? any() : changed(kept);
      const Seconds step = step_of(next);
      if (i % 40 == 0 && i < tries / 2) current_ = Seconds::max();
      if (step <= current_) {
        kept = std::move(next);
        current_ = step;
      }
      best = std::min(best, step);
      num_valid_ += step < Seconds::max();
    }
    return best;
  }
  int num_valid() const { return num_valid_; }

 private:
  int number(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  int num_layers() const { return problem_.profile->num_layers(); }
  int num_devices() const { return problem_.cluster->num_devices(); }

  PlanChoice any() {
    PlanChoice choice;
    choice.microbatch = number(0, 9);
    choice.rotates = number(0, 1) == 0;
    choice.separate_cuts = number(0, 3) == 0;
    choice.splits_backward = number(0, 1) == 0;
    choice.weights_last = number(0, 1) == 0;
    choice.window = number(1, 16);
    for (int l = 0; l < num_layers(); ++l) {
      choice.cuts.push_back(number(0, 3));
      choice.backward_cuts.push_back(number(0, 3));
      choice.devices.push_back(any_devices());
      choice.turns.emplace_back();
      for (int m = 0; m < 16; ++m)
        choice.turns.back().push_back(static_cast<unsigned>(number(0, 99)));
    }
    const int groups = number(1, num_devices());
    for (int d = 0; d < num_devices(); ++d)
      choice.group_of.push_back(number(0, groups - 1));
    return choice;
  }

  unsigned any_devices() {
    return static_cast<unsigned>(number(1, (1 << num_devices()) - 1));
  }

  template <class T>
  T& one_of(std::vector<T>& values) {
    return values[static_cast<std::size_t>(
        number(0, static_cast<int>(values.size()) - 1))];
  }

  PlanChoice changed(PlanChoice choice) {
    const int changes = number(1, 3);
    for (int i = 0; i < changes; ++i) change(choice);
    return choice;
  }

  void change(PlanChoice& choice) {
    switch (number(0, 10)) {
      case 0:
        choice.microbatch = number(0, 9);
        break;
      case 1:
        choice.splits_backward = !choice.splits_backward;
        break;
      case 2:
        choice.weights_last = !choice.weights_last;
        break;
      case 3:
        choice.window = number(1, 16);
        break;
      case 4:
        one_of(choice.cuts) = number(0, 1);
        break;
      case 5:
        one_of(choice.backward_cuts) = number(0, 1);
        break;
      case 6:
        choice.separate_cuts = number(0, 3) == 0;
        break;
      case 7:
        one_of(choice.group_of) = number(0, num_devices() - 1);
        break;
      case 8:
        one_of(one_of(choice.turns)) = static_cast<unsigned>(number(0, 99));
        break;
      default:
        one_of(choice.devices) = any_devices();
    }
  }

  Seconds step_of(const PlanChoice& choice) {
    Plan plan = stages_of(choice);
    auto schedule = Schedule::create(plan.num_stages(), plan.num_microbatches(),
                                     orders_of(choice, plan));
    if (!schedule) return Seconds::max();
    plan.schedule = *schedule;
    if (!check_plan(plan, *problem_.profile)) return Seconds::max();
    const auto estimate = problem_.estimate(plan);
    return estimate && estimate->fits ? estimate->step : Seconds::max();
  }

  // Stages and the workers that hold them. Worker w is on the w-th device that
  // has a stage.
  Plan stages_of(const PlanChoice& choice) {
    Plan plan;
    plan.model = "random";
    plan.method = problem_.method;
    plan.minibatch = problem_.minibatch;
    const auto& sizes = problem_.microbatches;
    plan.microbatch =
        sizes[static_cast<std::size_t>(choice.microbatch) % sizes.size()];
    plan.replication =
        choice.rotates ? Replication::Rotate : Replication::Split;
    plan.optimizer_words = problem_.optimizer_words;
    cut(choice, plan);
    std::vector<int> worker_of(static_cast<std::size_t>(num_devices()), -1);
    turns_.assign(plan.stages.size(), {});
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      std::vector<int> devices = devices_of(choice, s);
      if (choice.rotates) devices = take_turns(choice, plan, s, devices);
      for (int d : devices) {
        int& worker = worker_of[static_cast<std::size_t>(d)];
        if (worker < 0) {
          worker = plan.num_workers();
          plan.devices.push_back(DeviceId(d));
        }
        plan.stages[s].workers.push_back(WorkerId(worker));
      }
      for (int& turn : turns_[s])
        turn = worker_of[static_cast<std::size_t>(turn)];
    }
    return plan;
  }

  void cut(const PlanChoice& choice, Plan& plan) const {
    const auto& backward_cuts =
        choice.separate_cuts ? choice.backward_cuts : choice.cuts;
    std::size_t forward = 0, backward = 0;
    plan.stages.emplace_back();
    for (int l = 0; l < num_layers(); ++l) {
      const auto layer = static_cast<std::size_t>(l);
      forward += l > 0 && choice.cuts[layer] > 0;
      backward += l > 0 && backward_cuts[layer] > 0;
      plan.stages.resize(
          std::max({plan.stages.size(), forward + 1, backward + 1}));
      plan.stages[forward].forward.push_back(LayerId(l));
      plan.stages[backward].backward.push_back(LayerId(l));
    }
  }

  std::vector<int> devices_of(const PlanChoice& choice, std::size_t s) const {
    std::vector<int> devices;
    const unsigned bits = choice.devices[s];
    const int group =
        choice.group_of[bits % static_cast<unsigned>(num_devices())];
    for (int d = 0; d < num_devices(); ++d)
      if (choice.rotates
              ? (bits >> d & 1) != 0
              : choice.group_of[static_cast<std::size_t>(d)] == group)
        devices.push_back(d);
    return devices;
  }

  // Those of the devices that have a turn, and which of them has which.
  std::vector<int> take_turns(const PlanChoice& choice, const Plan& plan,
                              std::size_t s, const std::vector<int>& devices) {
    for (int m = 0; m < plan.num_microbatches(); ++m)
      turns_[s].push_back(
          devices[choice.turns[s][static_cast<std::size_t>(m) % 16] %
                  devices.size()]);
    std::vector<int> used = turns_[s];
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    return used;
  }

  // Windows of microbatches, one after the other: all forwards, then all
  // backwards. No worker waits for a later action of another.
  Orders orders_of(const PlanChoice& choice, const Plan& plan) const {
    Orders orders(plan.devices.size()), last(plan.devices.size());
    const int stages = plan.num_stages(), all = plan.num_microbatches();
    const auto add = [&](Orders& to, int s, ComputeKind kind, int m) {
      const auto stage = static_cast<std::size_t>(s);
      for (WorkerId worker : plan.stages[stage].workers)
        if (turns_[stage].empty() ||
            turns_[stage][static_cast<std::size_t>(m)] == worker.value)
          to[worker.index()].push_back({StageId(s), MicrobatchId(m), kind});
    };
    for (int first = 0; first < all; first += choice.window) {
      const int end = std::min(all, first + choice.window);
      for (int m = first; m < end; ++m)
        for (int s = 0; s < stages; ++s)
          add(orders, s, ComputeKind::Forward, m);
      for (int m = first; m < end; ++m)
        for (int s = stages - 1; s >= 0; --s) {
          if (!choice.splits_backward) {
            add(orders, s, ComputeKind::Backward, m);
            continue;
          }
          add(orders, s, ComputeKind::BackwardInput, m);
          add(choice.weights_last ? last : orders, s,
              ComputeKind::BackwardWeight, m);
        }
    }
    for (std::size_t w = 0; w < orders.size(); ++w)
      orders[w].insert(orders[w].end(), last[w].begin(), last[w].end());
    return orders;
  }

  const Problem& problem_;
  std::mt19937 random_;
  Seconds current_ = Seconds::max();  // of the plan that is changed
  int num_valid_ = 0;
  std::vector<std::vector<int>> turns_;  // by stage and microbatch
};

}  // namespace pipewright
