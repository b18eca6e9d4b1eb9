#include "experiments/convergence/training_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// FNV-1a: the same on every machine.
std::uint64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::string hexadecimal(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4)
    text[i] = "0123456789abcdef"[number & 15];
  return text;
}

std::filesystem::path file_of(const std::string& folder,
                              const std::string& training) {
  return folder + "/" + hexadecimal(fingerprint(training)) + ".json";
}

// A file is the same wherever it lies.
std::string data_text(const std::string& data) {
  const std::size_t colon = data.find(':'), slash = data.rfind('/');
  if (colon == std::string::npos || slash == std::string::npos) return data;
  return data.substr(0, colon + 1) + data.substr(slash + 1);
}

Outcome outcome_in(JsonCursor& root, const std::string& training) {
  Outcome outcome;
  if (JsonCursor key = root.at("training"); key.text() != training)
    key.fail("another training: \"" + key.text() + "\"",
             "remove the file, or choose another folder");
  outcome.diverged = root.at("diverged").boolean();
  outcome.result = root.at("result").real();
  for (const JsonCursor& loss : root.at("losses").elements())
    outcome.losses.push_back(loss.real());
  const JsonCursor origin = root.find("origin");
  outcome.origin =
      origin.exists() ? origin.text() : "on a day and machine not kept";
  const JsonCursor seconds = root.find("seconds");
  if (seconds.exists()) outcome.seconds = seconds.real();
  root.refuse_other_keys();
  return outcome;
}

}  // namespace

std::string training_text(const Task& task, const Arm& arm,
                          const Training& training) {
  const Recipe& recipe = task.recipe;
  std::string text = recipe.task + " " + recipe.net + " " + task.model.name() +
                     " on " + data_text(recipe.data) + ", " + arm.name + ", " +
                     to_text(task.optimizer);
  const std::vector<std::pair<std::string, double>> numbers = {
      {"blocks", recipe.blocks},
      {"width", recipe.width},
      {"patch", recipe.patch},
      {"minibatch", recipe.minibatch},
      {"microbatch", recipe.microbatch},
      {"ramp", recipe.ramp},
      {"decay", arm.correction ? recipe.decay : 0},
      {"warm-up", arm.warm_up},
      {"stages", training.stages},
      {"steps", training.steps},
      {"rate", training.rate},
      {"annealing", arm.rescheduling ? training.annealing : 0},
      {"tested", recipe.tested_samples},
      {"seed", static_cast<double>(training.seed)}};
  for (const auto& [name, number] : numbers)
    text += ", " + name + " " + exact_text(number);
  // Streams and shares of a GPU compute the same bits, cores others.
  return text + (recipe.device == "cpu" ? "" : ", on a GPU");
}

TrainingClaim::~TrainingClaim() {
  if (file_ < 0) return;
  ::unlink(name_.c_str());
  ::close(file_);
}

// The system lets go of the lock of a process that has ended.
std::optional<TrainingClaim> TrainingStore::claim(
    const Task& task, const Arm& arm, const Training& training) const {
  if (folder_.empty()) return TrainingClaim();
  std::error_code none;
  std::filesystem::create_directories(folder_, none);
  const std::string name =
      file_of(folder_, training_text(task, arm, training)).string() + ".lock";
  const int file =
      ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return TrainingClaim();  // keep() will say why
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return TrainingClaim(file, name);
  ::close(file);
  return std::nullopt;
}

std::optional<Outcome> TrainingStore::remembered(const std::string& training) {
  const std::lock_guard lock(mutex_);
  const auto found = outcomes_.find(training);
  return found == outcomes_.end() ? std::nullopt : std::optional(found->second);
}

void TrainingStore::remember(const std::string& training,
                             const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  outcomes_.emplace(training, outcome);
}

Result<std::optional<Outcome>> TrainingStore::find(const Task& task,
                                                   const Arm& arm,
                                                   const Training& training) {
  const std::string key = training_text(task, arm, training);
  if (auto known = remembered(key)) return known;
  const std::filesystem::path file = file_of(folder_, key);
  std::error_code none;
  if (folder_.empty() || !std::filesystem::exists(file, none))
    return std::optional<Outcome>();
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  PIPEWRIGHT_TRY(Outcome outcome,
                 read_json(text, file.string(), [&](JsonCursor& root) {
                   return outcome_in(root, key);
                 }));
  remember(key, outcome);
  return std::optional(std::move(outcome));
}

Result<void> TrainingStore::keep(const Task& task, const Arm& arm,
                                 const Training& training,
                                 const Outcome& outcome) {
  const std::string key = training_text(task, arm, training);
  remember(key, outcome);
  if (folder_.empty()) return {};
  std::error_code none;
  std::filesystem::create_directories(folder_, none);
  Json losses = Json::array();
  for (const double loss : outcome.losses) losses.push(loss);
  Json root = Json::object();
  root.set("training", key)
      .set("diverged", outcome.diverged)
      .set("result", outcome.result)
      .set("origin", outcome.origin)
      .set("seconds", outcome.seconds)
      .set("losses", std::move(losses));
  return write_file(file_of(folder_, key), root.to_text());
}

}  // namespace pipewright
