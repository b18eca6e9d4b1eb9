// Training on two ranks, or replicas on three, whose workers compute on a
// device whose memory the host cannot read, as a GPU's: the bits of one process
// with such workers. One of the workers may be on a core.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/ranks/commands.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/devices/remote_device.h"
#include "tests/runtime/devices/remote_link.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kRemoteMicrobatch = 4, kRemoteMicrobatches = 4;

struct RemoteCase {
  std::string name;
  Model model;
  Plan plan;
};

RemoteCase remote_case(const std::string& name, const Model& model,
                       const Schedule& schedule, Method method) {
  return {name, model, plan_of(model, schedule, kRemoteMicrobatch, method)};
}

std::vector<RemoteCase> remote_cases() {
  const auto schedule = [](const char* name, int workers = 2) {
    return generated(name, workers, kRemoteMicrobatches);
  };
  const Schedule replicas =
      with_replicas(schedule("1f1b", 1), {session().size()}, Replication::Split)
          .value();
  if (session().size() > 2)
    return {remote_case("replicas", small_mlp(), replicas, Method::Sync),
            remote_case("tied replicas", small_gpt(), replicas, Method::Sync)};
  return {
      remote_case("1f1b", small_mlp(), schedule("1f1b"), Method::Sync),
      remote_case("zb-h1", small_mlp(), schedule("zb-h1"), Method::Sync),
      remote_case("tied", small_gpt(), schedule("1f1b"), Method::Sync),
      remote_case("replicas", small_mlp(), replicas, Method::Sync),
      remote_case("pipemare", small_mlp(), schedule("async-1f1b"),
                  Method::PipeMare),
      remote_case("stash", small_gpt(), schedule("async-1f1b"), Method::Stash)};
}

using WhichAreRemote = std::vector<bool>;  // by worker

WhichAreRemote all_remote() {
  return WhichAreRemote(static_cast<std::size_t>(session().size()), true);
}
WhichAreRemote all_remote_but(std::size_t worker) {
  WhichAreRemote remote = all_remote();
  remote[worker] = false;
  return remote;
}

Executor::Devices devices_for(const WhichAreRemote& remote) {
  Executor::Devices devices;
  for (const bool is_remote : remote)
    if (is_remote)
      devices.push_back(std::make_unique<RemoteDevice>());
    else
      devices.push_back(std::make_unique<CpuDevice>());
  return devices;
}

struct RemoteOutcome {
  std::vector<double> losses;
  TrainingState state;
};

RemoteOutcome remote_outcome(Executor& executor,
                             const MicrobatchSource& source) {
  RemoteOutcome outcome;
  for (int i = 0; i < 2; ++i) {
    const Result<Executed> run = executor.run(source, 3);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
    outcome.losses.insert(outcome.losses.end(), run->losses.begin(),
                          run->losses.end());
  }
  outcome.state = executor.state();
  return outcome;
}

void check_remote(Transport& transport, const RemoteCase& each,
                  const WhichAreRemote& remote) {
  CAPTURE(each.name);
  const Program program =
      lower(each.plan, profile_of(each.model, kRemoteMicrobatch)).value();
  const MicrobatchSource source = random_source(each.model, kRemoteMicrobatch);
  const TrainingSettings settings = settings_for_tests();
  const auto own = static_cast<std::size_t>(transport.rank());
  Executor executor(each.model, program, settings, &transport,
                    devices_for({remote[own]}));
  if (!transport.leads()) {
    executor.follow(source);
    return;
  }
  const RemoteOutcome ours = remote_outcome(executor, source);
  shut_down(transport, {});
  Executor alone(each.model, program, settings, nullptr, devices_for(remote));
  const RemoteOutcome theirs = remote_outcome(alone, source);
  CHECK(ours.losses == theirs.losses);
  REQUIRE(ours.state.parameters.size() == theirs.state.parameters.size());
  for (std::size_t i = 0; i < ours.state.parameters.size(); ++i)
    CHECK(have_same_bits(ours.state.parameters[i], theirs.state.parameters[i]));
  for (std::size_t i = 0; i < ours.state.optimizer.size(); ++i)
    for (std::size_t j = 0; j < ours.state.optimizer[i].size(); ++j)
      CHECK(have_same_bits(ours.state.optimizer[i][j],
                           theirs.state.optimizer[i][j]));
}

void check_all_remote(const TransportOptions& options,
                      const WhichAreRemote& remote) {
  const auto transport = session().connect(options);
  const int before = num_late_copies();
  for (const RemoteCase& each : remote_cases())
    check_remote(*transport, each, remote);
  const bool sends_remotely =
      remote[static_cast<std::size_t>(transport->rank())];
  CHECK((num_late_copies() > before) == sends_remotely);
  CHECK(num_freed_elsewhere() == 0);
}

TEST_CASE("ranks on devices have the bits of one process") {
  check_all_remote({}, all_remote());
  check_all_remote({.progress_thread = false}, all_remote());
  check_all_remote({.checksum = true}, all_remote());
}

TEST_CASE("ranks with links between devices have the bits of one process") {
  for (const TransportOptions& options :
       {TransportOptions{}, TransportOptions{.progress_thread = false}}) {
    use_remote_links(options.progress_thread ? RemoteLinks::Working
                                             : RemoteLinks::FirstBroken);
    const auto transport = session().connect(options);
    const int before = num_late_copies(), linked = num_linked_tensors();
    for (const RemoteCase& each : remote_cases())
      check_remote(*transport, each, all_remote());
    CHECK(num_late_copies() == before);  // nothing through the host
    CHECK(num_linked_tensors() > linked);
    CHECK(transport->message_path() == "Pipe");
  }
  use_remote_links(RemoteLinks::None);
}

TEST_CASE("links between devices are not used where one end has none") {
  use_remote_links(session().rank() == 0 ? RemoteLinks::Working
                                         : RemoteLinks::None);
  check_all_remote({}, all_remote());
  use_remote_links(RemoteLinks::Working);
  check_all_remote({}, all_remote_but(0));
  check_all_remote({.links = {LinkChoice::kNone}}, all_remote());
  check_all_remote({.checksum = true}, all_remote());
  use_remote_links(RemoteLinks::None);
}

TEST_CASE("ranks on cores and on devices have the bits of one process") {
  check_all_remote({}, all_remote_but(0));
  check_all_remote({}, all_remote_but(1));
}

}  // namespace
}  // namespace pipewright
