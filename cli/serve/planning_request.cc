#include "cli/serve/planning_request.h"

#include <algorithm>
#include <filesystem>

#include "cli/plan/planning.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/model/zoo/zoo.h"

namespace pipewright::cli {
namespace {

constexpr const char* kRequestName = "request";
constexpr std::size_t kMaxServedName = 300;
constexpr std::size_t kMaxServedSizes = 8;

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A word of a command line that a shell leaves as it is.
std::string shell_word(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-:=,@/.+").find(c) != std::string_view::npos;
  });
  if (is_plain && !text.empty()) return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

ProblemOptions read_problem(JsonCursor& root, const ServedFiles& files) {
  ProblemOptions problem;
  problem.model = root.at("model").text();
  problem.cluster = root.at("cluster").text();
  problem.minibatch =
      static_cast<int>(root.at("minibatch").integer(1, kMaxMinibatch));
  const std::vector<JsonCursor> sizes = root.at("microbatches").elements();
  if (sizes.size() > kMaxServedSizes)
    root.at("microbatches").fail("more than 8 sizes of a microbatch");
  else
    for (const JsonCursor& size : sizes)
      problem.microbatches.push_back(
          static_cast<int>(size.integer(1, kMaxMinibatch)));
  problem.memory = root.at("memory").text();
  if (is_among(problem.model, files.profiles))
    problem.profile = std::exchange(problem.model, "");
  return problem;
}

// load_model() and load_cluster() would read a file of such a name.
Result<void> check_names(const ProblemOptions& problem,
                         const ServedFiles& files) {
  for (const std::string& name :
       {problem.model, problem.cluster, problem.memory})
    if (name.size() > kMaxServedName)
      return bad_configuration("a name of " + std::to_string(name.size()) +
                               " characters; at most " +
                               std::to_string(kMaxServedName) + " are read");
  const std::string& model = problem.model;
  if (problem.profile.empty() && !is_among(model, files.models) &&
      !find_zoo_entry(model.substr(0, model.find(':')))) {
    if (auto known = zoo_model(model); !known) return known.error();
    return bad_configuration("the model \"" + model + "\" is not in the zoo");
  }
  if (is_among(problem.cluster, files.clusters)) return {};
  if (auto known = parse_cluster_text(problem.cluster); !known)
    return known.error();
  std::error_code ignored;
  if (!std::filesystem::exists(problem.cluster, ignored)) return {};
  return bad_configuration("\"" + problem.cluster + "\" is also a file's name",
                           "start serve with --cluster " + problem.cluster);
}

Result<std::vector<const Planner*>> planners_of(
    const std::vector<std::string>& names) {
  std::vector<const Planner*> found;
  for (const std::string& name : names) {
    PIPEWRIGHT_TRY(const Planner* planner, find_planner(name));
    if (std::find(found.begin(), found.end(), planner) == found.end())
      found.push_back(planner);
  }
  return found;
}

std::vector<std::string> texts_of(const JsonCursor& list) {
  std::vector<std::string> texts;
  for (const JsonCursor& element : list.elements())
    texts.push_back(element.text().substr(0, kMaxServedName));
  return texts;
}

struct SearchNames {
  ProblemOptions problem;
  std::vector<std::string> methods, planners;
};

}  // namespace

Result<SearchRequest> parse_search_request(std::string_view text,
                                           const ServedFiles& files) {
  PIPEWRIGHT_TRY(const SearchNames names,
                 read_json(text, kRequestName, [&](JsonCursor& root) {
                   SearchNames read{read_problem(root, files),
                                    texts_of(root.at("methods")),
                                    texts_of(root.at("planners"))};
                   root.refuse_other_keys();
                   return read;
                 }));
  if (auto fine = check_names(names.problem, files); !fine) return fine.error();
  SearchRequest request;
  request.problem = names.problem;
  PIPEWRIGHT_TRY(request.methods, parse_methods(names.methods));
  PIPEWRIGHT_TRY(request.planners, planners_of(names.planners));
  std::sort(request.methods.begin(), request.methods.end());
  request.methods.erase(
      std::unique(request.methods.begin(), request.methods.end()),
      request.methods.end());
  if (request.methods.empty() || request.planners.empty())
    return bad_configuration("no planner or no method is chosen");
  return request;
}

Result<PlanRequest> parse_plan_request(std::string_view text,
                                       const ServedFiles& files) {
  struct Read {
    ProblemOptions problem;
    std::string plan;
  };
  PIPEWRIGHT_TRY(const Read read,
                 read_json(text, kRequestName, [&](JsonCursor& root) {
                   Read request{read_problem(root, files), ""};
                   if (JsonCursor plan = root.at("plan"); plan.exists())
                     request.plan = plan.json()->to_text();
                   root.refuse_other_keys();
                   return request;
                 }));
  if (auto fine = check_names(read.problem, files); !fine) return fine.error();
  PIPEWRIGHT_TRY(Plan plan, parse_plan(read.plan, "plan"));
  return PlanRequest{read.problem, std::move(plan)};
}

std::string plan_command(const ProblemOptions& problem,
                         const std::string& planner, Method method) {
  std::string line = "pipewright plan";
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty())
      line += std::string(" ") + option + " " + shell_word(value);
  };
  add("--model", problem.model);
  add("--profile", problem.profile);
  add("--cluster", problem.cluster);
  add("--minibatch", std::to_string(problem.minibatch));
  std::vector<std::string> sizes;
  for (int size : problem.microbatches) sizes.push_back(std::to_string(size));
  add("--microbatch", join(sizes, ","));
  add("--memory", problem.memory);
  add("--planner", planner);
  if (method != Method::Sync) add("--method", to_text(method));
  return line + " -o plan.json";
}

}  // namespace pipewright::cli
