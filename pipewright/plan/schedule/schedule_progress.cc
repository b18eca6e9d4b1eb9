#include "pipewright/plan/schedule/schedule_progress.h"

#include <cstddef>

#include "pipewright/plan/schedule/schedule_grid.h"
#include "pipewright/plan/schedule/stage_chain.h"
#include "pipewright/plan/schedule/wait_chain.h"

namespace pipewright {
namespace {

// A message that names more workers than this helps nobody.
constexpr std::size_t kLongestCycle = 8;

class Progress {
 public:
  Progress(int num_stages, int num_microbatches, const Orders& orders)
      : num_stages_(num_stages),
        num_microbatches_(num_microbatches),
        orders_(orders),
        missing_(2 * std::size_t(num_stages) * num_microbatches),
        waiting_(missing_.size()),
        next_(orders.size()) {
    for (const auto& order : orders)
      for (const ComputeAction& action : order)
        if (const auto made = made_by(action)) ++missing_[*made];
  }

  std::optional<Error> fault() {
    std::vector<std::size_t> ready(orders_.size());
    for (std::size_t w = 0; w < ready.size(); ++w)
      ready[w] = ready.size() - 1 - w;
    while (!ready.empty()) {
      const std::size_t worker = ready.back();
      ready.pop_back();
      run(worker, ready);
    }
    for (std::size_t w = 0; w < orders_.size(); ++w)
      if (next_[w] < orders_[w].size()) return deadlock(w);
    return std::nullopt;
  }

 private:
  using Signal = std::optional<std::size_t>;  // into missing_

  Signal signal(const std::optional<PassedValue>& value) const {
    if (!value) return {};
    return value->index(num_stages_, num_microbatches_);
  }

  // What others wait for: a forward, or a backward's input gradient.
  Signal made_by(const ComputeAction& a) const { return signal(passed_on(a)); }

  // The stage's own forward is waited for too: a joined pair holds none of its
  // own results when it starts.
  Signal needed_by(const ComputeAction& a) const {
    if (const auto value = read_of_neighbour(a, num_stages_))
      return signal(value);
    if (a.kind == ComputeKind::Forward) return {};
    const bool is_weight = a.kind == ComputeKind::BackwardWeight;
    return signal(PassedValue{is_weight, a.stage, a.microbatch});
  }

  bool is_missing(Signal s) const { return s && missing_[*s] > 0; }

  std::size_t unit_size(std::size_t worker) const {
    return orders_[worker][next_[worker]].joined ? 2 : 1;
  }

  // The first missing signal of the worker's next unit, if any.
  Signal missing_for(std::size_t worker) const {
    for (std::size_t i = 0; i < unit_size(worker); ++i) {
      const ComputeAction& a = orders_[worker][next_[worker] + i];
      if (const Signal s = needed_by(a); is_missing(s)) return s;
      // A joined backward whose own forward is the other half of the unit.
      if (i == 1 && orders_[worker][next_[worker]].stage == a.stage &&
          orders_[worker][next_[worker]].microbatch == a.microbatch)
        return made_by(orders_[worker][next_[worker]]);
    }
    return {};
  }

  void run(std::size_t worker, std::vector<std::size_t>& ready) {
    const auto& order = orders_[worker];
    while (next_[worker] < order.size()) {
      if (const Signal s = missing_for(worker)) {
        waiting_[*s].push_back(worker);
        return;
      }
      for (std::size_t n = unit_size(worker); n > 0; --n)
        finish(order[next_[worker]++], ready);
    }
  }

  void finish(const ComputeAction& action, std::vector<std::size_t>& ready) {
    const Signal s = made_by(action);
    if (!s || --missing_[*s] > 0) return;
    auto& workers = waiting_[*s];
    ready.insert(ready.end(), workers.begin(), workers.end());
    workers.clear();
  }

  // A worker that will make the signal; every stuck worker waits for one.
  WorkerId maker_of(Signal s) const {
    for (std::size_t w = 0; w < orders_.size(); ++w)
      for (std::size_t i = next_[w]; i < orders_[w].size(); ++i)
        if (made_by(orders_[w][i]) == s) return WorkerId(w);
    return {};
  }

  Error deadlock(std::size_t first) const {
    const auto chain = wait_chain(WorkerId(first), [this](WorkerId worker) {
                         return maker_of(missing_for(worker.index()));
                       }).workers;
    std::string text = "deadlock: ";
    std::vector<GridMark> marks;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const std::size_t w = chain[i].index();
      marks.push_back({chain[i], next_[w]});
      if (i < kLongestCycle) text += (i > 0 ? "; " : "") + sentence(w);
    }
    if (chain.size() > kLongestCycle) text += "; and so on";
    return malformed(text + drawn(orders_, marks));
  }

  std::string sentence(std::size_t worker) const {
    const std::size_t s = missing_for(worker).value();
    const std::size_t microbatch = s % num_microbatches_;
    const std::size_t stage = s / num_microbatches_ % num_stages_;
    const bool forward = s < missing_.size() / 2;
    return "worker " + std::to_string(worker) + " at " +
           to_text(orders_[worker][next_[worker]]) + " waits for the " +
           (forward ? "forward" : "backward") + " of stage " +
           std::to_string(stage) + ", microbatch " + std::to_string(microbatch);
  }

  int num_stages_, num_microbatches_;
  const Orders& orders_;
  std::vector<int> missing_;  // workers that have yet to make a signal
  std::vector<std::vector<std::size_t>> waiting_;
  std::vector<std::size_t> next_;  // position of each worker
};

}  // namespace

std::optional<Error> progress_fault(int num_stages, int num_microbatches,
                                    const Orders& orders) {
  return Progress(num_stages, num_microbatches, orders).fault();
}

}  // namespace pipewright
