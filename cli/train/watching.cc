#include "cli/train/watching.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "cli/train/event_file.h"
#include "cli/train/train_progress.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

// Beside pipewright-runtime in a build folder; bin/ where that is in
// libexec/pipewright/.
fs::path page_program() {
  std::error_code ignored;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path beside = folder / "pipewright";
  return fs::is_regular_file(beside, ignored)
             ? beside
             : folder.parent_path().parent_path() / "bin" / "pipewright";
}

// Event files of one run. The first step that is reported opens the file.
class EventWriter {
 public:
  EventWriter(std::string folder,
              std::function<void(const std::string&)> on_warning)
      : folder_(std::move(folder)), on_warning_(std::move(on_warning)) {}

  void add(const StepReport& step) {
    Scalars scalars = {{"loss", step.loss},
                       {"learning_rate", step.rate},
                       {"samples_per_second", step.samples_per_second}};
    if (step.bubble) scalars.emplace_back("bubble", *step.bubble);
    add(step.step, scalars);
  }

  void add(const Evaluation& evaluation) {
    Scalars scalars = {{"held_out/loss", evaluation.loss}};
    if (evaluation.accuracy)
      scalars.emplace_back("held_out/accuracy", *evaluation.accuracy);
    add(evaluation.step, scalars);
  }

 private:
  void add(std::int64_t step, const Scalars& scalars) {
    if (!file_) {
      auto made = EventFile::create(folder_, step);
      if (!made) return warn(made.error());
      file_ = std::move(*made);
    }
    if (auto added = file_->add(step, scalars); !added) warn(added.error());
  }

  void warn(const Error& error) {
    if (!std::exchange(has_warned_, true) && on_warning_)
      on_warning_(error.to_text() + "; training goes on without it");
  }

  std::string folder_;
  std::function<void(const std::string&)> on_warning_;
  std::optional<EventFile> file_;
  bool has_warned_ = false;
};

}  // namespace

void start_page(const fs::path& run, int port) {
  const std::string program = page_program(), folder = run,
                    number = std::to_string(port);
  const char* arguments[] = {"pipewright", "serve",        folder.c_str(),
                             "--port",     number.c_str(), "--ends-with-parent",
                             nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  posix_spawnattr_t attributes;  // Ctrl-C is for the training
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, program.c_str(), &files, &attributes,
                                   const_cast<char**>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    show_warning("no page: " + program + ": " + std::strerror(failed));
}

TrainHooks with_events(TrainHooks hooks, const std::string& folder) {
  const auto writer = std::make_shared<EventWriter>(folder, hooks.on_warning);
  const TrainHooks inner = hooks;
  hooks.on_step = [=](const StepReport& step) {
    if (inner.on_step) inner.on_step(step);
    writer->add(step);
  };
  hooks.on_evaluation = [=](const Evaluation& evaluation) {
    if (inner.on_evaluation) inner.on_evaluation(evaluation);
    writer->add(evaluation);
  };
  return hooks;
}

}  // namespace pipewright::cli
