// The list of commands: a new one is one file and one line here.

#include "cli/commands.h"

#include "cli/command.h"

namespace pipewright::cli {

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
  add_train(app, exit);
  add_place(app, exit);
  add_validate(app, exit);
}

}  // namespace pipewright::cli
