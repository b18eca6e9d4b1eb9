// The profiler: which times layers have, and which are named as noisy.

#include "pipewright/runtime/profiling/profiler.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "pipewright/profile/analytic.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

ProfilerOptions quick() {
  ProfilerOptions options;
  options.budget = Seconds(0.2);
  return options;
}

// Workspace depends on LibTorch's kernels for this machine; estimates of
// built-in layers know nothing of what is carried.
std::vector<LayerSizes> without_measured(std::vector<LayerSizes> sizes) {
  for (LayerSizes& layer : sizes) layer.workspace = layer.carried = Bytes(0);
  return sizes;
}

TEST_CASE("every layer of every small model has the times it needs") {
  for (const Model& model :
       {small_mlp(), small_cnn(), small_gpt(), small_lstm()}) {
    CAPTURE(model.name());
    const std::vector<int> sizes = {2, 5};
    const Result<Profile> profile = measured_profile(model, sizes, quick());
    REQUIRE_MESSAGE(profile.ok(),
                    (profile.ok() ? "" : profile.error().to_text()));
    CHECK(profile->origin.source == "measured");
    std::vector<bool> updated(model.parameters().size(), false);
    for (const int size : sizes) {
      CHECK((without_measured(profile->sizes.at(size)) ==
             model_sizes(model, size)));
      updated.assign(updated.size(), false);
      for (int l = 0; l < model.num_layers(); ++l) {
        const Layer& layer = model.layer(LayerId(l));
        CAPTURE(layer.name);
        const LayerTimes& times = profile->times.at("cpu").at(size)[l];
        bool updates = false;
        for (const ParameterId id : layer.parameters)
          if (!updated[id.index()]) updated[id.index()] = updates = true;
        CHECK(times.forward > Seconds(0));
        CHECK((times.backward_weight > Seconds(0)) ==
              !layer.parameters.empty());
        CHECK((times.backward_input > Seconds(0)) ==
              model.needs_gradient(LayerId(l)));
        CHECK((times.update > Seconds(0)) == updates);
        CHECK((profile->sizes.at(size)[l].carried > Bytes(0)) ==
              (layer.kind == LayerKind::Lstm));
      }
    }
    CHECK(parse_profile(to_text(*profile), "x").ok());
  }
}

TEST_CASE("exported layers carry what their file says") {
  std::size_t num_carrying = 0;
  for (const auto& [name, model] : exported_models()) {
    CAPTURE(name);
    const Profile profile = measured_profile(model, {{4}}, quick()).value();
    const std::vector<LayerSizes> expected = model_sizes(model, 4);
    for (std::size_t l = 0; l < expected.size(); ++l) {
      CAPTURE(profile.layers[l].name);
      CHECK(profile.sizes.at(4)[l].carried == expected[l].carried);
      num_carrying += expected[l].carried > Bytes(0);
    }
  }
  CHECK(num_carrying > 5);
}

TEST_CASE("layers that do the same work have the same times") {
  const Model model =
      load_model("gpt:layers=2,hidden=16,heads=2,vocab=32,seq=8").value();
  const std::vector<int> sizes = {2};
  const Profile profile = measured_profile(model, sizes, quick()).value();
  std::map<std::string, const LayerTimes*> by_name;
  for (int l = 0; l < model.num_layers(); ++l)
    by_name[model.layer(LayerId(l)).name] = &profile.times.at("cpu").at(2)[l];
  for (const std::string part : {"norm1", "qkv", "attention", "fc1", "gelu"}) {
    CAPTURE(part);
    CHECK(*by_name.at("block0." + part) == *by_name.at("block1." + part));
  }
  CHECK(by_name.at("block0.fc1")->forward != by_name.at("block0.fc2")->forward);
  CHECK(by_name.at("block0.fc1")->forward != by_name.at("block0.qkv")->forward);
}

TEST_CASE("a profile lowers like an estimated one") {
  const Model model = small_cnn();
  const Profile measured = measured_profile(model, {{4}}, quick()).value();
  const Profile expected = profile_of(model, 4);
  CHECK((measured.layers == expected.layers));
  CHECK((measured.parameters == expected.parameters));
  CHECK((without_measured(measured.sizes.at(4)) == expected.sizes.at(4)));
}

TEST_CASE("the median is that of the work, and uneven work has a spread") {
  using std::chrono::milliseconds;
  const Sample even = measured(
      [] { std::this_thread::sleep_for(milliseconds(2)); }, Seconds(0.05));
  CHECK(even.median >= Seconds(0.002));
  CHECK(even.median < Seconds(0.02));
  int turn = 0;
  const Sample uneven = measured(
      [&] { std::this_thread::sleep_for(milliseconds(++turn % 2 ? 1 : 30)); },
      Seconds(0.1));
  CHECK(uneven.spread > 0.5);
}

TEST_CASE("noisy times are named in the origin") {
  ProfilerOptions options = quick();
  options.max_spread = 0;  // no clock is that steady
  const Profile profile = measured_profile(small_mlp(), {{3}}, options).value();
  CHECK(profile.origin.description.find("NOT measured reliably") !=
        std::string::npos);
  CHECK(profile.origin.description.find(" at 3 (") != std::string::npos);
  options.max_spread = 1e9;
  CHECK(measured_profile(small_mlp(), {{3}}, options)
            .value()
            .origin.description.find("no time is noisy") != std::string::npos);
}

TEST_CASE("progress ends at 1, and a size of 0 is refused") {
  ProfilerOptions options = quick();
  std::vector<double> shares;
  options.progress = [&](double share) { shares.push_back(share); };
  REQUIRE(measured_profile(small_mlp(), {{1, 2}}, options).ok());
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(shares.back() == 1);
  CHECK(measured_profile(small_mlp(), {{0}}).error().code ==
        ErrorCode::BadConfiguration);
}

TEST_CASE("a pipeline is run as it is, on as many workers as asked for") {
  for (const int workers : {1, 2}) {
    ProfilerOptions options = quick();
    options.workers = workers;
    const PipelineRun run = measured_pipeline(small_mlp(), 3, options).value();
    CHECK(run.plan.num_workers() == workers);
    CHECK(run.plan.microbatch == 3);
    CHECK(run.timeline.minibatches >= 3);
    CHECK(std::ssize(run.timeline.spans) == workers);
    const Seconds period = step_period(run.timeline);
    CHECK(period > Seconds(0));
    CHECK(period < run.timeline.duration);
    CHECK(run.timeline.workers[0].peak.total() > Bytes(0));
  }
  ProfilerOptions uneven = quick();
  uneven.workers = 2;
  uneven.stages = stages_of_cuts({1}, small_mlp().num_layers());
  const PipelineRun given = measured_pipeline(small_mlp(), 3, uneven).value();
  REQUIRE(given.plan.stages.size() == 2);
  CHECK((given.plan.stages[0].forward == std::vector{LayerId(0)}));
  CHECK(std::ssize(given.timeline.spans) == 2);
  ProfilerOptions none = quick();
  none.workers = 0;
  CHECK(measured_pipeline(small_mlp(), 3, none).error().code ==
        ErrorCode::BadConfiguration);
}

TEST_CASE("the update that is measured is that of the optimizer") {
  const Model model = small_mlp();
  Bytes weights;
  for (const Parameter& parameter : model.parameters())
    weights += size_of(parameter.type) * num_elements(parameter.shape);
  std::map<std::string, Bytes> peaks;
  for (const std::string name : {"sgd", "adamw"}) {
    ProfilerOptions options = quick();
    options.optimizer = optimizer_named(name).value();
    const Profile profile = measured_profile(model, {{3}}, options).value();
    CHECK(profile.origin.description.find("update is " + name + ";") !=
          std::string::npos);
    const PipelineRun run = measured_pipeline(model, 3, options).value();
    CHECK(run.optimizer.name == name);
    peaks[name] = run.timeline.workers[0].peak.total();
  }
  CHECK(peaks["adamw"] - peaks["sgd"] >= weights * std::int64_t{2});
}

TEST_CASE("the channel answers, and its time is measured") {
  const Sample latency = channel_latency(Seconds(0.05));
  CHECK(latency.median > Seconds(0));
  CHECK(latency.median < Seconds(1));
}

}  // namespace
}  // namespace pipewright
