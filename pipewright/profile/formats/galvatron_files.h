// The files of Galvatron (Miao et al., "Galvatron: Efficient Transformer
// Training over Multiple GPUs Using Automatic Parallelism", VLDB 2023), read
// without interpretation. MB is 2^20 bytes; times are milliseconds.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/profile/formats/bandwidth_table.h"
#include "pipewright/profile/formats/published_plan.h"

namespace pipewright {

// computation_profiling_*.json: forward milliseconds per sample of one
// transformer layer and of everything else (embedding, head, loss), by batch
// size and sequence length (0 if the file has only one length).
struct GalvatronTimes {
  using At = std::pair<int, int>;  // batch, sequence
  std::map<At, double> layer_ms;
  std::map<At, double> other_ms;
  std::map<int, std::map<At, double>>
      whole_ms;                         // by number of layers; per batch
  std::optional<double> layer_ms_only;  // "layertype_0" alone
};

// memory_profiling_*.json, if it has results per layer.
struct GalvatronMemory {
  bool is_given = false;
  double parameters_mb = 0;  // of one layer
  double kept_mb = 0;        // for backward, per sample
  double input_mb = 0;       // what is kept when a layer is recomputed
  // Weights, gradients and optimizer state before and after the layers, and
  // what is kept there per sample.
  double first_states_mb = 0;
  double first_kept_mb = 0;
  double last_states_mb = 0;
  double last_kept_mb = 0;
};

struct GalvatronNetwork {
  std::vector<BandwidthTable> tables;
  std::optional<double> overlap;  // slowdown of compute during a transfer
};

Result<GalvatronTimes> parse_galvatron_times(std::string_view text,
                                             const std::string& file);
Result<GalvatronMemory> parse_galvatron_memory(std::string_view text,
                                               const std::string& file);
Result<GalvatronNetwork> parse_galvatron_network(std::string_view text,
                                                 const std::string& file);
Result<PublishedPlan> parse_galvatron_plan(std::string_view text,
                                           const std::string& file);
// The number of layers that a model's configuration gives.
Result<int> parse_galvatron_layers(std::string_view text,
                                   const std::string& file);

// The numbers at the marks: "layernum[12]_bsz4" with the form
// "layernum[#]_bsz#" is {12, 4}. Nothing if the text has another form or a
// number is too large.
std::optional<std::vector<int>> numbers_in(std::string_view text,
                                           std::string_view form);

}  // namespace pipewright
