// Modules of torch as layers: against the built-in layer that computes the
// same, under pipelines, and what is refused.

#include "pipewright/runtime/layers/module_kind.h"

#include <doctest/doctest.h>

#include "pipewright/model/kinds.h"
#include "pipewright/model/model_file.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/layers/layer_makers.h"
#include "pipewright/runtime/reference/sequential.h"
#include "pipewright/runtime/training/initial_parameters.h"
#include "tests/runtime/layers/own_linear.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

struct WithBuffer : torch::nn::Module {
  WithBuffer() { register_buffer("count", at::zeros({1})); }
  at::Tensor forward(const at::Tensor& x) { return x; }
};

struct Summing : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.sum(0); }
};

template <class Module>
ModuleKind plain_kind(const std::string& name) {
  return {.name = name,
          .make = [](const Attributes&, const std::vector<Shape>&) {
            return wrapped(std::make_shared<Module>());
          }};
}

TEST_CASE("the module says its shapes and parameters") {
  const Model own = perceptron(own_linear());
  const Model built_in = perceptron(LayerKind::Linear);
  REQUIRE(own.parameters().size() == built_in.parameters().size());
  for (std::size_t i = 0; i < own.parameters().size(); ++i)
    CHECK((own.parameters()[i].shape == built_in.parameters()[i].shape));
  for (int l = 0; l < own.num_layers(); ++l)
    CHECK((own.layer(LayerId(l)).output == built_in.layer(LayerId(l)).output));
  CHECK(to_text(own.layer(LayerId(0)).kind) == "own_linear");
}

TEST_CASE("its gradients are those of the built-in layer") {
  const Model own = perceptron(own_linear());
  const Model built_in = perceptron(LayerKind::Linear);
  const c10::InferenceMode guard;
  for (const int layer : {0, 2}) {
    const auto a = layer_function(own, LayerId(layer));
    const auto b = layer_function(built_in, LayerId(layer));
    const std::int64_t features = layer == 0 ? 6 : 8;
    const KeptTensors kept{{at::randn({5, features})}, {}, {}};
    const Tensors weights = {at::randn({8, features}), at::randn({8})};
    const at::Tensor gradient = at::randn({5, 8});
    CHECK(at::allclose(a->forward(kept.inputs, weights, {}).output,
                       b->forward(kept.inputs, weights, {}).output));
    Tensors carried, none;
    const Tensors in = a->backward_input(kept, weights, gradient, &carried);
    const Tensors expected_in =
        b->backward_input(kept, weights, gradient, &none);
    REQUIRE(in[0].defined() == expected_in[0].defined());
    if (in[0].defined()) CHECK(at::allclose(in[0], expected_in[0]));
    const Tensors of_weights = a->backward_weight(kept, gradient, carried);
    const Tensors expected = b->backward_weight(kept, gradient, none);
    REQUIRE(of_weights.size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(at::allclose(of_weights[i], expected[i], 1e-5, 1e-6));
  }
}

TEST_CASE("pipelines train it to the bits of sequential training") {
  const Model model = perceptron(own_linear());
  const MicrobatchSource source = random_source(model, 4);
  const TrainingSettings settings = settings_for_tests();
  const Trained expected =
      train_sequentially(model, settings, source, {4, 4}, 4);
  CHECK(!at::equal(expected.parameters[0],
                   initial_parameters(model, settings.seed)[0]));
  for (const char* name : {"1f1b", "zb-h1", "interleaved"}) {
    ScheduleRequest request;
    request.workers = 2;
    request.microbatches = 4;
    Plan plan = plan_of(model, generate_schedule(name, request).value(), 4);
    for (const bool recompute : {false, true}) {
      for (Stage& stage : plan.stages) stage.recompute = recompute;
      Executor executor(model, lower(plan, profile_of(model, 4)).value(),
                        settings);
      const auto run = executor.run(source, 4);
      REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
      CHECK(is_identical(executor.trained(), expected));
    }
  }
}

TEST_CASE("it starts as its constructor does, by seed and layer alone") {
  const Model model = perceptron(own_linear());
  const Tensors a = initial_parameters(model, 1);
  at::rand({3});  // whatever else draws numbers
  const Tensors b = initial_parameters(model, 1),
                c = initial_parameters(model, 2);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].equal(b[i]));
  CHECK(!a[0].equal(c[0]));
  CHECK(!a[2].equal(a[4]));  // equal shapes, other layers
  CHECK(a[1].equal(at::zeros({8})));
}

TEST_CASE("what cannot be a layer is refused when a model is made") {
  own_linear();
  CHECK(add_module_kind(plain_kind<WithBuffer>("linear")).error().code ==
        ErrorCode::BadConfiguration);
  REQUIRE(add_module_kind(plain_kind<WithBuffer>("with_buffer")).ok());
  REQUIRE(add_module_kind(plain_kind<Summing>("summing")).ok());
  const auto refused = [](const std::string& kind, const std::string& part) {
    const std::string text = R"({"format": "pipewright/model", "version": 1,
      "name": "m", "inputs": [{"name": "x", "shape": [3, 4]}],
      "layers": [{"name": "a", )" +
                             kind + "}]}";
    const auto model = parse_model(text, "m.json");
    REQUIRE(!model.ok());
    INFO(model.error().to_text());
    CHECK(model.error().code == ErrorCode::MalformedInput);
    CHECK(model.error().to_text().find(part) != std::string::npos);
    CHECK(model.error().to_text().find("m.json:3") != std::string::npos);
  };
  refused(R"("kind": "with_buffer")", "buffers");
  refused(R"("kind": "summing")", "does not start with samples");
  refused(R"("kind": "own_linear")", "out_features");
  refused(R"("kind": "own_linaer")", "own_linear");
}

}  // namespace
}  // namespace pipewright
