#include "pipewright/runtime/layers/random_operators.h"

#include <string>

#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/layers/operator_code.h"

namespace pipewright {
namespace {

// The first one among these functions, or "".
std::string random_operator(const LayerFunctions& functions) {
  for (const ExportedFunction* one :
       {&functions.constants, &functions.forward, &functions.backward_input,
        &functions.backward_weight})
    if (const auto code = OperatorCode::create(*one))
      if (std::string name = code->random_operator(); !name.empty())
        return name;
  return {};
}

// The first of the stage's workers that is not on a core; none: -1.
WorkerId off_cores(const Stage& stage, const Plan& plan) {
  for (const WorkerId worker : stage.workers)
    if (plan.device_kinds[worker.index()] != "cpu") return worker;
  return {};
}

Error draws_off_cores(const std::string& name, const Model& model,
                      LayerId layer, WorkerId worker, const Plan& plan) {
  Error error = bad_configuration(
      name + " of layer " + model.layer(layer).name + " is for worker " +
          std::to_string(worker.value) + " on " +
          plan.device_kinds[worker.index()] +
          ", and random operators other than dropout run on cores only",
      "train this model with --device cpu");
  error.where = model.exported()->file;
  return error;
}

}  // namespace

Result<void> check_random_operators(const Model& model, const Plan& plan) {
  const ExportedModel* const exported = model.exported();
  if (!exported || plan.device_kinds.empty()) return {};
  for (const Stage& stage : plan.stages) {
    const WorkerId worker = off_cores(stage, plan);
    if (worker.is_none()) continue;
    for (const auto* layers : {&stage.forward, &stage.backward})
      for (const LayerId layer : *layers)
        if (const std::string name =
                random_operator(exported->functions_of(layer));
            !name.empty())
          return draws_off_cores(name, model, layer, worker, plan);
  }
  return {};
}

}  // namespace pipewright
