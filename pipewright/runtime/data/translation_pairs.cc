// Pairs of short texts for a model that translates, character by character:
//
//   source  characters, then padding
//   tokens  begin, characters, padding: what the decoder has so far
//   target  characters, end, padding:   what it should say next
//
// Pairs that are too long for the model are left out. Padding is predicted like
// any other character, so losses and accuracies count it.

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

constexpr std::int32_t kPadding = 0, kBegin = 1, kEnd = 2, kFirstCharacter = 3;

using Characters = std::vector<std::string>;
struct Pair {
  Characters source, target;
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r") - first + 1);
}

// A dictionary's entry: the first of its synonyms, without comments in
// brackets.
std::string term(std::string_view text) {
  std::string plain;
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (depth == 0 && c == ';') break;
    if (depth == 0 && !(c == ' ' && plain.ends_with(' '))) plain += c;
    if (c == '}' || c == ']' || c == ')') depth = std::max(0, depth - 1);
  }
  return std::string(trimmed(plain));
}

// "Aal {m} | Aale {pl} :: eel | eels" is two pairs; none where the sides have
// different numbers of forms.
std::vector<TextPair> dictionary_line(std::string_view line) {
  const auto middle = line.find(" :: ");
  if (middle == std::string_view::npos) return {};
  const auto left = split(line.substr(0, middle), '|');
  const auto right = split(line.substr(middle + 4), '|');
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < left.size() && left.size() == right.size(); ++i)
    if (TextPair pair{term(left[i]), term(right[i])};
        !pair.source.empty() && !pair.target.empty())
      pairs.push_back(std::move(pair));
  return pairs;
}

at::Tensor rows(std::int64_t count, std::int64_t length) {
  return at::full({count, length}, kPadding, at::kInt);
}

class Numbering {
 public:
  explicit Numbering(const std::vector<Pair>& pairs) {
    std::set<std::string> seen;
    for (const Pair& pair : pairs)
      for (const Characters* side : {&pair.source, &pair.target})
        seen.insert(side->begin(), side->end());
    for (const std::string& character : seen)
      numbers_.emplace(character, kFirstCharacter + static_cast<std::int32_t>(
                                                        numbers_.size()));
  }
  std::int64_t entries() const {
    return kFirstCharacter + static_cast<std::int64_t>(numbers_.size());
  }
  std::int32_t* write(const Characters& text, std::int32_t* to) const {
    for (const std::string& character : text) *to++ = numbers_.at(character);
    return to;
  }

 private:
  std::map<std::string, std::int32_t> numbers_;
};

bool translates(const std::vector<ModelInput>& forms) {
  const auto is_sequence = [](const ModelInput& form) {
    return !is_floating(form.type) && form.shape.size() == 1;
  };
  return forms.size() == 3 && forms[1].shape == forms[2].shape &&
         std::all_of(forms.begin(), forms.end(), is_sequence);
}

}  // namespace

Result<std::vector<TextPair>> read_pairs(const std::string& file) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  std::vector<TextPair> pairs;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trimmed(line).empty() || line[0] == '#') continue;
    const auto tab = line.find('\t');
    if (tab != std::string_view::npos) {
      const std::string_view rest = line.substr(tab + 1);
      pairs.push_back({std::string(trimmed(line.substr(0, tab))),
                       std::string(trimmed(rest.substr(0, rest.find('\t'))))});
    } else if (line.find(" :: ") != std::string_view::npos) {
      for (TextPair& pair : dictionary_line(line))
        pairs.push_back(std::move(pair));
    } else {
      return malformed("has neither a tab nor \" :: \" between two texts",
                       file + ":" + std::to_string(number));
    }
  }
  return pairs;
}

Result<Dataset> translation_pairs(const std::string& file, const Model& model) {
  const auto& forms = model.inputs();
  if (!translates(forms))
    return bad_configuration(
        "pairs have a source, tokens and targets, the model " + model.name() +
            " has inputs " + input_shapes(model),
        "choose a model that translates, such as gnmt or transformer");
  PIPEWRIGHT_TRY(const std::vector<TextPair> all, read_pairs(file));
  const std::size_t longest_source = forms[0].shape[0];
  const std::size_t longest_target = forms[1].shape[0] - 1;
  std::vector<Pair> pairs;
  for (const TextPair& texts : all) {
    Pair pair{characters(texts.source), characters(texts.target)};
    if (pair.source.size() <= longest_source &&
        pair.target.size() <= longest_target)
      pairs.push_back(std::move(pair));
  }
  if (pairs.empty())
    return bad_configuration(
        file + " has " + std::to_string(all.size()) +
            " pairs, none with at most " + std::to_string(longest_source) +
            " and " + std::to_string(longest_target) +
            " characters, as the model " + model.name() + " takes",
        "choose a larger seq");
  const Numbering numbering(pairs);
  for (int input = 0; input < 3; ++input)
    if (index_bound(model, input) < numbering.entries())
      return bad_configuration(
          file + " has " + std::to_string(numbering.entries()) +
              " characters, the model " + model.name() + " has " +
              std::to_string(index_bound(model, input)) + " entries",
          "it needs vocab=" + std::to_string(numbering.entries()));
  const auto count = static_cast<std::int64_t>(pairs.size());
  Dataset dataset{file, count, forms, {}, true};
  for (const ModelInput& form : forms)
    dataset.inputs.push_back({rows(count, form.shape[0]), 1});
  const auto row = [&](std::size_t input, std::size_t i) {
    return dataset.inputs[input].values.data_ptr<std::int32_t>() +
           static_cast<std::int64_t>(i) * forms[input].shape[0];
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    numbering.write(pairs[i].source, row(0, i));
    *row(1, i) = kBegin;
    numbering.write(pairs[i].target, row(1, i) + 1);
    *numbering.write(pairs[i].target, row(2, i)) = kEnd;
  }
  return dataset;
}

}  // namespace pipewright
