// What each action does to tensors; when it may start is defined in
// execution.h.

#include "pipewright/runtime/reference/interpreter.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pipewright/plan/program/deadlock.h"
#include "pipewright/plan/program/execution.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/reference/interpreter_state.h"
#include "pipewright/runtime/training/initial_parameters.h"

namespace pipewright {
namespace {

class Interpreter {
 public:
  Interpreter(const Model& model, const Program& program,
              const TrainingSettings& settings, const MicrobatchSource& source,
              int minibatches)
      : network_(model),
        program_(program),
        settings_(settings),
        source_(source),
        minibatches_(minibatches),
        participants_(participants_of(program)) {
    const Tensors initial = initial_parameters(model, settings.seed);
    for (std::size_t w = 0; w < program.workers.size(); ++w) {
      InterpretedWorker& worker = workers_.emplace_back(model.num_layers());
      for (std::size_t g = 0; g < program.weight_groups.size(); ++g) {
        WeightHistory::Weights first;
        for (const LayerId layer : program.weight_groups[g].layers)
          for (const ParameterId id : model.layer(layer).parameters)
            first[id] = initial[id.index()].clone();
        worker.groups.emplace(WeightGroupId(g), first);
      }
      for (int l = 0; l < model.num_layers(); ++l)
        worker.statistics[LayerId(l)] =
            network_.functions[LayerId(l).index()]->initial_statistics();
    }
    losses_.resize(minibatches * program.num_microbatches);
  }

  Result<Trained> run() {
    const int repetitions = program_.repetitions(minibatches_);
    Messages messages;
    if (auto error = match_messages(program_, repetitions, messages))
      return *error;
    ExecutionState state(program_, repetitions, std::move(messages));
    walk(state, [this](WorkerId worker, const Action& action) {
      execute(worker, action);
      return true;
    });
    if (!state.is_finished()) return deadlock(state);
    return trained();
  }

 private:
  const ReadSet& reads(const Action& action) const {
    return program_.reads(action);
  }
  std::int32_t minibatch(const Action& action) const {
    return program_.minibatch_of(action.microbatch);
  }

  void execute(WorkerId id, const Action& action) {
    InterpretedWorker& worker = workers_[id.index()];
    if (is_compute(action.kind)) {
      take_arrivals(worker, action);
      const Operation& operation = *program_.operation(id, action.stage);
      if (action.kind == ActionKind::Forward)
        forward(worker, operation, operation.forward, action);
      else if (action.kind == ActionKind::Recompute)
        forward(worker, operation, operation.backward, action);
      else
        backward(worker, operation, action);
    } else if (action.kind == ActionKind::Send) {
      send(worker, action);
    } else if (action.kind == ActionKind::Reduce) {
      reduce(id, action);
    } else if (action.kind == ActionKind::Step) {
      step(worker, id, action);
    }
  }

  // An arrived value takes the place of an older sum of the same gradient.
  void take_arrivals(InterpretedWorker& worker, const Action& action) {
    std::set<Value> replaced;
    for (const TransferId id : reads(action).transfers) {
      const Transfer& transfer = program_.transfers[id.index()];
      if (transfer.is_keyed_by_version()) continue;
      if (!worker.taken.insert({id, action.microbatch}).second) continue;
      const auto& tensors = worker.arrived.at({id, action.microbatch});
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (replaced.insert(transfer.values[i]).second)
          worker.values.drop(transfer.values[i], action.microbatch);
        worker.values.add_piece(transfer.values[i], action.microbatch,
                                {transfer.first_sample, transfer.end_sample},
                                tensors[i]);
      }
    }
  }

  // steps_back > 0: extrapolated back along the velocity.
  Tensors weights(const InterpretedWorker& worker, LayerId layer,
                  const Action& action, double steps_back) const {
    Tensors result;
    for (const WeightRead& read : reads(action).weights) {
      const auto& layers = program_.weight_group(read.group).layers;
      if (std::find(layers.begin(), layers.end(), layer) == layers.end())
        continue;
      for (const ParameterId id : network_.model.layer(layer).parameters)
        result.push_back(
            worker.groups.at(read.group)
                .read(id, action.version + read.offset, steps_back));
    }
    return result;
  }

  at::Tensor output(const InterpretedWorker& worker, LayerId layer,
                    MicrobatchId m, Samples samples) const {
    const LayerId storage = network_.storage[layer.index()];
    return output_in(
        network_, layer,
        worker.values.read({ValueKind::Activation, storage}, m, samples).at(0));
  }

  void forward(InterpretedWorker& worker, const Operation& operation,
               const std::vector<LayerId>& layers, const Action& action) {
    const bool again = action.kind == ActionKind::Recompute;
    const Samples samples{operation.first_sample, operation.end_sample};
    const StageDelay& delay = program_.delays[action.stage.index()];
    const double steps_back =
        again && delay.corrected ? delay.forward - delay.recompute : 0;
    for (const LayerId id : layers) {
      const Layer& layer = network_.model.layer(id);
      Tensors inputs;
      for (const Source& from : layer.inputs)
        inputs.push_back(
            from.is_model_input()
                ? source_(from.input, action.microbatch.value)
                      .narrow(0, samples.first, samples.end - samples.first)
                : output(worker, from.layer, action.microbatch, samples));
      ForwardContext context{settings_.seed, action.microbatch.value,
                             samples.first, true, nullptr};
      Tensors& statistics = worker.statistics.at(id);
      if (!again && !statistics.empty()) context.statistics = &statistics;
      Forwarded done = network_.functions[id.index()]->forward(
          inputs, weights(worker, id, action, steps_back), context);
      if (is_loss(layer) && !again)
        losses_[action.microbatch.index()][samples.first] =
            done.output.item<double>() * operation.num_samples() /
            program_.microbatch;
      worker.values.replace({ValueKind::Private, id}, action.microbatch,
                            samples, private_value(network_, id, inputs, done));
      if (network_.storage[id.index()] == id)
        worker.values.replace({ValueKind::Activation, id}, action.microbatch,
                              samples, {done.output});
    }
  }

  void backward(InterpretedWorker& worker, const Operation& operation,
                const Action& action) {
    const Samples samples{operation.first_sample, operation.end_sample};
    for (auto at = operation.backward.rbegin(); at != operation.backward.rend();
         ++at) {
      if (!network_.model.needs_gradient(*at)) continue;
      Tensors own;
      if (network_.has_private(*at))
        own = worker.values.read({ValueKind::Private, *at}, action.microbatch,
                                 samples);
      const KeptTensors kept =
          kept_value(network_, *at, own, [&](LayerId other) {
            return output(worker, other, action.microbatch, samples);
          });
      if (action.kind != ActionKind::BackwardWeight)
        backward_input(worker, *at, kept, samples, action);
      if (action.kind != ActionKind::BackwardInput &&
          !network_.model.layer(*at).parameters.empty())
        backward_weight(worker, *at, kept, samples, action);
    }
  }

  void backward_input(InterpretedWorker& worker, LayerId id,
                      const KeptTensors& kept, Samples samples,
                      const Action& action) {
    const MicrobatchId m = action.microbatch;
    const Layer& layer = network_.model.layer(id);
    const Value value{ValueKind::Gradient, id};
    const StageDelay& delay = program_.delays[action.stage.index()];
    const double steps_back =
        delay.corrected ? delay.forward - delay.backward : 0;
    if (!network_.is_used[id.index()])
      worker.values.replace(value, m, samples,
                            {seed_gradient(layer, samples.end - samples.first,
                                           std::int64_t{program_.microbatch} *
                                               program_.num_microbatches)});
    Tensors gradient = {worker.values.read(value, m, samples).at(0)};
    Tensors carried;
    const Tensors of_inputs = network_.functions[id.index()]->backward_input(
        kept, weights(worker, id, action, steps_back), gradient[0], &carried);
    gradient.insert(gradient.end(), carried.begin(), carried.end());
    worker.values.replace(value, m, samples, gradient);
    for (std::size_t i = 0; i < of_inputs.size(); ++i)
      if (of_inputs[i].defined())
        add_to_sum(worker.values, {ValueKind::Gradient, layer.inputs[i].layer},
                   m, samples, of_inputs[i]);
  }

  void backward_weight(InterpretedWorker& worker, LayerId id,
                       const KeptTensors& kept, Samples samples,
                       const Action& action) {
    const Tensors gradient = worker.values.read({ValueKind::Gradient, id},
                                                action.microbatch, samples);
    const LayerFunction& function = *network_.functions[id.index()];
    const Tensors carried(gradient.begin() + 1, gradient.end());
    Tensors& sums = worker.gradients[{minibatch(action), id}];
    if (sums.empty())
      sums = function.backward_weight(kept, gradient[0], carried);
    else
      function.add_backward_weight(kept, gradient[0], carried, sums);
  }

  void send(InterpretedWorker& worker, const Action& action) {
    const Transfer& transfer = program_.transfer(action.transfer);
    InterpretedWorker& to = workers_[transfer.to.index()];
    if (transfer.is_keyed_by_version()) {
      to.groups.at(transfer.group)
          .install(action.version,
                   worker.groups.at(transfer.group).version(action.version));
      return;
    }
    auto& arrived = to.arrived[{action.transfer, action.microbatch}];
    for (const Value& value : transfer.values)
      arrived.push_back(value.kind == ValueKind::Gradient &&
                                !network_.model.needs_gradient(value.layer)
                            ? Tensors()
                            : worker.values.read(value, action.microbatch,
                                                 {transfer.first_sample,
                                                  transfer.end_sample}));
  }

  void reduce(WorkerId id, const Action& action) {
    auto& parts = parts_[{action.reduction, action.microbatch}];
    WorkerContributions own{id, {}};
    const Reduction& reduction = program_.reduction(action.reduction);
    InterpretedWorker& worker = workers_[id.index()];
    if (!reduction.is_norm)
      add_contributions(
          network_.model, reduction,
          [&](LayerId layer) {
            return worker.find_gradients(minibatch(action), layer);
          },
          own.contributions);
    for (const StageId stage : reduction.stages)
      if (const Operation* operation = program_.operation(id, stage);
          operation && reduction.is_norm)
        add_squares(gradients_of(worker, *operation, action,
                                 sums_read(reduction, id, program_)),
                    own.contributions);
    parts.push_back(std::move(own));
    if (static_cast<int>(parts.size()) ==
        participants_[action.reduction.index()].num_contributors())
      sums_[{action.reduction, action.microbatch}] =
          reduction_sums(program_.reduction(action.reduction), parts);
  }

  // Of the operation's parameters; those that are summed over workers anew.
  Gradients gradients_of(InterpretedWorker& worker, const Operation& operation,
                         const Action& action,
                         const std::vector<ReductionId>& reductions) {
    Gradients gradients(network_.model.parameters().size());
    add_own_gradients(
        network_.model, operation,
        [&](LayerId layer) {
          return worker.find_gradients(minibatch(action), layer);
        },
        gradients);
    for (const ReductionId r : reductions) {
      const Reduction& of = program_.reduction(r);
      for (std::size_t i = 0; i < of.parameters.size() && !of.is_norm; ++i)
        gradients[of.parameters[i].index()] =
            sums_.at({r, action.microbatch})[i];
    }
    return gradients;
  }

  void step(InterpretedWorker& worker, WorkerId id, const Action& action) {
    Gradients gradients =
        gradients_of(worker, *program_.operation(id, action.stage), action,
                     reads(action).reductions);
    for (const ReductionId r : reads(action).reductions)
      if (program_.reduction(r).is_norm)
        clip(gradients, sums_.at({r, action.microbatch})[0].item<double>(),
             settings_.max_norm);
    for (std::size_t g = 0; g < program_.weight_groups.size(); ++g)
      if (program_.weight_groups[g].owner == action.stage)
        worker.groups.at(WeightGroupId(g))
            .step(
                settings_,
                [&](ParameterId parameter) {
                  return step_rule(program_, action.stage, parameter);
                },
                gradients);
  }

  Trained trained() {
    Trained result;
    result.parameters.resize(network_.model.parameters().size());
    result.statistics.resize(network_.functions.size());
    for (const Operation& operation : program_.operations) {
      InterpretedWorker& worker = workers_[operation.worker.index()];
      for (const LayerId layer : operation.forward)
        if (auto& mine = result.statistics[layer.index()]; mine.empty())
          mine = worker.statistics.at(layer);
      for (std::size_t g = 0; g < program_.weight_groups.size(); ++g)
        if (program_.weight_groups[g].owner == operation.stage)
          for (const auto& [id, tensor] :
               worker.groups.at(WeightGroupId(g)).newest())
            if (!result.parameters[id.index()].defined())
              result.parameters[id.index()] = tensor;
    }
    for (const auto& parts : losses_) {
      double sum = 0;
      for (const auto& [first, part] : parts) sum += part;
      result.losses.push_back(sum);
    }
    return result;
  }

  Network network_;
  const Program& program_;
  const TrainingSettings& settings_;
  const MicrobatchSource& source_;
  const int minibatches_;
  const std::vector<Participants> participants_;
  std::vector<InterpretedWorker> workers_;
  // By reduction and the first microbatch of the minibatch.
  using ReductionKey = std::pair<ReductionId, MicrobatchId>;
  std::map<ReductionKey, std::vector<WorkerContributions>> parts_;
  std::map<ReductionKey, Tensors> sums_;
  // By microbatch: first sample and share of the loss.
  std::vector<std::map<std::int32_t, double>> losses_;
};

}  // namespace

Result<Trained> interpret(const Model& model, const Program& program,
                          const TrainingSettings& settings,
                          const MicrobatchSource& source, int minibatches) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  return Interpreter(model, program, settings, source, minibatches).run();
}

}  // namespace pipewright
