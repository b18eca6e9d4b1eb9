// A plan of another system as a plan and a cluster of ours, for `pipewright
// import --plan FILE --cluster FILE`.

#pragma once

#include <optional>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright::cli {

struct PublishedRun {
  Cluster cluster;
  std::optional<Plan> plan;        // none: the source has none
  std::vector<std::string> notes;  // what was dropped, and which rates are used
};

// `cluster` is used instead of what the source says of machines, unless empty;
// `minibatch` where the source gives none, unless 0. Needs one plan and the
// profile of its layers; or no plan, but devices. Fails with BadConfiguration.
Result<PublishedRun> published_run(const Imported& imported,
                                   const std::string& cluster, int minibatch);

}  // namespace pipewright::cli
