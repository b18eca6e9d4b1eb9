#include "cli/load_profile.h"

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/model/zoo/zoo.h"
#include "pipewright/profile/analytic.h"

namespace pipewright::cli {

std::vector<int> divisors(int number) {
  std::vector<int> low, high;
  for (int d = 1; d <= number / d; ++d)
    if (number % d == 0) {
      low.push_back(d);
      if (d != number / d) high.insert(high.begin(), number / d);
    }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

std::string with_type(const std::string& model, const std::string& type) {
  const std::size_t colon = model.find(':');
  if (!find_zoo_entry(model.substr(0, colon)) ||
      model.find("type=") != std::string::npos)
    return model;
  return model + (colon == std::string::npos ? ":" : ",") + "type=" + type;
}

std::string with_number_type(const std::string& model,
                             std::span<const DeviceKind> kinds) {
  const bool has_units =
      std::all_of(kinds.begin(), kinds.end(), [](const DeviceKind& kind) {
        const auto rate = kind.achievable.find("bfloat16");
        return rate != kind.achievable.end() && rate->second.value() > 0;
      });
  return has_units ? with_type(model, "bfloat16") : model;
}

std::string number_type_of(const Model& model) {
  for (const Parameter& parameter : model.parameters())
    if (is_floating(parameter.type)) return to_text(parameter.type);
  return "float32";
}

Result<Profile> load_profile(const std::string& file, const std::string& model,
                             const Cluster& cluster, int minibatch) {
  if (!file.empty()) {
    PIPEWRIGHT_TRY(const std::string text, read_file(file));
    return parse_profile(text, file);
  }
  if (model.empty())
    return Error{ErrorCode::Usage,
                 "no model given",
                 {},
                 "use --model MODEL or --profile FILE",
                 {}};
  const std::string typed = with_number_type(model, cluster.kinds());
  PIPEWRIGHT_TRY(const Model loaded, load_model(typed));
  PIPEWRIGHT_TRY(Profile profile, analytic_profile(loaded, cluster.kinds(),
                                                   divisors(minibatch)));
  profile.model = typed;
  return profile;
}

}  // namespace pipewright::cli
