// The list of kinds. A new kind is a rule in a file under kinds/, one line in
// kind_list.h and one line here.

#include "pipewright/model/kinds.h"

#include "pipewright/base/check.h"
#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

std::vector<KindRule>& all_rules() {
  static std::vector<KindRule> rules = {
      linear_kind(),
      conv2d_kind(),
      batch_norm_kind(),
      layer_norm_kind(),
      relu_kind(),
      gelu_kind(),
      tanh_kind(),
      sigmoid_kind(),
      softmax_kind(),
      dropout_kind(),
      max_pool_kind(),
      avg_pool_kind(),
      adaptive_avg_pool_kind(),
      flatten_kind(),
      add_kind(),
      concat_kind(),
      embedding_kind(),
      positional_kind(),
      attention_kind(),
      lstm_kind(),
      cross_entropy_kind(),
      linear_cross_entropy_kind(),
      mse_kind(),
      select_kind(),
      exported_kind(),
  };
  return rules;
}

}  // namespace

const std::vector<KindRule>& kind_rules() { return all_rules(); }

Result<LayerKind> add_kind(KindRule rule) {
  constexpr std::size_t kMaxKinds = 256;
  if (rule.name.empty() || parse_layer_kind(rule.name))
    return bad_configuration(
        rule.name.empty()
            ? "a kind of layer needs a name"
            : "there is already a kind of layer \"" + rule.name + "\"",
        "choose another name");
  if (all_rules().size() == kMaxKinds)
    return bad_configuration("there are already " + std::to_string(kMaxKinds) +
                             " kinds of layers, the limit");
  rule.kind = static_cast<LayerKind>(all_rules().size());
  all_rules().push_back(std::move(rule));
  return all_rules().back().kind;
}

const KindRule& kind_rule(LayerKind kind) {
  const KindRule& rule = kind_rules().at(static_cast<std::size_t>(kind));
  PIPEWRIGHT_CHECK(rule.kind == kind, "the list of kinds is out of order");
  return rule;
}

std::string to_text(LayerKind kind) { return kind_rule(kind).name; }

std::optional<LayerKind> parse_layer_kind(std::string_view name) {
  for (const KindRule& rule : kind_rules())
    if (rule.name == name) return rule.kind;
  return std::nullopt;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindRule& rule : kind_rules()) names.push_back(rule.name);
  return names;
}

}  // namespace pipewright
