#include "pipewright/simulate/engine/compile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/execution.h"
#include "pipewright/plan/program/streaming.h"

namespace pipewright {
namespace {

const std::vector<Action>& section_of(const WorkerProgram& worker, int s) {
  return s == kPrologue ? worker.prologue
         : s == kBody   ? worker.body
                        : worker.epilogue;
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

bool is_work(const Action& action) {
  return is_compute(action.kind) || action.kind == ActionKind::Step;
}

// With which keys a transfer is made and read, relative to the base, and how
// often: what decides how many slots it needs.
struct KeyRange {
  std::int32_t made_until = std::numeric_limits<std::int32_t>::min();
  std::int32_t read_from = std::numeric_limits<std::int32_t>::max();
  std::int64_t made = 0, read = 0;

  void make(std::int32_t key) {
    made_until = std::max(made_until, key);
    ++made;
  }
  void take(std::int32_t key) {
    read_from = std::min(read_from, key);
    ++read;
  }

  // A power of two, so large that no two keys in use at once share a slot: none
  // is made later than the newest of its repetition, none is read that is older
  // than the oldest read in the repetition before.
  std::int32_t num_slots(int keys_per_repetition) const {
    if (made == 0 || read == 0) return 1;
    const std::int64_t span =
        std::max<std::int64_t>(std::int64_t{made_until} - read_from, 0) + 1 +
        keys_per_repetition;
    return static_cast<std::int32_t>(
        std::bit_ceil(static_cast<std::uint64_t>(span)));
  }
  std::int32_t num_readers() const {
    return made > 0 ? static_cast<std::int32_t>((read + made - 1) / made) : 1;
  }
};

class Compiler {
 public:
  Compiler(const Program& program, const Costs& costs,
           const CompileOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        cost_of_kind_(program.operations.size() * kKinds, -1),
        cost_of_life_(program.life_sets.size(), -1),
        cost_of_send_(program.transfers.size(), -1) {
    code_.program = &program;
    code_.network = make_timed_network(program, costs);
    code_.num_messages.resize(code_.network.channels.size());
    ranges_.resize(code_.network.transfers.size());
  }

  TimedCode compile() {
    for (const Reduction& reduction : program_.reductions)
      code_.num_contributions.push_back(
          static_cast<std::int32_t>(reduction.workers.size()));
    reserve();
    for (int w = 0; w < program_.num_workers(); ++w) add_worker(w);
    code_.needs.emplace_back();
    place_slots();
    return std::move(code_);
  }

 private:
  static constexpr std::size_t kKinds = 6;  // that compute, and steps

  // Growing step by step would take as long as compiling.
  void reserve() {
    std::size_t num_actions = 0, num_works = 0;
    for (const WorkerProgram& worker : program_.workers)
      for (int s = 0; s < 3; ++s) {
        const auto& actions = section_of(worker, s);
        num_actions += actions.size();
        for (const Action& action : actions) num_works += is_work(action);
      }
    code_.ops.reserve(num_actions);
    code_.needs.reserve(num_works + 1);
  }

  void add_worker(int w) {
    TimedWorker timed;
    timed_ = &timed;
    worker_ = w;
    if (w < static_cast<int>(costs_.blocking.size()))
      timed.blocking = costs_.blocking[w];
    PIPEWRIGHT_CHECK(timed.blocking >= 0 && timed.blocking <= 1,
                     "a share is not between 0 and 1");
    timed.begin[0] = num_ops();
    for (section_ = 0; section_ < 3; ++section_) {
      add_section(section_of(program_.workers[w], section_));
      timed.begin[section_ + 1] = num_ops();
    }
    code_.workers.push_back(timed);
  }

  void add_section(const std::vector<Action>& actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!is_work(actions[i])) {
        add_communication(actions, i);
      } else {
        add_work(actions, i);
        i += actions[i].joined;
      }
    }
  }

  void add_communication(const std::vector<Action>& actions, std::size_t i) {
    const Action& action = actions[i];
    Op op;
    if (action.kind == ActionKind::Reduce) {
      add_wait_for_sums(action);
      op.code = OpCode::Reduce;
      op.base = KeyBase::Repetition;
      op.target = action.reduction.value;
      op.key = program_.minibatch_of(action.microbatch);
      ranges_[code_.network.first_reduction + op.target].make(op.key);
    } else {
      const TimedTransfer& timed =
          code_.network.transfers[action.transfer.index()];
      op.base = timed.base;
      op.target = action.transfer.value;
      op.key = program_.key(action);
      if (action.kind == ActionKind::Receive) {
        op.code = OpCode::Receive;
        ranges_[op.target].make(op.key);
        ++code_.num_messages[timed.channel][section_];
      } else {
        op.code = streams(actions, i) ? OpCode::Stream : OpCode::Send;
        if (timed_->blocking > 0) op.cost = cost_of_send(op.target);
      }
    }
    code_.ops.push_back(op);
  }

  bool streams(const std::vector<Action>& actions, std::size_t send) const {
    return costs_.transfers[actions[send].transfer.index()].streams &&
           may_stream(program_, actions, send);
  }

  // A joined action and the next one are one op.
  void add_work(const std::vector<Action>& actions, std::size_t first) {
    const std::size_t end = first + (actions[first].joined ? 2 : 1);
    PIPEWRIGHT_CHECK(end <= actions.size(), "an action is joined with nothing");
    Op op;
    op.target = static_cast<std::int32_t>(first);
    op.key = static_cast<std::int32_t>(code_.needs.size());
    op.cost = end - first == 2 ? cost_of_pair(actions[first], actions[end - 1])
                               : cost_of(actions[first]);
    op.num_actions = static_cast<std::uint8_t>(end - first);
    for (std::size_t i = first; i < end; ++i)
      if (!actions[i].read_set.is_none()) add_needs(actions[i]);
    end_work(op);
    if (section_ == kBody) timed_->body_seconds += code_.seconds(op);
  }

  // Of the Reduce of a norm.
  void add_wait_for_sums(const Action& reduce) {
    const auto sums = sums_read(program_.reduction(reduce.reduction),
                                WorkerId(worker_), program_);
    if (sums.empty()) return;
    Op op;
    op.target = 0;
    op.key = static_cast<std::int32_t>(code_.needs.size());
    op.num_actions = 0;
    for (ReductionId sum : sums) add_need_of_reduction(sum, reduce);
    end_work(op);
  }

  // When its needs have been added.
  void end_work(Op op) {
    const std::size_t num_needs = code_.needs.size() - op.first_need();
    PIPEWRIGHT_CHECK(num_needs < 65536, "an action reads too many transfers");
    op.num_needs = static_cast<std::uint16_t>(num_needs);
    code_.ops.push_back(op);
    ++timed_->num_works[section_];
  }

  void add_needs(const Action& action) {
    const ReadSet& reads = program_.reads(action);
    for (TransferId t : reads.transfers) {
      Need need;
      need.transfer = t.value;
      need.key = key_read(program_.transfer(t), reads, action);
      need.base = code_.network.transfers[t.index()].base;
      if (need.base == KeyBase::Repetition) need.available_until = 0;
      add_need(need);
    }
    for (ReductionId reduction : reads.reductions)
      add_need_of_reduction(reduction, action);
  }

  void add_need_of_reduction(ReductionId reduction, const Action& action) {
    Need need;
    need.transfer = code_.network.first_reduction + reduction.value;
    need.base = KeyBase::Repetition;
    need.key = program_.minibatch_of(action.microbatch);
    add_need(need);
  }

  void add_need(const Need& need) {
    ranges_[need.transfer].take(need.key);
    code_.needs.push_back(need);
  }

  std::int32_t cost_of(const Action& action) {
    const std::size_t place =
        WorkerId(worker_).index() * program_.num_stages + action.stage.index();
    PIPEWRIGHT_CHECK(place < program_.operation_of.size() &&
                         !program_.operation_of[place].is_none(),
                     "a worker computes a stage that it does not have");
    const OperationId operation = program_.operation_of[place];
    const std::size_t kind = is_compute(action.kind)
                                 ? static_cast<std::size_t>(action.kind)
                                 : kKinds - 1;
    // Actions of one life set have operation and kind in common.
    std::int32_t& known = action.life_set.is_none()
                              ? cost_of_kind_[operation.index() * kKinds + kind]
                              : cost_of_life_[action.life_set.index()];
    if (known < 0) known = add_cost(new_cost(action, operation, kind));
    return known;
  }

  OpCost new_cost(const Action& action, OperationId operation,
                  std::size_t kind) const {
    const Costs::OperationCost& cost = costs_.operations[operation.index()];
    const bool computes = kind + 1 < kKinds;
    const double seconds =
        computes ? cost.compute[kind].value() : cost.step.value();
    check_seconds(seconds);
    if (!computes) return {seconds};
    const Effect& effect = program_.life(action).effect;
    return {seconds, effect.allocates.value(), effect.frees.value()};
  }

  std::int32_t cost_of_pair(const Action& first, const Action& second) {
    const std::pair pair(cost_of(first), cost_of(second));
    auto [known, is_new] = cost_of_pair_.try_emplace(pair, -1);
    if (!is_new) return known->second;
    const OpCost& a = code_.op_costs[pair.first];
    const OpCost& b = code_.op_costs[pair.second];
    return known->second =
               add_cost({a.seconds + b.seconds, a.allocates + b.allocates,
                         a.frees + b.frees});
  }

  std::int32_t cost_of_send(std::int32_t transfer) {
    std::int32_t& known = cost_of_send_[transfer];
    if (known < 0)
      known = add_cost(
          {timed_->blocking * code_.network.transfers[transfer].seconds()});
    return known;
  }

  std::int32_t add_cost(const OpCost& cost) {
    code_.op_costs.push_back(cost);
    return static_cast<std::int32_t>(code_.op_costs.size()) - 1;
  }

  void place_slots() {
    for (std::size_t t = 0; t < ranges_.size(); ++t) {
      const bool by_microbatch =
          code_.network.transfers[t].base == KeyBase::Microbatch;
      const int per_repetition = by_microbatch ? program_.num_microbatches : 1;
      const std::int32_t slots =
          ranges_[t].num_slots(options_.runs_once ? 0 : per_repetition);
      code_.slots.push_back({code_.num_slots, slots - 1});
      code_.num_readers.push_back(ranges_[t].num_readers());
      code_.num_slots += slots;
    }
  }

  std::int32_t num_ops() const {
    return static_cast<std::int32_t>(code_.ops.size());
  }

  const Program& program_;
  const Costs& costs_;
  const CompileOptions options_;
  TimedCode code_;
  std::vector<KeyRange> ranges_;  // per transfer and reduction
  // In op_costs, or -1: per operation and kind, per life set, per transfer, and
  // of two joined actions by their own.
  std::vector<std::int32_t> cost_of_kind_, cost_of_life_, cost_of_send_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> cost_of_pair_;
  int worker_ = 0, section_ = 0;  // what is being added
  TimedWorker* timed_ = nullptr;
};

}  // namespace

TimedCode compile(const Program& program, const Costs& costs,
                  const CompileOptions& options) {
  check_costs(program, costs);
  return Compiler(program, costs, options).compile();
}

}  // namespace pipewright
