#include "cli/plan/minibatch_choice.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/planners/choice.h"

namespace pipewright::cli {
namespace {

constexpr int kMaxSizes = 8;
constexpr double kEnough = 0.98;  // of the best throughput

std::vector<int> minibatch_sizes(int devices) {
  std::vector<int> sizes;
  for (int size = devices;
       size <= kMaxMinibatch / 2 && static_cast<int>(sizes.size()) < kMaxSizes;
       size *= 2)
    sizes.push_back(size);
  return sizes;
}

// Sizes that the user asked for must divide the minibatch.
bool is_divided(int minibatch, const std::vector<int>& microbatches) {
  return std::all_of(microbatches.begin(), microbatches.end(),
                     [&](int size) { return minibatch % size == 0; });
}

}  // namespace

double TriedMinibatch::throughput() const {
  const bool has_step =
      candidate.planned && candidate.planned->estimate.step > Seconds(0);
  return has_step ? minibatch / candidate.planned->estimate.step.value() : 0;
}

const Candidate& MinibatchChoice::chosen() const {
  return std::find_if(tried.begin(), tried.end(),
                      [this](const TriedMinibatch& one) {
                        return one.minibatch == minibatch;
                      })
      ->candidate;
}

Result<MinibatchChoice> choose_minibatch(const ProblemOptions& options,
                                         const std::string& planner,
                                         Method method, Watch& watch) {
  MinibatchChoice choice;
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster(options.cluster));
  const std::vector<int> sizes = minibatch_sizes(cluster.num_devices());
  for (int size : sizes) {
    if (!is_divided(size, options.microbatches)) continue;
    ProblemOptions each = options;
    each.minibatch = size;
    each.budget = options.budget / static_cast<double>(sizes.size());
    PIPEWRIGHT_TRY(const LoadedProblem loaded, load_problem(each));
    watch.set_prefix("minibatch " + std::to_string(size) + ", ");
    PIPEWRIGHT_TRY(std::vector<Candidate> found,
                   candidates(loaded, planner, method, watch));
    choice.tried.push_back({size, std::move(found.front())});
    choice.was_interrupted = Watch::was_interrupted();
    if (choice.was_interrupted) break;
  }
  watch.set_prefix("");
  if (choice.tried.empty())
    return bad_configuration("no minibatch of at most " +
                                 std::to_string(sizes.back()) +
                                 " samples is a multiple of every --microbatch",
                             "omit --microbatch, or give --minibatch");
  double best = 0;
  for (const TriedMinibatch& tried : choice.tried)
    best = std::max(best, tried.throughput());
  if (best == 0 && choice.was_interrupted) return interrupted_early();
  if (best == 0)
    return bad_configuration(choice.tried.front().candidate.refusal);
  for (const TriedMinibatch& tried : choice.tried)
    if (choice.minibatch == 0 && tried.throughput() >= kEnough * best)
      choice.minibatch = tried.minibatch;
  return choice;
}

std::string minibatch_table(const MinibatchChoice& choice, int width) {
  constexpr auto kRight = TextTable::Align::Right;
  TextTable table({{"minibatch", kRight},
                   {"microbatch", kRight},
                   {"stages"},
                   {"step", kRight},
                   {"samples/s", kRight},
                   {"memory", kRight},
                   {""}});
  for (const TriedMinibatch& tried : choice.tried) {
    const auto& planned = tried.candidate.planned;
    if (!planned) {
      table.add_row(
          {std::to_string(tried.minibatch), "", "no plan", "", "", "", ""});
      continue;
    }
    table.add_row({std::to_string(tried.minibatch),
                   std::to_string(planned->plan.microbatch),
                   replicas_text(planned->plan),
                   to_text(planned->estimate.step), to_text(tried.throughput()),
                   to_text(largest_memory(*planned)),
                   tried.minibatch == choice.minibatch ? "chosen" : ""});
  }
  return table.to_text(width) +
         (choice.was_interrupted
              ? "Interrupted: larger minibatches were not tried.\n\n"
              : "The smallest minibatch within 2 % of the largest "
                "throughput.\n\n");
}

Json minibatch_json(const MinibatchChoice& choice) {
  Json list = Json::array();
  for (const TriedMinibatch& tried : choice.tried) {
    Json row = Json::object();
    row.set("minibatch", tried.minibatch);
    row.set("throughput", tried.throughput());
    if (tried.candidate.planned)
      row.set("microbatch", tried.candidate.planned->plan.microbatch)
          .set("memory_bytes",
               largest_memory(*tried.candidate.planned).value());
    else
      row.set("refused", tried.candidate.refusal);
    list.push(std::move(row));
  }
  return list;
}

}  // namespace pipewright::cli
