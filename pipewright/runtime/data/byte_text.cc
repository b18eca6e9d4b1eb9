// Text as bytes, cut into sequences; the target of each byte is the next one.

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {

Result<Dataset> byte_text(const std::string& file, const Model& model) {
  const auto& forms = model.inputs();
  const bool reads_tokens = forms.size() == 2 && !is_floating(forms[0].type) &&
                            !is_floating(forms[1].type) &&
                            forms[0].shape.size() == 1 &&
                            forms[0].shape == forms[1].shape;
  if (!reads_tokens) {
    std::string shapes;
    for (const ModelInput& form : forms)
      shapes +=
          (shapes.empty() ? "" : ", ") + form.name + " " + to_text(form.shape);
    return bad_configuration("text is a sequence and its targets, the model " +
                                 model.name() + " wants " + shapes,
                             "choose a language model, as gpt");
  }
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  const std::int64_t length = forms[0].shape[0];
  const std::int64_t count =
      (static_cast<std::int64_t>(text.size()) - 1) / length;
  if (count < 1)
    return bad_configuration(file + " has " + std::to_string(text.size()) +
                             " bytes, one sequence of the model " +
                             model.name() + " takes " +
                             std::to_string(length + 1));
  const std::int64_t bound =
      std::min(index_bound(model, 0), index_bound(model, 1));
  for (std::size_t i = 0; i < text.size(); ++i)
    if (static_cast<unsigned char>(text[i]) >= bound)
      return malformed(
          "byte " + std::to_string(i) + " (sample " +
              std::to_string(static_cast<std::int64_t>(i) / length) + ") is " +
              std::to_string(static_cast<unsigned char>(text[i])) +
              ", the model " + model.name() + " has " + std::to_string(bound) +
              " entries",
          file, "bytes need vocab=256");
  at::Tensor bytes = at::empty({count * length + 1}, at::kByte);
  std::copy_n(text.begin(), bytes.numel(), bytes.data_ptr<std::uint8_t>());
  Dataset dataset{file, count, forms, {}, true};
  for (const std::int64_t first : {0, 1})
    dataset.inputs.push_back(
        {bytes.narrow(0, first, count * length).view({count, length}), 1});
  return dataset;
}

}  // namespace pipewright
