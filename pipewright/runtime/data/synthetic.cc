// Random samples of any model: for measuring, and for models without data.

#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {

Result<Dataset> synthetic(std::int64_t num_samples, const Model& model) {
  Dataset dataset{"synthetic", num_samples, model.inputs(), {}, true};
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const Source source{LayerId(), static_cast<int>(i)};
    dataset.inputs.push_back(
        {random_samples(model, source, num_samples, RandomStream(11, i, 0)),
         1});
  }
  return dataset;
}

}  // namespace pipewright
