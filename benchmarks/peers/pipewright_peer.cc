// Our side of `make bench-peers`: trains one case, told on standard input which
// schedule and how many steps, and answers each line with one line of JSON.
//
//   pipewright_peer residual WIDTH BLOCKS MICROBATCHES SAMPLES WORKERS
//   pipewright_peer gpt HIDDEN LAYERS MICROBATCHES SAMPLES WORKERS
//   > 1f1b 3
//   {"ms": 93.1, "memory": 123456}
//
// Under mpirun, with a rank per worker, the same over MPI: rank 0 is told and
// answers, the others follow.

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "benchmarks/runtime/pipelines.h"
#include "cli/program_arguments.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/rank_transport.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "pipewright/runtime/ranks/commands.h"

namespace pipewright::bench {
namespace {

struct Case {
  std::string kind;
  int width = 0, layers = 0, microbatches = 0, samples = 0, workers = 0;
};

Model model_of(const Case& wanted) {
  if (wanted.kind == "residual")
    return residual_blocks(wanted.width, wanted.layers);
  const Result<Model> model =
      load_model("gpt:layers=" + std::to_string(wanted.layers) +
                 ",hidden=" + std::to_string(wanted.width) +
                 ",heads=4,vocab=512,seq=128,dropout=0,tied=false");
  if (!model) throw std::runtime_error(model.error().to_text());
  return *model;
}

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

class Runner {
 public:
  explicit Runner(const Case& wanted)
      : case_(wanted),
        model_(model_of(wanted)),
        profile_(measured(model_, wanted)),
        source_(steady_source(model_, wanted.samples)) {}

  // Milliseconds a step, over that many.
  double run(const std::string& schedule, int steps) {
    auto& executor = executors_[schedule];
    if (!executor) {
      const Plan plan =
          balanced_plan(model_, profile_,
                        schedule_for(schedule, profile_, case_.workers,
                                     case_.microbatches, case_.samples),
                        case_.samples);
      const Result<Program> program = lower(plan, profile_);
      if (!program) throw std::runtime_error(program.error().to_text());
      executor = std::make_unique<Executor>(model_, *program, plain_sgd());
      step_time(*executor, source_, 1, 1);
    }
    const Result<Executed> done = executor->run(source_, steps);
    if (!done) throw std::runtime_error(done.error().to_text());
    return done->timeline.step_seconds.value() * 1e3;
  }

  static Profile measured(const Model& model, const Case& wanted) {
    ProfilerOptions options;
    options.budget = Seconds(1);
    const int sizes[] = {wanted.samples};
    const Result<Profile> profile = measured_profile(model, sizes, options);
    if (!profile) throw std::runtime_error(profile.error().to_text());
    return *profile;
  }

 private:
  Case case_;
  Model model_;
  Profile profile_;
  MicrobatchSource source_;
  std::map<std::string, std::unique_ptr<Executor>> executors_;
};

// The same plan as a Runner's, on ranks: one executor at a time, which all
// have.
class RanksRunner {
 public:
  RanksRunner(const Case& wanted, Transport& transport)
      : case_(wanted),
        transport_(transport),
        model_(model_of(wanted)),
        sizes_(profile_graph(model_)),
        source_(steady_source(model_, wanted.samples)) {
    sizes_.sizes[wanted.samples] = model_sizes(model_, wanted.samples);
    if (transport.leads()) profile_ = Runner::measured(model_, wanted);
  }
  ~RanksRunner() {
    if (transport_.leads()) shut_down(transport_, {});
  }

  double run(const std::string& schedule, int steps) {
    if (schedule != current_) {
      const Plan plan =
          balanced_plan(model_, profile_,
                        schedule_for(schedule, profile_, case_.workers,
                                     case_.microbatches, case_.samples),
                        case_.samples);
      send_command(transport_, Command::Begin, to_json(plan).to_text());
      start(plan);
      step_time(*executor_, source_, 1, 1);
      current_ = schedule;
    }
    const Result<Executed> done = executor_->run(source_, steps);
    if (!done) throw std::runtime_error(done.error().to_text());
    return done->timeline.step_seconds.value() * 1e3;
  }

  void follow() {
    CommandMessage command = next_command(transport_);
    while (command.command == Command::Begin) {
      start(parse_plan(command.argument, "plan").value());
      command = executor_->follow(source_);
    }
  }

 private:
  void start(const Plan& plan) {
    executor_.reset();
    executor_ = std::make_unique<Executor>(model_, lower(plan, sizes_).value(),
                                           plain_sgd(), &transport_);
  }

  Case case_;
  Transport& transport_;
  Model model_;
  Profile sizes_, profile_;
  MicrobatchSource source_;
  std::string current_;
  std::unique_ptr<Executor> executor_;
};

template <class AnyRunner>
int serve(AnyRunner& runner) {
  std::cout << "{\"ready\": true}" << std::endl;
  std::string schedule;
  for (int steps = 0; std::cin >> schedule >> steps;) {
    const double ms = runner.run(schedule, steps);
    std::cout << "{\"ms\": " << ms << ", \"memory\": " << peak_resident_bytes()
              << "}" << std::endl;
  }
  return 0;
}

int serve(const Case& wanted) {
  if (!is_launched()) {
    Runner runner(wanted);
    return serve(runner);
  }
  const auto session = RankSession::start().value();
  const auto transport = session->connect({});
  RanksRunner runner(wanted, *transport);
  if (transport->leads()) return serve(runner);
  runner.follow();
  return 0;
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  pipewright::bench::Case wanted;
  CLI::App app{
      "Trains one case: reads a schedule and a number of steps per line, and "
      "answers with the milliseconds of a step"};
  app.add_option("KIND", wanted.kind, "residual or gpt")
      ->check(CLI::IsMember({"residual", "gpt"}))
      ->required();
  for (const auto& [name, number] :
       {std::pair{"WIDTH", &wanted.width}, std::pair{"LAYERS", &wanted.layers},
        std::pair{"MICROBATCHES", &wanted.microbatches},
        std::pair{"SAMPLES", &wanted.samples},
        std::pair{"WORKERS", &wanted.workers}})
    app.add_option(name, *number)->check(CLI::PositiveNumber)->required();
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  try {
    return pipewright::bench::serve(std::as_const(wanted));
  } catch (const std::exception& error) {
    std::cerr << "pipewright_peer: " << error.what() << "\n";
    return 1;
  }
}
