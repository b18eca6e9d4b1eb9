// References resolved; see worker_code.h.

#include "pipewright/runtime/execution/worker_code.h"

#include <algorithm>
#include <map>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/execution.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {
namespace {

bool is_forward(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::Recompute;
}

std::int64_t size_of(const std::vector<Action>& section) {
  return static_cast<std::int64_t>(section.size());
}

}  // namespace

WorkerCode::WorkerCode(const Network& network, const Program& program,
                       WorkerId worker, WorkerDevice& device)
    : network_(network),
      program_(program),
      worker_(worker),
      device_(device),
      group_of_layer_(network.costs.size()),
      num_prologue_(size_of(program.workers[worker.index()].prologue)),
      num_body_(size_of(program.workers[worker.index()].body)) {
  for (std::size_t g = 0; g < program.weight_groups.size(); ++g)
    for (const LayerId layer : program.weight_groups[g].layers)
      group_of_layer_[layer.index()] = WeightGroupId(g);
}

void WorkerCode::prepare(int repetitions) {
  PIPEWRIGHT_CHECK(repetitions >= 0,
                   "too few minibatches to fill and drain the pipeline, it "
                   "takes at least " +
                       std::to_string(program_.minibatches_outside));
  end_of_body_ = num_prologue_ + repetitions * num_body_;
  if (codes_.empty()) compile();
}

void WorkerCode::compile() {
  std::map<Action, std::size_t> known;
  const WorkerProgram& own = program_.workers[worker_.index()];
  for (const auto* section : {&own.prologue, &own.body, &own.epilogue})
    for (Action action : *section) {
      action.microbatch = MicrobatchId(0);
      action.version = 0;
      const auto [found, is_new] = known.emplace(action, codes_.size());
      if (is_new) codes_.push_back(action_code(action));
      index_.push_back(found->second);
    }
}

std::size_t WorkerCode::place_in_sections(std::int64_t position) const {
  std::int64_t place = position;
  if (position >= end_of_body_)
    place = num_prologue_ + num_body_ + (position - end_of_body_);
  else if (position >= num_prologue_)
    place = num_prologue_ + (position - num_prologue_) % num_body_;
  return place;
}

ActionCode WorkerCode::action_code(const Action& action) const {
  ActionCode code;
  code.takes = program_.life(action).takes;
  if (action.kind == ActionKind::Step)
    code.reductions = program_.reads(action).reductions;
  if (action.kind == ActionKind::Reduce)
    code.reductions =
        sums_read(program_.reduction(action.reduction), worker_, program_);
  if (is_compute(action.kind)) {
    const Operation& operation = *program_.operation(worker_, action.stage);
    const StageDelay& delay = program_.delays[action.stage.index()];
    code.samples = {operation.first_sample, operation.end_sample};
    if (delay.corrected && action.kind == ActionKind::Recompute)
      code.steps_back = delay.forward - delay.recompute;
    if (delay.corrected && !is_forward(action.kind))
      code.steps_back = delay.forward - delay.backward;
    add_layers(action, operation, code);
    add_arrivals(action, code);
  }
  add_frees(action, code);
  return code;
}

void WorkerCode::add_layers(const Action& action, const Operation& operation,
                            ActionCode& code) const {
  if (is_forward(action.kind)) {
    for (const LayerId id : action.kind == ActionKind::Forward
                                ? operation.forward
                                : operation.backward)
      code.layers.push_back(layer_code(id, action, operation));
    code.draws = std::any_of(
        code.layers.begin(), code.layers.end(),
        [](const LayerCode& layer) { return layer.function->draws(); });
    return;
  }
  for (auto at = operation.backward.rbegin(); at != operation.backward.rend();
       ++at) {
    const bool has_work = action.kind != ActionKind::BackwardWeight ||
                          !network_.model.layer(*at).parameters.empty();
    if (network_.model.needs_gradient(*at) && has_work)
      code.layers.push_back(layer_code(*at, action, operation));
  }
}

LayerCode WorkerCode::layer_code(LayerId id, const Action& action,
                                 const Operation& operation) const {
  LayerCode code;
  code.id = id;
  code.function = network_.functions[id.index()].get();
  code.layer = &network_.model.layer(id);
  code.cost = &network_.costs[id.index()];
  code.is_loss = is_loss(*code.layer);
  code.has_private = network_.has_private(id);
  code.has_storage = network_.storage[id.index()] == id;
  code.has_parameters = !code.layer->parameters.empty();
  if (!is_forward(action.kind) && !network_.is_used[id.index()])
    code.seed = device_.bring(seed_gradient(
        *code.layer, operation.num_samples(),
        std::int64_t{program_.microbatch} * program_.num_microbatches));
  const ReadSet& set = program_.reads(action);
  for (const WeightRead& read : set.weights)
    if (read.group == group_of_layer_[id.index()])
      code.version_offset = read.offset;
  return code;
}

void WorkerCode::add_arrivals(const Action& action, ActionCode& code) const {
  const ReadSet& set = program_.reads(action);
  for (const TransferId id : set.transfers) {
    const Transfer& transfer = program_.transfers[id.index()];
    if (!transfer.is_keyed_by_version()) continue;
    for (const WeightRead& read : set.weights)
      if (read.group == transfer.group)
        code.arrivals.push_back({id, read.group, read.offset});
  }
}

// A profile may name layers that the model does not run backward: what would go
// after those goes at the end.
void WorkerCode::add_frees(const Action& action, ActionCode& code) const {
  std::size_t next = 0;
  for (const Free& free : program_.life(action).frees) {
    if (!is_held(free.value)) continue;
    std::size_t i = next;
    while (i < code.layers.size() && code.layers[i].id != free.after) ++i;
    if (i < code.layers.size()) next = i;
    (i < code.layers.size() ? code.layers[i].frees : code.frees)
        .push_back(free.value);
  }
}

// A life set names a private value for every layer.
bool WorkerCode::is_held(const Value& value) const {
  return value.kind != ValueKind::Private || network_.has_private(value.layer);
}

}  // namespace pipewright
