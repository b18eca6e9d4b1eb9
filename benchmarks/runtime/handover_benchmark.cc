// What it takes to hand over: a pipeline of actions that compute nothing, on
// devices of one kind. An action waits for its message of 512 bytes and sends
// it on, so a step divided by the actions of all workers is what an action
// costs beside its layers, with a share of what the step itself costs (samples,
// losses, update). By a longer step, what each further action costs. Kernel by
// kernel, and as recordings where the device records.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/runtime/pipelines.h"
#include "cli/program_arguments.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/builder.h"
#include "pipewright/model/kinds.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/layers/custom_layer.h"
#include "pipewright/runtime/layers/device_constant.h"

namespace pipewright::bench {
namespace {

constexpr int kSamples = 4, kFeatures = 32;  // of a message: 512 bytes

// Gives its input on. The first has a parameter, whose gradient is 0, so that
// gradients are sent back to it.
class Pass final : public LayerFunction {
 public:
  explicit Pass(bool is_first) : is_first_(is_first) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {inputs[0], {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    return {is_first_ ? at::Tensor() : gradient};
  }
  Tensors backward_weight(const KeptTensors&, const at::Tensor& gradient,
                          const Tensors&) const override {
    return {zero_.on(gradient.device())};
  }
  void add_backward_weight(const KeptTensors&, const at::Tensor&,
                           const Tensors&, Tensors&) const override {}

 private:
  const bool is_first_;
  DeviceConstant zero_{at::zeros({1})};
};

// A loss of 0, whatever it is given.
class NoLoss final : public LayerFunction {
 public:
  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {loss_.on(inputs[0].device()), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    return {of_input_.on(gradient.device())};
  }

 private:
  DeviceConstant loss_{at::zeros({})};
  DeviceConstant of_input_{at::zeros({kSamples, kFeatures})};
};

LayerKind added_pass(const std::string& name, int parameters) {
  const auto form = [=](const Attributes&,
                        const std::vector<TensorForm>& inputs) {
    LayerForm same{inputs[0].shape, {}};
    for (int i = 0; i < parameters; ++i)
      same.parameters.push_back({"weight", {1}});
    return Result<LayerForm>(same);
  };
  const LayerKind kind =
      checked(add_kind({.name = name,
                        .inputs = {InputType::Floating},
                        .form = form,
                        .cost = [](const LayerFacts&, LayerCost&) {}}));
  add_custom_layer(
      kind, {.make =
                 [](const LayerDescription& layer) {
                   return std::make_unique<Pass>(!layer.wants_gradient(0));
                 },
             .initial =
                 [](const LayerDescription& layer, std::uint64_t) {
                   return Tensors(layer.parameter_shapes.size(),
                                  at::zeros({1}));
                 }});
  return kind;
}

LayerKind added_loss() {
  const LayerKind kind = checked(add_kind(
      {.name = "no_loss",
       .inputs = {InputType::Floating},
       .form = [](const Attributes&,
                  const std::vector<TensorForm>&) -> Result<LayerForm> {
         return LayerForm{{}, {}};
       },
       .cost =
           [](const LayerFacts& facts, LayerCost& cost) {
             cost.output = {Bytes(facts.number_bytes()), Bytes(0)};
           }}));
  add_custom_layer(
      kind,
      {.make = [](LayerDescription) { return std::make_unique<NoLoss>(); },
       .initial = [](const LayerDescription&,
                     std::uint64_t) { return Tensors(); }});
  return kind;
}

// A layer for each worker.
Model empty_model(int workers) {
  static const LayerKind first = added_pass("first_pass", 1),
                         pass = added_pass("pass", 0), loss = added_loss();
  ModelBuilder builder("empty");
  Source x = checked(builder.add_input({"input", {kFeatures}}));
  for (int i = 0; i + 1 < workers; ++i)
    x = checked(builder.add_layer({.name = "pass" + std::to_string(i),
                                   .kind = i == 0 ? first : pass,
                                   .inputs = {x}}));
  checked(builder.add_layer({.name = "loss", .kind = loss, .inputs = {x}}));
  return checked(std::move(builder).build());
}

struct Case {
  std::string device = "cpu";
  int workers = 2, microbatches = 32, steps = 200;
  bool is_json = false;

  int num_actions() const { return 2 * microbatches * workers; }
  Case longer() const {
    Case result = *this;
    result.microbatches *= 3;
    return result;
  }
};

// None where the device does not record.
std::optional<Seconds> measured_step(const Case& each, bool records) {
  const Model model = empty_model(each.workers);
  Profile sizes = profile_graph(model);
  sizes.sizes[kSamples] = model_sizes(model, kSamples);
  ScheduleRequest request;
  request.workers = each.workers;
  request.microbatches = each.microbatches;
  const Program program = checked(lower(
      even_plan(model, checked(generate_schedule("1f1b", request)), kSamples),
      sizes));
  Executor::Devices devices = checked(open_devices(std::vector<std::string>(
      static_cast<std::size_t>(each.workers), each.device)));
  if (records && !devices[0]->records()) return std::nullopt;
  // Samples are not what is measured: they are where they cost least, for whole
  // steps in the host's memory.
  at::Tensor input = at::zeros({kSamples, kFeatures});
  if (!records) input = input.to(devices[0]->place());
  TrainingSettings settings = plain_sgd();
  settings.may_record = records;
  Executor executor(model, program, settings, nullptr, std::move(devices));
  return step_time(
      executor, [input](int, std::int64_t) { return input; }, each.steps, 9);
}

void print_steps(const Case& each) {
  using Align = TextTable::Align;
  TextTable table(
      {{std::to_string(each.workers) + " x " + each.device, Align::Left},
       {"step", Align::Right},
       {"actions", Align::Right},
       {"an action", Align::Right},
       {"a further one", Align::Right}});
  Json report = Json::object();
  for (const bool records : {false, true}) {
    const std::optional<Seconds> step = measured_step(each, records);
    if (!step) continue;
    const Case longer = each.longer();
    const Seconds action = *step / each.num_actions(),
                  further = (*measured_step(longer, records) - *step) /
                            (longer.num_actions() - each.num_actions());
    table.add_row({records ? "recorded" : "kernel by kernel", to_text(*step),
                   std::to_string(each.num_actions()), to_text(action),
                   to_text(further)});
    Json row = Json::object();
    row.set("action", action.value());
    row.set("further_action", further.value());
    report.set(records ? "recorded" : "kernel_by_kernel", row);
  }
  std::cout << (each.is_json ? report.to_text() : table.to_text(100));
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  pipewright::bench::Case each;
  CLI::App app{"Times actions that compute nothing"};
  app.add_option("--device", each.device, "Kind of the workers' devices")
      ->capture_default_str();
  app.add_option("--workers", each.workers, "At least 2")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--steps", each.steps, "Of each of nine runs")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  app.add_flag("--json", each.is_json, "Seconds of actions, nothing else");
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  try {
    pipewright::bench::print_steps(each);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
