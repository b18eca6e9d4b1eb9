// pipewright train on several ranks; see train_ranks.h.

#include "cli/train/train_ranks.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "cli/number_in.h"
#include "pipewright/model/model_file.h"

namespace pipewright::cli {
namespace {

int exit_code(const Result<TrainReport>& report) {
  if (!report) return static_cast<int>(report.error().code);
  if (report->signal == 0) return 0;
  return report->signal == SIGINT ? 130 : 75;
}

// Called on any thread while others are running: one write, then _exit().
void give_up(const Error& error, bool leader_prints_it) {
  const std::string text = "pipewright: " + error.to_text() + "\n";
  if (!leader_prints_it)
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  ::_exit(static_cast<int>(error.code));
}

// MPI might wait for ever for a rank that has failed: ends without it.
void leave(const Launch& launch, int code) {
  std::cout << std::flush;
  std::cerr << std::flush;
  if (launch.size() > 1) ::_exit(code);
}

Result<Intentions> intentions(const Launch& launch, const Result<Model>& model,
                              const RankOptions& options,
                              const TrainRequest& request) {
  if (!model) return model.error();
  std::string weights;  // nobody to compare with: not worth reading them
  if (launch.size() > 1) {
    PIPEWRIGHT_TRY(weights, hash_of_weights(*model));
  }
  return Intentions{{"version", PIPEWRIGHT_VERSION},
                    {"plan", to_json(request.plan).to_text()},
                    {"model", to_text(*model)},
                    {"set of weights", weights},
                    {"seed", std::to_string(request.seed)},
                    {"set of options", options.compared}};
}

void follow(Launch& launch, const Model& model, TrainRequest& request,
            Exit& exit) {
  const Result<Outcome> followed = follow_run(model, request);
  if (!followed) {  // the others see this rank end
    report(followed.error(), exit);
    launch.report(followed.error(), 0);
    return leave(launch, exit.code);
  }
  const Outcome& outcome = *followed;
  exit.code = outcome.exit_code;
  if (!outcome.text.empty())
    launch.report(
        {static_cast<ErrorCode>(outcome.exit_code), outcome.text, "", "", {}},
        outcome.signal);
  launch.finish(outcome);
  if (!outcome.ended_well) leave(launch, exit.code);
}

}  // namespace

void add_rank_options(CLI::App& command, RankOptions& options) {
  command.add_flag(
      "--fast-reduce", options.fast_reduce,
      "Sums gradients of replicas in MPI's order, not in the fixed one");
  command
      .add_flag("--checksum", options.checksum,
                "Between ranks every message of tensors carries a checksum; "
                "one that was corrupted on its way ends training with 76")
      ->excludes("--fast-reduce");
  command
      .add_option("--between-ranks", options.between_ranks,
                  "What tensors of GPUs go over between ranks: nccl, ipc (on "
                  "one host), host (its memory), or auto, the best of these")
      ->check(CLI::IsMember({"auto", "nccl", "ipc", "host"}));
  command.add_flag("--poll", options.poll,
                   "Moves messages only between actions, without a thread");
  command.add_option("--cluster", options.cluster,
                     "Checks that ranks are on the hosts of this cluster");
  command.add_flag("--elastic", options.elastic,
                   "Goes on from the newest checkpoint, if there is one, with "
                   "however many ranks were started: plans again for them, in "
                   "--cluster where that is given");
  command
      .add_option(
          "--set-up-limit", options.set_up_limit,
          "Seconds within which all ranks must have connected; default: "
          "120")
      ->check(number_in(0.1, 1e6));
  command
      .add_option("--stall-limit", options.stall_limit,
                  "Seconds (or ten steps, if longer) without progress after "
                  "which a rank is lost; default: 10")
      ->check(number_in(0.1, 1e6));
  command.add_option(
      "--inject", options.inject,
      "Injects a fault, to test what happens: "
      "kill:rank=2,step=5,action=B3; stop, loop, nan, throw, hang, lose, "
      "memory, full, missing");
}

// Leaves out what may differ from rank to rank: names of files and folders, and
// faults.
void set_compared(const CLI::App& command, RankOptions& options) {
  std::istringstream lines(command.config_to_str(true, false));
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find('='));
    if (name != "run" && name != "PLAN" && name != "inject" && name != "json" &&
        name != "profile" && name != "cluster" && name != "seed" &&
        name != "weights")
      options.compared += line + "\n";
  }
}

std::unique_ptr<Launch> joined_launch(const RankOptions& options,
                                      const std::filesystem::path& run,
                                      const std::function<int()>& signal,
                                      Exit& exit) {
  LaunchRequest request;
  request.fast_reduce = options.fast_reduce;
  request.progress_thread = !options.poll;
  request.checksum = options.checksum;
  request.links = options.between_ranks;
  request.set_up_limit = Seconds(options.set_up_limit);
  request.least_limit = Seconds(options.stall_limit);
  request.inject = options.inject;
  request.run = run;
  request.signal = signal;
  request.give_up = give_up;
  request.on_stall = [](const std::string& text) {
    say("pipewright: warning: " + text);
  };
  Result<std::unique_ptr<Launch>> launch = start_launch(request);
  if (launch) return *std::move(launch);
  report(launch.error(), exit);
  return nullptr;
}

bool is_to_lead(Launch& launch, const RankOptions& options,
                const Result<Model>& model, TrainRequest& request, Exit& exit) {
  Result<Intentions> mine = intentions(launch, model, options, request);
  std::optional<Cluster> cluster;
  if (mine && !options.cluster.empty() && !options.elastic) {
    Result<Cluster> loaded = load_cluster(options.cluster);
    if (loaded)
      cluster = *std::move(loaded);
    else
      mine = loaded.error();
  }
  const Result<void> agreed =
      launch.agree(mine, request.plan, cluster ? &*cluster : nullptr);
  if (!agreed) {
    if (launch.leads()) report(agreed.error(), exit);
    exit.code = static_cast<int>(agreed.error().code);
    launch.report(agreed.error(), 0);
    launch.finish({exit.code, "", true, 0});
    return false;
  }
  request.transport = launch.transport();
  if (!launch.leads()) follow(launch, *model, request, exit);
  return launch.leads();
}

Error end_by_signal(const TrainReport& report) {
  const std::string name = report.signal == SIGINT    ? "SIGINT"
                           : report.signal == SIGUSR1 ? "SIGUSR1"
                           : report.signal == SIGHUP  ? "SIGHUP"
                                                      : "SIGTERM";
  return {static_cast<ErrorCode>(exit_code(report)),
          "ended by " + name + " after step " + std::to_string(report.steps) +
              ", which is saved",
          report.checkpoint,
          "continue with --resume",
          {}};
}

bool has_ended_well(Launch& launch, const Result<TrainReport>& report,
                    Exit& exit) {
  if (!report) cli::report(report.error(), exit);
  Outcome outcome{exit_code(report), "", report.ok(),
                  report ? report->signal : 0};
  if (outcome.exit_code != 0) {
    const Error error = report ? end_by_signal(*report) : report.error();
    launch.report(error, outcome.signal);
    outcome.text = error.to_text();
  }
  launch.finish(outcome);
  if (!report) leave(launch, exit.code);
  return report.ok();
}

}  // namespace pipewright::cli
