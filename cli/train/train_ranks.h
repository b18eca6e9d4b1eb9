// What pipewright train does where it is one of several processes, and its
// options for that: joining, comparing, following, and ending together.

#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/runtime_link.h"

namespace pipewright::cli {

struct RankOptions {
  bool fast_reduce = false, poll = false;
  double set_up_limit = 120, stall_limit = 10;
  std::string inject, cluster;
  std::string compared;  // all other options, as given on this rank
};
void add_rank_options(CLI::App& command, RankOptions& options);
// Takes the options as they were given; after parsing.
void note_options(const CLI::App& command, RankOptions& options);

// Joins the other ranks, if a launcher of MPI started this process. Null if
// that failed; it has been reported then.
std::unique_ptr<Launch> joined_launch(const RankOptions& options,
                                      const std::filesystem::path& run,
                                      const std::function<int()>& signal,
                                      Exit& exit);

// True on the process that is to train, with the request's transport set. On
// all others, and where ranks do not agree or `model` is an error, this is all
// there is to do.
bool is_to_lead(Launch& launch, const RankOptions& options,
                const Result<Model>& model, TrainRequest& request, Exit& exit);

// What to say of a run that a signal ended; it has been saved.
Error end_by_signal(const TrainReport& report);

// Lets the other ranks go and reports an error, if it is one: false then.
bool has_ended_well(Launch& launch, const Result<TrainReport>& report,
                    Exit& exit);

}  // namespace pipewright::cli
