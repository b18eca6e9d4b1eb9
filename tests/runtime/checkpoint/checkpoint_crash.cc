// A process that dies at any call with which a checkpoint changes files: what
// was complete before, or the new one, is then read, and nothing in between.
// And a disk that is full from any of them on: an error, the old one kept.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "pipewright/model/builder.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "tests/runtime/checkpoint/interposed.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "checkpoint_crash: %s\n", what.c_str());
  std::exit(1);
}

Model two_layers() {
  ModelBuilder builder("two", NumberType::Float32);
  const Source x = builder.add_input({"x", {4}, NumberType::Float32}).value();
  const Source y =
      builder
          .add_layer({"fc",
                      LayerKind::Linear,
                      {x},
                      {{"out_features", std::int64_t{3}}, {"bias", true}},
                      {}})
          .value();
  builder.add_layer({"act", LayerKind::Relu, {y}, {}, {}}).value();
  return std::move(builder).build().value();
}

const CheckpointOrigin kOrigin{"two", "none", "sgd", 1, 4};

TrainingState state_at(const Model& model, std::int64_t step) {
  TrainingState state;
  state.minibatches = step;
  for (const Parameter& parameter : model.parameters())
    state.parameters.push_back(
        at::full(parameter.shape, static_cast<double>(step)));
  state.statistics.resize(model.layers().size());
  state.optimizer.resize(model.parameters().size());
  state.velocity.resize(model.parameters().size());
  return state;
}

// The step of what is read, which must be that step's weights.
std::int64_t read_step(const fs::path& run, const Model& model) {
  const Result<TrainingState> state = read_checkpoint(run, model, kOrigin);
  require(state.ok(),
          "nothing can be read: " + (state ? "" : state.error().to_text()));
  require(state->parameters[0].equal(
              state_at(model, state->minibatches).parameters[0]),
          "weights of another step");
  return state->minibatches;
}

bool write_step(const fs::path& run, const Model& model, std::int64_t step) {
  return write_checkpoint(run, model, kOrigin, state_at(model, step)).ok();
}

// Steps 1 and 2 are there; `step` is written by a process that dies at call n.
// False once there is no such call.
bool survives_death(const fs::path& run, const Model& model, std::int64_t step,
                    int n) {
  fs::remove_all(run);
  require(write_step(run, model, 1) && write_step(run, model, 2),
          "cannot write");
  const pid_t child = ::fork();
  if (child == 0) {
    arm(Mishap::Death, n);
    write_step(run, model, step);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  require(WIFEXITED(status), "the child crashed");
  const std::int64_t read = read_step(run, model);
  require(read == step || read == 2, "read step " + std::to_string(read) +
                                         " after dying at call " +
                                         std::to_string(n));
  // And it goes on from there.
  require(write_step(run, model, 4) && read_step(run, model) == 4,
          "cannot go on after dying at call " + std::to_string(n));
  return WEXITSTATUS(status) == 99;
}

bool survives_full_disk(const fs::path& run, const Model& model, int n) {
  fs::remove_all(run);
  require(write_step(run, model, 1) && write_step(run, model, 2),
          "cannot write");
  arm(Mishap::NoRoom, n);
  const bool written = write_step(run, model, 3);
  arm(Mishap::None, 0);
  require(read_step(run, model) == (written ? 3 : 2),
          "a full disk at call " + std::to_string(n));
  return !written;
}

void run_all(const fs::path& run) {
  const Model model = two_layers();
  for (const std::int64_t step : {3, 2}) {  // a new one; the same again
    int deaths = 0;
    while (survives_death(run, model, step, deaths + 1)) ++deaths;
    std::printf("step %d: died at each of %d calls\n", static_cast<int>(step),
                deaths);
    require(deaths > 10, "too few calls: is the interposition at work?");
  }
  int full = 0;
  while (survives_full_disk(run, model, full + 1)) ++full;
  std::printf("a full disk from each of %d calls on\n", full);
  require(full > 5, "too few writes: is the interposition at work?");
  fs::remove_all(run);
}

}  // namespace
}  // namespace pipewright

int main() {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("pipewright-crash-" + std::to_string(::getpid()));
  pipewright::run_all(folder);
  return 0;
}
