// Which ranks of a start have come, known without MPI, which waits for ever for
// one that is missing. Each leaves a file, start_RANK.json, in the run folder
// before it joins the others. Ranks on a host that does not share the folder
// are not seen by those on others.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipewright {

class RollCall {
 public:
  // `start` is the same for all ranks of one start, and for no others.
  RollCall(std::filesystem::path run, std::string start, int num_ranks)
      : run_(std::move(run)), start_(std::move(start)), num_ranks_(num_ranks) {}

  // This rank is there. Best effort: where nothing can be written others will
  // miss it.
  void answer(int rank);
  // Whether the run folder is new: answer() made it.
  bool has_made_folder() const { return has_made_folder_; }

  // Those that have left no file, or whose process has ended on this host:
  // "rank 1, rank 3 (its process 77 on node2 has ended)"; "" if all are there.
  std::string absent() const;

  // All are there: removes the file of this rank.
  void end(int rank) const;

  // Removes a folder that is new, once all ranks here have called end() and if
  // nothing else is in it. Waits a second for them.
  void remove_new_folder() const;

 private:
  std::filesystem::path file_of(int rank) const;

  std::filesystem::path run_;
  std::string start_;
  int num_ranks_ = 0;
  bool has_made_folder_ = false;
};

}  // namespace pipewright
