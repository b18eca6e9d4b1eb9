#include "pipewright/plan/schedule/schedule_check.h"

#include <cstdint>
#include <limits>

#include "pipewright/plan/schedule/schedule_grid.h"
#include "pipewright/plan/schedule/schedule_progress.h"

namespace pipewright {
namespace {

// What an action is, with both kinds of backward that the stage before waits
// for in one class.
enum Phase {
  kForward,
  kRecompute,
  kBackward,
  kWeight,
  kNumPhases
};

Phase phase_of(ComputeKind kind) {
  switch (kind) {
    case ComputeKind::Forward:
      return kForward;
    case ComputeKind::Recompute:
      return kRecompute;
    case ComputeKind::BackwardWeight:
      return kWeight;
    default:
      return kBackward;
  }
}

class Checker {
 public:
  Checker(int num_stages, int num_microbatches,
          const ScheduleSections& sections)
      : num_stages_(num_stages),
        num_microbatches_(num_microbatches),
        sections_(sections) {}

  std::optional<Error> fault() {
    if (auto error = shape_fault()) return error;
    run_ = unrolled(sections_, num_microbatches_, 1);
    if (auto error = action_fault()) return error;
    if (auto error = size_fault()) return error;
    if (auto error = body_fault()) return error;
    for (std::size_t w = 0; w < run_.size(); ++w)
      if (auto error = order_fault(WorkerId(w))) return error;
    if (auto error = coverage_fault()) return error;
    if (auto error = section_fault()) return error;
    return progress_fault(num_stages_, run_length_, run_);
  }

 private:
  std::size_t num_cells() const {
    return cell(StageId(num_stages_), MicrobatchId(0));
  }
  std::size_t cell(StageId stage, MicrobatchId microbatch) const {
    return stage.index() * run_length_ + microbatch.index();
  }
  std::size_t cell(const ComputeAction& action) const {
    return cell(action.stage, action.microbatch);
  }
  std::size_t body_cell(std::size_t phase, StageId stage, int place) const {
    return (phase * num_stages_ + stage.index()) * num_microbatches_ + place;
  }
  // In its minibatch.
  int place_of(MicrobatchId microbatch) const {
    return microbatch.value % num_microbatches_;
  }
  int minibatch_of(MicrobatchId microbatch) const {
    return microbatch.value / num_microbatches_;
  }

  const std::vector<ComputeAction>& order_of(WorkerId worker) const {
    return run_[worker.index()];
  }
  Error at(WorkerId worker, std::size_t position,
           const std::string& why) const {
    return malformed("worker " + std::to_string(worker.value) + ", action " +
                     to_text(order_of(worker)[position]) + ": " + why +
                     drawn(run_, {{worker, position}}));
  }

  std::optional<Error> shape_fault() {
    if (num_stages_ < 1 || num_microbatches_ < 1 ||
        sections_.minibatches_outside < 0 || sections_.body.empty())
      return malformed(
          "a schedule needs at least one stage, one microbatch and one worker");
    for (const Orders* orders : {&sections_.prologue, &sections_.epilogue})
      if (!orders->empty() && orders->size() != sections_.body.size())
        return malformed(
            "the body has " + std::to_string(sections_.body.size()) +
            " workers, another section " + std::to_string(orders->size()));
    const auto length =
        (static_cast<std::int64_t>(sections_.minibatches_outside) + 1) *
        num_microbatches_;
    if (length > std::numeric_limits<std::int32_t>::max() / 2)
      return malformed("too many microbatches: " + std::to_string(length));
    run_length_ = static_cast<int>(length);
    return std::nullopt;
  }

  // Everything that one action and its neighbour show by themselves.
  std::optional<Error> action_fault() const {
    for (WorkerId w(0); w.index() < run_.size(); ++w.value) {
      const auto& order = order_of(w);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const ComputeAction& a = order[i];
        if (a.stage.is_none() || a.stage.value >= num_stages_)
          return at(w, i, "stages are 0 to " + std::to_string(num_stages_ - 1));
        if (a.microbatch.is_none() || a.microbatch.value >= run_length_)
          return at(w, i,
                    "microbatches are 0 to " + std::to_string(run_length_ - 1));
        if (a.joined && i + 1 == section_end(w, i))
          return at(w, i, "joined, but nothing follows in its section");
        if (a.joined && order[i + 1].joined)
          return at(w, i, "only two actions can be joined");
      }
    }
    return std::nullopt;
  }

  // Keeps tables linear in the actions: a schedule that lacks most of them is
  // refused before there is a table that would tell which.
  std::optional<Error> size_fault() const {
    std::size_t actions = 0;
    for (const auto& order : run_) actions += order.size();
    const auto cells = static_cast<std::uint64_t>(num_stages_) *
                       static_cast<std::uint64_t>(run_length_);
    if (4 * actions + 1000 >= 2 * cells) return std::nullopt;
    return malformed("there are " + std::to_string(actions) + " actions, but " +
                     std::to_string(num_stages_) + " stages and " +
                     std::to_string(run_length_) +
                     " microbatches need at least " +
                     std::to_string(2 * cells));
  }

  std::size_t prologue_end(WorkerId worker) const {
    const Orders& prologue = sections_.prologue;
    return prologue.empty() ? 0 : prologue[worker.index()].size();
  }
  std::size_t body_end(WorkerId worker) const {
    return prologue_end(worker) + sections_.body[worker.index()].size();
  }
  std::size_t section_end(WorkerId worker, std::size_t position) const {
    if (position < prologue_end(worker)) return prologue_end(worker);
    if (position < body_end(worker)) return body_end(worker);
    return order_of(worker).size();
  }

  // Fills body_ with the minibatch that the body takes, and splits_ with how a
  // microbatch's backward is run.
  std::optional<Error> body_fault() {
    body_.assign(body_cell(kNumPhases, StageId(0), 0), -1);
    splits_.assign(num_cells(), -1);
    for (WorkerId w(0); w.index() < run_.size(); ++w.value) {
      const auto& order = order_of(w);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const ComputeAction& a = order[i];
        if (auto error = split_fault(w, i)) return error;
        if (i < prologue_end(w) || i >= body_end(w)) continue;
        int& b =
            body_[body_cell(phase_of(a.kind), a.stage, place_of(a.microbatch))];
        const int minibatch = minibatch_of(a.microbatch);
        if (b >= 0 && b != minibatch)
          return at(w, i,
                    "the body would run it twice, once " +
                        std::to_string(std::abs(b - minibatch)) +
                        " repetitions apart");
        b = minibatch;
      }
    }
    return std::nullopt;
  }

  std::optional<Error> split_fault(WorkerId worker, std::size_t position) {
    const ComputeAction& a = order_of(worker)[position];
    if (a.kind == ComputeKind::Forward || a.kind == ComputeKind::Recompute)
      return std::nullopt;
    const int split = a.kind != ComputeKind::Backward;
    signed char& known = splits_[cell(a)];
    if (known >= 0 && known != split)
      return at(worker, position,
                "a microbatch's backward is either B or I and W, not both");
    known = static_cast<signed char>(split);
    return std::nullopt;
  }

  // Walks one worker: each microbatch's phases once and in order, each in the
  // section where it belongs.
  std::optional<Error> order_fault(WorkerId worker) {
    if (forwards_.empty()) {
      forwards_.assign(num_cells(), 0);
      backwards_.assign(num_cells(), 0);
      seen_.assign(num_cells(), {});
      stage_workers_.assign(num_stages_, 0);
      last_worker_.assign(num_stages_, WorkerId());
      owner_.assign(body_cell(kForward, StageId(num_stages_), 0), WorkerId());
    }
    const auto& order = order_of(worker);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const ComputeAction& a = order[i];
      if (last_worker_[a.stage.index()] != worker) {
        last_worker_[a.stage.index()] = worker;
        ++stage_workers_[a.stage.index()];
      }
      if (auto error = phase_fault(worker, i)) return error;
      const std::size_t c = cell(a);
      if (a.kind == ComputeKind::Forward) ++forwards_[c];
      if (a.kind == ComputeKind::Backward ||
          a.kind == ComputeKind::BackwardWeight)
        ++backwards_[c];
    }
    return std::nullopt;
  }

  std::optional<Error> phase_fault(WorkerId worker, std::size_t position) {
    const ComputeAction& a = order_of(worker)[position];
    const Phase phase = phase_of(a.kind);
    Seen& seen = seen_[cell(a)];
    if (seen.worker != worker) seen = {worker, 0};
    const auto has = [&](Phase p) { return (seen.phases >> p & 1) != 0; };
    if (has(phase))
      return at(worker, position, "the worker has run it already");
    if (phase != kForward && !has(kForward))
      return at(worker, position, "its forward does not come before it");
    if (phase == kRecompute && has(kBackward))
      return at(worker, position, "its backward comes before it");
    if (phase == kWeight && !has(kBackward))
      return at(worker, position, "its input gradient does not come before it");
    seen.phases |= 1 << phase;
    return placed_fault(worker, position, phase);
  }

  std::optional<Error> placed_fault(WorkerId worker, std::size_t position,
                                    Phase phase) {
    const ComputeAction& a = order_of(worker)[position];
    const int minibatch = minibatch_of(a.microbatch);
    const int b = body_[body_cell(phase, a.stage, place_of(a.microbatch))];
    if (b < 0 || (position < prologue_end(worker) && minibatch >= b) ||
        (position >= body_end(worker) && minibatch <= b))
      return at(worker, position,
                "with more repetitions of the body it would be run twice or "
                "a later one not at all");
    return std::nullopt;
  }

  std::optional<Error> coverage_fault() {
    for (StageId s(0); s.value < num_stages_; ++s.value) {
      const int workers = stage_workers_[s.index()];
      const int wanted = forwards_[cell(s, MicrobatchId(0))] > 1 ? workers : 1;
      for (MicrobatchId m(0); m.value < run_length_; ++m) {
        const std::size_t c = cell(s, m);
        if (forwards_[c] != wanted)
          return count_fault(s, m, ComputeKind::Forward, forwards_[c], wanted);
        if (backwards_[c] != forwards_[c])
          return count_fault(s, m,
                             splits_[c] == 1 ? ComputeKind::BackwardWeight
                                             : ComputeKind::Backward,
                             backwards_[c], wanted);
      }
    }
    return owner_fault();
  }

  Error count_fault(StageId stage, MicrobatchId microbatch, ComputeKind kind,
                    int count, int wanted) const {
    const ComputeAction action{stage, microbatch, kind};
    std::vector<GridMark> marks;
    for (WorkerId w(0); w.index() < run_.size(); ++w.value) {
      const auto& order = order_of(w);
      for (std::size_t i = 0; i < order.size(); ++i)
        if (order[i].stage == stage && marks.size() < 64 &&
            (count == 0 || order[i].microbatch == microbatch))
          marks.push_back({w, i});
    }
    if (count == 0 && marks.size() > 1) marks.resize(1);
    const std::string workers = std::to_string(stage_workers_[stage.index()]);
    if (count == 0)
      return malformed(to_text(action) + " is never run" + drawn(run_, marks));
    return malformed(to_text(action) + " is run by " + std::to_string(count) +
                     " of the stage's " + workers + " workers; " +
                     (wanted > 1
                          ? "others of the stage by all of them"
                          : "an action belongs to one of them or to all") +
                     drawn(run_, marks));
  }

  // Replicas that take turns: from minibatch to minibatch the same turns, so
  // that the body can be repeated.
  std::optional<Error> owner_fault() {
    if (sections_.minibatches_outside == 0) return std::nullopt;
    for (WorkerId w(0); w.index() < run_.size(); ++w.value) {
      const auto& order = order_of(w);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const ComputeAction& a = order[i];
        if (forwards_[cell(a)] > 1) continue;
        WorkerId& owner =
            owner_[body_cell(kForward, a.stage, place_of(a.microbatch))];
        if (!owner.is_none() && owner != w)
          return at(w, i,
                    "in another minibatch its turn is worker " +
                        std::to_string(owner.value) + "'s");
        owner = w;
      }
    }
    return std::nullopt;
  }

  // Nothing waits for a later section or repetition.
  std::optional<Error> section_fault() const {
    if (sections_.minibatches_outside == 0) return std::nullopt;
    for (WorkerId w(0); w.index() < run_.size(); ++w.value) {
      const auto& order = order_of(w);
      for (std::size_t i = prologue_end(w); i < body_end(w); ++i) {
        const ComputeAction& a = order[i];
        const Phase phase = phase_of(a.kind);
        if (phase != kForward && phase != kBackward) continue;
        const StageId other(a.stage.value + (phase == kForward ? -1 : 1));
        if (other.is_none() || other.value >= num_stages_) continue;
        const int place = place_of(a.microbatch);
        if (body_[body_cell(phase, other, place)] <
            body_[body_cell(phase, a.stage, place)])
          return at(w, i,
                    "it waits for stage " + std::to_string(other.value) +
                        ", which runs this microbatch in a later repetition");
      }
    }
    return std::nullopt;
  }

  struct Seen {
    WorkerId worker;
    int phases = 0;
  };

  int num_stages_ = 0;
  int num_microbatches_ = 0;
  const ScheduleSections& sections_;
  int run_length_ = 0;  // microbatches in run_
  Orders run_;          // prologue, one body, epilogue
  std::vector<int> body_;
  std::vector<signed char> splits_;  // per cell: -1 unknown, 0 B, 1 I and W
  std::vector<int> forwards_, backwards_;  // workers that run it, per cell
  std::vector<Seen> seen_;
  std::vector<int> stage_workers_;     // per stage
  std::vector<WorkerId> last_worker_;  // per stage
  std::vector<WorkerId> owner_;        // per cell of the body
};

}  // namespace

std::optional<Error> fault_of(int num_stages, int num_microbatches,
                              const ScheduleSections& sections) {
  return Checker(num_stages, num_microbatches, sections).fault();
}

}  // namespace pipewright
