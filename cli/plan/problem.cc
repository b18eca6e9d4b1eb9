#include "cli/plan/problem.h"

#include <algorithm>
#include <cmath>

#include "cli/load_profile.h"
#include "cli/number_in.h"
#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/estimate/remembering_estimator.h"
#include "pipewright/plan/optimizer_choice.h"

namespace pipewright::cli {
namespace {

constexpr std::size_t kMaxMicrobatchSizes = 8;
constexpr int kManyDevices = 64;

Error usage(std::string message, std::string hint) {
  return {ErrorCode::Usage, std::move(message), {}, std::move(hint), {}};
}

// Empty for a number in range or "auto".
std::string refuse_minibatch(const std::string& text) {
  const auto number = parse_integer(text);
  if (text == "auto" || (number && *number >= 1 && *number <= kMaxMinibatch))
    return "";
  return "expected auto or a number from 1 to " +
         std::to_string(kMaxMinibatch) + ", found \"" + text + "\"";
}

// "16GB", "512MB", "40 GiB" or a number of bytes, which is never small: who
// writes 8 means gigabytes.
Result<Bytes> memory_of(const std::string& text) {
  constexpr std::int64_t kFewBytes = 1'000'000;
  std::optional<Bytes> bytes = parse_bytes(text);
  if (const auto plain = parse_integer(text)) {
    if (*plain > 0 && *plain < kFewBytes)
      return usage("--memory " + text + " is " + counted(*plain, "byte"),
                   "write the unit: --memory " + text + "GB");
    bytes = Bytes(*plain);
  }
  if (bytes && *bytes > Bytes(0)) return *bytes;
  return usage("expected a size for --memory, found \"" + text + "\"",
               "for example --memory 16GB");
}

Result<std::vector<int>> microbatches_of(const ProblemOptions& options,
                                         const Cluster& cluster) {
  if (options.microbatches.empty())
    return default_microbatches(options.minibatch, cluster);
  for (int size : options.microbatches)
    if (size < 1 || options.minibatch % size != 0)
      return bad_configuration(
          "a microbatch of " + std::to_string(size) +
              " samples does not divide a minibatch of " +
              std::to_string(options.minibatch),
          "use a divisor of the minibatch, or omit --microbatch");
  return options.microbatches;
}

Result<Bytes> bucket_of(const std::string& text) {
  if (text == "none") return Bytes(0);
  std::optional<Bytes> bytes = parse_bytes(text);
  if (const auto plain = parse_integer(text)) bytes = Bytes(*plain);
  if (bytes && *bytes >= Bytes(0)) return *bytes;
  return usage("expected a size or none for --bucket, found \"" + text + "\"",
               "for example --bucket 25MB");
}

}  // namespace

Result<void> set_replicas(Problem& problem, const ProblemOptions& options) {
  PIPEWRIGHT_TRY(problem.bucket, bucket_of(options.bucket));
  problem.shares_by_speed = options.shares == "speed";
  if (problem.shares_by_speed || options.shares == "equal") return {};
  return usage(
      "expected speed or equal for --shares, found \"" + options.shares + "\"",
      "equal: every replica has as many samples");
}

void add_problem_options(CLI::App& command, ProblemOptions& options,
                         const std::string& budget_text) {
  auto* model = command.add_option(
      "--model", options.model,
      "Model of the zoo with settings, such as gpt:layers=12, "
      "or a model file; its costs are estimated");
  command
      .add_option("--profile", options.profile,
                  "Profile file with the costs, instead of --model")
      ->excludes(model);
  command
      .add_option("--cluster", options.cluster,
                  "Cluster, for example 4xV100@1GB/s, or a cluster file")
      ->required();
  command
      .add_option_function<std::string>(
          "--minibatch",
          [&options](const std::string& text) {
            options.minibatch = std::stoi(text == "auto" ? "0" : text);
          },
          "Samples per optimizer step, or auto: the smallest that reaches the "
          "largest throughput within memory, or nearly")
      ->required()
      ->check(refuse_minibatch, "", "");
  command
      .add_option("--microbatch", options.microbatches,
                  "Microbatch sizes to try, N[,N...]; default: up to eight "
                  "divisors of the minibatch")
      ->delimiter(',')
      ->check(integer_in(1, kMaxMinibatch));
  command
      .add_option("--optimizer", options.optimizer,
                  "sgd, momentum, adam or adamw; determines the memory of its "
                  "state")
      ->capture_default_str();
  command.add_option("--memory", options.memory,
                     "Limit for the memory of each device, for example 16GB");
  command
      .add_option("--stages", options.stages,
                  "Number of stages; default: the planner chooses")
      ->check(integer_in(1, kMaxLayers));
  command
      .add_option("--bucket", options.bucket,
                  "Sum gradients of replicas in buckets of about this size "
                  "while backward goes on, where that is faster; none: stage "
                  "by stage")
      ->capture_default_str();
  command
      .add_option("--shares", options.shares,
                  "Samples of replicas on unequal devices: speed, where that "
                  "is faster, or equal")
      ->capture_default_str();
  command.add_option("--budget", options.budget, budget_text)
      ->check(number_in(0.001, 1e6))
      ->capture_default_str();
  command
      .add_option("--threads", options.threads,
                  "Threads for the search; does not change the plan unless the "
                  "budget runs out. Default: one per core")
      ->check(integer_in(1, 1024));
}

std::vector<int> default_microbatches(int minibatch, const Cluster& cluster) {
  const int devices = cluster.num_devices(), hosts = cluster.num_hosts();
  std::vector<int> sizes;
  for (int size : divisors(minibatch))
    if (minibatch / size <= std::max(8, 8 * devices)) sizes.push_back(size);
  // On many hosts, planners replicate whole pipelines.
  if (devices > kManyDevices)
    std::erase_if(sizes, [&](int size) {
      return minibatch % hosts == 0 && size % hosts != 0;
    });
  while (sizes.size() > kMaxMicrobatchSizes) {
    // Remove the size whose neighbours have the smallest ratio.
    std::size_t nearest = 1;
    double closest = INFINITY;
    for (std::size_t i = 1; i + 1 < sizes.size(); ++i)
      if (double ratio = double(sizes[i + 1]) / sizes[i - 1]; ratio < closest)
        closest = ratio, nearest = i;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
  return sizes;
}

Result<LoadedProblem> load_problem(const ProblemOptions& options) {
  PIPEWRIGHT_TRY(Cluster cluster, load_cluster(options.cluster));
  return load_problem(options, std::move(cluster));
}

Result<LoadedProblem> load_problem(const ProblemOptions& options,
                                   Cluster cluster) {
  LoadedProblem loaded;
  PIPEWRIGHT_TRY(Profile profile, load_profile(options.profile, options.model,
                                               cluster, options.minibatch));
  PIPEWRIGHT_TRY(const OptimizerChoice choice,
                 optimizer_named(options.optimizer));
  PIPEWRIGHT_TRY(OptimizerMemory optimizer, memory_of(choice));
  if (options.profile.empty()) {
    PIPEWRIGHT_TRY(const Model model, load_model(profile.model));
    loaded.number_type = number_type_of(model);
    if (has_masters(loaded.number_type)) optimizer = with_masters(optimizer);
  }
  Problem& problem = loaded.problem;
  PIPEWRIGHT_TRY(problem.microbatches, microbatches_of(options, cluster));
  if (!options.memory.empty()) {
    PIPEWRIGHT_TRY(problem.memory_limit, memory_of(options.memory));
  }
  for (const DeviceKind& kind : cluster.kinds())
    if (auto times = times_at(profile, kind.name, 1, Outside::Extrapolate);
        !times)
      return times.error();
  loaded.cluster = std::make_unique<const Cluster>(std::move(cluster));
  loaded.profile = std::make_unique<const Profile>(std::move(profile));
  problem.cluster = loaded.cluster.get();
  problem.profile = loaded.profile.get();
  problem.minibatch = options.minibatch;
  problem.optimizer_words = optimizer.words;
  problem.stages = options.stages;
  if (auto set = set_replicas(problem, options); !set) return set.error();
  problem.budget = Seconds(options.budget);
  problem.threads = options.threads;
  if (options.microbatches.empty())
    problem.microbatches_for = [minibatch =
                                    options.minibatch](const Cluster& other) {
      return default_microbatches(minibatch, other);
    };
  set_estimators(problem);
  remember_estimates(problem);
  return loaded;
}

}  // namespace pipewright::cli
