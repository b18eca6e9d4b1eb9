#include "pipewright/runtime/execution/whole_step.h"

#include <algorithm>
#include <map>
#include <utility>

#include "pipewright/plan/program/execution.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// A graph of more keeps the thread that gives it busy for most of the step.
constexpr std::size_t kMaxKernels = 16384;

bool ends_step(ActionKind kind) {
  return kind == ActionKind::Reduce || kind == ActionKind::Step;
}

// Up to the first Reduce or Step.
std::size_t num_first_actions(const std::vector<Action>& body) {
  const auto first =
      std::find_if(body.begin(), body.end(),
                   [](const Action& action) { return ends_step(action.kind); });
  return static_cast<std::size_t>(first - body.begin());
}

bool is_step_last(const WorkerProgram& worker) {
  const auto first = worker.body.begin() + static_cast<std::ptrdiff_t>(
                                               num_first_actions(worker.body));
  return worker.prologue.empty() && worker.epilogue.empty() &&
         std::all_of(first, worker.body.end(), [](const Action& action) {
           return ends_step(action.kind);
         });
}

// Nodes of a joint recording, and which come before which. A worker's own come
// one after the other, so a number for each worker says which are before.
class NodeOrder {
 public:
  using Node = JointRecording::Node;
  using Counts = std::vector<std::size_t>;  // the first nodes of each worker

  explicit NodeOrder(std::size_t num_workers) : placed_(num_workers) {}

  // The next of the worker's. Up to which nodes: with itself.
  void add(WorkerId worker, Node node, const Counts& up_to) {
    placed_[worker.index()].push_back({node, up_to});
  }

  // Those of these nodes that no other of them follows.
  std::vector<Node> last_of(const Counts& counts) const {
    std::vector<Node> result;
    for (std::size_t w = 0; w < counts.size(); ++w)
      if (counts[w] > 0 && !is_followed(w, counts))
        result.push_back(last(w, counts).node);
    return result;
  }

 private:
  struct Placed {
    Node node;
    Counts up_to;
  };

  const Placed& last(std::size_t worker, const Counts& counts) const {
    return placed_[worker][counts[worker] - 1];
  }
  bool is_followed(std::size_t worker, const Counts& counts) const {
    for (std::size_t w = 0; w < counts.size(); ++w)
      if (w != worker && counts[w] > 0 &&
          last(w, counts).up_to[worker] >= counts[worker])
        return true;
    return false;
  }

  std::vector<std::vector<Placed>> placed_;  // by worker
};

}  // namespace

bool WholeStep::is_possible(const Program& program,
                            std::span<WorkerDevice* const> devices) {
  return devices.size() == program.workers.size() &&
         program.minibatches_outside == 0 &&
         std::all_of(program.workers.begin(), program.workers.end(),
                     is_step_last) &&
         std::all_of(devices.begin(), devices.end(),
                     [&](WorkerDevice* device) {
                       return device->place() == devices.front()->place();
                     }) &&
         devices.front()->joint_recording() != nullptr;
}

WholeStep::WholeStep(const Program& program, std::vector<WorkerDevice*> devices,
                     std::vector<const RecordedActions*> recorded)
    : program_(program),
      devices_(std::move(devices)),
      recorded_(std::move(recorded)),
      met_(static_cast<int>(devices_.size()) <= num_usable_cores()),
      phases_(devices_.size()),
      before_(devices_.size()) {
  for (const WorkerProgram& worker : program.workers)
    num_actions_.push_back(num_first_actions(worker.body));
}

void WholeStep::begin_run() {
  num_here_ = 0;
  is_cancelled_ = false;
}

void WholeStep::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  met_.happened();
}

template <class Work>
void WholeStep::meet(Work work) {
  std::unique_lock lock(mutex_);
  if (is_cancelled_) throw Cancelled();
  if (++num_here_ == devices_.size()) {
    work();
    num_here_ = 0;
    ++num_meetings_;
    met_.happened();
    return;
  }
  const std::size_t before = num_meetings_;
  met_.wait(lock, [&] { return is_cancelled_ || num_meetings_ != before; });
  if (num_meetings_ == before) throw Cancelled();
}

bool WholeStep::agree(WorkerId worker, RecordedActions::Phase phase) {
  phases_[worker.index()] = phase;
  meet([this] { decide(); });
  return is_agreed_;
}

void WholeStep::decide() {
  using Phase = RecordedActions::Phase;
  is_agreed_ = std::all_of(phases_.begin(), phases_.end(), [this](Phase each) {
    return each == phases_.front();
  });
  is_off_ =
      std::find(phases_.begin(), phases_.end(), Phase::Off) != phases_.end();
  const bool is_recorded = is_agreed_ && phases_.front() == Phase::Replay;
  if (is_recorded && is_decided_) return;
  is_decided_ = is_recorded;
  plain_ = nullptr;
  timed_ = nullptr;
  why_not_.clear();
  if (is_decided_) join();
}

void WholeStep::join() {
  std::size_t kernels = 0;
  for (std::size_t w = 0; w < recorded_.size(); ++w) {
    if (!recorded_[w]->is_self_contained()) {
      why_not_ = "messages or samples are large";
      return;
    }
    const std::vector<Action>& body = program_.workers[w].body;
    for (std::size_t place = 0; place < num_actions_[w]; ++place)
      if (is_compute(body[place].kind))
        kernels += recorded_[w]->recording(place).num_kernels();
  }
  if (kernels > kMaxKernels) {
    why_not_ = "a step has " + std::to_string(kernels) +
               " kernels, more than " + std::to_string(kMaxKernels);
    return;
  }
  try {
    timed_ = joined(true);
    plain_ = joined(false);
  } catch (const std::exception& error) {
    timed_ = nullptr;
    why_not_ = "the device cannot join actions: " + first_line(error);
  }
}

// A node follows the worker's own last one, and those that made the messages
// that it reads. An action without kernels is no node: what follows it follows
// what it would have followed.
std::unique_ptr<JointRecording> WholeStep::joined(bool is_timed) const {
  using Counts = NodeOrder::Counts;
  std::unique_ptr<JointRecording> joint = devices_.front()->joint_recording();
  NodeOrder order(devices_.size());
  std::vector<Counts> before(devices_.size(), Counts(devices_.size(), 0));
  std::map<std::pair<TransferId, std::int32_t>, Counts> sent;
  ExecutionState state(program_, 1, matched_messages(program_, 1));
  walk(state, [&](WorkerId worker, const Action& action) {
    Counts& own = before[worker.index()];
    if (action.kind == ActionKind::Send)
      sent[{action.transfer, program_.key(action)}] = own;
    if (!is_compute(action.kind)) return true;
    all_dependencies(program_, worker, action, [&](const Dependency& one) {
      if (!one.is_message()) return true;
      const Counts& maker = sent.at({one.transfer, one.key});
      for (std::size_t w = 0; w < own.size(); ++w)
        own[w] = std::max(own[w], maker[w]);
      return true;
    });
    WorkerDevice& device = *devices_[worker.index()];
    const std::vector<JointRecording::Node> after = order.last_of(own);
    if (is_timed) joint->add_stamp(device, after);
    const auto place = static_cast<std::size_t>(state.position(worker));
    const Recording& recording = recorded_[worker.index()]->recording(place);
    if (recording.num_kernels() > 0) {
      ++own[worker.index()];
      order.add(worker, joint->add(recording, after), own);
    }
    if (is_timed) joint->add_stamp(device, order.last_of(own));
    return true;
  });
  joint->end();
  return joint;
}

void WholeStep::run(WorkerId worker, bool is_timed,
                    std::span<Seconds* const> times) {
  WorkerDevice& own = *devices_[worker.index()];
  JointRecording& joint = is_timed ? *timed_ : *plain_;
  before_[worker.index()] = own.moment();
  meet([&] {
    WorkerDevice& first = *devices_.front();
    for (const MomentPointer& moment : before_) first.wait_for(moment);
    joint.replay(first);
    end_ = first.moment();
  });
  own.wait_for(end_);
  if (is_timed) joint.write_stamps(own, times);
}

}  // namespace pipewright
