// Memory over time: what is held when, and what the peak consists of.

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/simulate/simulate.h"
#include "tests/plan/set_effect.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

// Each forward keeps 100 bytes until its backward has ended.
Timeline kept(const Chain& chain, double latency) {
  Program program = chain_program(chain);
  for (Operation& operation : program.operations) {
    set_effect(program, operation.stage, ActionKind::Forward,
               {Bytes(100), Bytes(0)});
    set_effect(program, operation.stage, ActionKind::Backward,
               {Bytes(0), Bytes(100)});
    operation.gradients = Bytes(7);
    operation.optimizer = Bytes(14);
  }
  return simulate(program, even_costs(program, 1, 2, latency));
}

TEST_CASE("in flight: all with GPipe, as many as stages behind with 1F1B") {
  for (int n = 1; n <= 6; ++n)
    for (int m = 1; m <= 10; ++m) {
      const Timeline all = kept(gpipe(n, m), 0.5);
      const Timeline few = kept(one_f_one_b(n, m), 0.5);
      for (int i = 0; i < n; ++i) {
        const auto w = static_cast<std::size_t>(i);
        CHECK(all.workers[w].peak.activations == Bytes(100 * m));
        CHECK(few.workers[w].peak.activations ==
              Bytes(100 * std::min(m, n - i)));
        CHECK(few.workers[w].peak.gradients == Bytes(7));
        CHECK(few.workers[w].peak.optimizer == Bytes(14));
        if (i > 0) CHECK(few.memory[w].front().bytes == Bytes(21));
        CHECK(few.memory[w].back().bytes == Bytes(21));
      }
    }
}

TEST_CASE("weights are held once per version") {
  Program program = chain_program(gpipe(2, 1));
  program.weight_groups.push_back(
      {StageId(0), StageId(0), {LayerId(0)}, Bytes(1000)});
  program.workers[0].held.push_back({WeightGroupId(0), 3});
  const Timeline timeline = simulate(program, even_costs(program, 1, 1, 0));
  CHECK(timeline.workers[0].peak.weights == Bytes(3000));
  CHECK(timeline.workers[1].peak.weights == Bytes(0));
}

// Two stages, one microbatch: F on 0 from 0 to 1, on its way to 3, F on 1 from
// 3 to 4, of whose input 30 bytes are kept until B ends at 6.
TEST_CASE("a transfer occupies both ends") {
  Chain chain = gpipe(2, 1);
  chain.bytes = Bytes(50);
  Program program = chain_program(chain);
  set_effect(program, StageId(0), ActionKind::Forward, {Bytes(50), Bytes(0)});
  program.transfers[0].freed_by_sender = Bytes(50);
  program.transfers[0].retained_by_reader = Bytes(30);
  set_effect(program, StageId(1), ActionKind::Backward, {Bytes(0), Bytes(30)});
  program.transfers[1].bytes = Bytes(0);
  const Timeline timeline = simulate(program, even_costs(program, 1, 2, 2));
  const auto held = [&timeline](std::size_t w) {
    std::vector<std::pair<double, std::int64_t>> points;
    for (const MemoryPoint& point : timeline.memory[w])
      points.emplace_back(point.time.value(), point.bytes.value());
    return points;
  };
  using Points = std::vector<std::pair<double, std::int64_t>>;
  CHECK(held(0) == Points{{0, 50}, {1, 50}, {3, 0}});
  CHECK(held(1) == Points{{0, 0}, {1, 50}, {4, 30}, {6, 0}});
  CHECK(timeline.workers[1].peak.buffers == Bytes(50));
  CHECK(timeline.workers[1].peak_at == Seconds(1));
}

}  // namespace
}  // namespace pipewright
