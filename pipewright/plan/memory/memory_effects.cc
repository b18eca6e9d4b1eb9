#include "pipewright/plan/memory/memory_effects.h"

#include <algorithm>
#include <set>

#include "pipewright/base/interruption.h"
#include "pipewright/plan/memory/charged_lives.h"
#include "pipewright/plan/memory/layer_walk.h"

namespace pipewright {
namespace {

constexpr std::size_t kNumValueKinds = 3;  // weights have versions instead

SampleRange samples(const Operation& operation) {
  return {operation.first_sample, operation.end_sample};
}

bool is_forward(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::Recompute;
}

// Whether an action reads weights moved back along their velocity.
bool moves_weights(const StageDelay& delay, ActionKind kind) {
  if (!delay.corrected || kind == ActionKind::Forward) return false;
  return delay.forward >
         (kind == ActionKind::Recompute ? delay.recompute : delay.backward);
}

// Follows passages action by action. A value is in a worker's own memory, or in
// the buffer of a transfer until the last action that reads the transfer ends.
class MemoryEffects {
 public:
  MemoryEffects(Program& program, const MemoryInputs& inputs)
      : program_(program),
        inputs_(inputs),
        walk_(inputs.profile, inputs.homes, inputs.traffic),
        own_(kNumValueKinds * inputs.profile.layers.size()),
        earlier_(own_.size()),
        buffered_(own_.size()),
        waiting_(inputs.plan.stages.size()),
        reader_(program.transfers.size()),
        last_read_(program.transfers.size()),
        has_effect_(program.life_sets.size()),
        is_sent_(program.transfers.size()),
        is_read_(program.transfers.size()) {}

  void run() {
    find_readers();
    if (inputs_.shares_memory)
      for (MicrobatchId m(0); m.index() < inputs_.lanes.size(); ++m)
        follow_sharing(m);
    else
      for (const Passage& passage : inputs_.passages.distinct)
        if (has_news(passage))
          follow(passage, [&](std::size_t i) -> const LifeSet& {
            return program_.life(passage.actions[i]);
          });
    for (Operation& operation : program_.operations) {
      interruption_point();
      set_weights(operation);
    }
  }

 private:
  Bytes bytes(const Value& value, const Operation& operation) const {
    return inputs_.traffic.bytes_of(value, samples(operation));
  }
  Bytes slice(const Value& value, const Transfer& transfer) const {
    return inputs_.traffic.bytes_of(
        value, {transfer.first_sample, transfer.end_sample});
  }
  std::size_t index(const Value& value) const {
    return value.index(inputs_.profile.layers.size());
  }

  // The first stage that uses each transfer.
  void find_readers() {
    std::vector<const Lane*> known;
    for (const Lane* lane : inputs_.lanes) {
      if (std::find(known.begin(), known.end(), lane) != known.end()) continue;
      known.push_back(lane);
      for (const auto& [key, traffic] : *lane)
        for (const auto* needs : {&traffic.forward_needs, &traffic.kept_needs})
          for (TransferId id : *needs)
            if (StageId& reader = reader_[id.index()];
                reader.is_none() || key.first < reader)
              reader = key.first;
    }
  }

  // Passages may have life sets and transfers in common; the first one stands
  // for all.
  bool has_news(const Passage& passage) const {
    return std::any_of(passage.actions.begin(), passage.actions.end(),
                       [&](const Action& action) {
                         if (action.kind == ActionKind::Send)
                           return !is_sent_[action.transfer.index()];
                         const auto& reads = program_.reads(action).transfers;
                         return !has_effect_[action.life_set.index()] ||
                                std::any_of(reads.begin(), reads.end(),
                                            [&](TransferId id) {
                                              return !is_read_[id.index()];
                                            });
                       });
  }

  void follow_sharing(MicrobatchId microbatch) {
    const std::size_t m = microbatch.index();
    std::vector<ChargedLives> workers;
    bool news = false;
    for (const auto& of_worker : inputs_.passages.of) {
      if (m >= of_worker.size() || of_worker[m].is_none()) continue;
      const Passage& passage = inputs_.passages.distinct[of_worker[m].index()];
      news = news || has_news(passage);
      ChargedLives& lives =
          workers.emplace_back(ChargedLives{&passage, {}, {}});
      for (const Action& action : passage.actions)
        lives.sets.push_back(program_.life(action));
    }
    if (!news) return;
    charge_makers(program_, workers);
    for (const ChargedLives& lives : workers) {
      at_maker_ = &lives.at_maker;
      follow(*lives.passage,
             [&](std::size_t i) -> const LifeSet& { return lives.sets[i]; });
    }
  }

  template <typename Life>
  void follow(const Passage& passage, Life life) {
    interruption_point();
    std::fill(own_.begin(), own_.end(), Bytes(0));
    std::fill(earlier_.begin(), earlier_.end(), Bytes(0));
    std::fill(buffered_.begin(), buffered_.end(), Bytes(0));
    find_last_reads(passage);
    for (std::size_t i = 0; i < passage.actions.size(); ++i)
      if (passage.actions[i].kind == ActionKind::Send)
        send(passage, i, life(i));
      else
        compute(passage, i, life(i));
    for (const Action& action : passage.actions)
      if (action.kind == ActionKind::Send)
        is_sent_[action.transfer.index()] = true;
      else
        for (TransferId id : program_.reads(action).transfers)
          is_read_[id.index()] = true;
  }

  // What came for a forward and stays is the worker's own from there on, also
  // if backward reads the transfer again.
  void find_last_reads(const Passage& passage) {
    for (std::size_t i = 0; i < passage.actions.size(); ++i) {
      const Action& action = passage.actions[i];
      if (!is_compute(action.kind)) continue;
      for (TransferId id : program_.reads(action).transfers)
        if (action.kind == ActionKind::Forward ||
            program_.transfer(id).kind != TransferKind::Activation)
          last_read_[id.index()] = i;
    }
  }

  void send(const Passage& passage, std::size_t i, const LifeSet& life) {
    const TransferId id = passage.actions[i].transfer;
    Transfer& transfer = program_.transfers[id.index()];
    if (transfer.kind == TransferKind::Gradient) {
      transfer.freed_by_sender = transfer.bytes;
      for (const Value& value : transfer.values) {
        Bytes& own = own_[index(value)];
        own -= std::min(own, slice(value, transfer));
      }
    }
    for (const Free& free : life.frees) {
      const std::size_t v = index(free.value);
      const Bytes own = ended(v);
      if (transfer.kind != TransferKind::Gradient && own > Bytes(0))
        free_with_sends(passage, i, free.value, own);
      // What is in the buffer of a transfer that is read again ends with it.
      buffered_[v] = Bytes(0);
    }
  }

  // Takes what ends of a value: all of it, or what F made if that is held for
  // other workers while R has made it anew.
  Bytes ended(std::size_t value) {
    const Bytes own =
        earlier_[value] > Bytes(0) ? earlier_[value] : own_[value];
    earlier_[value] = Bytes(0);
    own_[value] -= own;
    return own;
  }

  // A value that goes to several stages is freed with its way to the last one:
  // the slices that go there, but no more than the worker has of it itself.
  void free_with_sends(const Passage& passage, std::size_t last,
                       const Value& value, Bytes own) {
    const Transfer& freeing = program_.transfer(passage.actions[last].transfer);
    const auto carries = [&](const Action& action) {
      if (action.kind != ActionKind::Send) return false;
      const Transfer& t = program_.transfer(action.transfer);
      return t.again == freeing.again &&
             std::find(t.values.begin(), t.values.end(), value) !=
                 t.values.end();
    };
    StageId to;
    for (std::size_t i = 0; i <= last; ++i)
      if (carries(passage.actions[i]))
        to = std::max(to, reader_[passage.actions[i].transfer.index()]);
    for (std::size_t i = 0; i <= last; ++i) {
      if (!carries(passage.actions[i])) continue;
      const std::size_t t = passage.actions[i].transfer.index();
      if (reader_[t] != to) continue;
      const Bytes freed = std::min(own, slice(value, program_.transfers[t]));
      own -= freed;
      if (!is_sent_[t]) program_.transfers[t].freed_by_sender += freed;
    }
  }

  void compute(const Passage& passage, std::size_t i, const LifeSet& life) {
    const Action& action = passage.actions[i];
    const Operation& operation =
        *program_.operation(passage.worker, action.stage);
    take(life);
    net_ = Bytes(0);
    if (is_forward(action.kind))
      make_outputs(operation, action.kind);
    else
      make_gradients(operation, action.kind);
    end_values(life);
    end_transfers(action, i);
    set_effect(operation, action);
  }

  void set_effect(const Operation& operation, const Action& action) {
    const std::size_t set = action.life_set.index();
    Bytes& waiting = waiting_[action.stage.index()];
    const bool is_input = action.kind == ActionKind::BackwardInput;
    if (has_effect_[set] && !is_input) return walk_.clear();
    const Bytes peak = peak_of(operation, action.kind);
    if (is_input) net_ += waiting = walk_.waiting();
    if (action.kind == ActionKind::BackwardWeight) net_ -= waiting;
    if (has_effect_[set]) return;
    has_effect_[set] = true;
    const Bytes allocates = std::max({peak, net_, Bytes(0)});
    program_.life_sets[set].effect = {allocates, allocates - net_};
    program_.life_sets[set].begins_sums =
        std::max(walk_.with_sums() - allocates, Bytes(0));
  }

  Bytes peak_of(const Operation& operation, ActionKind kind) {
    if (moves_weights(program_.delays[operation.stage.index()], kind))
      walk_.reads_moved_weights();
    if (kind == ActionKind::Forward)
      return walk_.forward(operation.forward, samples(operation));
    if (kind == ActionKind::Recompute)
      return walk_.forward(operation.backward, samples(operation));
    return walk_.backward(operation.backward, samples(operation), kind);
  }

  void take(const LifeSet& life) {
    for (TransferId id : life.takes) {
      Transfer& transfer = program_.transfers[id.index()];
      for (const Value& value : transfer.values) {
        if (!at_maker_ || !at_maker_->count({id, value}))
          buffered_[index(value)] += slice(value, transfer);
        else if (!is_read_[id.index()])
          transfer.bytes -= slice(value, transfer);
      }
    }
  }

  void make_outputs(const Operation& operation, ActionKind kind) {
    const auto make = [&](const Value& value) {
      Bytes& own = own_[index(value)];
      if (kind == ActionKind::Recompute && at_maker_)
        earlier_[index(value)] = own;
      own += bytes(value, operation);
      net_ += bytes(value, operation);
    };
    for (LayerId layer :
         kind == ActionKind::Forward ? operation.forward : operation.backward) {
      if (inputs_.homes.storage[layer.index()] == layer)
        make({ValueKind::Activation, layer});
      make({ValueKind::Private, layer});
    }
  }

  // Those of its own layers that W reads after I are counted by walk_: several
  // may be one tensor.
  void make_gradients(const Operation& operation, ActionKind kind) {
    const auto note = [&](LayerId layer) {
      const std::size_t i = index({ValueKind::Gradient, layer});
      if (own_[i] > Bytes(0) || buffered_[i] > Bytes(0))
        walk_.has_gradient(layer);
    };
    for (LayerId layer : operation.backward) {
      if (kind == ActionKind::BackwardWeight) {
        walk_.has_gradient(layer);
        continue;
      }
      note(layer);
      for (LayerId input : inputs_.profile.layers[layer.index()].inputs)
        note(input);
    }
    if (kind == ActionKind::BackwardWeight) return;
    for (LayerId layer : operation.backward) {
      const std::size_t i = index({ValueKind::Gradient, layer});
      net_ -= own_[i];
      own_[i] = buffered_[i] = Bytes(0);
      for (LayerId input : inputs_.profile.layers[layer.index()].inputs)
        if (inputs_.homes.backward[input.index()] != operation.stage)
          give_gradient(input, operation);
    }
  }

  // To another stage. What came by a transfer is counted when that ends.
  void give_gradient(LayerId layer, const Operation& operation) {
    const Value value{ValueKind::Gradient, layer};
    const std::size_t i = index(value);
    if (own_[i] > Bytes(0) || buffered_[i] > Bytes(0)) return;
    own_[i] = bytes(value, operation);
    net_ += own_[i];
  }

  void end_values(const LifeSet& life) {
    for (const Free& free : life.frees) {
      const std::size_t i = index(free.value);
      const Bytes own = ended(i);
      const Bytes held = own + buffered_[i];
      if (held == Bytes(0)) continue;
      if (free.value.kind != ValueKind::Gradient) walk_.ends(free.after, held);
      net_ -= own;
      buffered_[i] = Bytes(0);
    }
  }

  // What stays of a transfer when the last action that reads it ends.
  void end_transfers(const Action& action, std::size_t i) {
    for (TransferId id : program_.reads(action).transfers) {
      Transfer& transfer = program_.transfers[id.index()];
      if (transfer.is_keyed_by_version() || last_read_[id.index()] != i)
        continue;
      for (const Value& value : transfer.values) {
        Bytes& buffered = buffered_[index(value)];
        if (buffered == Bytes(0)) continue;
        const Bytes stays = slice(value, transfer);
        buffered -= stays;
        own_[index(value)] += stays;
        if (transfer.kind != TransferKind::Activation)
          net_ += stays;
        else if (!is_read_[id.index()])
          transfer.retained_by_reader += stays;
      }
    }
  }

  // A parameter that several layers share has a sum of gradients in each.
  void set_weights(Operation& operation) {
    for (LayerId layer : operation.backward)
      operation.gradients += inputs_.profile.parameter_bytes(layer);
    const StageDelay& delay = program_.delays[operation.stage.index()];
    operation.optimizer =
        weights_of(operation, inputs_.profile) *
        std::int64_t{inputs_.plan.optimizer_words + velocity_words(delay)};
  }

  Program& program_;
  const MemoryInputs& inputs_;
  LayerWalk walk_;
  const std::set<std::pair<TransferId, Value>>* at_maker_ = nullptr;

  // Of the current passage, by value: its own bytes, those of them from before
  // R made more, and those in buffers. Of I's gradients, by stage.
  std::vector<Bytes> own_, earlier_, buffered_, waiting_;
  Bytes net_;  // of the current action: what stays more than it found
  std::vector<StageId> reader_;         // by transfer: the first stage
  std::vector<std::size_t> last_read_;  // by transfer: the action

  // Already found.
  std::vector<bool> has_effect_;         // by life set
  std::vector<bool> is_sent_, is_read_;  // by transfer
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

int velocity_words(const StageDelay& delay) { return delay.averaging > 0; }

void set_memory_effects(Program& program, const MemoryInputs& inputs) {
  MemoryEffects(program, inputs).run();
}

}  // namespace pipewright
