#include "pipewright/simulate/timed_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

std::int32_t minibatch_of(std::int32_t microbatch, int per_minibatch) {
  const std::int32_t quotient = microbatch / per_minibatch;
  return microbatch % per_minibatch < 0 ? quotient - 1 : quotient;
}

const std::vector<Action>& section(const WorkerProgram& worker, int i) {
  return i == 0 ? worker.prologue : i == 1 ? worker.body : worker.epilogue;
}

// Keys with which something is made and read, relative to the base, and how
// often in the body: what sizes its ring.
struct KeyRange {
  std::int32_t made_until = std::numeric_limits<std::int32_t>::min();
  std::int32_t read_from = std::numeric_limits<std::int32_t>::max();
  std::int64_t made = 0, read = 0;

  void make(std::int32_t key) {
    made_until = std::max(made_until, key), ++made;
  }
  void take(std::int32_t key) { read_from = std::min(read_from, key), ++read; }
  // A power of two that no two keys alive at once can clash in: none is made
  // later than the newest made in its repetition, none is read that is older
  // than the oldest read in the repetition before.
  std::int32_t slots(int per_repetition) const {
    if (made == 0 || read == 0) return 1;
    const std::int64_t span =
        std::max<std::int64_t>(std::int64_t{made_until} - read_from, 0) + 1 +
        per_repetition;
    return static_cast<std::int32_t>(
        std::bit_ceil(static_cast<std::uint64_t>(span)));
  }
};

class Compiler {
 public:
  Compiler(const Program& program, const Costs& costs)
      : program_(program), costs_(costs), m_(program.num_microbatches) {
    code_.program = &program;
    code_.costs = &costs;
  }

  TimedCode compile() {
    check_costs();
    find_groups_of_weights();
    add_channels();
    add_reductions();
    reserve();
    for (int w = 0; w < program_.num_workers(); ++w) add_worker(w);
    place_rings();
    return std::move(code_);
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
    code_.needs.reserve(works);
    code_.actions.reserve(works);
    code_.action_seconds.reserve(works);
  }

  void check_costs() const {
    PIPEWRIGHT_CHECK(m_ >= 1, "a minibatch has at least one microbatch");
    PIPEWRIGHT_CHECK(costs_.operations.size() == program_.operations.size() &&
                         costs_.transfers.size() == program_.transfers.size() &&
                         costs_.reductions.size() == program_.reductions.size(),
                     "costs are not those of this program");
    for (const Costs::TransferCost& cost : costs_.transfers) {
      PIPEWRIGHT_CHECK(cost.bandwidth.value() > 0, "a link without bandwidth");
      check_seconds(cost.latency.value());
    }
    for (const SharedResource& resource : costs_.resources)
      PIPEWRIGHT_CHECK(resource.bandwidth.value() > 0,
                       "a shared resource without bandwidth");
    for (Seconds seconds : costs_.reductions) check_seconds(seconds.value());
  }

  static void check_seconds(double seconds) {
    PIPEWRIGHT_CHECK(seconds >= 0 && std::isfinite(seconds),
                     "a duration is negative or not finite");
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

  bool takes_latency_only(std::size_t t) const {
    return std::isinf(costs_.transfers[t].bandwidth.value()) &&
           costs_.transfers[t].uses.empty();
  }

  void add_channels() {
    std::map<std::tuple<WorkerId, WorkerId, TransferKind>, std::int32_t> known;
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) {
      const Transfer& transfer = program_.transfers[t];
      const Costs::TransferCost& cost = costs_.transfers[t];
      auto [place, is_new] =
          known.try_emplace({transfer.from, transfer.to, transfer.kind},
                            static_cast<std::int32_t>(code_.channels.size()));
      if (is_new)
        code_.channels.push_back(
            {transfer.from.value, transfer.to.value, transfer.kind, -1});
      TimedTransfer timed;
      timed.channel = place->second;
      timed.latency = cost.latency.value();
      timed.seconds_on_wire = (transfer.bytes / cost.bandwidth).value();
      check_seconds(timed.seconds_on_wire);
      code_.transfers.push_back(timed);
      if (!takes_latency_only(t)) add_to_wire(t, place->second);
    }
    ranges_.resize(code_.transfers.size() + program_.reductions.size());
  }

  // One wire per direction of a pair of workers, or per half-duplex pair.
  void add_to_wire(std::size_t t, std::int32_t channel) {
    const Transfer& transfer = program_.transfers[t];
    const Costs::TransferCost& cost = costs_.transfers[t];
    TimedChannel& way = code_.channels[at(channel)];
    if (way.wire < 0) {
      const bool half = cost.half_duplex_wire >= 0;
      auto [place, is_new] = wires_.try_emplace(
          half ? std::tuple(-1, -1, cost.half_duplex_wire)
               : std::tuple(transfer.from.value, transfer.to.value, -1),
          static_cast<std::int32_t>(code_.wires.size()));
      if (is_new) code_.wires.emplace_back();
      way.wire = place->second;
      code_.wires[at(way.wire)].channels.push_back(channel);
    }
    if (!cost.uses.empty()) code_.wires[at(way.wire)].shares = true;
  }

  void add_reductions() {
    for (std::size_t r = 0; r < program_.reductions.size(); ++r) {
      TimedReduction timed;
      timed.seconds = costs_.reductions[r].value();
      timed.parts = 0;
      timed.after = program_.reductions[r].after;
      code_.reductions.push_back(timed);
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
      add_section(w, timed.blocking, section(program_.workers[at(w)], s));
      timed.begin[s + 1] = static_cast<std::int32_t>(code_.ops.size());
      for (std::size_t i = first_op; s == 1 && i < code_.ops.size(); ++i)
        if (code_.ops[i].code == OpCode::Work)
          timed.body_seconds += code_.ops[i].seconds;
      for (const Action& action : section(program_.workers[at(w)], s))
        if (action.kind == ActionKind::Reduce)
          parts.emplace(action.index, action.stage.value);
    }
    for (auto [reduction, stage] : parts)
      ++code_.reductions[at(reduction)].parts;
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
    Op op;
    op.target = action.index;
    op.key = action.microbatch;
    if (action.kind == ActionKind::Reduce) {
      op.code = OpCode::Reduce;
      op.base = KeyBase::Repetition;
      op.key = minibatch_of(action.microbatch, m_);
      reduction_range(action.index).make(op.key);
    } else {
      const bool sends = action.kind == ActionKind::Send;
      op.code = sends ? OpCode::Send : OpCode::Receive;
      if (program_.transfers[at(action.index)].is_keyed_by_version()) {
        op.base = KeyBase::Repetition;
        op.key = action.version;
      }
      if (sends && blocking) op.seconds = seconds_of(action.index);
      if (!sends) ranges_[at(action.index)].make(op.key);
    }
    code_.ops.push_back(op);
  }

  double seconds_of(std::int32_t transfer) const {
    const TimedTransfer& timed = code_.transfers[at(transfer)];
    return timed.seconds_on_wire + timed.latency;
  }

  void add_work(int w, const std::vector<Action>& joined) {
    Op op;
    op.code = OpCode::Work;
    op.target = static_cast<std::int32_t>(code_.actions.size());
    op.num_actions = static_cast<std::int32_t>(joined.size());
    op.first_need = static_cast<std::int32_t>(code_.needs.size());
    for (const Action& action : joined) {
      const double seconds = seconds_of(w, action);
      op.seconds += seconds;
      code_.actions.push_back(action);
      code_.action_seconds.push_back(seconds);
      if (action.index >= 0) add_needs(action);
    }
    op.end_need = static_cast<std::int32_t>(code_.needs.size());
    code_.ops.push_back(op);
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
      need.blocks = seconds_of(t.value);
      if (program_.transfers[t.index()].is_keyed_by_version()) {
        need.base = KeyBase::Repetition;
        need.from_start = true;
        need.key = action.version + offset_of(reads, weights_group_[t.index()]);
      }
      ranges_[t.index()].take(need.key);
      code_.needs.push_back(need);
    }
    for (std::int32_t reduction : reads.reductions) {
      Need need;
      need.ring = reduction;  // its own number until rings have their place
      need.base = KeyBase::Repetition;
      need.key = minibatch_of(action.microbatch, m_);
      reduction_range(reduction).take(need.key);
      code_.needs.push_back(need);
    }
  }

  static std::int32_t offset_of(const ReadSet& reads, std::int32_t group) {
    for (const WeightRead& read : reads.weights)
      if (read.group == group) return read.offset;
    return 0;
  }

  KeyRange& reduction_range(std::int32_t reduction) {
    return ranges_[code_.transfers.size() + at(reduction)];
  }

  void place_rings() {
    std::int32_t next = 0;
    auto place = [&next](auto& timed, const KeyRange& range, int advance) {
      const std::int32_t slots = range.slots(advance);
      timed.ring = next;
      timed.mask = slots - 1;
      next += slots;
    };
    for (std::size_t t = 0; t < code_.transfers.size(); ++t) {
      const bool versions = program_.transfers[t].is_keyed_by_version();
      place(code_.transfers[t], ranges_[t], versions ? 1 : m_);
      if (ranges_[t].made > 0)
        code_.transfers[t].reads = static_cast<std::int32_t>(
            (ranges_[t].read + ranges_[t].made - 1) / ranges_[t].made);
    }
    for (std::size_t r = 0; r < code_.reductions.size(); ++r)
      place(code_.reductions[r], reduction_range(static_cast<std::int32_t>(r)),
            1);
    for (Need& need : code_.needs) {
      if (need.transfer >= 0) {
        need.mask = code_.transfers[at(need.transfer)].mask;
        need.ring = code_.transfers[at(need.transfer)].ring;
      } else {
        need.mask = code_.reductions[at(need.ring)].mask;
        need.ring = code_.reductions[at(need.ring)].ring;
      }
    }
    code_.num_slots = next;
  }

  const Program& program_;
  const Costs& costs_;
  const int m_;
  TimedCode code_;
  std::vector<std::int32_t> weights_group_;  // per transfer, or -1
  std::vector<KeyRange> ranges_;             // transfers, then reductions
  std::map<std::tuple<int, int, int>, std::int32_t> wires_;
};

}  // namespace

bool TimedCode::is_direct() const {
  return std::all_of(wires.begin(), wires.end(),
                     [](const Wire& wire) { return wire.is_direct(); });
}

TimedCode timed_code(const Program& program, const Costs& costs) {
  return Compiler(program, costs).compile();
}

}  // namespace pipewright
