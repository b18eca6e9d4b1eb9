#include "pipewright/plan/memory/memory_effects.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/plan/memory/layer_walk.h"
#include "pipewright/plan/memory/stage_values.h"
#include "pipewright/plan/memory/value_set.h"

namespace pipewright {
namespace {

// What is held for two of the five kinds of work is counted only where the
// schedule has them.
struct Kinds {
  bool whole = false, halves = false;  // B; I and W

  explicit Kinds(const Schedule& schedule) {
    for (const auto& order : schedule.sections().body)
      for (const ComputeAction& action : order) {
        whole = whole || action.kind == ComputeKind::Backward;
        halves = halves || action.kind == ComputeKind::BackwardInput;
      }
  }
};

class MemoryEffects {
 public:
  MemoryEffects(Program& program, const Plan& plan, const Profile& profile,
                const Homes& homes, const Traffic& traffic,
                const std::vector<const Lane*>& lanes, bool shares_memory)
      : program_(program),
        plan_(plan),
        profile_(profile),
        traffic_(traffic),
        kinds_(plan.schedule),
        table_(program, plan, profile, homes, traffic, lanes,
               {kinds_.halves, shares_memory}),
        shares_memory_(shares_memory),
        walk_(profile, homes, traffic) {}

  void run() {
    set_last_readers();
    for (std::size_t t = 0; t < program_.transfers.size(); ++t)
      set_transfer(TransferId(t));
    for (Operation& operation : program_.operations) set_effects(operation);
  }

 private:
  static SampleRange samples(const Operation& operation) {
    return {operation.first_sample, operation.end_sample};
  }
  static Effect& effect(Operation& operation, ActionKind kind) {
    return operation.effects[static_cast<int>(kind)];
  }
  Bytes bytes(const ValueSet& values, const Operation& operation) const {
    Bytes sum;
    for (const Value& value : values)
      sum += traffic_.bytes_of(value, samples(operation));
    return sum;
  }

  void set_transfer(TransferId id) {
    Transfer& transfer = program_.transfers[id.index()];
    if (transfer.is_keyed_by_version()) return;
    const SampleRange range{transfer.first_sample, transfer.end_sample};
    if (transfer.kind == TransferKind::Gradient) {
      transfer.freed_by_sender = transfer.bytes;
      return;
    }
    if (transfer.again) {
      const ValueSet& stay =
          table_.of(*program_.operation(transfer.from, transfer.made_by))
              .recomputed;
      for (const Value& value : transfer.values)
        if (!stay.contains(value))
          transfer.freed_by_sender += traffic_.bytes_of(value, range);
      return;
    }
    const Lane* lane = table_.lane_of().at(id);
    const StageId reader = table_.readers().at(id);
    const ValueSet& kept = table_.of(lane, transfer.to).kept;
    for (const Value& value : transfer.values) {
      if (shares_memory_ && table_.of(lane, transfer.from).kept.contains(value))
        transfer.bytes -= traffic_.bytes_of(value, range);
      if (transfer.kind == TransferKind::Activation && kept.contains(value))
        transfer.retained_by_reader += traffic_.bytes_of(value, range);
      if (is_passing(transfer, value, lane) && last_reader_.at(value) == reader)
        transfer.freed_by_sender += traffic_.bytes_of(value, range);
    }
  }

  // Made where it is sent from, and not kept there for backward.
  bool is_passing(const Transfer& transfer, const Value& value,
                  const Lane* lane) const {
    const WorkerValues& sender = table_.of(lane, transfer.from);
    return sender.made.contains(value) && !sender.kept.contains(value);
  }

  // A value that goes to several stages is freed with its way to the last one.
  void set_last_readers() {
    for (const auto& [id, lane] : table_.lane_of()) {
      const Transfer& transfer = program_.transfers[id.index()];
      for (const Value& value : transfer.values)
        if (is_passing(transfer, value, lane))
          last_reader_[value] =
              std::max(last_reader_[value], table_.readers().at(id));
    }
  }

  void end(const ValueSet& values) {
    for (const Value& value : values) walk_.ends(value);
  }
  // Of which `net` stays.
  static Effect effect_of(Bytes most, Bytes net) {
    const Bytes allocates = std::max({most, net, Bytes(0)});
    return {allocates, allocates - net};
  }

  void set_forward(Operation& operation, const StageValues& s) {
    const auto& [made, sent, kept, handed_on, read] =
        table_.of(s.lane, operation.worker);
    Bytes stays;  // of what it makes: kept here, or on its way elsewhere
    for (const Value& value : s.made)
      if (kept.contains(value) || sent.contains(value) ||
          handed_on.contains(value))
        stays += traffic_.bytes_of(value, samples(operation));
      else
        walk_.ends(value);
    // Several stages of a worker may read what it received.
    if (table_.is_alone(operation))
      for (const Value& value : s.received)
        if (!kept.contains(value)) walk_.ends(value);
    end(s.taken_over);
    const Bytes most = walk_.forward(operation.forward, samples(operation));
    effect(operation, ActionKind::Forward) =
        effect_of(most, stays - bytes(s.taken_over, operation));
  }

  void set_recompute(Operation& operation, const StageValues& s) {
    for (LayerId layer : operation.backward)
      for (ValueKind kind : {ValueKind::Activation, ValueKind::Private})
        if (const Value value{kind, layer};
            !s.recomputed.contains(value) && !s.sent_again.contains(value))
          walk_.ends(value);
    for (const Value& value : s.saved)
      if (!s.recomputed.contains(value)) walk_.ends(value);
    end(s.kept_for_again);
    const Bytes most = walk_.forward(operation.backward, samples(operation));
    Bytes sent;
    for (const Value& value : s.sent_again)
      if (!s.recomputed.contains(value))
        sent += traffic_.bytes_of(value, samples(operation));
    effect(operation, ActionKind::Recompute) =
        effect_of(most, bytes(s.recomputed, operation) + sent -
                            bytes(s.kept_for_again, operation));
  }

  // What F or R left for it.
  template <typename Visit>
  static void for_each_left(const StageValues& s, Visit visit) {
    for (const Value& value : s.kept)
      if (!s.kept_for_again.contains(value)) visit(value);
    for (const Value& value : s.recomputed) visit(value);
  }

  // What comes by a transfer counts there until the action that reads it ends.
  void set_backward(Operation& operation, const StageValues& s) {
    Bytes left;
    for_each_left(s, [&](const Value& value) {
      left += traffic_.bytes_of(value, samples(operation));
      walk_.ends(value);
    });
    if (!operation.recompute) end(s.saved);
    for (LayerId layer : s.gradients_there) walk_.has_gradient(layer);
    const Bytes most = walk_.backward(operation.backward, samples(operation),
                                      ActionKind::Backward);
    effect(operation, ActionKind::Backward) =
        effect_of(most, s.gradients_made - left);
  }

  // I frees what W does not read.
  void set_halves(Operation& operation, const StageValues& s) {
    const ValueSet& read = table_.of(s.lane, operation.worker).read_by_weights;
    late_.clear();
    const auto early = [&](const Value& value) {
      const Bytes bytes = traffic_.bytes_of(value, samples(operation));
      const bool is_early = !read.contains(value);
      if (is_early)
        walk_.ends(value);
      else
        late_.push_back(value);
      return is_early ? bytes : Bytes(0);
    };
    Bytes freed;
    for_each_left(s, [&](const Value& value) { freed += early(value); });
    const std::size_t num_own = late_.size();
    if (!operation.recompute)
      for (const Value& value : s.saved) early(value);
    for (LayerId layer : s.gradients_there) walk_.has_gradient(layer);
    const Bytes most = walk_.backward(operation.backward, samples(operation),
                                      ActionKind::BackwardInput);
    Bytes waiting = walk_.waiting(), late;
    for (std::size_t i = 0; i < late_.size(); ++i) {
      const Bytes bytes = traffic_.bytes_of(late_[i], samples(operation));
      (i < num_own ? late : waiting) += bytes;
      walk_.ends(late_[i]);
    }
    effect(operation, ActionKind::BackwardInput) =
        effect_of(most, s.gradients_made + waiting - freed);
    for (LayerId layer : operation.backward) walk_.has_gradient(layer);
    effect(operation, ActionKind::BackwardWeight) =
        effect_of(walk_.backward(operation.backward, samples(operation),
                                 ActionKind::BackwardWeight),
                  Bytes(0) - waiting - late);
  }

  void set_effects(Operation& operation) {
    const StageValues& s = table_.of(operation);
    set_forward(operation, s);
    if (operation.recompute) set_recompute(operation, s);
    if (kinds_.whole) set_backward(operation, s);
    if (kinds_.halves) set_halves(operation, s);
    set_weights(operation);
  }

  // A parameter that several layers share has a sum of gradients in each.
  void set_weights(Operation& operation) {
    for (LayerId layer : operation.backward)
      operation.gradients += profile_.parameter_bytes(layer);
    operation.optimizer =
        weights_of(operation, profile_) * std::int64_t{plan_.optimizer_words};
  }

  Program& program_;
  const Plan& plan_;
  const Profile& profile_;
  const Traffic& traffic_;
  const Kinds kinds_;
  const StageValuesTable table_;
  const bool shares_memory_;
  LayerWalk walk_;
  std::vector<Value> late_;
  std::map<Value, StageId> last_reader_;
};

}  // namespace

Bytes weights_of(const Operation& operation, const Profile& profile) {
  std::set<ParameterId> parameters;
  for (LayerId layer : operation.backward)
    for (ParameterId id : profile.layers[layer.index()].parameters)
      parameters.insert(id);
  Bytes bytes;
  for (ParameterId id : parameters)
    bytes += profile.parameters[id.index()].bytes;
  return bytes;
}

int correction_words(const Operation& operation, const StageDelay& delay) {
  const bool backward = delay.corrected && delay.forward > delay.backward;
  const bool again = delay.corrected && operation.recompute &&
                     delay.forward > delay.recompute &&
                     delay.recompute != delay.backward;
  return (delay.averaging > 0) + backward + again;
}

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
                        const std::vector<const Lane*>& lanes,
                        bool shares_memory) {
  MemoryEffects(program, plan, profile, homes, traffic, lanes, shares_memory)
      .run();
}

}  // namespace pipewright
