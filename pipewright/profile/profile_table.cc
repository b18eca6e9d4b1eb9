#include "pipewright/profile/profile_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/profile/lowered_times.h"

namespace pipewright {
namespace {

using Align = TextTable::Align;

// The layer that owns the storage of a layer's output.
std::size_t storage_of(const Profile& profile, std::size_t layer) {
  while (profile.layers[layer].output_is_view)
    layer = profile.layers[layer].inputs[0].index();
  return layer;
}

std::vector<std::string> cells(const std::string& name, const std::string& kind,
                               const LayerTimes& times, Bytes parameters,
                               Bytes output, Bytes kept) {
  return {name,
          kind,
          to_text(times.forward),
          to_text(times.backward_input),
          to_text(times.backward_weight),
          to_text(times.update),
          to_text(parameters),
          to_text(output),
          to_text(kept)};
}

Seconds time_of(const LayerTimes& row) { return row.forward + row.backward(); }

// Which times were not measured, but derived from those at other sizes. Only
// Sailor's importer derives any.
class DerivedRows {
 public:
  DerivedRows(const Profile& profile,
              const std::map<int, std::vector<LayerTimes>>& tables) {
    if (profile.origin.source != "sailor") return;
    for (const auto& [size, rows] : tables)
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (is_lowered(tables, size, i)) rows_.insert({size, i});
  }

  int count() const { return static_cast<int>(rows_.size()); }
  bool contains(int size, std::size_t layer) const {
    return rows_.contains({size, layer});
  }

 private:
  std::set<std::pair<int, std::size_t>> rows_;
};

std::string derived_text(int count) {
  if (count == 0) return "";
  return "; left out: " + counted(count, "time") + " of a layer that " +
         (count == 1 ? "follows" : "follow") + " from those at larger sizes";
}

std::string heading(const Profile& profile, const std::string& kind,
                    int microbatch) {
  std::string text = profile.model + " on " + kind + ", microbatch " +
                     std::to_string(microbatch) + " (" + profile.origin.source +
                     ")\n";
  if (profile.origin.split_is_estimated)
    text +=
        "backward was given as one number; the split into input and weight "
        "gradients is estimated\n";
  if (profile.origin.keeps_is_estimated)
    text += "what layers keep for backward is estimated\n";
  return text + "\n";
}

}  // namespace

std::vector<Bytes> kept_bytes(const Profile& profile,
                              const std::vector<LayerSizes>& sizes) {
  std::vector<bool> is_kept(profile.layers.size(), false);
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    const ProfileLayer& layer = profile.layers[i];
    if (layer.keeps_output) is_kept[storage_of(profile, i)] = true;
    for (std::size_t j = 0; j < layer.inputs.size(); ++j)
      if (layer.keeps_input[j])
        is_kept[storage_of(profile, layer.inputs[j].index())] = true;
  }
  std::vector<Bytes> bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    bytes.push_back(sizes[i].keeps_private +
                    (is_kept[i] ? sizes[i].output : Bytes(0)));
  return bytes;
}

Result<std::string> profile_table(const Profile& profile,
                                  const std::string& kind, int microbatch,
                                  int width) {
  PIPEWRIGHT_TRY(auto times, times_at(profile, kind, microbatch));
  PIPEWRIGHT_TRY(auto sizes, sizes_at(profile, microbatch));
  const std::vector<Bytes> kept = kept_bytes(profile, sizes);
  TextTable table({{"layer"},
                   {"kind"},
                   {"forward", Align::Right},
                   {"input grad", Align::Right},
                   {"weight grad", Align::Right},
                   {"update", Align::Right},
                   {"parameters", Align::Right},
                   {"output", Align::Right},
                   {"kept", Align::Right}});
  LayerTimes sum;
  Bytes sum_kept;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ProfileLayer& layer = profile.layers[i];
    table.add_row(cells(layer.name, layer.kind, times[i],
                        profile.parameter_bytes(LayerId(i)), sizes[i].output,
                        kept[i]));
    sum.forward += times[i].forward;
    sum.backward_input += times[i].backward_input;
    sum.backward_weight += times[i].backward_weight;
    sum.update += times[i].update;
    sum_kept += kept[i];
  }
  table.add_rule();
  auto total = cells(std::to_string(times.size()) + " layers", "", sum,
                     profile.parameter_bytes(), Bytes(0), sum_kept);
  total[7].clear();  // outputs do not exist at the same time
  table.add_row(std::move(total));
  return heading(profile, kind, microbatch) + table.to_text(width);
}

InterpolationError interpolation_error(const Profile& profile,
                                       const std::string& kind) {
  InterpolationError error;
  const auto found = profile.times.find(kind);
  if (found == profile.times.end() || found->second.size() < 3) return error;
  const auto& tables = found->second;
  const DerivedRows derived(profile, tables);
  error.num_derived = derived.count();
  std::vector<double> all;
  for (auto table = std::next(tables.begin()); std::next(table) != tables.end();
       ++table) {
    const auto low = std::prev(table), high = std::next(table);
    const double between = static_cast<double>(table->first - low->first) /
                           static_cast<double>(high->first - low->first);
    Seconds known, guessed;
    for (std::size_t i = 0; i < table->second.size(); ++i) {
      if (derived.contains(low->first, i) || derived.contains(high->first, i) ||
          derived.contains(table->first, i))
        continue;
      known += time_of(table->second[i]);
      guessed += (1 - between) * time_of(low->second[i]) +
                 between * time_of(high->second[i]);
    }
    if (known > Seconds(0)) all.push_back(guessed / known - 1);
  }
  if (all.empty()) return error;
  std::sort(all.begin(), all.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  error.num_sizes = static_cast<int>(all.size());
  error.median = std::abs(all[all.size() / 2]);
  error.largest = all.back();
  return error;
}

std::string interpolation_text(const Profile& profile,
                               const std::string& kind) {
  const InterpolationError error = interpolation_error(profile, kind);
  if (error.num_sizes == 0) return "";
  const auto percent = [](double share) {
    return std::to_string(std::lround(share * 100)) + " %";
  };
  return kind + ": interpolated from its neighbours, a microbatch size is " +
         percent(error.median) + " off in the median, " +
         percent(error.largest) + " at most (" +
         counted(error.num_sizes, "size") + derived_text(error.num_derived) +
         ")\n";
}

}  // namespace pipewright
