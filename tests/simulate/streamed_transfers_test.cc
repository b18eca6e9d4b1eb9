// Transfers that leave while they are being made: small cases by hand, BaPipe's
// closed form of 1F1B-AS on links that take time, and what holds of any
// program.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "pipewright/plan/memory/memory_bound.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/critical_path.h"
#include "tests/plan/program/random_lowered.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

// Every stage takes f and b, every transfer t on its link.
struct Even {
  double f, b, t;
  double latency = 0;
};
Costs streaming_costs(const Program& program, const Even& of, bool streams) {
  Costs costs = even_costs(program, of.f, of.b, of.latency);
  for (Costs::TransferCost& cost : costs.transfers) {
    cost.bandwidth = BytesPerSecond(1000 / of.t);
    cost.streams = streams;
  }
  return costs;
}

double streamed_step(Chain chain, const Even& of, bool streams) {
  chain.bytes = Bytes(1000);
  const Program program = chain_program(chain);
  return simulate(program, streaming_costs(program, of, streams))
      .duration.value();
}

TEST_CASE("two stages, one microbatch: by hand") {
  // F 0-4, the link 1-4, F 4-8, B 8-16, the link 13-16, B 16-24.
  CHECK(streamed_step(gpipe(2, 1), {4, 8, 3}, true) == doctest::Approx(24));
  // Without: the link 4-7 and 19-22.
  CHECK(streamed_step(gpipe(2, 1), {4, 8, 3}, false) == doctest::Approx(30));
  // The last byte still has to travel.
  CHECK(streamed_step(gpipe(2, 1), {4, 8, 3, 0.5}, true) ==
        doctest::Approx(25));
  // A slow link starts with the work: F 0-4, the link 0-10, F 10-14, B 14-22,
  // the link 14-24, B 24-32.
  CHECK(streamed_step(gpipe(2, 1), {4, 8, 10}, true) == doctest::Approx(32));
}

TEST_CASE("two stages, two microbatches, a link that is too slow: by hand") {
  // F 0-1 1-2; the link 0-3 3-6; F 3-4 6-7, B 7-9 9-11; the link 7-10 10-13;
  // B 10-12 13-15.
  CHECK(streamed_step(gpipe(2, 2), {1, 2, 3}, true) == doctest::Approx(15));
  // The link 1-4 4-7; F 4-5 7-8, B 8-10 10-12; the link 10-13 13-16; B 13-15
  // 16-18.
  CHECK(streamed_step(gpipe(2, 2), {1, 2, 3}, false) == doctest::Approx(18));
}

TEST_CASE("1F1B-AS: a link as fast as the stages takes no time") {
  for (const Even& of : {Even{1, 2, 0.3}, Even{1, 2, 1}, Even{2, 3, 1.7}})
    for (int n = 2; n <= 8; ++n)
      for (int m = 1; m <= 20; ++m) {
        CAPTURE(n);
        CAPTURE(m);
        const double expected = (m + n - 1) * (of.f + of.b);
        CHECK(streamed_step(one_f_one_b(n, m), of, true) ==
              doctest::Approx(expected).epsilon(1e-12));
        CHECK(streamed_step(one_f_one_b(n, m), of, false) > expected + 0.5);
      }
}

TEST_CASE("the critical path of a run with streaming is a path") {
  for (double t : {0.3, 1.0, 2.5}) {
    Chain chain = one_f_one_b(4, 20);
    chain.bytes = Bytes(1000);
    const Program program = chain_program(chain);
    const Timeline timeline =
        simulate(program, streaming_costs(program, {1, 2, t, 0.01}, true));
    const auto path = critical_path(program, timeline);
    REQUIRE(!path.empty());
    CHECK(path.front().start == Seconds(0));
    CHECK(path.back().end == timeline.duration);
    for (std::size_t i = 1; i < path.size(); ++i)
      CHECK(path[i].start.value() == doctest::Approx(path[i - 1].end.value()));
  }
}

// The same costs, nothing streams.
Costs without_streaming(Costs costs) {
  for (Costs::TransferCost& cost : costs.transfers) cost.streams = false;
  return costs;
}

double longest_work(const Program& program, const TimedCode& code,
                    const Execution& run) {
  double longest = 0;
  for (const Execution::Worker& worker : run.workers)
    longest = std::max(longest, worker.busy);
  std::vector<double> links(code.network.links.size(), 0);
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    const TimedTransfer& timed = code.network.transfers[t];
    const std::int32_t link = code.network.channels[timed.channel].link;
    if (link < 0) continue;
    double& sum = links[static_cast<std::size_t>(link)];
    sum += timed.seconds_on_link * static_cast<double>(run.messages[t]);
    longest = std::max(longest, sum);
  }
  return longest;
}

// Counts the programs that streaming makes faster.
int check_streaming(const Program& program, const Costs& costs) {
  EngineOptions options;
  options.repetitions = 2;
  const Costs plain_costs = without_streaming(costs);
  const TimedCode code = compile(program, costs);
  const TimedCode plain_code = compile(program, plain_costs);
  if (!code.network.is_direct()) return 0;
  const Execution streamed = execute(code, options);
  const Execution plain = execute(plain_code, options);
  const double slack = 1e-9 * plain.duration;
  CHECK(streamed.duration <= plain.duration + slack);
  CHECK(streamed.duration >= longest_work(program, code, streamed) - slack);
  return streamed.duration < plain.duration - slack ? 1 : 0;
}

Costs random_streaming_costs(const Program& program, std::mt19937& random) {
  const auto seconds = [&random] { return Seconds(double(random() % 20)); };
  Costs costs;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    Costs::OperationCost cost;
    for (Seconds& time : cost.compute) time = seconds();
    costs.operations.push_back(cost);
  }
  for (const Transfer& transfer : program.transfers) {
    Costs::TransferCost cost;
    cost.latency = Seconds(double(random() % 3));
    cost.bandwidth =
        BytesPerSecond((1 + static_cast<double>(transfer.bytes.value())) /
                       double(1 + random() % 20));
    cost.streams = true;
    costs.transfers.push_back(cost);
  }
  costs.reductions.resize(program.reductions.size());
  return costs;
}

// On contended links an earlier message may delay a more important one, as
// anything may that comes earlier there.
TEST_CASE(
    "lowered plans: never slower, never faster than work and links, within the "
    "memory bound") {
  RandomLowered lowered(31);
  std::mt19937 random(31);
  int faster = 0;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const Program program = lowered.make().program;
    REQUIRE(validate(program).ok());
    const Costs costs = random_streaming_costs(program, random);
    faster += check_streaming(program, costs);
    SimulateOptions options;
    options.keep_spans = false;
    options.minibatches = program.minibatches_outside + 3;
    const Timeline timeline = simulate(program, costs, options);
    const auto bounds = memory_bounds(program);
    for (std::size_t w = 0; w < bounds.size(); ++w)
      CHECK(timeline.workers[w].peak.total() <= bounds[w].peak.total());
  }
  CHECK(faster > 50);
}

}  // namespace
}  // namespace pipewright
