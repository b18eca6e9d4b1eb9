// Parameters with a learning rate or a weight decay of their own, such as
// biases without decay, as a person chooses them:
//
//   *.bias,*norm*:weight-decay=0
//   head.*:lr=0.001,weight-decay=0.1
//
// Before the colon are patterns of parameters' names, in which * stands for any
// characters and ? for one. A parameter belongs to the first group that has a
// pattern for it, or to none.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"

namespace pipewright {

struct ParameterGroup {
  std::vector<std::string> patterns;
  std::optional<double> rate;  // instead of --lr; the same schedule
  std::optional<double> weight_decay;

  bool operator==(const ParameterGroup&) const = default;
};

std::string to_text(const ParameterGroup& group);
// Fails with BadConfiguration.
Result<ParameterGroup> parse_parameter_group(std::string_view text);

// Fails with BadConfiguration: a figure out of range, no pattern, nothing set.
Result<void> check_group(const ParameterGroup& group);

bool is_match(std::string_view pattern, std::string_view name);

// By parameter the index of its group, or -1. Fails with BadConfiguration if a
// pattern matches no parameter.
Result<std::vector<int>> groups_of(const std::vector<ParameterGroup>& groups,
                                   const Model& model);

}  // namespace pipewright
