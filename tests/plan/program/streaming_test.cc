// Which sends belong to the action before them.

#include "pipewright/plan/program/streaming.h"

#include <doctest/doctest.h>

#include "tests/plan/program/random_lowered.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

// Sends of a section that stream, and of those that carry no weights all.
struct SendCount {
  int streaming = 0, all = 0;
};
void count_sends(const Program& program, const std::vector<Action>& actions,
                 SendCount& count) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind != ActionKind::Send) continue;
    const bool streams = may_stream(program, actions, i);
    count.streaming += streams;
    if (program.transfer(actions[i].transfer).is_keyed_by_version())
      CHECK_FALSE(streams);
    else
      ++count.all;
  }
}

TEST_CASE("every lowered send but those of weights follows what makes it") {
  RandomLowered lowered(5);
  SendCount count;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const Program program = lowered.make().program;
    for (const WorkerProgram& worker : program.workers)
      for (const auto* section :
           {&worker.prologue, &worker.body, &worker.epilogue})
        count_sends(program, *section, count);
  }
  CHECK(count.all > 1000);
  CHECK(count.streaming == count.all);
}

TEST_CASE("a send after other work, or after a reduction, does not stream") {
  const Program program = chain_program(gpipe(2, 2));
  const Action f0 = compute(ActionKind::Forward, 0, 0, 0);
  const Action f1 = compute(ActionKind::Forward, 0, 1, 0);
  const Action b0 = compute(ActionKind::Backward, 0, 0, 0);
  const Action reduce = action(ActionKind::Reduce, 0, 0);
  const Action post = action(ActionKind::Receive, 0, 1);
  const Action send = action(ActionKind::Send, 0, 0);
  Action joined = f0;
  joined.joined = true;
  const auto last_streams = [&](const std::vector<Action>& actions) {
    return may_stream(program, actions, actions.size() - 1);
  };
  CHECK(last_streams({f0, send}));
  CHECK(last_streams({f0, post, send}));
  CHECK(last_streams({joined, f1, send}));
  CHECK_FALSE(last_streams({send}));
  CHECK_FALSE(last_streams({f0, f1, send}));
  CHECK_FALSE(last_streams({f1, send}));
  CHECK_FALSE(last_streams({b0, send}));
  CHECK_FALSE(last_streams({f0, reduce, send}));
}

}  // namespace
}  // namespace pipewright
