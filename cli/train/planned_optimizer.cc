#include "cli/train/planned_optimizer.h"

#include <algorithm>

#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

std::string named(const OptimizerChoice& choice) {
  if (choice.name != "sgd") return choice.name;
  return choice.momentum == 0 ? "sgd without momentum"
                              : "sgd with momentum " + to_text(choice.momentum);
}

std::string numbers(int words) {
  return std::to_string(words) + (words == 1 ? " number" : " numbers");
}

// The options that train with that much state; "" for more than any has.
std::string options_for(int words) {
  switch (words) {
    case 0:
      return "--optimizer sgd --momentum 0 has none";
    case 1:
      return "--optimizer momentum has 1";
    case 2:
      return "--optimizer adam and adamw have 2";
    default:
      return "";
  }
}

}  // namespace

std::string other_state_text(const OptimizerChoice& choice, const Plan& plan) {
  const Result<OptimizerMemory> kept = memory_of(choice);
  const int planned = has_masters(plan.number_type)
                          ? std::max(0, plan.optimizer_words / 2 - 1)
                          : plan.optimizer_words;
  if (!kept || kept->words == planned) return "";
  const std::string way_out = options_for(planned);
  return "the plan counts " + numbers(planned) +
         " of optimizer state per weight, and " + named(choice) + " keeps " +
         std::to_string(kept->words) +
         ": workers take other memory than planned" +
         (way_out.empty() ? "" : " (" + way_out + ")");
}

}  // namespace pipewright::cli
