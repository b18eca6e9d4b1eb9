// A pipeline that is measured over ranks: none of them times its layers, which
// would make its steps longer than those of a training.

#include <doctest/doctest.h>

#include "pipewright/runtime/profiling/profiling_pipeline.h"
#include "pipewright/runtime/ranks/commands.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

std::size_t num_timed(const ProfilingPipeline& pipeline, const Model& model) {
  std::size_t count = 0;
  for (int l = 0; l < model.num_layers(); ++l)
    count += pipeline.layers().num_samples(LayerStopwatch::Part::Forward,
                                           LayerId(l));
  return count;
}

TEST_CASE("steps are measured without timing layers") {
  const auto transport = session().connect({});
  const Model model = load_model("mlp:features=16,classes=4").value();
  ProfilingSettings settings;
  settings.transport = transport.get();
  ProfilingPipeline pipeline =
      ProfilingPipeline::create(model, 4, 2, settings).value();
  if (transport->leads()) {
    const Result<PipelineRun> run = pipeline.measured_run();
    shut_down(*transport, {});
    REQUIRE(run.ok());
    CHECK(step_period(run->timeline) > Seconds(0));
  } else {
    pipeline.follow();
  }
  CHECK(num_timed(pipeline, model) == 0);
}

}  // namespace
}  // namespace pipewright
