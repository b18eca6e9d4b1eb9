// Functions of exported models: the operators that run by kernels of ours.

#include "pipewright/runtime/layers/operator_code.h"

#include <doctest/doctest.h>

#include "pipewright/runtime/layers/gelu_tensors.h"
#include "pipewright/runtime/out_of_memory.h"
#include "pipewright/runtime/unsupported_operator.h"

namespace pipewright {
namespace {

at::Tensor run_line(const std::string& line, const Tensors& arguments) {
  ExportedFunction function;
  function.num_arguments = static_cast<int>(arguments.size());
  function.num_tensors = function.num_arguments + 1;
  function.calls = {parse_operator_call(line).value()};
  function.results = {function.num_arguments};
  return OperatorCode::create(function).value().run(arguments, {})[0];
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST_CASE("gelu is the built-in layer's, and ATen's within rounding") {
  at::manual_seed(2);
  const at::Tensor x = at::randn({7, 300}), g = at::randn({7, 300});
  for (const std::string form : {"none", "tanh"}) {
    CAPTURE(form);
    const std::string end = ", \"" + form + "\")";
    const at::Tensor value = run_line("%1 = gelu(%0" + end, {x});
    CHECK(value.equal(gelu_of(x, form)));
    CHECK(largest_difference(value, at::gelu(x, form)) < 1e-6);
    const at::Tensor slope =
        run_line("%2 = gelu_backward(%0, %1" + end, {g, x});
    CHECK(slope.equal(gelu_gradient(g, x, form)));
    CHECK(largest_difference(slope, at::gelu_backward(g, x, form)) < 4e-6);
  }
}

TEST_CASE("gelu of other numbers and of views is ATen's") {
  const at::Tensor x = at::randn({6, 8}, at::kDouble);
  CHECK(run_line("%1 = gelu(%0)", {x}).equal(at::gelu(x)));
  const at::Tensor view = at::randn({8, 6}).t();
  CHECK(run_line("%1 = gelu(%0)", {view}).equal(at::gelu(view)));
}

// The executor tells memory from other failures by what is thrown.
TEST_CASE("an operator without memory is not one that failed") {
  std::optional<Error> error;
  try {
    run_line("%0 = zeros([1125899906842624])", {});
  } catch (const std::exception& thrown) {
    error = out_of_memory(thrown);
  }
  REQUIRE(error);
  CHECK(error->code == ErrorCode::OutOfMemory);
  CHECK_THROWS_WITH_AS(
      run_line("%2 = mm(%0, %1)", {at::zeros({2, 3}), at::zeros({2, 3})}),
      doctest::Contains("aten::mm: "), std::runtime_error);
}

TEST_CASE("a random operator off the cores is refused by name") {
  ExportedFunction function;
  function.num_arguments = 1;
  function.num_tensors = 2;
  function.calls = {parse_operator_call("%1 = bernoulli.p(%0, 0.5)").value()};
  function.results = {1};
  const OperatorCode code = OperatorCode::create(function).value();
  CHECK(code.random_operator() == "aten::bernoulli.p");
  const Tensors arguments = {at::zeros({4})};
  CallContext context;
  CHECK(code.run(arguments, context)[0].size(0) == 4);
  context.device = at::Device(at::kMeta);
  std::optional<Error> error;
  try {
    code.run(arguments, context);
  } catch (const std::exception& thrown) {
    error = unsupported_operator(thrown);
  }
  REQUIRE(error);
  CHECK(error->code == ErrorCode::BadConfiguration);
  CHECK(error->message.find("aten::bernoulli.p: random operators") == 0);
  CHECK(error->hint.find("--device cpu") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
