// The files of Sailor (Strati et al., "Sailor: Automating Distributed Training
// over Dynamic, Heterogeneous, and Geo-distributed Clusters", SOSP 2025) other
// than its layer times: sizes, network curves, machines, measured plans.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/result.h"
#include "pipewright/profile/formats/bandwidth_table.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/formats/published_plan.h"

namespace pipewright {

// Bytes of one layer: parameters once, the rest for each sample.
struct SailorLayerSizes {
  std::int64_t parameters = 0;
  std::int64_t output = 0;
  std::int64_t input = 0;
  std::int64_t memory = 0;  // kept for backward
};

// llm_info.json: by model, tensor-parallel degree, layer.
using SailorSizes =
    std::map<std::string, std::map<int, std::vector<SailorLayerSizes>>>;

Result<SailorSizes> parse_sailor_sizes(std::string_view text,
                                       const std::string& file);
// providers/*.json: leaves [[c2, c1, c0], peak] under the names of both ends.
Result<std::vector<BandwidthTable>> parse_sailor_network(
    std::string_view text, const std::string& file);
// {kind: {gpus_per_node, mem_per_gpu}, ..., zone}.
Result<std::vector<ImportedDevices>> parse_sailor_machines(
    std::string_view text, const std::string& file);
// plan_config_*.json: a plan and its measurements, each of which may be missing
// or something else than a number.
Result<PublishedPlan> parse_sailor_plan(std::string_view text,
                                        const std::string& file);

// The members of an object whose keys are 0, 1, 2, ..., by number. Otherwise
// records an error and returns nothing.
std::vector<JsonCursor> numbered_members(const JsonCursor& object);
// A key that is a number from 1 to 2^20. Otherwise records an error and returns
// 0.
int count_key(const std::string& key, const JsonCursor& value);

}  // namespace pipewright
