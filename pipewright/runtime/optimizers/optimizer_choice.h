// An optimizer and its settings as a person chooses them, without LibTorch.

#pragma once

#include <optional>
#include <string>

#include "pipewright/base/result.h"

namespace pipewright {

struct OptimizerChoice {
  std::string name = "sgd";  // sgd, adam, adamw
  double momentum = 0.9;     // sgd
  bool nesterov = false;     // sgd
  double beta1 = 0.9;        // adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> weight_decay;  // 0.01 for adamw, else 0

  bool operator==(const OptimizerChoice&) const = default;
};

// "sgd momentum=0.9", as a checkpoint remembers it.
std::string to_text(const OptimizerChoice& choice);

// State per weight; see plan/memory/optimizer_words.h. Fails as
// make_optimizer() does.
Result<int> words_of(const OptimizerChoice& choice);

}  // namespace pipewright
