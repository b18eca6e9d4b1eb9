// A long list of tokens for a language model: cut into sequences; the target of
// each token is the next one. See sources.h.

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

bool reads_tokens(const std::vector<ModelInput>& forms) {
  return forms.size() == 2 && !is_floating(forms[0].type) &&
         !is_floating(forms[1].type) && forms[0].shape.size() == 1 &&
         forms[0].shape == forms[1].shape;
}

}  // namespace

std::string input_shapes(const Model& model) {
  std::string shapes;
  for (const ModelInput& form : model.inputs())
    shapes +=
        (shapes.empty() ? "" : ", ") + form.name + " " + to_text(form.shape);
  return shapes;
}

Result<Dataset> token_dataset(const Tokens& tokens, const Model& model) {
  const auto& forms = model.inputs();
  if (!reads_tokens(forms))
    return bad_configuration("text has a sequence and its targets, the model " +
                                 model.name() + " has inputs " +
                                 input_shapes(model),
                             "choose a language model, such as gpt");
  const std::int64_t length = forms[0].shape[0];
  const std::int64_t total = tokens.values.numel();
  const std::int64_t count = (total - 1) / length;
  if (count < 1)
    return bad_configuration(tokens.name + " has " + std::to_string(total) +
                             " " + tokens.unit +
                             "s, one sequence of the model " + model.name() +
                             " takes " + std::to_string(length + 1));
  const std::int64_t bound =
      std::min(index_bound(model, 0), index_bound(model, 1));
  // Only then: a tensor of bytes cannot be compared with a larger bound.
  if (tokens.values.max().item<std::int64_t>() >= bound) {
    const at::Tensor outside = tokens.values.ge(bound);
    const auto first = outside.to(at::kByte).argmax().item<std::int64_t>();
    return malformed(
        tokens.unit + " " + std::to_string(first) + " (sample " +
            std::to_string(first / length) + ") is " +
            std::to_string(tokens.values[first].item<std::int64_t>()) +
            ", the model " + model.name() + " has " + std::to_string(bound) +
            " entries",
        tokens.name, "it needs vocab=" + std::to_string(tokens.entries));
  }
  Dataset dataset{tokens.name, count, forms, {}, true};
  for (const std::int64_t first : {0, 1})
    dataset.inputs.push_back(
        {tokens.values.narrow(0, first, count * length).view({count, length}),
         1});
  return dataset;
}

}  // namespace pipewright
