// What a program says of the life of values, against an analysis of the actions
// of a whole run that shares no code with lowering: every value ends once,
// after its last reader, and nothing stays.

#include "pipewright/plan/lowering/lifetimes.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "pipewright/plan/lowering/forward_program.h"
#include "pipewright/plan/lowering/lower.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

struct Case {
  Plan plan;
  Profile profile;
};

Profile random_profile(int num_layers, std::mt19937& random) {
  Profile profile = chain_with_skips(num_layers, random);
  for (std::size_t l = 1; l < profile.layers.size(); ++l) {
    ProfileLayer& layer = profile.layers[l];
    layer.keeps_output = random() % 2;
    layer.keeps_input[0] = random() % 4 > 0;
    layer.output_is_view = random() % 6 == 0;
    if (random() % 4 == 0) layer.parameters.clear();
    if (random() % 6 == 0) layer.parameters = {ParameterId(0)};  // tied
  }
  if (random() % 4 == 0) profile.layers[0].parameters.clear();
  for (LayerSizes& sizes : profile.sizes[1])
    sizes = {Bytes(6 * (10 + static_cast<int>(random() % 90))),
             Bytes(6 * static_cast<int>(random() % 3)), Bytes(0)};
  return profile;
}

std::optional<Case> random_case(const ScheduleGenerator& generator,
                                std::mt19937& random) {
  ScheduleRequest request;
  request.workers = 1 + static_cast<int>(random() % 4);
  request.microbatches = 1 + static_cast<int>(random() % 4);
  Result<Schedule> schedule = generate_schedule(generator.name, request);
  if (!schedule) return std::nullopt;
  Replication replication = Replication::Rotate;
  if (generator.name != "chimera" && random() % 2) {
    replication = random() % 2 ? Replication::Rotate : Replication::Split;
    std::vector<int> replicas;
    for (int w = 0; w < request.workers; ++w)
      replicas.push_back(1 + static_cast<int>(random() % 3));
    schedule = with_replicas(*schedule, replicas, replication);
    if (!schedule) return std::nullopt;
  }
  constexpr Method kAsynchronous[] = {Method::Stash, Method::Naive,
                                      Method::PipeMare};
  const Method method =
      schedule->is_asynchronous() ? kAsynchronous[random() % 3] : Method::Sync;
  Case one{plan_of_schedule(*schedule, method, replication), {}};
  set_stages(one.plan, random);
  one.profile = random_profile(2 * schedule->num_stages(), random);
  return one;
}

// One worker's values over a whole run.
class Holding {
 public:
  Holding(const Program& program, const Profile& profile, WorkerId worker)
      : program_(program),
        profile_(profile),
        worker_(worker),
        storage_(profile.storages()) {}

  void run(const std::vector<Action>& actions) {
    find_last_readers(actions);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const LifeSet& life = program_.life(actions[i]);
      const auto& [reads, makes] = uses_[i];
      const MicrobatchId m = actions[i].microbatch;
      for (const Value& value : makes) held_.insert({m, value});
      for (const Value& value : reads) {
        if (!may_be_absent(value))
          CHECK_MESSAGE(held_.count({m, value}), text(actions[i], value));
        held_.insert({m, value});
      }
      for (const Free& free : life.frees) {
        CHECK_MESSAGE(last_.at({m, free.value}).count(i),
                      text(actions[i], free.value));
        check_place(actions[i], free);
        held_.erase({m, free.value});
      }
    }
    CHECK(held_.empty());
  }

  // All transfers that the worker reads are taken once, before any other read.
  void check_takes(const std::vector<Action>& actions) const {
    std::set<std::pair<MicrobatchId, TransferId>> taken;
    for (const Action& action : actions) {
      if (!is_compute(action.kind)) {
        CHECK(program_.life(action).takes.empty());
        continue;
      }
      for (const TransferId id : program_.life(action).takes)
        CHECK(taken.insert({action.microbatch, id}).second);
      for (const TransferId id : program_.reads(action).transfers)
        CHECK((program_.transfer(id).is_keyed_by_version() ||
               taken.count({action.microbatch, id})));
    }
  }

 private:
  struct Uses {
    std::set<Value> reads, makes;
  };
  using Held = std::pair<MicrobatchId, Value>;

  // A sum of gradients begins where it is first read; what has no bytes is not
  // sent.
  bool may_be_absent(const Value& value) const {
    return value.kind == ValueKind::Gradient ||
           (value.kind == ValueKind::Private &&
            profile_.sizes.at(1)[value.layer.index()].keeps_private ==
                Bytes(0));
  }

  // Actions after which a value is not read before it is made anew.
  void find_last_readers(const std::vector<Action>& actions) {
    std::map<Held, std::size_t> latest;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      uses_.push_back(uses_of(actions[i]));
      const MicrobatchId m = actions[i].microbatch;
      for (const Value& value : uses_[i].makes) {
        const auto before = latest.find({m, value});
        if (before != latest.end()) last_[{m, value}].insert(before->second);
        latest[{m, value}] = i;
      }
      for (const Value& value : uses_[i].reads) latest[{m, value}] = i;
    }
    for (const auto& [value, i] : latest) last_[value].insert(i);
  }

  Uses uses_of(const Action& action) const {
    Uses uses;
    if (action.kind == ActionKind::Send) {
      const Transfer& transfer = program_.transfer(action.transfer);
      if (!transfer.is_keyed_by_version())
        uses.reads.insert(transfer.values.begin(), transfer.values.end());
    }
    if (!is_compute(action.kind)) return uses;
    for (const TransferId id : program_.life(action).takes)
      for (const Value& value : program_.transfer(id).values)
        uses.makes.insert(value);
    for (const LayerId layer : layers_of(action)) add(layer, action.kind, uses);
    return uses;
  }

  const std::vector<LayerId>& layers_of(const Action& action) const {
    const Operation& operation = *program_.operation(worker_, action.stage);
    return action.kind == ActionKind::Forward ? operation.forward
                                              : operation.backward;
  }

  void add(LayerId id, ActionKind kind, Uses& uses) const {
    const ProfileLayer& layer = profile_.layers[id.index()];
    const auto output = [&](LayerId of) {
      return Value{ValueKind::Activation, storage_[of.index()]};
    };
    if (kind == ActionKind::Forward || kind == ActionKind::Recompute) {
      for (const LayerId input : layer.inputs) uses.reads.insert(output(input));
      if (output(id).layer == id) uses.makes.insert(output(id));
      uses.makes.insert({ValueKind::Private, id});
      return;
    }
    const bool is_weight = kind == ActionKind::BackwardWeight;
    if (is_weight && layer.parameters.empty()) return;
    uses.reads.insert({ValueKind::Gradient, id});
    uses.reads.insert({ValueKind::Private, id});
    if (layer.keeps_output) uses.reads.insert(output(id));
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      if (layer.keeps_input[k]) uses.reads.insert(output(layer.inputs[k]));
      if (!is_weight) uses.reads.insert({ValueKind::Gradient, layer.inputs[k]});
    }
  }

  // No later layer of the action uses it.
  void check_place(const Action& action, const Free& free) const {
    if (free.after.is_none() || !is_compute(action.kind)) return;
    const bool ascends = action.kind == ActionKind::Forward ||
                         action.kind == ActionKind::Recompute;
    for (const LayerId layer : layers_of(action)) {
      if (ascends ? layer <= free.after : layer >= free.after) continue;
      Uses uses;
      add(layer, action.kind, uses);
      const bool is_run = ascends || has_gradient(layer);
      CHECK_MESSAGE((!is_run || (!uses.reads.count(free.value) &&
                                 !uses.makes.count(free.value))),
                    text(action, free.value));
    }
  }

  bool has_gradient(LayerId layer) const {
    const ProfileLayer& of = profile_.layers[layer.index()];
    if (!of.parameters.empty()) return true;
    for (const LayerId input : of.inputs)
      if (has_gradient(input)) return true;
    return false;
  }

  static std::string text(const Action& action, const Value& value) {
    return to_text(action) + ", value " +
           std::to_string(static_cast<int>(value.kind)) + " of layer " +
           std::to_string(value.layer.value);
  }

  const Program& program_;
  const Profile& profile_;
  const WorkerId worker_;
  const std::vector<LayerId> storage_;
  std::vector<Uses> uses_;  // by action
  std::map<Held, std::set<std::size_t>> last_;
  std::set<Held> held_;
};

void check(const Program& program, const Profile& profile, int minibatches) {
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    const auto actions = unrolled(program, WorkerId(w), minibatches);
    Holding holding(program, profile, WorkerId(w));
    holding.check_takes(actions);
    holding.run(actions);
  }
}

}  // namespace

TEST_CASE("a value ends with its last reader, in runs of any length") {
  std::mt19937 random(11);
  int checked = 0, asynchronous = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto& generators = schedule_generators();
    const auto& generator =
        generators[static_cast<std::size_t>(i) % generators.size()];
    const auto one = random_case(generator, random);
    if (!one) continue;
    const Result<Program> program = lower(one->plan, one->profile);
    if (!program) continue;
    CAPTURE(generator.name);
    CAPTURE(i);
    const int outside = program->minibatches_outside;
    for (const int more : {0, 1, 2, 5})
      if (outside + more > 0) check(*program, one->profile, outside + more);
    ++checked;
    asynchronous += outside > 0;
  }
  CHECK(checked > 1000);
  CHECK(asynchronous > 100);
}

TEST_CASE("nothing stays of an evaluation") {
  std::mt19937 random(12);
  int checked = 0;
  for (int i = 0; i < 500; ++i) {
    const auto& generators = schedule_generators();
    const auto one = random_case(
        generators[static_cast<std::size_t>(i) % generators.size()], random);
    if (!one) continue;
    const Result<Program> program = lower(one->plan, one->profile);
    if (!program) continue;
    CAPTURE(i);
    check(forward_program(*program, one->profile, 1 + i % 7), one->profile, 1);
    ++checked;
  }
  CHECK(checked > 200);
}

}  // namespace pipewright
