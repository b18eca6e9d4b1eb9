// What pipewright train does on several ranks, and its options for that:
// joining, comparing, following, and ending together.

#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/runtime_link.h"

namespace pipewright::cli {

struct RankOptions {
  bool fast_reduce = false, poll = false, checksum = false, elastic = false;
  std::string between_ranks = "auto";
  double set_up_limit = 120, stall_limit = 10;
  std::string inject, cluster;
  std::string compared;  // the other options, which must be equal on all ranks
};
void add_rank_options(CLI::App& command, RankOptions& options);
// Sets options.compared; to be called after parsing.
void set_compared(const CLI::App& command, RankOptions& options);

// Joins the other ranks, if a launcher started this process. Null if
// that failed; the error has then been reported.
std::unique_ptr<Launch> joined_launch(const RankOptions& options,
                                      const std::filesystem::path& run,
                                      const std::function<int()>& signal,
                                      Exit& exit);

// True on rank 0, with the request's transport set. On the other ranks, and if
// ranks do not agree or `model` is an error, the command is done afterwards.
bool is_to_lead(Launch& launch, const RankOptions& options,
                const Result<Model>& model, TrainRequest& request, Exit& exit);

// The message about a run that a signal ended; it has been saved.
Error end_by_signal(const TrainReport& report);

// Shuts the other ranks down; reports an error and returns false, if it is one.
bool has_ended_well(Launch& launch, const Result<TrainReport>& report,
                    Exit& exit);

}  // namespace pipewright::cli
