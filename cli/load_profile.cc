#include "cli/load_profile.h"

#include "pipewright/base/files.h"
#include "pipewright/model/model.h"
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
  PIPEWRIGHT_TRY(const Model loaded, load_model(model));
  PIPEWRIGHT_TRY(Profile profile, analytic_profile(loaded, cluster.kinds(),
                                                   divisors(minibatch)));
  profile.model = model;
  return profile;
}

}  // namespace pipewright::cli
