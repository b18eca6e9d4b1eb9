#include "pipewright/runtime/training/run_checkpoints.h"

#include "pipewright/base/text.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {
namespace {

CheckpointOrigin origin_of(const TrainRequest& request) {
  std::string data = request.data;
  if (request.held_out_share > 0)
    data += " less " + to_text(request.held_out_share, 17);
  std::string optimizer = to_text(request.optimizer);
  if (request.max_norm > 0)
    optimizer += " clip=" + to_text(request.max_norm, 17);
  return {request.plan.model, data, optimizer, request.seed,
          request.plan.minibatch};
}

}  // namespace

Bytes checkpoint_bytes(const Model& model, const Optimizer& optimizer) {
  Bytes bytes;
  for (const Parameter& parameter : model.parameters()) {
    const at::ScalarType type = scalar_type(parameter.type);
    const auto state = static_cast<std::int64_t>(
        c10::elementSize(state_type(type)) *
        static_cast<std::size_t>(optimizer.words() +
                                 optimizer.has_master(type)));
    bytes += (size_of(parameter.type) + Bytes(state)) *
             num_elements(parameter.shape);
  }
  return bytes;
}

RunCheckpoints::RunCheckpoints(const Model& model, const TrainRequest& request)
    : model_(model), run_(request.run), origin_(origin_of(request)) {}

Result<TrainingState> RunCheckpoints::resume(std::vector<Error>& skipped) {
  PIPEWRIGHT_TRY(TrainingState state,
                 read_checkpoint(run_, model_, origin_, &skipped));
  saved_ = tried_ = state.minibatches;
  return state;
}

Result<std::filesystem::path> RunCheckpoints::write(
    const TrainingState& state) {
  tried_ = state.minibatches;
  PIPEWRIGHT_TRY(std::filesystem::path path,
                 write_checkpoint(run_, model_, origin_, state));
  saved_ = state.minibatches;
  return path;
}

std::string RunCheckpoints::not_saved_text(std::int64_t step,
                                           const Error& error) const {
  return "step " + std::to_string(step) + " is not saved: " + error.to_text() +
         "; training goes on" +
         (has_checkpoint(run_) ? ", and the checkpoint of step " +
                                     std::to_string(saved_) + " is kept"
                               : "");
}

Error RunCheckpoints::with_hint(Error error) const {
  if (error.hint.empty() && error.code == ErrorCode::LossNotFinite)
    error.hint = "try a smaller --lr or a longer --warm-up";
  if (has_checkpoint(run_))
    error.hint += std::string(error.hint.empty() ? "" : "; ") +
                  "the weights of step " + std::to_string(saved_) +
                  " are kept in " + run_.string();
  return error;
}

}  // namespace pipewright
