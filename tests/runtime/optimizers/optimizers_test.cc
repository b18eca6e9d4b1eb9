// Our optimizers against LibTorch's, step by step.

#include <doctest/doctest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/optimizers/optimizer.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {
namespace {

constexpr int kSteps = 25;

double rate_of(int step) { return 0.05 / (1 + step % 7); }

// The largest difference after any step, with the same gradients for both.
template <class Theirs, class Options>
double difference(const OptimizerChoice& choice, const Options& options) {
  const auto ours = make_optimizer(choice).value();
  at::manual_seed(3);
  at::Tensor weights = at::randn({7, 5});
  const at::Tensor leaf = weights.clone().set_requires_grad(true);
  Theirs theirs({leaf}, options);
  Tensors state(static_cast<std::size_t>(ours->words()));
  for (at::Tensor& tensor : state) tensor = at::zeros_like(weights);
  double largest = 0;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor gradient = at::randn({7, 5});
    ours->update(weights, gradient, state, rate_of(step), step);
    static_cast<Options&>(theirs.param_groups()[0].options()).lr(rate_of(step));
    leaf.mutable_grad() = gradient.clone();
    theirs.step();
    largest = std::max(
        largest, (weights - leaf.detach()).abs().max().template item<double>());
  }
  CHECK((weights - leaf.detach()).isfinite().all().template item<bool>());
  return largest;
}

TEST_CASE("sgd is LibTorch's") {
  for (const double momentum : {0.0, 0.9})
    for (const bool nesterov : {false, true})
      for (const double decay : {0.0, 0.02}) {
        if (nesterov && momentum == 0) continue;
        OptimizerChoice choice;
        choice.momentum = momentum;
        choice.nesterov = nesterov;
        choice.weight_decay = decay;
        CHECK(difference<torch::optim::SGD>(choice,
                                            torch::optim::SGDOptions(0.1)
                                                .momentum(momentum)
                                                .nesterov(nesterov)
                                                .weight_decay(decay)) <= 1e-7);
      }
}

TEST_CASE("adam and adamw are LibTorch's") {
  for (const double decay : {0.0, 0.02})
    for (const double beta1 : {0.9, 0.5}) {
      OptimizerChoice choice;
      choice.beta1 = beta1;
      choice.beta2 = 0.98;
      choice.epsilon = 1e-6;
      choice.weight_decay = decay;
      const std::tuple<double, double> betas(beta1, 0.98);
      choice.name = "adam";
      CHECK(difference<torch::optim::Adam>(choice,
                                           torch::optim::AdamOptions(0.1)
                                               .betas(betas)
                                               .eps(1e-6)
                                               .weight_decay(decay)) <= 1e-7);
      choice.name = "adamw";
      CHECK(difference<torch::optim::AdamW>(choice,
                                            torch::optim::AdamWOptions(0.1)
                                                .betas(betas)
                                                .eps(1e-6)
                                                .weight_decay(decay)) <= 1e-7);
    }
}

TEST_CASE("adamw decays by 0.01 unless told otherwise, as LibTorch's") {
  OptimizerChoice choice;
  choice.name = "adamw";
  CHECK(difference<torch::optim::AdamW>(
            choice, torch::optim::AdamWOptions(0.1)) <= 1e-7);
}

TEST_CASE("what cannot be is refused") {
  OptimizerChoice choice;
  choice.name = "adm";
  CHECK(make_optimizer(choice).error().hint.find("adam") != std::string::npos);
  choice = {};
  choice.momentum = 0;
  choice.nesterov = true;
  CHECK(make_optimizer(choice).error().code == ErrorCode::BadConfiguration);
  choice = {};
  choice.momentum = 1;
  CHECK(!make_optimizer(choice).ok());
  choice = {};
  choice.weight_decay = std::nan("");
  CHECK(!make_optimizer(choice).ok());
}

void check_memory(const Optimizer& optimizer, const OptimizerMemory& memory,
                  at::ScalarType type, CpuDevice& device) {
  at::Tensor weights = at::ones({64, 64}, type);
  const at::Tensor gradient = at::ones({64, 64}, type);
  const auto size = static_cast<std::int64_t>(weights.nbytes());
  Tensors state = optimizer.first_state(weights);
  std::int64_t kept = 0;
  for (const at::Tensor& tensor : state)
    kept += static_cast<std::int64_t>(tensor.nbytes());
  CHECK(kept == size * memory.words);
  const PassingMemory passing(device);
  optimizer.update(weights, gradient, state, 0.1, 0);
  // Numbers such as the rate become tensors of one element, too.
  CHECK(passing.taken().value() / size == memory.temporaries);
  CHECK(passing.taken().value() % size < 64);
}

TEST_CASE("weights of two bytes follow a float32 master, bit by bit") {
  for (const std::string name : {"sgd", "adam", "adamw"}) {
    CAPTURE(name);
    OptimizerChoice choice;
    choice.name = name;
    const auto optimizer = make_optimizer(choice).value();
    at::manual_seed(5);
    at::Tensor weights = at::randn({7, 5}).to(at::kBFloat16);
    at::Tensor exact = weights.to(at::kFloat);
    Tensors state = optimizer->first_state(weights);
    Tensors exact_state = optimizer->first_state(exact);
    CHECK(state.size() == exact_state.size() + 1);
    for (int step = 0; step < kSteps; ++step) {
      // Steps below the weights' own resolution.
      const at::Tensor gradient = at::randn({7, 5}).to(at::kBFloat16);
      optimizer->update(weights, gradient, state, 1e-5, step);
      optimizer->update(exact, gradient.to(at::kFloat), exact_state, 1e-5,
                        step);
      CHECK(state.back().equal(exact));
      CHECK(weights.equal(exact.to(at::kBFloat16)));
    }
  }
}

TEST_CASE("without masters weights of two bytes are rounded at each step") {
  for (const std::string name : {"sgd", "adam", "adamw"}) {
    CAPTURE(name);
    OptimizerChoice choice;
    choice.name = name;
    choice.masters = false;
    const auto optimizer = make_optimizer(choice).value();
    at::manual_seed(5);
    at::Tensor weights = at::randn({7, 5}).to(at::kBFloat16);
    Tensors state = optimizer->first_state(weights);
    CHECK(state.size() == static_cast<std::size_t>(optimizer->words()));
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor gradient = at::randn({7, 5}).to(at::kBFloat16);
      at::Tensor exact = weights.to(at::kFloat);
      Tensors exact_state;
      for (const at::Tensor& one : state) exact_state.push_back(one.clone());
      optimizer->update(exact, gradient.to(at::kFloat), exact_state, 0.01,
                        step);
      optimizer->update(weights, gradient, state, 0.01, step);
      CHECK(at::allclose(weights.to(at::kFloat), exact, 1e-2, 1e-5));
      for (std::size_t i = 0; i < state.size(); ++i)
        CHECK(at::allclose(state[i], exact_state[i], 1e-2, 1e-5));
    }
    const at::Tensor before = weights.clone();
    optimizer->update(weights, at::ones({7, 5}, at::kBFloat16), state, 1e-9,
                      kSteps);
    CHECK(weights.equal(before));  // such a step is lost
  }
}

TEST_CASE("an optimizer takes the memory that its choice says") {
  CpuDevice device;
  device.serve_this_thread();
  for (const std::string name : {"sgd", "adam", "adamw"})
    for (const double momentum : {0.0, 0.9})
      for (const bool nesterov : {false, true})
        for (const double decay : {0.0, 0.02}) {
          OptimizerChoice choice;
          choice.name = name;
          choice.momentum = momentum;
          choice.nesterov = nesterov;
          choice.weight_decay = decay;
          const Result<OptimizerMemory> memory = memory_of(choice);
          CHECK(memory.ok() == make_optimizer(choice).ok());
          if (!memory) continue;
          CAPTURE(to_text(choice));
          const auto optimizer = make_optimizer(choice).value();
          CHECK(optimizer->words() == memory->words);
          check_memory(*optimizer, *memory, at::kFloat, device);
          check_memory(*optimizer, with_masters(*memory), at::kBFloat16,
                       device);
          choice.masters = false;
          check_memory(*make_optimizer(choice).value(),
                       without_masters(*memory), at::kBFloat16, device);
        }
}

}  // namespace
}  // namespace pipewright
