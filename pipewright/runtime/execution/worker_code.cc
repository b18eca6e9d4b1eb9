// References resolved; see worker_code.h.

#include "pipewright/runtime/execution/worker_code.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/execution.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {
namespace {

struct Range {
  std::int32_t lowest = std::numeric_limits<std::int32_t>::max();
  std::int32_t highest = std::numeric_limits<std::int32_t>::min();
  bool is_empty() const { return lowest > highest; }
};

Range microbatches(const std::vector<Action>& actions) {
  Range range;
  for (const Action& action : actions) {
    range.lowest = std::min(range.lowest, action.microbatch);
    range.highest = std::max(range.highest, action.microbatch);
  }
  return range;
}

int reach_of(const Program& program, WorkerId worker) {
  const WorkerProgram& code = program.workers[worker.index()];
  const Range body = microbatches(code.body);
  if (body.is_empty()) return 1;
  const Range before = microbatches(code.prologue);
  const Range behind = microbatches(code.epilogue);
  std::int32_t most = body.highest - body.lowest;
  if (!before.is_empty()) most = std::max(most, before.highest - body.lowest);
  if (!behind.is_empty()) most = std::max(most, body.highest - behind.lowest);
  return most / program.num_microbatches + 2;
}

bool is_forward(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::Recompute;
}

std::int64_t size_of(const std::vector<Action>& section) {
  return static_cast<std::int64_t>(section.size());
}

}  // namespace

WorkerCode::WorkerCode(const Network& network, const Program& program,
                       WorkerId worker)
    : network_(network),
      program_(program),
      worker_(worker),
      group_of_layer_(static_cast<std::size_t>(network.model.num_layers())),
      num_prologue_(size_of(program.workers[worker.index()].prologue)),
      num_body_(size_of(program.workers[worker.index()].body)),
      reach_(reach_of(program, worker)) {
  for (std::size_t g = 0; g < program.weight_groups.size(); ++g)
    for (const LayerId layer : program.weight_groups[g].layers)
      group_of_layer_[layer.index()] = WeightGroupId(g);
}

// A repetition at least `reach` away from both ends shares microbatches with
// the body alone, and the code of all such is the same.
std::size_t WorkerCode::window_position(std::int64_t position) const {
  const std::int64_t in_body = position - num_prologue_;
  if (in_body < 0 || window_ == repetitions_)
    return static_cast<std::size_t>(position);
  const std::int64_t repetition = num_body_ > 0 ? in_body / num_body_ : 0;
  const std::int64_t skipped = repetitions_ - window_;
  if (repetition < reach_) return static_cast<std::size_t>(position);
  const std::int64_t moved =
      std::min<std::int64_t>(repetition - reach_, skipped);
  return static_cast<std::size_t>(position - moved * num_body_);
}

void WorkerCode::prepare(int repetitions) {
  PIPEWRIGHT_CHECK(repetitions >= 0,
                   "too few minibatches to fill and drain the pipeline, it "
                   "takes at least " +
                       std::to_string(program_.minibatches_outside));
  const int window = std::min(repetitions, 2 * reach_ + 1);
  repetitions_ = repetitions;
  if (window == window_) return;
  window_ = window;
  const std::vector<Action> actions =
      unrolled(program_, worker_, window + program_.minibatches_outside);
  const Lifetimes lifetimes(network_, program_, worker_, actions);
  using Key = std::tuple<ActionKind, StageId, ReadSetId, TransferId,
                         ReductionId, const ActionLife*>;
  std::map<Key, std::int32_t> known;
  codes_.clear();
  index_.clear();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const ActionLife& life = lifetimes.of(i);
    const auto [found, is_new] =
        known.emplace(Key(action.kind, action.stage, action.read_set,
                          action.transfer, action.reduction, &life),
                      static_cast<std::int32_t>(codes_.size()));
    if (is_new) codes_.push_back(made(action, life));
    index_.push_back(found->second);
  }
}

ActionCode WorkerCode::made(const Action& action,
                            const ActionLife& life) const {
  ActionCode code;
  code.takes = life.takes;
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
  place_frees(action, life.frees, code);
  return code;
}

void WorkerCode::add_layers(const Action& action, const Operation& operation,
                            ActionCode& code) const {
  if (is_forward(action.kind)) {
    for (const LayerId id : action.kind == ActionKind::Forward
                                ? operation.forward
                                : operation.backward)
      code.layers.push_back(layer_code(id, action, operation));
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
    code.seed = seed_gradient(
        *code.layer, operation.num_samples(),
        std::int64_t{program_.microbatch} * program_.num_microbatches);
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

// Each behind the last layer that touches it: what is freed early is in a near
// cache when it is allocated again.
void WorkerCode::place_frees(const Action& action,
                             const std::vector<Value>& frees,
                             ActionCode& code) const {
  std::map<Value, std::size_t> last;
  for (std::size_t i = 0; i < code.layers.size(); ++i)
    for (const Value& value :
         touched_values(network_, code.layers[i].id, action.kind))
      last[value] = i;
  for (const Value& value : frees) {
    const auto found = last.find(value);
    (found == last.end() ? code.frees : code.layers[found->second].frees)
        .push_back(value);
  }
}

}  // namespace pipewright
