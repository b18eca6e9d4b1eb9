// Workers that slow each other down, against a simulation that goes from event
// to event, and against formulas.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/steady_state.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

struct StageTimes {
  double forward = 1, backward = 2;
};

Costs costs_for(const Program& program, const std::vector<StageTimes>& times) {
  return given_costs(
      program,
      [&](const Operation& operation) {
        Costs::OperationCost cost;
        const StageTimes& of = times[operation.stage.index()];
        cost.compute[static_cast<int>(ActionKind::Forward)] =
            Seconds(of.forward);
        cost.compute[static_cast<int>(ActionKind::Backward)] =
            Seconds(of.backward);
        return cost;
      },
      Seconds(0));
}

double contended(const Chain& chain, const std::vector<StageTimes>& times,
                 const Costs::Contention& contention) {
  const Program program = chain_program(chain);
  Costs costs = costs_for(program, times);
  costs.contention = contention;
  return simulate(program, costs).duration.value();
}

// From one completion to the next: every worker works on its next action once
// what it reads is done, and all of a unit that work share it.
class EventByEvent {
 public:
  EventByEvent(const Chain& chain, const std::vector<StageTimes>& times,
               const Costs::Contention& contention)
      : chain_(chain),
        times_(times),
        contention_(contention),
        next_(chain.orders.size()),
        left_(chain.orders.size(), -1) {
    for (auto* done : {&forward_, &backward_})
      done->assign(
          chain.orders.size(),
          std::vector<bool>(static_cast<std::size_t>(chain.microbatches)));
  }

  double duration() {
    double now = 0;
    while (begin_what_can()) {
      std::vector<double> slow;
      double step = std::numeric_limits<double>::infinity();
      for (std::size_t w = 0; w < left_.size(); ++w) {
        slow.push_back(slowdown(w));
        if (left_[w] >= 0) step = std::min(step, left_[w] * slow[w]);
      }
      now += step;
      for (std::size_t w = 0; w < left_.size(); ++w)
        if (left_[w] >= 0) work(w, step / slow[w]);
    }
    return now;
  }

 private:
  bool can_begin(std::size_t w) const {
    if (next_[w] == chain_.orders[w].size()) return false;
    const auto [letter, m] = chain_.orders[w][next_[w]];
    const auto microbatch = static_cast<std::size_t>(m);
    if (letter == 'F') return w == 0 || forward_[w - 1][microbatch];
    return w + 1 == left_.size() ? forward_[w][microbatch]
                                 : backward_[w + 1][microbatch];
  }
  bool begin_what_can() {
    for (std::size_t w = 0; w < left_.size(); ++w)
      if (left_[w] < 0 && can_begin(w))
        left_[w] = chain_.orders[w][next_[w]].first == 'F' ? times_[w].forward
                                                           : times_[w].backward;
    return std::any_of(left_.begin(), left_.end(),
                       [](double left) { return left >= 0; });
  }
  double slowdown(std::size_t worker) const {
    std::size_t busy = 0;
    for (std::size_t w = 0; w < left_.size(); ++w)
      if (left_[w] >= 0 && contention_.units[w] == contention_.units[worker])
        ++busy;
    if (busy == 0) return 1;
    return contention_
        .slowdowns[std::min(busy, contention_.slowdowns.size()) - 1];
  }
  void work(std::size_t w, double done) {
    left_[w] -= done;
    if (left_[w] > 1e-12) return;
    const auto [letter, m] = chain_.orders[w][next_[w]++];
    (letter == 'F' ? forward_ : backward_)[w][static_cast<std::size_t>(m)] =
        true;
    left_[w] = -1;
  }

  const Chain& chain_;
  const std::vector<StageTimes>& times_;
  const Costs::Contention& contention_;
  std::vector<std::size_t> next_;
  std::vector<double> left_;  // of the action in progress; below 0: none
  std::vector<std::vector<bool>> forward_, backward_;  // by stage, microbatch
};

Costs::Contention one_unit(int workers, std::vector<double> slowdowns) {
  return {std::vector<int>(static_cast<std::size_t>(workers), 0),
          std::move(slowdowns)};
}

TEST_CASE("a unit that works at one pace has all the work to do") {
  for (int n = 1; n <= 5; ++n)
    for (int m = 1; m <= 9; ++m) {
      std::vector<double> shared(static_cast<std::size_t>(n));
      std::iota(shared.begin(), shared.end(), 1.0);
      const std::vector<StageTimes> times(static_cast<std::size_t>(n));
      for (const Chain& chain : {one_f_one_b(n, m), gpipe(n, m)}) {
        CHECK(contended(chain, times, one_unit(n, shared)) ==
              doctest::Approx(3.0 * n * m).epsilon(1e-7));
        CHECK(contended(chain, times, one_unit(n, {1})) ==
              doctest::Approx(3.0 * (m + n - 1)).epsilon(1e-7));
      }
    }
}

TEST_CASE("as event by event: 600 pipelines of random stages and units") {
  std::mt19937 random(7);
  const auto number = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int i = 0; i < 600; ++i) {
    const int n = 2 + i % 4, m = 1 + i % 7;
    std::vector<StageTimes> times;
    for (int s = 0; s < n; ++s) times.push_back({number(0.5, 2), number(1, 4)});
    Costs::Contention contention{{}, {1}};
    for (int w = 0; w < n; ++w) contention.units.push_back(i % 3 ? 0 : w / 2);
    for (int k = 1; k < n; ++k)
      contention.slowdowns.push_back(contention.slowdowns.back() +
                                     number(0, 1.2));
    const Chain chain = i % 2 ? one_f_one_b(n, m) : gpipe(n, m);
    CHECK(contended(chain, times, contention) ==
          doctest::Approx(EventByEvent(chain, times, contention).duration())
              .epsilon(1e-7));
  }
}

TEST_CASE("units of one worker are as none") {
  const std::vector<StageTimes> times(4);
  const Chain chain = one_f_one_b(4, 8);
  CHECK(contended(chain, times, {{0, 1, 2, 3}, {1, 9}}) ==
        contended(chain, times, {}));
}

TEST_CASE("the timeline shows the longer actions") {
  const Program program = chain_program(one_f_one_b(2, 4));
  Costs costs = costs_for(program, std::vector<StageTimes>(2));
  costs.contention = one_unit(2, {1, 2});
  const Timeline timeline = simulate(program, costs);
  Seconds busy;
  for (const auto& worker : timeline.spans)
    for (const Span& span : worker) {
      if (!is_compute(span.kind)) continue;
      busy += span.end - span.start;
      CHECK(span.end <= timeline.duration + Seconds(1e-9));
    }
  CHECK(busy.value() ==
        doctest::Approx(
            (timeline.workers[0].busy + timeline.workers[1].busy).value()));
  CHECK(busy > Seconds(24 + 1));  // alone: 24
  CHECK(timeline.bubble ==
        doctest::Approx(1 - busy / (timeline.duration * 2.0)));
  CHECK(steady_state_period(program, costs).value() ==
        doctest::Approx(timeline.duration.value()).epsilon(1e-6));
}

}  // namespace
}  // namespace pipewright
