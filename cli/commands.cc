// The list of commands: a new one is one file and one line here.

#include "cli/commands.h"

#include <exception>

#include "cli/command.h"

namespace pipewright::cli {
namespace {

void add_commands(CLI::App& app, Exit& exit) {
  add_schedule(app, exit);
  add_env(app, exit);
  add_models(app, exit);
  add_cluster(app, exit);
  add_import(app, exit);
  add_profile(app, exit);
  add_plan(app, exit);
  add_compare(app, exit);
  add_simulate(app, exit);
  add_report(app, exit);
  add_train(app, exit);
  add_place(app, exit);
  add_validate(app, exit);
  add_completion(app, exit);
  add_man_page(app, exit);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{
      "Plans, simulates and runs pipeline-parallel training of deep "
      "neural networks"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "pipewright " PIPEWRIGHT_VERSION);
  Exit exit{0, argv};
  add_commands(app, exit);
  try {
    app.parse(argc, argv);
    return exit.code;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ErrorCode::Usage);
  } catch (const std::exception& e) {
    say(std::string("pipewright: internal error: ") + e.what());
    return static_cast<int>(ErrorCode::Bug);
  }
}

}  // namespace pipewright::cli
