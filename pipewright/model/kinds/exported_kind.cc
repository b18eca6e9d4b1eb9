// The kind of the layers of an exported model. Their forms and costs are in
// the file (exported/exported_model.h), so a model file cannot ask for it.

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {

KindRule exported_kind() {
  return {.kind = LayerKind::Exported,
          .name = "exported",
          .inputs = {InputType::Floating},
          .form = [](const Attributes&, const Inputs&) -> Result<LayerForm> {
            return malformed("is only in files that pipewright.export() writes",
                             "", "name that file as the model");
          },
          .cost = [](const LayerFacts&, LayerCost&) {}};
}

}  // namespace pipewright
