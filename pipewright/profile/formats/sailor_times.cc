#include "pipewright/profile/formats/sailor_times.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/sailor_files.h"

namespace pipewright {
namespace {

LayerTimes row_of(const JsonCursor& cursor) {
  const auto fields = cursor.elements();
  if (fields.size() != 3) {
    cursor.fail("expected [forward, backward, update] in seconds, found " +
                std::to_string(fields.size()) + " numbers");
    return {};
  }
  auto seconds = [&](std::size_t i) {
    return Seconds(fields[i].real(0, kMaxImportedSeconds));
  };
  // Backward as one number, until split_backward().
  return {seconds(0), seconds(1), Seconds(0), seconds(2)};
}

constexpr std::array kMeasured = {&LayerTimes::forward,
                                  &LayerTimes::backward_input};

bool is_outlier(const SailorTimes& times, int size, std::size_t layer) {
  const auto next = times.upper_bound(size);
  if (next == times.end()) return false;
  for (Seconds LayerTimes::*time : kMeasured)
    if (times.at(size)[layer].*time > next->second[layer].*time) return true;
  return false;
}

// Of a layer whose times at larger sizes are done, but not at the largest.
Seconds time_if_missing(const SailorTimes& times, int size, std::size_t layer,
                        Seconds LayerTimes::*time) {
  const auto next = times.upper_bound(size);
  const Seconds larger = next->second[layer].*time;
  const auto second = std::next(next);
  if (second == times.end())
    return std::min(times.at(size)[layer].*time, larger);
  const double below = static_cast<double>(next->first - size) /
                       static_cast<double>(second->first - next->first);
  const Seconds line = larger - (second->second[layer].*time - larger) * below;
  return std::clamp(line, larger * (static_cast<double>(size) / next->first),
                    larger);
}

}  // namespace

Result<SailorTimes> parse_sailor_times(const SourceFile& file, int degree,
                                       bool is_of_plan) {
  PIPEWRIGHT_TRY(Json json, parse_json(file.text, file.name));
  JsonErrors errors(file.name);
  SailorTimes times;
  std::set<int> degrees;
  for (const auto& [size, tables] : JsonCursor(json, errors).members()) {
    const int microbatch = count_key(size, tables);
    for (const auto& [key, layers] : tables.members()) {
      const int found = count_key(key, layers);
      degrees.insert(found);
      std::vector<LayerTimes> rows;
      for (const JsonCursor& layer : numbered_members(layers))
        rows.push_back(row_of(layer));
      if (rows.empty()) layers.fail("there are no layers");
      if (found == degree) times[microbatch] = std::move(rows);
    }
  }
  if (!errors.empty()) return errors.error();
  if (times.empty()) {
    std::vector<std::string> known;
    for (int d : degrees) known.push_back(std::to_string(d));
    return bad_configuration(
        file.name + " has no times at tensor-parallel degree " +
            std::to_string(degree) + (is_of_plan ? ", the plan's" : ""),
        is_of_plan
            ? "it has those at " + join(known, ", ")
            : "choose one with --tensor-parallel N: " + join(known, ", "));
  }
  return times;
}

int lower_outliers(SailorTimes& times) {
  int lowered = 0;
  for (auto table = times.rbegin(); table != times.rend(); ++table)
    for (std::size_t i = 0; i < table->second.size(); ++i)
      if (is_outlier(times, table->first, i)) {
        ++lowered;
        for (Seconds LayerTimes::*time : kMeasured)
          table->second[i].*time =
              time_if_missing(times, table->first, i, time);
      }
  return lowered;
}

bool is_lowered(const SailorTimes& times, int size, std::size_t layer) {
  const auto next = times.upper_bound(size);
  if (next == times.end()) return false;
  const LayerTimes& mine = times.at(size)[layer];
  if (std::next(next) == times.end())
    return std::any_of(kMeasured.begin(), kMeasured.end(),
                       [&](Seconds LayerTimes::*time) {
                         return mine.*time > Seconds(0) &&
                                mine.*time == next->second[layer].*time;
                       });
  return std::all_of(
      kMeasured.begin(), kMeasured.end(), [&](Seconds LayerTimes::*time) {
        return mine.*time == time_if_missing(times, size, layer, time);
      });
}

}  // namespace pipewright
