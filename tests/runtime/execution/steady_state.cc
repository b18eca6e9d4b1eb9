// In its stride the executor asks for no memory of its own, whatever the
// program: over steps 5 to 9 of a run no call of malloc is ours, see
// watched_malloc.h. Tensors come from heaps that have seen their sizes.

#include <doctest/doctest.h>

#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/data/loader.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/execution/steady_runs.h"

namespace pipewright {
namespace {

using namespace testing;

void check(const Model& model, const Plan& plan, double max_norm = 0) {
  const Program program = lowered(model, plan, max_norm);
  Executor executor(model, program, watching(max_norm));
  run_all(executor, prepared_source(model));
  check_nothing_is_ours();
}

// Also what a library asks for on our behalf.
TEST_CASE("a list that grows is ours, a tensor is LibTorch's") {
  static std::vector<int> numbers;
  static Tensors tensors;
  watch_this_thread(true);
  numbers.resize(100);
  tensors.resize(9);
  watch_this_thread(false);
  const Allocations lists = take_allocations();
  CHECK(lists.ours == 2);
  CHECK(lists.others == 0);
  watch_this_thread(true);
  tensors[0] = at::ones({3});
  watch_this_thread(false);
  const Allocations tensor = take_allocations();
  CHECK(tensor.ours == 0);
  CHECK(tensor.others > 0);
}

// The thread that loads is watched from the source that it asks.
void check_loading(const Model& model, const MicrobatchSource& source) {
  const Program program = lowered(
      model, plan_of(model, generated("1f1b", 2, kMicrobatches), kMicrobatch),
      0);
  Executor executor(model, program, watching(0));
  Loader loader(
      [&source](int input, std::int64_t m) {
        watch_this_thread(kFirst * kMicrobatches <= m &&
                          m < kEnd * kMicrobatches);
        return source(input, m);
      },
      static_cast<int>(model.inputs().size()), 0, 2 * kMicrobatches,
      2 * kMicrobatches);
  run_all(executor, loader.microbatches());
  check_nothing_is_ours();
}

TEST_CASE("data that a thread makes ready") {
  const Model model = small_mlp();
  check_loading(model, prepared_source(model));
}

TEST_CASE("data of a dataset, within an epoch") {
  const Model model = small_mlp();
  const Dataset dataset = open_dataset("synthetic:400", model).value();
  check_loading(model, microbatches_of(dataset, {1, kMicrobatch}));
}

TEST_CASE("synchronous schedules") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const char* name : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}) {
      CAPTURE(model.name());
      CAPTURE(std::string(name));
      check(model,
            plan_of(model, generated(name, 2, kMicrobatches), kMicrobatch));
    }
}

TEST_CASE("recomputation, clipping, recurrences") {
  const Model gpt = small_gpt(), cnn = small_cnn(), lstm = small_lstm();
  const Schedule schedule = generated("1f1b", 2, kMicrobatches);
  check(cnn, recomputing_all(plan_of(cnn, schedule, kMicrobatch)));
  check(gpt, plan_of(gpt, schedule, kMicrobatch), 0.05);
  check(lstm, plan_of(lstm, schedule, kMicrobatch));
}

TEST_CASE("replicas that split a microbatch or take turns") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const Replication replication :
         {Replication::Split, Replication::Rotate})
      for (const std::vector<int>& replicas :
           {std::vector<int>{2, 1}, {2, 3}}) {
        CAPTURE(model.name());
        CAPTURE(static_cast<int>(replication));
        CAPTURE(replicas[0]);
        CAPTURE(replicas[1]);
        const Plan plan =
            plan_of(model,
                    with_replicas(generated("1f1b", 2, kMicrobatches), replicas,
                                  replication)
                        .value(),
                    kMicrobatch);
        check(model, plan);
        check(model, plan, 0.05);
      }
}

TEST_CASE("forward and backward cut at different places") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const int moved : {-3, 3}) {
      CAPTURE(model.name());
      CAPTURE(moved);
      check(model, with_moved_backward(
                       model,
                       plan_of(model, generated("1f1b", 2, kMicrobatches),
                               kMicrobatch),
                       moved));
    }
}

TEST_CASE("asynchronous methods") {
  const Model model = small_mlp();
  for (const Method method : {Method::PipeMare, Method::Naive, Method::Stash,
                              Method::TwoBw, Method::VerticalSync})
    for (const int workers : {2, 4}) {
      CAPTURE(to_text(method));
      CAPTURE(workers);
      check(model,
            plan_of(model, generated("async-1f1b", workers, kMicrobatches),
                    kMicrobatch, method));
    }
}

}  // namespace
}  // namespace pipewright
