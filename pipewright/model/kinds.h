// The list of all kinds of layers. A kind is one KindRule, in a file under
// kinds/ or added by a program that uses this library; the builder, the model
// file, the costs and `pipewright models` all read the rule.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/kind_rule.h"
#include "pipewright/model/layer.h"

namespace pipewright {

const KindRule& kind_rule(LayerKind kind);
const std::vector<KindRule>& kind_rules();  // in the order of LayerKind

// Adds a kind that is not built in and assigns its LayerKind. Call it before
// any model is built. Fails with BadConfiguration if the name is empty or
// taken.
Result<LayerKind> add_kind(KindRule rule);

std::string to_text(LayerKind kind);  // "batch_norm"
std::optional<LayerKind> parse_layer_kind(std::string_view name);
std::vector<std::string> kind_names();

}  // namespace pipewright
