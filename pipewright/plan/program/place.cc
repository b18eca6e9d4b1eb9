#include "pipewright/plan/program/place.h"

namespace pipewright {
namespace {

const char* name_of(ActionKind kind) {
  static const char* const kNames[] = {
      "forward",         "backward",  "input gradient",
      "weight gradient", "recompute", "send",
      "receive",         "reduce",    "step"};
  return kNames[static_cast<int>(kind)];
}

std::string text_of(const Place& place, const std::string& worker) {
  std::string text = "step " + std::to_string(place.step) + worker;
  if (!place.stage.is_none())
    text += ", stage " + std::to_string(place.stage.value);
  return text + ", " + name_of(place.kind) + " of microbatch " +
         std::to_string(place.microbatch);
}

}  // namespace

Place place_of(WorkerId worker, const Action& action, std::int64_t microbatch,
               int num_microbatches) {
  return {worker, action.stage, action.kind, microbatch / num_microbatches + 1,
          microbatch % num_microbatches};
}

std::string to_text(const Place& place) {
  return place.worker.is_none() ? "no action yet" : text_of(place, "");
}

std::string text_with_worker(const Place& place) {
  return text_of(place, ", worker " + std::to_string(place.worker.value));
}

}  // namespace pipewright
