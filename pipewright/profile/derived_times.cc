#include "pipewright/profile/derived_times.h"

#include <iterator>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// Where times_at() takes the times from: the size itself where it is measured.
template <class Tables>
std::vector<int> sources_of(const Tables& tables, int microbatch) {
  const auto high = tables.lower_bound(microbatch);
  if (high == tables.end()) return {std::prev(high)->first};
  if (high->first == microbatch || tables.size() == 1) return {high->first};
  const auto low = high == tables.begin() ? high : std::prev(high);
  return {low->first, std::next(low)->first};
}

// "8 and 16", "4, 8 and 16".
std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

std::string origin_text(const std::vector<int>& from) {
  return (from.size() == 1 ? "in proportion to those measured at "
                           : "on the line through those measured at ") +
         list_of(from);
}

// Sizes that come from the same ones are named together.
std::string text_of_kind(
    const std::map<std::vector<int>, std::vector<int>>& sizes_by_source) {
  std::vector<std::string> parts;
  for (const auto& [from, sizes] : sizes_by_source)
    parts.push_back("at microbatch " + list_of(sizes) + " are " +
                    origin_text(from));
  return join(parts, ", ");
}

}  // namespace

std::vector<DerivedTimes> derived_times(const Profile& profile,
                                        const SizesByKind& used) {
  std::vector<DerivedTimes> derived;
  if (profile.origin.source == "analytic") return derived;
  for (const auto& [kind, sizes] : used) {
    const auto tables = profile.times.find(kind);
    if (tables == profile.times.end() || tables->second.empty()) continue;
    for (const int size : sizes)
      if (!tables->second.contains(size))
        derived.push_back({kind, size, sources_of(tables->second, size)});
  }
  return derived;
}

std::string to_text(const std::vector<DerivedTimes>& derived) {
  std::map<std::string, std::map<std::vector<int>, std::vector<int>>> by_kind;
  for (const DerivedTimes& times : derived)
    by_kind[times.kind][times.from].push_back(times.microbatch);
  std::map<std::string, std::vector<std::string>> kinds_by_text;
  for (const auto& [kind, sizes] : by_kind)
    kinds_by_text[text_of_kind(sizes)].push_back(kind);
  std::vector<std::string> parts;
  for (const auto& [text, kinds] : kinds_by_text)
    parts.push_back(
        (kinds_by_text.size() == 1 ? "" : "on " + join(kinds, " and ") + " ") +
        text);
  return parts.empty() ? "" : "times " + join(parts, "; ");
}

}  // namespace pipewright
