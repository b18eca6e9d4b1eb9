#include "pipewright/plan/memory/stage_values.h"

#include <algorithm>

namespace pipewright {
namespace {

ValueSet values_of(const Kept& kept) {
  ValueSet values;
  for (LayerId layer : kept.activations)
    values.insert({ValueKind::Activation, layer});
  for (LayerId layer : kept.privates)
    values.insert({ValueKind::Private, layer});
  return values;
}

bool have_the_same_samples(const Operation& a, const Operation& b) {
  return a.first_sample == b.first_sample && a.end_sample == b.end_sample;
}

}  // namespace

StageValuesTable::StageValuesTable(const Program& program, const Plan& plan,
                                   const Profile& profile, const Homes& homes,
                                   const Traffic& traffic,
                                   const std::vector<const Lane*>& lanes,
                                   Settings settings)
    : program_(program),
      plan_(plan),
      profile_(profile),
      homes_(homes),
      traffic_(traffic),
      settings_(settings),
      num_stages_(program.workers.size(), 0) {
  for (const Operation& operation : program.operations)
    ++num_stages_[operation.worker.index()];
  for (const Lane* lane : lanes) {
    if (std::find(lanes_.begin(), lanes_.end(), lane) != lanes_.end()) continue;
    lanes_.push_back(lane);
    for (const auto& [key, stage_traffic] : *lane)
      add(lane, *program.operation(key.second, key.first), stage_traffic);
  }
  share_kept();
  keep_for_again();
  if (settings.shares_memory) keep_what_several_read();
  collect_workers();
  if (settings.shares_memory) leave_to_makers();
  for (const Operation& operation : program.operations) {
    if (is_alone(operation)) continue;
    const auto values = stages_.find({operation.worker, operation.stage});
    if (values == stages_.end()) continue;
    hand_on_activations(operation, values->second);
    hand_on_gradients(operation, values->second);
  }
}

bool StageValuesTable::is_alone(const Operation& operation) const {
  return num_stages_[operation.worker.index()] == 1;
}

// The first lane that has the operation stands for all that have it.
void StageValuesTable::add(const Lane* lane, const Operation& operation,
                           const StageTraffic& traffic) {
  for (const auto* sends : {&traffic.forward_sends, &traffic.backward_sends})
    for (TransferId id : *sends) lane_of_.try_emplace(id, lane);
  for (const auto* needs :
       {&traffic.forward_needs, &traffic.kept_needs, &traffic.backward_needs})
    for (TransferId id : *needs) reader_.try_emplace(id, operation.stage);
  auto [at, is_new] = stages_.try_emplace({operation.worker, operation.stage});
  if (!is_new) return;
  StageValues& values = at->second;
  values.lane = lane;
  for (LayerId layer : operation.forward)
    if (homes_.storage[layer.index()] == layer)
      values.made.insert({ValueKind::Activation, layer});
  for (LayerId layer : operation.forward)
    values.made.insert({ValueKind::Private, layer});
  const auto collect = [&](const std::vector<TransferId>& ids, ValueSet& to) {
    for (TransferId id : ids)
      for (const Value& v : program_.transfers[id.index()].values) to.insert(v);
  };
  collect(traffic.forward_needs, values.received);
  collect(traffic.forward_sends, values.sent);
  collect(traffic.kept_needs, values.saved);
  collect(traffic.again_sends, values.sent_again);
  ValueSet gradients;
  collect(traffic.backward_needs, gradients);
  for (const Value& value : gradients)
    values.gradients_there.push_back(value.layer);
  for (TransferId id : traffic.backward_sends)
    values.gradients_made += program_.transfers[id.index()].bytes;
  set_kept(operation, values);
}

void StageValuesTable::set_kept(const Operation& operation,
                                StageValues& values) const {
  values.kept = values_of(
      kept_by(operation.backward, profile_, homes_, operation.recompute));
  values.kept.erase_if([&](const Value& value) {
    return is_remade_for(plan_, homes_, operation.stage, value.layer);
  });
  if (!operation.recompute) return;
  for (const Value& value :
       values_of(kept_by(operation.backward, profile_, homes_, false)))
    if (!values.kept.contains(value)) values.recomputed.insert(value);
}

// What is kept but neither made nor received for a forward on the worker comes
// by a Saved transfer, whose reader frees it. A value that several stages of a
// worker keep is freed by the one whose backward comes last: the first stage.
// Only stages that a microbatch meets together on the worker are compared.
void StageValuesTable::share_kept() {
  struct Shared {
    ValueSet here, taken;
  };
  std::map<std::pair<const Lane*, WorkerId>, Shared> shared;
  for (const auto& [key, values] : stages_) {
    ValueSet& here = shared[{values.lane, key.first}].here;
    here.insert(values.made);
    here.insert(values.received);
  }
  for (auto& [key, values] : stages_) {  // ascending stages of a worker
    Shared& at = shared[{values.lane, key.first}];
    values.kept.erase_if([&](const Value& value) {
      return !at.here.contains(value) || at.taken.contains(value);
    });
    values.saved.erase_if(
        [&](const Value& value) { return at.here.contains(value); });
    at.taken.insert(values.kept);
  }
}

// A recomputation may be the last to read what it starts from, and leaves to
// backward what came for both.
void StageValuesTable::keep_for_again() {
  for (auto& [key, values] : stages_) {
    const Operation& operation = *program_.operation(key.first, key.second);
    if (!operation.recompute) continue;
    const ValueSet read =
        values_of(kept_by(operation.backward, profile_, homes_, false));
    for (const Value& value : values.saved)
      if (read.contains(value)) values.recomputed.insert(value);
    if (!is_alone(operation)) continue;
    for (const Value& value : values.kept)
      if (!read.contains(value)) values.kept_for_again.insert(value);
  }
}

void StageValuesTable::collect_workers() {
  for (const Lane* lane : lanes_)
    for (const auto& [key, traffic] : *lane) {
      const StageValues& values = stages_.at({key.second, key.first});
      WorkerValues& worker = workers_[{lane, key.second}];
      worker.made.insert(values.made);
      worker.sent.insert(values.sent);
      worker.kept.insert(values.kept);
      if (settings_.has_halves)
        note_weight_reads(*program_.operation(key.second, key.first),
                          worker.read_by_weights);
    }
}

// What is handed over to several workers is nobody's alone: it counts where it
// was made, and is gone about when its maker's backward is.
void StageValuesTable::keep_what_several_read() {
  std::map<std::pair<const Lane*, Value>, WorkerId> reader;
  for (const auto& [id, lane] : lane_of_) {
    const Transfer& transfer = program_.transfers[id.index()];
    if (transfer.kind == TransferKind::Gradient) continue;
    for (const Value& value : transfer.values) {
      const auto [first, is_first] =
          reader.try_emplace({lane, value}, transfer.to);
      if (is_first || first->second == transfer.to) continue;
      bool is_kept = false;
      for (const auto& [key, values] : stages_)
        is_kept =
            is_kept || (key.first == transfer.from && values.lane == lane &&
                        values.kept.contains(value));
      if (!is_kept)
        stages_.at({transfer.from, transfer.made_by}).kept.insert(value);
    }
  }
}

void StageValuesTable::leave_to_makers() {
  for (const auto& [id, lane] : lane_of_) {
    const Transfer& transfer = program_.transfers[id.index()];
    if (transfer.kind == TransferKind::Gradient) continue;
    WorkerValues& maker = workers_.at({lane, transfer.from});
    const ValueSet& kept = maker.kept;
    const auto is_there = [&](const Value& value) {
      return kept.contains(value) &&
             std::find(transfer.values.begin(), transfer.values.end(), value) !=
                 transfer.values.end();
    };
    for (auto& [key, values] : stages_) {
      if (key.first != transfer.to || values.lane != lane) continue;
      for (ValueSet* own : {&values.received, &values.kept, &values.saved,
                            &values.kept_for_again})
        own->erase_if(is_there);
    }
    WorkerValues& reader = workers_.at({lane, transfer.to});
    reader.kept.erase_if(is_there);
    // Both have to let go of it, and the reader's W may be late.
    for (const Value& value : transfer.values)
      if (reader.read_by_weights.contains(value))
        maker.read_by_weights.insert(value);
  }
}

void StageValuesTable::note_weight_reads(const Operation& operation,
                                         ValueSet& reads) const {
  for (LayerId id : operation.backward) {
    const ProfileLayer& layer = profile_.layers[id.index()];
    if (layer.parameters.empty()) continue;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i])
        reads.insert(
            {ValueKind::Activation, homes_.storage[layer.inputs[i].index()]});
    if (layer.keeps_output)
      reads.insert({ValueKind::Activation, homes_.storage[id.index()]});
  }
  for (LayerId id : operation.backward)
    if (!profile_.layers[id.index()].parameters.empty())
      reads.insert({ValueKind::Private, id});
}

// Of the same worker, if a microbatch of this one meets it there as a whole.
StageValues* StageValuesTable::neighbour(const Operation& operation,
                                         StageId stage) {
  const Operation* other = program_.operation(operation.worker, stage);
  if (!other || !have_the_same_samples(operation, *other)) return nullptr;
  const auto found = stages_.find({operation.worker, stage});
  const StageValues& own = of(operation);
  if (found == stages_.end() || found->second.lane != own.lane) return nullptr;
  return &found->second;
}

// What a stage makes for a later one of its worker alone stays until the last
// of those has read it.
void StageValuesTable::hand_on_activations(const Operation& operation,
                                           StageValues& values) {
  WorkerValues& worker = workers_.at({values.lane, operation.worker});
  for (const Value& value : values.made) {
    if (value.kind != ValueKind::Activation || worker.kept.contains(value) ||
        worker.sent.contains(value))
      continue;
    StageId last = operation.stage;
    const auto note = [&](auto&& self, LayerId of) -> void {
      for (LayerId user : homes_.users[of.index()]) {
        last = std::max(last, homes_.forward[user.index()]);
        if (homes_.storage[user.index()] == value.layer) self(self, user);
      }
    };
    note(note, value.layer);
    if (last == operation.stage) continue;
    StageValues* taker = neighbour(operation, last);
    if (!taker) continue;
    worker.handed_on.insert(value);
    taker->taken_over.insert(value);
  }
}

// The next stop of a gradient's sum may be another stage of the worker.
void StageValuesTable::hand_on_gradients(const Operation& operation,
                                         StageValues& values) {
  ValueSet given;
  for (LayerId layer : operation.backward)
    for (LayerId input : profile_.layers[layer.index()].inputs)
      if (homes_.backward[input.index()] != operation.stage)
        given.insert({ValueKind::Gradient, input});
  for (const Value& value : given) {
    StageId next = homes_.backward[value.layer.index()];
    for (LayerId user : homes_.users[value.layer.index()])
      if (const StageId stop = homes_.backward[user.index()];
          stop < operation.stage)
        next = std::max(next, stop);
    StageValues* taker = neighbour(operation, next);
    if (!taker || next >= operation.stage) continue;
    const Bytes bytes = traffic_.bytes_of(
        value, {operation.first_sample, operation.end_sample});
    values.gradients_made += bytes;
    taker->gradients_made -= bytes;
    taker->gradients_there.push_back(value.layer);
  }
}

}  // namespace pipewright
