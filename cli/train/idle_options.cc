#include "cli/train/idle_options.h"

#include <span>
#include <vector>

#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

Error refused(const std::string& option, const std::string& owner,
              const std::string& other) {
  return bad_configuration(
      option + " is for " + owner + ", and this is " + other, "leave it out");
}

std::string first_of(std::span<const char* const> options,
                     const GivenOptions& given) {
  for (const char* option : options)
    if (given.contains(option)) return option;
  return "";
}

}  // namespace

GivenOptions given_options(const CLI::App& command) {
  GivenOptions given;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) given.insert(option->get_name());
  return given;
}

Result<void> check_given(const GivenOptions& given,
                         const OptimizerChoice& choice) {
  static constexpr const char* kOfSgd[] = {"--momentum", "--nesterov"};
  static constexpr const char* kOfAdam[] = {"--beta1", "--beta2", "--epsilon"};
  const bool is_sgd = choice.name == "sgd";
  const std::string found =
      is_sgd ? first_of(kOfAdam, given) : first_of(kOfSgd, given);
  if (found.empty()) return {};
  return refused(found, is_sgd ? "adam and adamw" : "sgd", choice.name);
}

Result<void> check_given(const GivenOptions& given, Method method) {
  static constexpr const char* kOfAsynchronous[] = {"--rescheduling-steps",
                                                    "--warm-up-steps"};
  if (method != Method::PipeMare && given.contains("--correction-decay"))
    return refused("--correction-decay", "method pipemare", to_text(method));
  if (is_asynchronous(method)) return {};
  if (const std::string found = first_of(kOfAsynchronous, given);
      !found.empty())
    return refused(found, "asynchronous methods", to_text(method));
  return {};
}

std::string idle_on_cores_text(const GivenOptions& given) {
  std::vector<std::string> idle;
  for (const char* option : {"--no-graphs", "--tf32", "--fast-kernels",
                             "--no-fused-kernels", "--between-ranks"})
    if (given.contains(option)) idle.push_back(option);
  if (idle.empty()) return "";
  return join(idle, ", ") + (idle.size() == 1 ? " is" : " are") +
         " for GPUs: nothing changes on CPU threads";
}

}  // namespace pipewright::cli
