// BaPipe as a whole: its schedules' closed forms, its choices, its table.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/model/model.h"
#include "pipewright/model/model_file.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/profile/analytic.h"
#include "tests/planners/bapipe/bapipe_chains.h"

namespace pipewright {
namespace {

using namespace test;

const Planner& bapipe() { return **find_planner("bapipe"); }

// The estimated step of an inter-layer candidate of a schedule.
double step_of(const BaPipeExploration& exploration,
               const std::string& schedule) {
  for (const BaPipeCandidate& candidate : exploration.candidates())
    if (candidate.schedule == schedule && candidate.planned &&
        candidate.partition == "inter-layer")
      return candidate.planned->estimate.step.value();
  return -1;
}

TEST_CASE("balanced chains: the closed forms of the four schedules") {
  const Profile profile = chain_profile(std::vector<ChainLayer>(4));
  ChainCluster of;
  of.kinds = {0, 0, 0, 0};
  of.latency = 0.3;
  const Cluster gpus = chain_cluster(of);
  of.latency = 0;
  of.execution = ExecutionClass::Async;
  const Cluster fpgas = chain_cluster(of);

  const Problem sync = problem_of(profile, gpus, 8);
  BaPipeExploration on_gpus(sync, "bapipe");
  REQUIRE(on_gpus.explore(1));
  CHECK(step_of(on_gpus, "1F1B-SNO") == doctest::Approx(37.8));
  CHECK(step_of(on_gpus, "1F1B-SO") == doctest::Approx(34.8));
  CHECK(step_of(on_gpus, "1F1B-AS") == -1);

  const Problem async = problem_of(profile, fpgas, 8);
  BaPipeExploration on_fpgas(async, "bapipe");
  REQUIRE(on_fpgas.explore(1));
  CHECK(step_of(on_fpgas, "1F1B-AS") == doctest::Approx(33));
  CHECK(step_of(on_fpgas, "FBP-AS") == doctest::Approx(33));
  CHECK(step_of(on_fpgas, "1F1B-SO") == -1);
}

TEST_CASE("FPGAs stream: a link that takes time adds none") {
  // 60 % of a forward; without streaming it would be as 1F1B-SNO with SR 0.6.
  std::vector<ChainLayer> layers(4);
  for (ChainLayer& layer : layers) layer.output = 6;
  const Profile profile = chain_profile(layers);
  ChainCluster of;
  of.kinds = {0, 0, 0, 0};
  of.bandwidth = 10;
  of.execution = ExecutionClass::Async;
  const Cluster fpgas = chain_cluster(of);
  const Problem problem = problem_of(profile, fpgas, 8);
  BaPipeExploration exploration(problem, "bapipe");
  REQUIRE(exploration.explore(1));
  CHECK(step_of(exploration, "1F1B-AS") == doctest::Approx(33));
  CHECK(step_of(exploration, "FBP-AS") == doctest::Approx(33));
  for (const BaPipeCandidate& candidate : exploration.candidates())
    CHECK(candidate.planned->promised.value() == doctest::Approx(33));
  of.execution = ExecutionClass::Sync;
  const Cluster gpus = chain_cluster(of);
  const Problem exposed = problem_of(profile, gpus, 8);
  BaPipeExploration on_gpus(exposed, "bapipe");
  REQUIRE(on_gpus.explore(1));
  CHECK(step_of(on_gpus, "1F1B-SNO") == doctest::Approx(33 + 2 * 0.6 * 8));
}

TEST_CASE("closed forms and promises for other sizes") {
  for (int n = 2; n <= 6; ++n)
    for (int m : {1, 2, 5, 12}) {
      const Profile profile =
          chain_profile(std::vector<ChainLayer>(static_cast<std::size_t>(n)));
      ChainCluster of;
      of.kinds.assign(static_cast<std::size_t>(n), 0);
      of.latency = 0.3;
      const Cluster cluster = chain_cluster(of);
      const Problem problem = problem_of(profile, cluster, m);
      BaPipeExploration exploration(problem, "bapipe");
      REQUIRE(exploration.explore(1));
      const double full = (m + n - 1) * 3.0;
      const int exposed = n + m - 2 - (m - 1 + n - 1) / n;
      CHECK(step_of(exploration, "1F1B-SNO") ==
            doctest::Approx(full + 0.6 * exposed));
      CHECK(step_of(exploration, "1F1B-SO") ==
            doctest::Approx(full + 0.6 * (n - 1)));
      for (const BaPipeCandidate& candidate : exploration.candidates())
        CHECK(candidate.planned->promised.value() ==
              doctest::Approx(candidate.planned->estimate.step.value())
                  .epsilon(0.05));
    }
}

TEST_CASE("memory: 1F1B-SNO where 1F1B-SO does not fit") {
  // Stage 1 keeps 4 microbatches of 100 bytes without overlap, 7 with.
  std::vector<ChainLayer> layers(4);
  for (ChainLayer& layer : layers) layer.kept = 100;
  const Profile profile = chain_profile(layers);
  ChainCluster of;
  of.kinds = {0, 0, 0, 0};
  of.latency = 0.3;
  of.memory = {700};
  const Cluster roomy = chain_cluster(of);
  of.memory = {500};
  const Cluster tight = chain_cluster(of);
  of.memory = {300};
  const Cluster too_tight = chain_cluster(of);

  const auto overlapped = bapipe().plan(problem_of(profile, roomy, 8));
  REQUIRE(overlapped);
  CHECK(overlapped->plan.schedule_name == "1f1b-so");
  const auto exposed = bapipe().plan(problem_of(profile, tight, 8));
  REQUIRE(exposed);
  CHECK(exposed->plan.schedule_name == "1f1b");
  const auto none = bapipe().plan(problem_of(profile, too_tight, 8));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::BadConfiguration);
  CHECK(none.error().message.find("needs 400 B at best") != std::string::npos);
}

TEST_CASE("memory: layers move out of early stages") {
  std::vector<ChainLayer> layers(12);
  for (ChainLayer& layer : layers) layer.kept = 100;
  const Profile profile = chain_profile(layers);
  ChainCluster of;
  of.kinds = {0, 0, 0, 0};
  of.memory = {900};  // three layers of four microbatches are 1200
  const Cluster cluster = chain_cluster(of);
  const auto result = bapipe().plan(problem_of(profile, cluster, 8));
  REQUIRE(result);
  CHECK(result->plan.stages[0].forward.size() == 2);
  for (Bytes memory : result->estimate.memory) CHECK(memory <= Bytes(900));
}

TEST_CASE("slow links: the cut moves to the small tensor") {
  // Even cuts would send 1000 bytes; one layer off it is 10.
  std::vector<ChainLayer> layers(8);
  for (ChainLayer& layer : layers) layer.output = 1000;
  layers[4].output = 10;
  const Profile profile = chain_profile(layers);
  ChainCluster of;
  of.kinds = {0, 0};
  of.bandwidth = 50;
  const Cluster cluster = chain_cluster(of);
  const auto result = bapipe().plan(problem_of(profile, cluster, 8));
  REQUIRE(result);
  CHECK(result->plan.stages[0].forward.size() == 5);
}

TEST_CASE("every candidate has a row, and the chosen one is marked") {
  std::mt19937 random(5);
  const Profile profile = chain_profile(random_chain(9, random));
  ChainCluster of;
  of.kinds = {0, 0, 0};
  of.bandwidth = 5;
  const Cluster cluster = chain_cluster(of);
  Problem problem = problem_of(profile, cluster, 8);
  problem.microbatches = {1, 2, 4};
  const auto result = bapipe().plan(problem);
  REQUIRE(result);
  const auto rows_with = [&](const std::string& text) {
    return std::count_if(result->notes.begin(), result->notes.end(),
                         [&](const std::string& line) {
                           return line.find(text) != std::string::npos;
                         });
  };
  CHECK(rows_with("1F1B-SNO") >= 3);
  CHECK(rows_with("1F1B-SO") >= 3);
  CHECK(rows_with("chosen") == 1);
  CHECK_FALSE(result->why.empty());
  const auto again = bapipe().plan(problem);
  REQUIRE(again);
  CHECK(again->notes == result->notes);
  CHECK(again->plan.stages == result->plan.stages);
}

// Three equal layers, a relu and a small output on two boards: whole layers
// make 2 : 1.
struct Boards {
  Profile profile;
  Cluster cluster;
};
Boards two_boards() {
  const auto model =
      load_model("mlp:layers=3,hidden=1024,features=1024,classes=2");
  REQUIRE(model);
  const auto cluster = load_cluster("2xVCU118");
  REQUIRE(cluster);
  auto profile = analytic_profile(*model, cluster->kinds(), std::vector{16});
  REQUIRE(profile);
  return {*std::move(profile), *cluster};
}
Problem problem_of_boards(const Boards& boards, bool may_split) {
  Problem problem;
  problem.profile = &boards.profile;
  problem.cluster = &boards.cluster;
  problem.minibatch = 16 * 32;
  problem.microbatches = {16};
  problem.may_split_layers = may_split;
  set_estimators(problem);
  return problem;
}

TEST_CASE("FPGAs: a split layer is what makes the plan faster") {
  const Boards boards = two_boards();
  const auto split = bapipe().plan(problem_of_boards(boards, true));
  const auto whole = bapipe().plan(problem_of_boards(boards, false));
  REQUIRE(split);
  REQUIRE(whole);
  CHECK(split->estimate.step < whole->estimate.step);
  // Against a pipeline: 1.5 of 2 layers, plus fill and drain.
  const auto pipeline = bapipe_planner({.data_parallelism = false})
                            ->plan(problem_of_boards(boards, false));
  REQUIRE(pipeline);
  INFO(split->estimate.step.value(), " of ", pipeline->estimate.step.value());
  CHECK(split->estimate.step < pipeline->estimate.step * 0.85);
  CHECK(whole->plan.model == boards.profile.model);
  CHECK(split->plan.model.starts_with(boards.profile.model +
                                      ",split=hidden1.linear@"));
  CHECK(split->why.find(split->plan.model) != std::string::npos);
  // The plan alone has all that is needed to build, validate and time it.
  const auto model = load_model(split->plan.model);
  REQUIRE(model);
  const auto profile =
      analytic_profile(*model, boards.cluster.kinds(), std::vector{16});
  REQUIRE(profile);
  REQUIRE(check_plan(split->plan, *profile));
  CHECK(simulating_estimator(*profile, boards.cluster)(split->plan)
            ->step.value() ==
        doctest::Approx(split->estimate.step.value()).epsilon(1e-12));
  const LayerId last = split->plan.stages[0].forward.back();
  CHECK(model->layer(last).name == "hidden1.linear.part0");
}

TEST_CASE("a model that cannot be read is not split, and the notes say so") {
  Boards boards = two_boards();
  boards.profile.model = "mine.json";
  const auto result = bapipe().plan(problem_of_boards(boards, true));
  REQUIRE(result);
  CHECK(result->plan.model == "mine.json");
  CHECK(std::count(result->notes.begin(), result->notes.end(),
                   "layers stay whole: the profile's are not those of "
                   "mine.json") == 1);
}

TEST_CASE("a model file is split as the zoo's model is") {
  Boards boards = two_boards();
  const auto zoo = bapipe().plan(problem_of_boards(boards, true));
  REQUIRE(zoo);
  const std::string file =
      (std::filesystem::temp_directory_path() /
       ("pipewright_boards_" + std::to_string(::getpid()) + ".json"))
          .string();
  REQUIRE(write_file(file, to_text(*load_model(boards.profile.model))));
  boards.profile.model = file;
  const auto mine = bapipe().plan(problem_of_boards(boards, true));
  REQUIRE(mine);
  CHECK(mine->plan.model.starts_with(file + ":split=hidden1.linear@"));
  CHECK(mine->plan.stages == zoo->plan.stages);
  CHECK(mine->estimate.step == zoo->estimate.step);
  const auto model = load_model(mine->plan.model);
  REQUIRE(model);
  CHECK(check_plan(mine->plan, profile_graph(*model)));
  std::filesystem::remove(file);
}

TEST_CASE("data parallelism where it is faster, with the reason") {
  // Little to sum, much to send.
  std::vector<ChainLayer> layers(4);
  for (ChainLayer& layer : layers) layer.output = 100;
  const Profile profile = chain_profile(layers);
  ChainCluster of;
  of.kinds = {0, 0};
  of.bandwidth = 10;
  const Cluster cluster = chain_cluster(of);
  Problem problem = problem_of(profile, cluster, 8);
  problem.microbatches = {1, 2, 4};
  const auto result = bapipe().plan(problem);
  REQUIRE(result);
  CHECK(result->plan.planner == "bapipe");
  CHECK(result->plan.num_stages() == 1);
  CHECK(result->plan.num_workers() == 2);
  CHECK(result->why.find("falls back to data parallelism") == 0);
  CHECK(result->estimate.step.value() == doctest::Approx(8 * 4 * 3 / 2));
}

TEST_CASE("only synchronous training") {
  const Profile profile = chain_profile({{}, {}});
  ChainCluster of;
  of.kinds = {0, 0};
  const Cluster cluster = chain_cluster(of);
  Problem problem = problem_of(profile, cluster, 8);
  problem.method = Method::Stash;
  const auto result = bapipe().plan(problem);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::BadConfiguration);
}

}  // namespace
}  // namespace pipewright
