#include "pipewright/runtime/training/sample_sets.h"

#include <utility>

namespace pipewright {
namespace {

Result<SampleSets> split_samples(const Dataset& all,
                                 const TrainRequest& request) {
  if (all.num_samples < 2)
    return bad_configuration("the data has one sample, which cannot be split",
                             "evaluate on other data with --eval");
  Split parts = split(all, request.held_out_share, request.seed);
  return SampleSets{stored_samples(std::move(parts.rest)),
                    std::move(parts.held_out)};
}

// How many samples an epoch has is not known of these.
Result<std::unique_ptr<TrainingSamples>> open_fed(const Model& model,
                                                  const TrainRequest& request,
                                                  bool is_alone) {
  if (!is_alone)
    return bad_configuration("data from Python reaches one process only",
                             "give a file, for example tensors:FILE");
  if (request.steps == 0)
    return bad_configuration("data from Python needs a number of steps",
                             "for example --steps 100");
  if (request.not_finite != NotFinitePolicy::Stop)
    return bad_configuration(
        "data from Python is read once: no step of it can be repeated or "
        "skipped",
        "use --not-finite stop, or give a file, for example tensors:FILE");
  if (request.held_out_share > 0)
    return bad_configuration("data from Python cannot be split",
                             "evaluate on other data with --eval");
  if (!request.held_out_data.empty() && request.evaluate_every == 0)
    return bad_configuration("data from Python has no epochs to evaluate after",
                             "for example --eval-every 100");
  return fed_samples(model);
}

}  // namespace

Result<SampleSets> open_samples(const Model& model, const TrainRequest& request,
                                bool is_alone) {
  SampleSets samples;
  if (request.data == kFedData) {
    PIPEWRIGHT_TRY(samples.training, open_fed(model, request, is_alone));
  } else {
    PIPEWRIGHT_TRY(Dataset all, open_dataset(request.data, model));
    if (request.held_out_share > 0) return split_samples(all, request);
    samples.training = stored_samples(std::move(all));
  }
  if (!request.held_out_data.empty()) {
    PIPEWRIGHT_TRY(samples.held_out,
                   open_dataset(request.held_out_data, model));
  }
  return samples;
}

}  // namespace pipewright
