#include "pipewright/model/repeats.h"

#include <optional>
#include <string_view>
#include <unordered_set>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// Consecutive layers with one parent that ends in a number.
struct Block {
  int first = 0;
  int length = 0;
  std::string stem;
  std::int64_t number = 0;
};

std::string parent_name(const Layer& layer) {
  const std::size_t dot = layer.name.rfind('.');
  return dot == std::string::npos ? "" : layer.name.substr(0, dot);
}

// The block of a parent "stem12"; nothing if the number has leading zeros
// ("01").
std::optional<Block> block_of(const std::string& parent, int first) {
  const std::size_t end = parent.find_last_not_of("0123456789") + 1;
  const std::string_view digits = std::string_view(parent).substr(end);
  const auto number = parse_integer(digits);
  if (end == 0 || !number || (digits.size() > 1 && digits[0] == '0'))
    return std::nullopt;
  return Block{first, 1, parent.substr(0, end), *number};
}

std::vector<Block> blocks(const Model& model) {
  std::vector<Block> found;
  std::string last_parent;
  for (int l = 0; l < model.num_layers(); ++l) {
    const std::string parent = parent_name(model.layer(LayerId(l)));
    if (!parent.empty() && parent == last_parent && !found.empty() &&
        found.back().first + found.back().length == l)
      ++found.back().length;
    else if (auto block = block_of(parent, l))
      found.push_back(*block);
    last_parent = parent;
  }
  return found;
}

bool is_inside(const Source& source, int first, int length) {
  return !source.is_model_input() && source.layer.value >= first &&
         source.layer.value < first + length;
}

bool parameters_match(const Model& model, const Layer& a, const Layer& b) {
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    if (owns_parameter(model, a, p) != owns_parameter(model, b, p))
      return false;
    if (!owns_parameter(model, a, p) && a.parameters[p] != b.parameters[p])
      return false;
  }
  return true;
}

// Extends a run of blocks while the next one is equal.
class RunGrower {
 public:
  RunGrower(const Model& model, const std::unordered_set<std::string>& names,
            const Block& block)
      : model_(model), names_(names) {
    run_ = {block.first, block.length, 1, block.stem, block.number, {}};
    for (int l = 0; l < block.length; ++l) {
      const Layer& layer = model_.layer(LayerId(block.first + l));
      run_.takes_in.emplace_back();
      fixed_.emplace_back(layer.inputs.size(), true);
      for (const Source& source : layer.inputs)
        run_.takes_in.back().push_back(is_in(source, block.first));
    }
    narrow_fixed(block);
  }

  bool take(const Block& block) {
    if (block.first != run_.end() || block.length != run_.length ||
        block.stem != run_.stem || block.number != run_.start + run_.count)
      return false;
    const auto takes_in = run_.takes_in;
    const auto fixed = fixed_;
    narrow_fixed(block);
    for (int l = 0; l < block.length; ++l)
      if (!layer_matches(block, l)) {
        run_.takes_in = takes_in;
        fixed_ = fixed;
        return false;
      }
    ++run_.count;
    return true;
  }

  const BlockRun& run() const { return run_; }

 private:
  bool is_in(const Source& source, int first) const {
    return first > 0 && source == Source{LayerId(first - 1), -1};
  }

  const std::string& source_name(const Source& source) const {
    if (source.is_model_input()) return model_.inputs()[source.input].name;
    return model_.layer(source.layer).name;
  }

  // A fixed source is written with its full name, so no layer of the block may
  // have that name.
  void narrow_fixed(const Block& block) {
    const std::string prefix = block.stem + std::to_string(block.number) + ".";
    for (int l = 0; l < run_.length; ++l) {
      const Layer& layer = model_.layer(LayerId(block.first + l));
      auto& fixed = fixed_[l];
      for (std::size_t i = 0; i < std::min(fixed.size(), layer.inputs.size());
           ++i)
        if (names_.count(prefix + source_name(layer.inputs[i])))
          fixed[i] = false;
    }
  }

  bool layer_matches(const Block& block, int offset) {
    const Layer& a = model_.layer(LayerId(run_.first + offset));
    const Layer& b = model_.layer(LayerId(block.first + offset));
    if (local_name(a) != local_name(b) || a.kind != b.kind ||
        a.attributes != b.attributes || a.output != b.output ||
        a.inputs.size() != b.inputs.size() || !parameters_match(model_, a, b))
      return false;
    for (std::size_t i = 0; i < a.inputs.size(); ++i)
      if (!input_matches(block, offset, i, a.inputs[i], b.inputs[i]))
        return false;
    return true;
  }

  bool input_matches(const Block& block, std::size_t layer, std::size_t input,
                     const Source& a, const Source& b) {
    if (is_inside(a, run_.first, run_.length))
      return is_inside(b, block.first, block.length) &&
             a.layer.value - run_.first == b.layer.value - block.first;
    if (!is_in(b, block.first)) run_.takes_in[layer][input] = false;
    if (a != b) fixed_[layer][input] = false;
    return run_.takes_in[layer][input] || fixed_[layer][input];
  }

  const Model& model_;
  const std::unordered_set<std::string>& names_;
  BlockRun run_;
  std::vector<std::vector<bool>> fixed_;  // the same source in every block
};

std::unordered_set<std::string> all_names(const Model& model) {
  std::unordered_set<std::string> names;
  for (const Layer& layer : model.layers()) names.insert(layer.name);
  for (const ModelInput& input : model.inputs()) names.insert(input.name);
  return names;
}

}  // namespace

std::string local_name(const Layer& layer) {
  return layer.name.substr(layer.name.rfind('.') + 1);
}

bool owns_parameter(const Model& model, const Layer& layer, std::size_t index) {
  const std::string& name = model.parameter(layer.parameters[index]).name;
  return name.size() > layer.name.size() &&
         name.compare(0, layer.name.size(), layer.name) == 0 &&
         name[layer.name.size()] == '.' &&
         name.find('.', layer.name.size() + 1) == std::string::npos;
}

std::string parameter_role(const Model& model, const Layer& layer,
                           std::size_t index) {
  std::vector<TensorForm> inputs;
  for (const Source& source : layer.inputs)
    inputs.push_back({shape_of(model, source), type_of(model, source)});
  return kind_rule(layer.kind)
      .form(layer.attributes, inputs)
      ->parameters[index]
      .role;
}

std::vector<BlockRun> repeated_blocks(const Model& model) {
  const std::unordered_set<std::string> names = all_names(model);
  const std::vector<Block> candidates = blocks(model);
  std::vector<BlockRun> runs;
  for (std::size_t b = 0; b < candidates.size();) {
    RunGrower grower(model, names, candidates[b]);
    while (++b < candidates.size() && grower.take(candidates[b])) {
    }
    if (grower.run().count > 1) runs.push_back(grower.run());
  }
  return runs;
}

}  // namespace pipewright
