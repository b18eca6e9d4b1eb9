#include "pipewright/simulate/timed_code.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/simulate/code_writer.h"
#include "pipewright/simulate/lead.h"
#include "pipewright/simulate/loading.h"
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
  check_seconds(costs.loading.seconds.value());
}

class Compiler {
 public:
  // `code` has its transfers.
  Compiler(const Program& program, const Costs& costs, int lead,
           TimedCode& code)
      : program_(program),
        costs_(costs),
        m_(program.num_microbatches),
        code_(code),
        writer_(code),
        lead_(lead, program.num_workers(), writer_, code),
        loading_(program, costs, writer_, code) {}

  void compile() {
    find_groups_of_weights();
    reserve();
    for (int w = 0; w < program_.num_workers(); ++w) add_worker(w);
    lead_.bound_unread();
    loading_.add_loaders();
    writer_.place_rings();
  }

 private:
  // Growing step by step would take as long as compiling.
  void reserve() {
    std::size_t actions = 0, works = 0;
    for (const WorkerProgram& worker : program_.workers)
      for (int s = 0; s < 3; ++s)
        for (const Action& action : section(worker, s)) {
          ++actions;
          works += is_compute(action.kind) || action.kind == ActionKind::Step;
        }
    code_.ops.reserve(actions);
    code_.needs.reserve(works + 1);
    code_.actions.reserve(works);
  }

  // A transfer of weights is read at the version of the group it belongs to.
  void find_groups_of_weights() {
    std::map<std::int32_t, std::int32_t> group_of_layer;
    for (std::size_t g = 0; g < program_.weight_groups.size(); ++g)
      for (LayerId layer : program_.weight_groups[g].layers)
        group_of_layer[layer.value] = static_cast<std::int32_t>(g);
    for (const Transfer& transfer : program_.transfers) {
      std::int32_t group = -1;
      if (transfer.is_keyed_by_version() && !transfer.values.empty()) {
        auto found = group_of_layer.find(transfer.values.front().layer.value);
        if (found != group_of_layer.end()) group = found->second;
      }
      weights_group_.push_back(group);
    }
  }

  void add_worker(int w) {
    TimedWorker timed;
    timed.blocking = at(w) < costs_.blocking.size() && costs_.blocking[at(w)];
    timed.begin[0] = static_cast<std::int32_t>(code_.ops.size());
    std::set<std::pair<std::int32_t, std::int32_t>>
        parts;  // (reduction, stage)
    for (int s = 0; s < 3; ++s) {
      const std::size_t first_op = code_.ops.size();
      if (s == 1) lead_.begin_body();
      add_section(w, timed.blocking, section(program_.workers[at(w)], s));
      if (s == 1) lead_.end_body();
      timed.begin[s + 1] = static_cast<std::int32_t>(code_.ops.size());
      for (std::size_t i = first_op; s == 1 && i < code_.ops.size(); ++i)
        if (code_.ops[i].code == OpCode::Work)
          timed.body_seconds += code_.seconds(code_.ops[i]);
      for (const Action& action : section(program_.workers[at(w)], s))
        if (action.kind == ActionKind::Reduce)
          parts.emplace(action.index, action.stage.value);
    }
    for (auto [reduction, stage] : parts)
      ++code_.transfers[at(code_.first_reduction + reduction)].parts;
    code_.workers.push_back(timed);
  }

  // Joined compute actions become one op. What stands between them moves out
  // of it: posts to its front, sends to its back.
  void add_section(int w, bool blocking, const std::vector<Action>& actions) {
    std::vector<Action> joined, sends;
    for (const Action& action : actions) {
      const bool works =
          is_compute(action.kind) || action.kind == ActionKind::Step;
      if (!works && !joined.empty() && action.kind != ActionKind::Receive) {
        sends.push_back(action);
      } else if (!works) {
        add_message(action, blocking);
      } else {
        joined.push_back(action);
        if (is_compute(action.kind) && action.joined) continue;
        add_work(w, joined);
        joined.clear();
        for (const Action& send : sends) add_message(send, blocking);
        sends.clear();
      }
    }
    if (!joined.empty()) add_work(w, joined);
    for (const Action& send : sends) add_message(send, blocking);
  }

  void add_message(const Action& action, bool blocking) {
    if (action.kind == ActionKind::Reduce)
      return writer_.add_part(action.index, minibatch_of(action.microbatch, m_),
                              KeyBase::Repetition);
    Op op;
    op.target = action.index;
    op.key = action.microbatch;
    if (program_.transfers[at(action.index)].is_keyed_by_version()) {
      op.base = KeyBase::Repetition;
      op.key = action.version;
    }
    writer_.add_message(
        op, action.kind == ActionKind::Send,
        blocking ? code_.transfers[at(action.index)].seconds() : 0);
  }

  void add_work(int w, const std::vector<Action>& joined) {
    const Op op = writer_.begin_work();
    double seconds = 0;
    for (const Action& action : joined) {
      seconds += seconds_of(w, action);
      code_.actions.push_back(action);
      if (action.index >= 0) add_needs(action);
      loading_.wait_for(w, action);
    }
    writer_.end_work(op, seconds);
    for (const Action& action : joined) loading_.take(w, action);
  }

  double seconds_of(int w, const Action& action) const {
    const std::size_t place =
        at(w) * at(program_.num_stages) + action.stage.index();
    PIPEWRIGHT_CHECK(place < program_.operation_of.size() &&
                         program_.operation_of[place] >= 0,
                     "a worker computes a stage that it does not have");
    const Costs::OperationCost& cost =
        costs_.operations[at(program_.operation_of[place])];
    const double seconds =
        is_compute(action.kind)
            ? cost.compute[static_cast<int>(action.kind)].value()
            : cost.step.value();
    check_seconds(seconds);
    return seconds;
  }

  void add_needs(const Action& action) {
    const ReadSet& reads = program_.read_sets[at(action.index)];
    for (TransferId t : reads.transfers) {
      Need need;
      need.transfer = t.value;
      need.key = action.microbatch;
      if (program_.transfers[t.index()].is_keyed_by_version()) {
        need.base = KeyBase::Repetition;
        need.there_until = 0;
        need.key = action.version + offset_of(reads, weights_group_[t.index()]);
      }
      writer_.add_need(need);
    }
    for (std::int32_t reduction : reads.reductions) {
      Need need;
      need.transfer = code_.first_reduction + reduction;
      need.base = KeyBase::Repetition;
      need.key = minibatch_of(action.microbatch, m_);
      writer_.add_need(need);
    }
  }

  static std::int32_t offset_of(const ReadSet& reads, std::int32_t group) {
    for (const WeightRead& read : reads.weights)
      if (read.group == group) return read.offset;
    return 0;
  }

  const Program& program_;
  const Costs& costs_;
  const int m_;
  TimedCode& code_;
  CodeWriter writer_;
  Lead lead_;
  Loading loading_;
  std::vector<std::int32_t> weights_group_;  // per transfer, or -1
};

}  // namespace

bool TimedCode::is_direct() const {
  return std::all_of(wires.begin(), wires.end(),
                     [](const Wire& wire) { return wire.is_direct(); });
}

TimedCode timed_code(const Program& program, const Costs& costs, int lead) {
  check_costs(program, costs);
  TimedCode code;
  code.program = &program;
  add_wires(program, costs, code);
  Compiler(program, costs, lead, code).compile();
  return code;
}

}  // namespace pipewright
