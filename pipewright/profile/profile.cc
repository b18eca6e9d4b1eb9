// The checks of a profile, and its numbers at a microbatch size.

#include "pipewright/profile/profile.h"

#include <cmath>
#include <iterator>
#include <set>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// Collects errors, up to as many as a person would read.
class Errors {
 public:
  explicit Errors(std::string where) : where_(std::move(where)) {}

  void add(const std::string& place, std::string message) {
    constexpr std::size_t kMaxErrors = 50;
    if (errors_.size() >= kMaxErrors) return;
    std::string where = where_.empty() || place.empty() ? where_ + place
                                                        : where_ + ": " + place;
    errors_.push_back(malformed(std::move(message), std::move(where)));
  }

  Result<void> result() const {
    if (errors_.empty()) return {};
    Error first = errors_.front();
    first.others.assign(errors_.begin() + 1, errors_.end());
    return first;
  }

 private:
  std::string where_;
  std::vector<Error> errors_;
};

template <class Named>
void check_names(const std::vector<Named>& things, const std::string& what,
                 Errors& errors) {
  if (std::ssize(things) > kMaxLayers)
    errors.add("", std::to_string(things.size()) + " " + what +
                       "s; the limit is " + std::to_string(kMaxLayers));
  std::set<std::string_view> seen;
  for (const Named& thing : things) {
    if (thing.name.empty()) errors.add("", "a " + what + " has no name");
    if (!seen.insert(thing.name).second)
      errors.add(what + " " + thing.name, "duplicate name");
  }
}

bool is_size(Bytes bytes) { return bytes >= Bytes(0) && bytes <= kMaxSize; }

bool is_time(Seconds time) {  // false for NaN
  return time >= Seconds(0) && time <= kMaxTime;
}

void check_layer(const Profile& profile, std::size_t index, Errors& errors) {
  const ProfileLayer& layer = profile.layers[index];
  const std::string place = "layer " + layer.name;
  for (LayerId input : layer.inputs)
    if (input.is_none() || input.index() >= index)
      errors.add(place, "input " + std::to_string(input.value) +
                            " is not before layer " + std::to_string(index));
  if (layer.keeps_input.size() != layer.inputs.size())
    errors.add(place, std::to_string(layer.keeps_input.size()) +
                          " entries of keeps_input for " +
                          std::to_string(layer.inputs.size()) + " inputs");
  if (layer.output_is_view && layer.inputs.empty())
    errors.add(place, "the output is a view, but the layer has no input");
  for (ParameterId parameter : layer.parameters)
    if (parameter.is_none() || parameter.index() >= profile.parameters.size())
      errors.add(place, "unknown parameter " + std::to_string(parameter.value));
}

// One row per layer, at a valid microbatch size.
template <class Row>
bool check_table(const Profile& profile, int microbatch,
                 const std::vector<Row>& rows, const std::string& place,
                 Errors& errors) {
  if (microbatch < 1 || microbatch > kMaxMicrobatch)
    errors.add(place, "the microbatch size must be between 1 and " +
                          std::to_string(kMaxMicrobatch));
  if (rows.size() == profile.layers.size()) return true;
  errors.add(place, std::to_string(rows.size()) + " rows for " +
                        std::to_string(profile.layers.size()) + " layers");
  return false;
}

std::string table_name(const std::string& what, int microbatch) {
  return what + " at microbatch " + std::to_string(microbatch);
}

void check_sizes(const Profile& profile, Errors& errors) {
  if (profile.sizes.empty()) errors.add("sizes", "no microbatch size");
  for (const auto& [microbatch, rows] : profile.sizes) {
    const std::string place = table_name("sizes", microbatch);
    if (!check_table(profile, microbatch, rows, place, errors)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!is_size(rows[i].output) || !is_size(rows[i].keeps_private) ||
          !is_size(rows[i].workspace) || !is_size(rows[i].carried))
        errors.add(place + ", layer " + profile.layers[i].name,
                   "a size is negative or above " + to_text(kMaxSize));
  }
}

void check_times(const Profile& profile, Errors& errors) {
  for (const auto& [kind, tables] : profile.times) {
    if (kind.empty()) errors.add("times", "a device kind has no name");
    if (tables.empty()) errors.add("times on " + kind, "no microbatch size");
    for (const auto& [microbatch, rows] : tables) {
      const std::string place = table_name("times on " + kind, microbatch);
      if (!check_table(profile, microbatch, rows, place, errors)) continue;
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (!is_time(rows[i].forward) || !is_time(rows[i].backward_input) ||
            !is_time(rows[i].backward_weight) || !is_time(rows[i].update))
          errors.add(
              place + ", layer " + profile.layers[i].name,
              "a time is negative, not finite or above " + to_text(kMaxTime));
    }
  }
}

// Two neighbouring tables and the position between them (negative below both);
// `scale` is for extrapolation.
template <class Row>
struct Place {
  const std::vector<Row>* low = nullptr;
  const std::vector<Row>* high = nullptr;
  double between = 0;
  double scale = 1;
};

std::string sizes_text(int first, int last) {
  return first == last ? std::to_string(first)
                       : std::to_string(first) + " to " + std::to_string(last);
}

template <class Row>
Result<Place<Row>> find_place(const std::map<int, std::vector<Row>>& tables,
                              const std::string& what, int microbatch,
                              Outside outside) {
  if (tables.empty()) return bad_configuration("the profile has no " + what);
  if (microbatch < 1 || microbatch > kMaxMicrobatch)
    return bad_configuration("the microbatch size is " +
                             std::to_string(microbatch) +
                             "; it must be at least 1");
  auto high = tables.lower_bound(microbatch);
  if (high != tables.end() && high->first == microbatch)
    return Place<Row>{&high->second, &high->second, 0, 1};
  if (high != tables.begin() && high != tables.end()) {
    auto low = std::prev(high);
    const double between = static_cast<double>(microbatch - low->first) /
                           static_cast<double>(high->first - low->first);
    return Place<Row>{&low->second, &high->second, between, 1};
  }
  if (outside == Outside::Refuse)
    return bad_configuration(
        "the profile has " + what + " for microbatch " +
            sizes_text(tables.begin()->first, tables.rbegin()->first) +
            ", not for " + std::to_string(microbatch),
        "profile that size as well");
  const auto nearest = high == tables.end() ? std::prev(high) : high;
  const double scale =
      static_cast<double>(microbatch) / static_cast<double>(nearest->first);
  if (high == tables.end() || tables.size() == 1)
    return Place<Row>{&nearest->second, &nearest->second, 0, scale};
  const auto second = std::next(high);
  const double between = static_cast<double>(microbatch - high->first) /
                         static_cast<double>(second->first - high->first);
  return Place<Row>{&high->second, &second->second, between, scale};
}

// Below the smallest size, the line through the two smallest gives the part
// that does not shrink with the samples. The result is at least proportional
// and at most the value at the smallest size.
double mixed(double low, double high, double between, double scale) {
  const double line = std::lerp(low, high, between);
  return between < 0 ? std::clamp(line, low * scale, low) : line * scale;
}

Seconds mixed(Seconds low, Seconds high, double between, double scale) {
  return Seconds(std::min(mixed(low.value(), high.value(), between, scale),
                          kMaxTime.value()));
}

Bytes mixed(Bytes low, Bytes high, double between, double scale) {
  const double bytes = mixed(static_cast<double>(low.value()),
                             static_cast<double>(high.value()), between, scale);
  const auto most = static_cast<double>(kMaxSize.value());
  return Bytes(static_cast<std::int64_t>(std::llround(std::min(bytes, most))));
}

}  // namespace

Bytes Profile::parameter_bytes(LayerId layer) const {
  Bytes sum;
  for (ParameterId parameter : layers[layer.index()].parameters)
    sum += parameters[parameter.index()].bytes;
  return sum;
}

std::vector<LayerId> Profile::storages() const {
  std::vector<LayerId> storages;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const bool view = layers[l].output_is_view && !layers[l].inputs.empty();
    storages.push_back(view ? storages[layers[l].inputs[0].index()]
                            : LayerId(l));
  }
  return storages;
}

Bytes Profile::parameter_bytes() const {
  Bytes sum;
  for (const ProfileParameter& parameter : parameters) sum += parameter.bytes;
  return sum;
}

Result<void> Profile::check(const std::string& where) const {
  Errors errors(where);
  if (layers.empty()) errors.add("layers", "the profile has no layers");
  check_names(layers, "layer", errors);
  check_names(parameters, "parameter", errors);
  for (const ProfileParameter& parameter : parameters)
    if (!is_size(parameter.bytes))
      errors.add("parameter " + parameter.name,
                 "the size is negative or above " + to_text(kMaxSize));
  for (std::size_t i = 0; i < layers.size(); ++i) check_layer(*this, i, errors);
  check_sizes(*this, errors);
  check_times(*this, errors);
  return errors.result();
}

void set_backward(LayerTimes& times, Seconds backward,
                  const ProfileLayer& layer) {
  const double to_weights = layer.parameters.empty() ? 0.0
                            : layer.inputs.empty()   ? 1.0
                                                     : 0.5;
  times.backward_weight = backward * to_weights;
  times.backward_input = backward - times.backward_weight;
}

Result<std::vector<LayerTimes>> times_at(const Profile& profile,
                                         const std::string& kind,
                                         int microbatch, Outside outside) {
  auto tables = profile.times.find(kind);
  if (tables == profile.times.end()) {
    std::vector<std::string> known;
    for (const auto& [name, times] : profile.times) known.push_back(name);
    return bad_configuration(
        "the profile has no times on \"" + kind + "\"",
        known.empty() ? "it has no times at all" : suggestion(kind, known));
  }
  PIPEWRIGHT_TRY(auto place, find_place(tables->second, "times on " + kind,
                                        microbatch, outside));
  std::vector<LayerTimes> rows(place.low->size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerTimes& low = (*place.low)[i];
    const LayerTimes& high = (*place.high)[i];
    const auto mix = [&](Seconds LayerTimes::*field, double scale) {
      rows[i].*field = mixed(low.*field, high.*field, place.between, scale);
    };
    mix(&LayerTimes::forward, place.scale);
    mix(&LayerTimes::backward_input, place.scale);
    mix(&LayerTimes::backward_weight, place.scale);
    mix(&LayerTimes::update, 1);
  }
  return rows;
}

Result<std::vector<LayerSizes>> sizes_at(const Profile& profile, int microbatch,
                                         Outside outside) {
  PIPEWRIGHT_TRY(auto place,
                 find_place(profile.sizes, "sizes", microbatch, outside));
  std::vector<LayerSizes> rows(place.low->size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto mix = [&](Bytes LayerSizes::*field) {
      rows[i].*field = mixed((*place.low)[i].*field, (*place.high)[i].*field,
                             place.between, place.scale);
    };
    mix(&LayerSizes::output);
    mix(&LayerSizes::keeps_private);
    mix(&LayerSizes::workspace);
    mix(&LayerSizes::carried);
  }
  return rows;
}

}  // namespace pipewright
