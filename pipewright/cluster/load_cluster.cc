// A cluster from a file, from text, or as this machine is; see cluster.h.

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/cluster/this_machine_links.h"

namespace pipewright {

Result<Cluster> load_cluster(const std::string& text_or_file) {
  std::error_code ignored;  // text that cannot be a path is not a file
  const bool is_file = text_or_file.ends_with(".json") ||
                       std::filesystem::exists(text_or_file, ignored);
  if (!is_file && text_or_file == "here") return this_machine_cluster();
  if (!is_file) return parse_cluster_text(text_or_file);
  PIPEWRIGHT_TRY(std::string text, read_file(text_or_file));
  return parse_cluster(text, text_or_file);
}

}  // namespace pipewright
