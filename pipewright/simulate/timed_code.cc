#include "pipewright/simulate/timed_code.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/simulate/code_writer.h"
#include "pipewright/simulate/timed_wires.h"

namespace pipewright {
namespace {

std::int32_t minibatch_of(std::int32_t microbatch, int per_minibatch) {
  const std::int32_t quotient = microbatch / per_minibatch;
  return microbatch % per_minibatch < 0 ? quotient - 1 : quotient;
}

const std::vector<Action>& section(const WorkerProgram& worker, int i) {
  return i == 0 ? worker.prologue : i == 1 ? worker.body : worker.epilogue;
}

void check_seconds(double seconds) {
  PIPEWRIGHT_CHECK(seconds >= 0 && std::isfinite(seconds),
                   "a duration is negative or not finite");
}

void check_costs(const Program& program, const Costs& costs) {
  PIPEWRIGHT_CHECK(program.num_microbatches >= 1,
                   "a minibatch has at least one microbatch");
  PIPEWRIGHT_CHECK(costs.operations.size() == program.operations.size() &&
                       costs.transfers.size() == program.transfers.size() &&
                       costs.reductions.size() == program.reductions.size(),
                   "costs are not those of this program");
  for (const Costs::TransferCost& cost : costs.transfers) {
    PIPEWRIGHT_CHECK(cost.bandwidth.value() > 0, "a link without bandwidth");
    check_seconds(cost.latency.value());
  }
  for (const SharedResource& resource : costs.resources)
    PIPEWRIGHT_CHECK(resource.bandwidth.value() > 0,
                     "a shared resource without bandwidth");
  for (const Costs::ReductionCost& cost : costs.reductions) {
    PIPEWRIGHT_CHECK(cost.bandwidth.value() > 0, "a ring without bandwidth");
    check_seconds(cost.latency.value());
  }
}

bool works(const Action& action) {
  return is_compute(action.kind) || action.kind == ActionKind::Step;
}

// What a worker does in one piece: all actions of `section` from `first` on and
// before `end` that work. Others may stand between them.
struct Piece {
  const std::vector<Action>& section;
  std::size_t first, end;
};

class Compiler {
 public:
  // `code` has its transfers.
  Compiler(const Program& program, const Costs& costs,
           const TimedCodeOptions& options, TimedCode& code)
      : program_(program),
        costs_(costs),
        options_(options),
        m_(program.num_microbatches),
        code_(code),
        writer_(code),
        cost_of_kind_(program.operations.size() * kKinds, -1),
        cost_of_send_(program.transfers.size(), -1) {}

  void compile() {
    find_groups_of_weights();
    reserve();
    for (int w = 0; w < program_.num_workers(); ++w) add_worker(w);
    writer_.place_rings(options_);
  }

 private:
  static constexpr std::size_t kKinds = 6;  // that compute, and steps

  // Growing step by step would take as long as compiling.
  void reserve() {
    std::size_t actions = 0, needs = 1;
    for (const WorkerProgram& worker : program_.workers)
      for (int s = 0; s < 3; ++s) {
        actions += section(worker, s).size();
        for (const Action& action : section(worker, s))
          needs += works(action) ? 1 : 0;
      }
    code_.ops.reserve(actions);
    code_.needs.reserve(needs);
  }

  // A transfer of weights is read at the version of the group it belongs to.
  void find_groups_of_weights() {
    std::map<LayerId, WeightGroupId> group_of_layer;
    for (std::size_t g = 0; g < program_.weight_groups.size(); ++g)
      for (LayerId layer : program_.weight_groups[g].layers)
        group_of_layer[layer] = WeightGroupId(g);
    for (const Transfer& transfer : program_.transfers) {
      WeightGroupId group;
      if (transfer.is_keyed_by_version() && !transfer.values.empty()) {
        auto found = group_of_layer.find(transfer.values.front().layer);
        if (found != group_of_layer.end()) group = found->second;
      }
      weights_group_.push_back(group);
    }
  }

  void add_worker(int w) {
    TimedWorker timed;
    timed_ = &timed;
    timed.blocking = at(w) < costs_.blocking.size() && costs_.blocking[at(w)];
    timed.begin[0] = writer_.num_ops();
    worker_ = w;
    parts_.clear();
    for (int s = 0; s < 3; ++s) {
      section_ = s;
      add_section(section(program_.workers[at(w)], s));
      timed.begin[s + 1] = writer_.num_ops();
    }
    for (auto [reduction, stage] : parts_)
      ++code_.transfers[at(code_.first_reduction + reduction.value)].parts;
    code_.workers.push_back(timed);
  }

  void add_section(const std::vector<Action>& actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (!works(action))
        add_message(action);
      else if (is_compute(action.kind) && action.joined)
        i = add_joined(actions, i);
      else
        add_work({actions, i, i + 1}, cost_of(action));
    }
  }

  // Joined compute actions become one op. What stands between them moves out
  // of it: posts to its front, the rest to its back. Answers with its last.
  std::size_t add_joined(const std::vector<Action>& actions,
                         std::size_t first) {
    std::size_t end = first;
    std::vector<std::int32_t> costs;
    for (bool goes_on = true; goes_on && end < actions.size(); ++end) {
      const Action& action = actions[end];
      if (works(action)) costs.push_back(cost_of(action));
      if (action.kind == ActionKind::Receive) add_message(action);
      goes_on = !works(action) || (is_compute(action.kind) && action.joined);
    }
    add_work({actions, first, end}, cost_of(costs));
    for (std::size_t i = first; i < end; ++i)
      if (!works(actions[i]) && actions[i].kind != ActionKind::Receive)
        add_message(actions[i]);
    return end - 1;
  }

  void add_message(const Action& action) {
    if (action.kind == ActionKind::Reduce) {
      parts_.emplace(action.reduction, action.stage);
      return writer_.add_part(action.reduction.value,
                              minibatch_of(action.microbatch, m_),
                              KeyBase::Repetition);
    }
    Op op;
    op.target = action.transfer.value;
    op.key = action.microbatch;
    const TimedTransfer& timed = code_.transfers[action.transfer.index()];
    if (timed.base == KeyBase::Repetition) {
      op.base = KeyBase::Repetition;
      op.key = action.version;
    }
    if (action.kind == ActionKind::Receive) {
      ++code_.channels[at(timed.channel)].num_messages[section_];
      return writer_.add_receive(op);
    }
    if (timed_->blocking) op.cost = cost_of_send(action.transfer.value);
    writer_.add_send(op);
  }

  void add_work(const Piece& piece, std::int32_t cost) {
    Op op = writer_.begin_work();
    op.target = static_cast<std::int32_t>(piece.first);
    op.cost = cost;
    for (std::size_t i = piece.first; i < piece.end; ++i) {
      const Action& action = piece.section[i];
      if (!works(action)) continue;
      PIPEWRIGHT_CHECK(op.num_actions < 255, "too many actions are joined");
      ++op.num_actions;
      if (!action.read_set.is_none()) add_needs(action);
    }
    writer_.end_work(op);
    ++timed_->num_works[section_];
    if (section_ == 1) timed_->body_seconds += code_.seconds(op);
  }

  std::int32_t cost_of(const Action& action) {
    const std::size_t place =
        at(worker_) * at(program_.num_stages) + action.stage.index();
    PIPEWRIGHT_CHECK(place < program_.operation_of.size() &&
                         program_.operation_of[place] >= 0,
                     "a worker computes a stage that it does not have");
    const std::size_t operation = at(program_.operation_of[place]);
    const auto kind = is_compute(action.kind)
                          ? static_cast<std::size_t>(action.kind)
                          : kKinds - 1;
    std::int32_t& known = cost_of_kind_[operation * kKinds + kind];
    if (known < 0) known = writer_.add_cost(new_cost(operation, kind));
    return known;
  }

  OpCost new_cost(std::size_t operation, std::size_t kind) const {
    const Costs::OperationCost& cost = costs_.operations[operation];
    const bool computes = kind + 1 < kKinds;
    const double seconds =
        computes ? cost.compute[kind].value() : cost.step.value();
    check_seconds(seconds);
    if (!computes) return {seconds};
    const Effect& effect = program_.operations[operation].effects[kind];
    return {seconds, effect.allocates.value(), effect.frees.value()};
  }

  std::int32_t cost_of(const std::vector<std::int32_t>& joined) {
    auto [known, is_new] = cost_of_joined_.try_emplace(joined, -1);
    if (!is_new) return known->second;
    OpCost sum;
    for (std::int32_t cost : joined) {
      const OpCost& one = code_.op_costs[at(cost)];
      sum.seconds += one.seconds;
      sum.allocates += one.allocates;
      sum.frees += one.frees;
    }
    return known->second = writer_.add_cost(sum);
  }

  std::int32_t cost_of_send(std::int32_t transfer) {
    std::int32_t& known = cost_of_send_[at(transfer)];
    if (known < 0)
      known = writer_.add_cost({code_.transfers[at(transfer)].seconds()});
    return known;
  }

  void add_needs(const Action& action) {
    const ReadSet& reads = program_.reads(action);
    for (TransferId t : reads.transfers) {
      Need need;
      need.transfer = t.value;
      need.key = action.microbatch;
      if (code_.transfers[t.index()].base == KeyBase::Repetition) {
        need.base = KeyBase::Repetition;
        need.there_until = 0;
        need.key = action.version + offset_of(reads, weights_group_[t.index()]);
      }
      writer_.add_need(need);
    }
    for (ReductionId reduction : reads.reductions) {
      Need need;
      need.transfer = code_.first_reduction + reduction.value;
      need.base = KeyBase::Repetition;
      need.key = minibatch_of(action.microbatch, m_);
      writer_.add_need(need);
    }
  }

  static std::int32_t offset_of(const ReadSet& reads, WeightGroupId group) {
    for (const WeightRead& read : reads.weights)
      if (read.group == group) return read.offset;
    return 0;
  }

  const Program& program_;
  const Costs& costs_;
  const TimedCodeOptions options_;
  const int m_;
  TimedCode& code_;
  CodeWriter writer_;
  std::vector<WeightGroupId> weights_group_;  // per transfer
  // In op_costs, or -1: per operation and kind, per transfer, of joined ones.
  std::vector<std::int32_t> cost_of_kind_, cost_of_send_;
  std::map<std::vector<std::int32_t>, std::int32_t> cost_of_joined_;
  int worker_ = 0, section_ = 0;  // what is being added
  TimedWorker* timed_ = nullptr;
  std::set<std::pair<ReductionId, StageId>> parts_;
};

}  // namespace

bool TimedCode::is_direct() const {
  return std::all_of(wires.begin(), wires.end(),
                     [](const Wire& wire) { return wire.is_direct(); });
}

TimedCode timed_code(const Program& program, const Costs& costs,
                     const TimedCodeOptions& options) {
  check_costs(program, costs);
  TimedCode code;
  code.program = &program;
  add_wires(program, costs, code);
  Compiler(program, costs, options, code).compile();
  return code;
}

}  // namespace pipewright
