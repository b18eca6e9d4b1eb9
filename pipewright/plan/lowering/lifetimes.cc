#include "pipewright/plan/lowering/lifetimes.h"

#include <algorithm>
#include <span>

#include "pipewright/base/interruption.h"
#include "pipewright/plan/lowering/homes.h"

namespace pipewright {
namespace {

// Reads a passage backwards. A value is live where a later action reads it
// before another makes it anew.
class Liveness {
 public:
  Liveness(const Program& program, const Profile& profile)
      : program_(program),
        profile_(profile),
        storage_(profile.storages()),
        needs_gradient_(layers_with_gradient(profile)),
        is_taken_(program.transfers.size()) {
    const std::size_t num_values = kNumKinds * profile.layers.size();
    live_.resize(num_values);
    touched_in_.resize(num_values);
    made_in_.resize(num_values);
  }

  // One set per action.
  std::vector<LifeSet> life_sets(const Passage& passage) {
    std::vector<LifeSet> sets(passage.actions.size());
    add_takes(passage, sets);
    ++passage_;
    for (std::size_t i = passage.actions.size(); i-- > 0;) {
      const Action& action = passage.actions[i];
      begin_action();
      if (is_compute(action.kind))
        touch_layers(action, *program_.operation(passage.worker, action.stage));
      for (TransferId id : sets[i].takes)
        for (const Value& value : program_.transfer(id).values)
          make(value, LayerId());
      if (action.kind == ActionKind::Send)
        for (const Value& value : program_.transfer(action.transfer).values)
          read(value, LayerId());
      end_action(sets[i]);
    }
    return sets;
  }

 private:
  static constexpr std::size_t kNumKinds = 3;  // weights have versions instead

  void add_takes(const Passage& passage, std::vector<LifeSet>& sets) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (!is_compute(passage.actions[i].kind)) continue;
      for (TransferId id : program_.reads(passage.actions[i]).transfers) {
        if (program_.transfer(id).is_keyed_by_version()) continue;
        if (!is_taken_[id.index()]) sets[i].takes.push_back(id);
        is_taken_[id.index()] = true;
      }
    }
    for (const LifeSet& set : sets)
      for (TransferId id : set.takes) is_taken_[id.index()] = false;
  }

  // Last layer first, so that each value is met where it is touched last.
  void touch_layers(const Action& action, const Operation& operation) {
    if (action.kind == ActionKind::Forward ||
        action.kind == ActionKind::Recompute) {
      const auto& layers = action.kind == ActionKind::Forward
                               ? operation.forward
                               : operation.backward;
      for (std::size_t i = layers.size(); i-- > 0;) touch_forward(layers[i]);
      return;
    }
    for (LayerId layer : operation.backward)
      if (needs_gradient_[layer.index()])
        touch_backward(layer, action.kind, layer);
    for (LayerId layer : operation.backward)
      if (!needs_gradient_[layer.index()])  // is not run
        touch_backward(layer, action.kind, LayerId());
  }

  void touch_forward(LayerId id) {
    for (LayerId input : profile_.layers[id.index()].inputs)
      read(activation(input), id);
    if (storage_[id.index()] == id) make({ValueKind::Activation, id}, id);
    make({ValueKind::Private, id}, id);
  }

  // A gradient is a running sum: it is never made from nothing here.
  void touch_backward(LayerId id, ActionKind kind, LayerId after) {
    const ProfileLayer& layer = profile_.layers[id.index()];
    const bool for_inputs = kind != ActionKind::BackwardWeight;
    if (!for_inputs && layer.parameters.empty()) return;
    read({ValueKind::Gradient, id}, after);
    read({ValueKind::Private, id}, after);
    if (layer.keeps_output) read(activation(id), after);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.keeps_input[i]) read(activation(layer.inputs[i]), after);
      if (for_inputs) read({ValueKind::Gradient, layer.inputs[i]}, after);
    }
  }

  Value activation(LayerId layer) const {
    return {ValueKind::Activation, storage_[layer.index()]};
  }
  std::size_t index(const Value& value) const {
    return value.index(profile_.layers.size());
  }

  void begin_action() {
    ++action_;
    touched_.clear();
    at_end_.clear();
  }
  void make(const Value& value, LayerId after) {
    made_in_[index(value)] = action_;
    read(value, after);
  }
  void read(const Value& value, LayerId after) {
    const std::size_t i = index(value);
    if (touched_in_[i] == action_) return;
    touched_in_[i] = action_;
    touched_.push_back(i);
    if (live_[i] == passage_) return;
    (after.is_none() ? at_end_ : frees_).push_back({value, after});
  }
  void end_action(LifeSet& set) {
    set.frees.reserve(frees_.size() + at_end_.size());
    set.frees.assign(frees_.rbegin(), frees_.rend());
    set.frees.insert(set.frees.end(), at_end_.begin(), at_end_.end());
    frees_.clear();
    for (std::size_t i : touched_)
      live_[i] = made_in_[i] == action_ ? 0 : passage_;
  }

  const Program& program_;
  const Profile& profile_;
  const std::vector<LayerId> storage_;
  const std::vector<bool> needs_gradient_;
  std::vector<bool> is_taken_;  // by transfer
  // By value: numbers of passages and actions, counted from 1.
  std::vector<std::int32_t> live_, touched_in_, made_in_;
  std::int32_t passage_ = 0, action_ = 0;
  std::vector<std::size_t> touched_;
  std::vector<Free> frees_, at_end_;
};

class Writing {
 public:
  Writing(Program& program, const Profile& profile,
          std::vector<std::vector<Action>>& actions)
      : program_(program), liveness_(program, profile), actions_(actions) {}

  Passages run() {
    program_.life_sets.clear();
    for (std::size_t w = 0; w < actions_.size(); ++w) {
      interruption_point();
      write(WorkerId(w));
    }
    return std::move(result_);
  }

 private:
  bool has_life(const Action& action) const {
    return is_compute(action.kind) ||
           (action.kind == ActionKind::Send &&
            !program_.transfer(action.transfer).is_keyed_by_version());
  }

  void write(WorkerId worker) {
    auto& actions = actions_[worker.index()];
    sort_by_microbatch(actions);
    known_.clear();
    auto& of = result_.of.emplace_back(begins_.size() - 1);
    const std::size_t first = result_.distinct.size();
    for (std::size_t m = 0; m < of.size(); ++m) {
      const std::span<const std::size_t> places(
          places_.begin() + begins_[m], places_.begin() + begins_[m + 1]);
      if (places.empty()) continue;
      of[m] = passage_of(worker, first, actions, places);
      const auto& passage = result_.distinct[of[m].index()].actions;
      for (std::size_t i = 0; i < places.size(); ++i)
        actions[places[i]].life_set = passage[i].life_set;
    }
  }

  // Places of the actions that have a life set, by microbatch.
  void sort_by_microbatch(const std::vector<Action>& actions) {
    begins_.assign(2, 0);
    for (const Action& action : actions) {
      if (!has_life(action)) continue;
      const std::size_t m = action.microbatch.index();
      if (begins_.size() < m + 3) begins_.resize(m + 3, 0);
      ++begins_[m + 2];
    }
    for (std::size_t m = 2; m < begins_.size(); ++m)
      begins_[m] += begins_[m - 1];
    places_.resize(begins_.back());
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (has_life(actions[i])) {
        auto& next = begins_[actions[i].microbatch.index() + 1];
        places_[next++] = i;
      }
    begins_.pop_back();
  }

  // The known passage of the worker that is like this one, or a new one. Mostly
  // it is the last one.
  PassageId passage_of(WorkerId worker, std::size_t first,
                       const std::vector<Action>& actions,
                       std::span<const std::size_t> places) {
    for (std::size_t p = result_.distinct.size(); p-- > first;)
      if (is_like(result_.distinct[p].actions, actions, places))
        return PassageId(p);
    Passage passage{worker, {}};
    for (std::size_t i : places) passage.actions.push_back(actions[i]);
    std::vector<LifeSet> sets = liveness_.life_sets(passage);
    for (std::size_t i = 0; i < sets.size(); ++i)
      passage.actions[i].life_set =
          interned(passage.actions[i], std::move(sets[i]));
    result_.distinct.push_back(std::move(passage));
    return PassageId(result_.distinct.size() - 1);
  }

  static bool is_like(const std::vector<Action>& passage,
                      const std::vector<Action>& actions,
                      std::span<const std::size_t> places) {
    return std::equal(passage.begin(), passage.end(), places.begin(),
                      places.end(), [&](const Action& a, std::size_t place) {
                        const Action& b = actions[place];
                        return a.kind == b.kind && a.stage == b.stage &&
                               a.read_set == b.read_set &&
                               a.transfer == b.transfer;
                      });
  }

  LifeSetId interned(const Action& action, LifeSet set) {
    const bool is_empty = set.takes.empty() && set.frees.empty();
    if (action.kind == ActionKind::Send && is_empty) return {};
    for (const auto& [kind, stage, id] : known_)
      if (kind == action.kind && stage == action.stage &&
          program_.life_sets[id.index()] == set)
        return id;
    const LifeSetId id(program_.life_sets.size());
    known_.push_back({action.kind, action.stage, id});
    program_.life_sets.push_back(std::move(set));
    return id;
  }

  Program& program_;
  Liveness liveness_;
  std::vector<std::vector<Action>>& actions_;
  Passages result_;
  // Of the current worker: its life sets, and where the actions of microbatch m
  // are.
  struct Known {
    ActionKind kind;
    StageId stage;
    LifeSetId id;
  };
  std::vector<Known> known_;
  std::vector<std::ptrdiff_t> begins_;
  std::vector<std::size_t> places_;
};

}  // namespace

Passages set_lifetimes(Program& program, const Profile& profile,
                       std::vector<std::vector<Action>>& actions) {
  return Writing(program, profile, actions).run();
}

}  // namespace pipewright
