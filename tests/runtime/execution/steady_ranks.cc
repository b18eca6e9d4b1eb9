// In steady state a channel between ranks asks for no memory of its own,
// neither for messages nor for sums. On two ranks, each of which watches
// itself. What Open MPI takes is its own business, like LibTorch's tensors.

#include <doctest/doctest.h>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/commands.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/execution/steady_runs.h"

namespace pipewright {
namespace {

using namespace testing;

void check(const Model& model, const Plan& plan, double max_norm = 0,
           const TransportOptions& options = {}) {
  REQUIRE(session().size() == 2);
  CAPTURE(session().rank());
  const Program program = lowered(model, plan, max_norm);
  const auto transport = session().connect(options);
  Executor executor(model, program, watching(max_norm), transport.get());
  const MicrobatchSource source = prepared_source(model);
  if (transport->leads()) {
    run_all(executor, source);
    shut_down(*transport, {});
  } else {
    executor.follow(source);
  }
  check_nothing_is_ours();
}

Plan on_two(const Model& model, const std::string& schedule,
            Method method = Method::Sync) {
  return plan_of(model, generated(schedule, 2, kMicrobatches), kMicrobatch,
                 method);
}

TEST_CASE("transfers") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const char* name : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}) {
      CAPTURE(model.name());
      CAPTURE(std::string(name));
      check(model, on_two(model, name));
    }
}

TEST_CASE("without a thread that moves messages on") {
  const Model model = small_cnn();
  check(model, on_two(model, "1f1b"), 0, {.progress_thread = false});
}

TEST_CASE("recomputation, and what is kept goes elsewhere") {
  const Model model = small_cnn(), gpt = small_gpt();
  check(model, recomputing_all(on_two(model, "1f1b")));
  for (const int moved : {-3, 3})
    for (const Model& each : {model, gpt}) {
      CAPTURE(moved);
      CAPTURE(each.name());
      check(each, with_moved_backward(each, on_two(each, "1f1b"), moved));
    }
}

// A tied parameter, a norm, replicas; by us and by MPI, if it is there.
TEST_CASE("sums") {
  const Model cnn = small_cnn(), gpt = small_gpt();
  check(gpt, on_two(gpt, "1f1b"), 0.05);
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    for (const bool fast : {false, true}) {
      CAPTURE(static_cast<int>(replication));
      CAPTURE(fast);
      const Plan plan = plan_of(
          cnn,
          with_replicas(generated("1f1b", 1, kMicrobatches), {2}, replication)
              .value(),
          kMicrobatch);
      check(cnn, plan, 0, {.fast_reduce = fast});
      check(cnn, plan, 0.05, {.fast_reduce = fast});
    }
}

TEST_CASE("asynchronous methods") {
  const Model model = small_mlp();
  for (const Method method :
       {Method::PipeMare, Method::Stash, Method::TwoBw, Method::VerticalSync}) {
    CAPTURE(to_text(method));
    check(model, on_two(model, "async-1f1b", method));
    check(model,
          with_moved_backward(model, on_two(model, "async-1f1b", method), 2));
  }
}

}  // namespace
}  // namespace pipewright
