// Threads against ranks on the same program: a step in one process, over MPI
// with a thread that moves messages, and over MPI without. Rounds go through
// all three, so that what else the machine does meets all alike. And what an
// action costs over MPI where stages have next to nothing to compute.
//
//   ranks_benchmark [ROUNDS]     starts itself under mpirun -n 2, unless a
//                                launcher has started it
//
// Goals: over MPI within 5 % of threads at width 512; at most 25 us an action.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "benchmarks/runtime/pipelines.h"
#include "cli/program_arguments.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/builder.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/rank_transport.h"
#include "pipewright/runtime/ranks/commands.h"

namespace pipewright::bench {
namespace {

struct Work {
  std::string name;
  Model model;
  int microbatch = 1, microbatches = 1;
  int steps = 1;  // in a measurement
};

Model nearly_empty() {
  ModelBuilder builder("nearly-empty");
  Source x = *builder.add_input({"input", {4}});
  const Source target = *builder.add_input({"target", {4}});
  for (int i = 0; i < 2; ++i)
    x = *builder.add_layer({.name = "fc" + std::to_string(i),
                            .kind = LayerKind::Linear,
                            .inputs = {x},
                            .attributes = {{"out_features", std::int64_t{4}}}});
  static_cast<void>(builder.add_layer(
      {.name = "loss", .kind = LayerKind::Mse, .inputs = {x, target}}));
  return *std::move(builder).build();
}

std::vector<Work> all_work() {
  return {{"nearly empty", nearly_empty(), 1, 32, 50},
          {"width 256", residual_blocks(256, 8), 64, 8, 3},
          {"width 512", residual_blocks(512, 8), 64, 16, 1}};
}

Program program_of(const Work& work) {
  ScheduleRequest request;
  request.workers = 2;
  request.microbatches = work.microbatches;
  const Schedule schedule = *generate_schedule("1f1b", request);
  Profile sizes = profile_graph(work.model);
  sizes.sizes[work.microbatch] = model_sizes(work.model, work.microbatch);
  return *lower(even_plan(work.model, schedule, work.microbatch), sizes);
}

// A step over the transport, or in this process alone; on the leader.
Seconds measured_step(const Work& work, const Program& program,
                      Transport* transport) {
  const MicrobatchSource source = steady_source(work.model, work.microbatch);
  Executor executor(work.model, program, plain_sgd(), transport);
  if (transport && !transport->leads()) {
    executor.follow(source);
    return {};
  }
  const Seconds step = step_time(executor, source, work.steps, 3);
  if (transport) shut_down(*transport, {});
  return step;
}

int actions_of(const Program& program) {
  return static_cast<int>(std::count_if(
      program.workers[0].body.begin(), program.workers[0].body.end(),
      [](const Action& a) { return is_compute(a.kind); }));
}

Seconds median(std::vector<Seconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void print_table(RankSession& session, int rounds) {
  using Align = TextTable::Align;
  TextTable table({{"work", Align::Left},
                   {"threads", Align::Right},
                   {"ranks", Align::Right},
                   {"ranks, polling", Align::Right},
                   {"ranks / threads", Align::Right},
                   {"an action, ranks", Align::Right}});
  const auto with_thread = session.connect({});
  const auto polling = session.connect({.progress_thread = false});
  for (const Work& work : all_work()) {
    const Program program = program_of(work);
    std::vector<Seconds> threads, ranks, polled, ratios;
    for (int i = 0; i < rounds; ++i) {
      if (session.rank() == 0)
        threads.push_back(measured_step(work, program, nullptr));
      ranks.push_back(measured_step(work, program, with_thread.get()));
      polled.push_back(measured_step(work, program, polling.get()));
      if (session.rank() == 0)
        ratios.push_back(
            Seconds(std::min(ranks.back(), polled.back()) / threads.back()));
    }
    if (session.rank() != 0) continue;
    table.add_row({work.name, to_text(median(threads)), to_text(median(ranks)),
                   to_text(median(polled)), to_text(median(ratios).value()),
                   to_text(std::min(median(ranks), median(polled)) /
                           actions_of(program))});
  }
  if (session.rank() == 0) std::cout << table.to_text(100);
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  using namespace pipewright;
  int rounds = 5;
  CLI::App app{"Compares threads with ranks on the same program"};
  app.add_option("ROUNDS", rounds, "Rounds through all variants")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (const auto code = cli::parse_arguments(app, argc, argv)) return *code;
  if (!is_launched()) {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-n",
             "2", argv[0], std::to_string(rounds).c_str(),
             static_cast<char*>(nullptr));
    std::cout << "no mpirun here\n";
    return 0;
  }
  const auto session = RankSession::start();
  if (!session) return static_cast<int>(session.error().code);
  bench::print_table(**session, rounds);
}
