#include "pipewright/plan/memory_effects.h"

#include <algorithm>
#include <map>
#include <set>

namespace pipewright {
namespace {

// A set that is filled first and asked then: a stage of a deep model has
// hundreds of values, of which planners make a new set for every plan they try.
class Values {
 public:
  void insert(const Value& value) {
    values_.push_back(value);
    is_sorted_ = false;
  }
  void insert(const Values& others) {
    values_.insert(values_.end(), others.values_.begin(), others.values_.end());
    is_sorted_ = false;
  }
  template <typename Condition>
  void erase_if(Condition condition) {
    std::erase_if(values_, condition);
  }
  bool contains(const Value& value) const {
    sort();
    return std::binary_search(values_.begin(), values_.end(), value);
  }
  auto begin() const {
    sort();
    return values_.begin();
  }
  auto end() const {
    sort();
    return values_.end();
  }

 private:
  void sort() const {
    if (is_sorted_) return;
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    is_sorted_ = true;
  }
  mutable std::vector<Value> values_;
  mutable bool is_sorted_ = true;
};

class MemoryEffects {
 public:
  MemoryEffects(Program& program, const Plan& plan, const Profile& profile,
                const Homes& homes, const Traffic& traffic)
      : program_(program),
        plan_(plan),
        profile_(profile),
        homes_(homes),
        traffic_(traffic) {}

  void run(const std::vector<const Lane*>& lanes) {
    for (const Lane* lane : lanes) {
      if (std::find(lanes_.begin(), lanes_.end(), lane) != lanes_.end())
        continue;
      lanes_.push_back(lane);
      for (const auto& [key, stage_traffic] : *lane)
        add(lane, *program_.operation(key.second, key.first), stage_traffic);
    }
    share_kept();
    set_last_readers();
    for (std::size_t t = 0; t < program_.transfers.size(); ++t)
      set_transfer(TransferId(t));
    for (Operation& operation : program_.operations) set_effects(operation);
  }

 private:
  using Place = std::pair<const Lane*, WorkerId>;

  struct State {
    const Lane* lane = nullptr;
    Values made;        // by F of this operation
    Values received;    // for F
    Values sent;        // by F
    Values kept;        // from F (and receives) until B or W ends
    Values recomputed;  // by R
    Bytes gradients_sent;
    Bytes sent_again;  // by R
  };

  State& state(const Operation& operation) {
    return states_[{operation.worker, operation.stage}];
  }
  SampleRange samples(const Operation& operation) const {
    return {operation.first_sample, operation.end_sample};
  }
  Bytes bytes(const Values& values, const Operation& operation) const {
    Bytes sum;
    for (const Value& value : values)
      sum += traffic_.bytes_of(value, samples(operation));
    return sum;
  }

  static Values values_of(const Kept& kept) {
    Values values;
    for (LayerId layer : kept.activations)
      values.insert({ValueKind::Activation, layer});
    for (LayerId layer : kept.privates)
      values.insert({ValueKind::Private, layer});
    return values;
  }

  // The first lane that has the operation stands for all that have it.
  void add(const Lane* lane, const Operation& operation,
           const StageTraffic& stage_traffic) {
    for (const auto* sends :
         {&stage_traffic.forward_sends, &stage_traffic.backward_sends})
      for (TransferId id : *sends) lane_of_.try_emplace(id, lane);
    for (const auto* needs :
         {&stage_traffic.forward_needs, &stage_traffic.kept_needs,
          &stage_traffic.backward_needs})
      for (TransferId id : *needs) reader_.try_emplace(id, operation.stage);
    auto [at, is_new] =
        states_.try_emplace({operation.worker, operation.stage});
    if (!is_new) return;
    State& s = at->second;
    s.lane = lane;
    for (LayerId layer : operation.forward) {
      if (homes_.storage[layer.index()] == layer)
        s.made.insert({ValueKind::Activation, layer});
      s.made.insert({ValueKind::Private, layer});
    }
    const auto collect = [&](const std::vector<TransferId>& ids, Values& to) {
      for (TransferId id : ids)
        for (const Value& v : program_.transfers[id.index()].values)
          to.insert(v);
    };
    collect(stage_traffic.forward_needs, s.received);
    collect(stage_traffic.forward_sends, s.sent);
    for (TransferId id : stage_traffic.backward_sends)
      s.gradients_sent += program_.transfers[id.index()].bytes;
    for (TransferId id : stage_traffic.again_sends)
      s.sent_again += program_.transfers[id.index()].bytes;
    s.kept = values_of(
        kept_by(operation.backward, profile_, homes_, operation.recompute));
    s.kept.erase_if([&](const Value& value) {
      return is_remade_for(plan_, homes_, operation.stage, value.layer);
    });
    if (operation.recompute) {
      const Values all =
          values_of(kept_by(operation.backward, profile_, homes_, false));
      for (const Value& value : all)
        if (!s.kept.contains(value)) s.recomputed.insert(value);
    }
  }

  // What is kept but neither made nor received for a forward on the worker
  // comes by a Saved transfer, whose reader frees it. A value that several
  // stages of a worker keep is freed by the one whose backward comes last: the
  // first stage.
  // Only stages that a microbatch meets together on the worker are compared.
  void share_kept() {
    std::map<std::pair<const Lane*, WorkerId>, Values> here, taken;
    for (const auto& [key, s] : states_)
      for (const Values* values : {&s.made, &s.received})
        here[{s.lane, key.first}].insert(*values);
    for (auto& [key, s] : states_) {  // ascending stages of a worker
      const std::pair at{s.lane, key.first};
      Values kept;
      for (const Value& value : s.kept)
        if (here[at].contains(value) && !taken[at].contains(value))
          kept.insert(value);
      taken[at].insert(kept);
      s.kept = std::move(kept);
    }
    for (const Lane* lane : lanes_)
      for (const auto& [key, stage_traffic] : *lane) {
        const State& s = states_.at({key.second, key.first});
        kept_on_[{lane, key.second}].insert(s.kept);
        made_on_[{lane, key.second}].insert(s.made);
        sent_on_[{lane, key.second}].insert(s.sent);
      }
  }

  void set_transfer(TransferId id) {
    Transfer& transfer = program_.transfers[id.index()];
    if (transfer.is_keyed_by_version()) return;
    const SampleRange range{transfer.first_sample, transfer.end_sample};
    if (transfer.kind == TransferKind::Gradient || transfer.again) {
      transfer.freed_by_sender = transfer.bytes;
      return;
    }
    const Lane* lane = lane_of_.at(id);
    const Place at_reader{lane, transfer.to};
    for (const Value& value : transfer.values) {
      if (kept_on_[at_reader].contains(value) &&
          transfer.kind == TransferKind::Activation)
        transfer.retained_by_reader += traffic_.bytes_of(value, range);
      if (is_passing(transfer, value, lane) &&
          last_reader_.at(value) == reader_.at(id))
        transfer.freed_by_sender += traffic_.bytes_of(value, range);
    }
  }

  // Made where it is sent from, and not kept there for backward.
  bool is_passing(const Transfer& transfer, const Value& value,
                  const Lane* lane) {
    const Place sender{lane, transfer.from};
    return made_on_[sender].contains(value) &&
           !kept_on_[sender].contains(value);
  }

  // A value that goes to several stages is freed with its way to the last one.
  void set_last_readers() {
    for (const auto& [id, lane] : lane_of_) {
      const Transfer& transfer = program_.transfers[id.index()];
      for (const Value& value : transfer.values)
        if (is_passing(transfer, value, lane))
          last_reader_[value] = std::max(last_reader_[value], reader_.at(id));
    }
  }

  // Bytes needed only while it runs: the most that a layer has in workspace and
  // in so many tensors as large as its output.
  Bytes transient(const std::vector<LayerId>& layers,
                  const Operation& operation, std::int64_t outputs) const {
    Bytes most;
    for (LayerId layer : layers) {
      const Bytes output =
          traffic_.bytes_of({ValueKind::Activation, layer}, samples(operation));
      const Bytes workspace = traffic_.workspace_of(layer, samples(operation));
      most = std::max(most, output * outputs + workspace);
    }
    return most;
  }

  void set_effects(Operation& operation) {
    const State& s = state(operation);
    const auto effect = [&](ActionKind kind) -> Effect& {
      return operation.effects[static_cast<int>(kind)];
    };
    Values stays;  // of what F makes: kept here, or on its way elsewhere
    const Place here{s.lane, operation.worker};
    for (const Value& value : s.made)
      if (kept_on_[here].contains(value) || sent_on_[here].contains(value))
        stays.insert(value);
    const Bytes forward = transient(operation.forward, operation, 1);
    effect(ActionKind::Forward) = {bytes(stays, operation) + forward, forward};

    const Bytes recomputed = bytes(s.recomputed, operation);
    const Bytes workspace = transient(operation.backward, operation, 0);
    effect(ActionKind::Recompute) = {recomputed + s.sent_again + workspace,
                                     workspace};

    const Bytes backward = transient(operation.backward, operation, 2);
    const Bytes kept = bytes(s.kept, operation) + recomputed;
    effect(ActionKind::Backward) = {s.gradients_sent + backward,
                                    kept + backward};
    // Between I and W the output gradients of layers with weights wait.
    Bytes waiting;
    for (LayerId layer : operation.backward)
      if (!profile_.layers[layer.index()].parameters.empty())
        waiting += traffic_.bytes_of({ValueKind::Activation, layer},
                                     samples(operation));
    effect(ActionKind::BackwardInput) = {s.gradients_sent + waiting + backward,
                                         backward};
    effect(ActionKind::BackwardWeight) = {workspace,
                                          kept + waiting + workspace};
    set_weights(operation);
  }

  void set_weights(Operation& operation) {
    std::set<ParameterId> parameters;
    for (LayerId layer : operation.backward)
      for (ParameterId id : profile_.layers[layer.index()].parameters)
        parameters.insert(id);
    for (ParameterId id : parameters)
      operation.gradients += profile_.parameters[id.index()].bytes;
    operation.optimizer =
        operation.gradients * std::int64_t{plan_.optimizer_words};
  }

  Program& program_;
  const Plan& plan_;
  const Profile& profile_;
  const Homes& homes_;
  const Traffic& traffic_;
  std::map<std::pair<WorkerId, StageId>, State> states_;
  std::vector<const Lane*> lanes_;  // distinct ones
  std::map<TransferId, const Lane*> lane_of_;
  std::map<Place, Values> kept_on_, made_on_, sent_on_;
  std::map<TransferId, StageId> reader_;  // the first stage that uses it
  std::map<Value, StageId> last_reader_;
};

}  // namespace

void set_operations(Program& program, const Plan& plan) {
  program.workers.resize(plan.devices.size());
  for (std::size_t w = 0; w < plan.devices.size(); ++w)
    program.workers[w].device = plan.devices[w];
  program.operation_of.assign(plan.devices.size() * plan.stages.size(), -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const int replicas = static_cast<int>(stage.workers.size());
    for (int j = 0; j < replicas; ++j) {
      Operation operation;
      operation.stage = StageId(s);
      operation.worker = stage.workers[static_cast<std::size_t>(j)];
      operation.forward = stage.forward;
      operation.backward = stage.backward;
      operation.recompute = stage.recompute;
      const bool split = plan.replication == Replication::Split;
      const SampleRange samples = split
                                      ? samples_of(j, replicas, plan.microbatch)
                                      : SampleRange{0, plan.microbatch};
      operation.first_sample = samples.first;
      operation.end_sample = samples.end;
      program.operation_of[operation.worker.index() * plan.stages.size() + s] =
          static_cast<int>(program.operations.size());
      program.operations.push_back(std::move(operation));
    }
  }
}

void set_memory_effects(Program& program, const Plan& plan,
                        const Profile& profile, const Homes& homes,
                        const Traffic& traffic,
                        const std::vector<const Lane*>& lanes) {
  MemoryEffects(program, plan, profile, homes, traffic).run(lanes);
}

}  // namespace pipewright
