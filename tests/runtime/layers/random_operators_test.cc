// Which plans give a random operator to a worker that is not on a core.

#include "pipewright/runtime/layers/random_operators.h"

#include <doctest/doctest.h>

#include "pipewright/base/files.h"
#include "pipewright/model/exported/exported_model.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

// The small exported model of the documents, fc and loss; `code` stands in for
// the loss's first operator.
Model model_with(const std::string& code) {
  std::string text =
      read_file(PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/exported/tiny.json")
          .value();
  const std::string old = "relu(%1)";
  text.replace(text.find(old), old.size(), code);
  return parse_exported(text, "tiny.json").value();
}

Result<void> checked(const Model& model, const std::string& first,
                     const std::string& second) {
  Plan plan = plan_of(model, generated("1f1b", 2, 2), 4);
  plan.device_kinds = {first, second};
  return check_random_operators(model, plan);
}

TEST_CASE("a random operator is refused on a GPU, before training") {
  const Model model = model_with("bernoulli.p(%1, 0.5)");
  const Result<void> refused = checked(model, "cuda", "cuda");
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::BadConfiguration);
  CHECK(refused.error().to_text() ==
        "tiny.json: aten::bernoulli.p of layer loss is for worker 1 on cuda, "
        "and random operators other than dropout run on cores only (train this "
        "model with --device cpu)");
  CHECK(checked(model, "cuda/4", "cpu").ok());
  CHECK(!checked(model, "cpu", "cuda/4").ok());
  CHECK(checked(model, "cpu", "cpu").ok());
}

TEST_CASE("dropout and other operators are for all devices") {
  CHECK(checked(model_with("relu(%1)"), "cuda", "cuda").ok());
  CHECK(checked(exported_models().at("language"), "cuda", "cuda").ok());
  CHECK(checked(small_mlp(), "cuda", "cuda").ok());
}

}  // namespace
}  // namespace pipewright
