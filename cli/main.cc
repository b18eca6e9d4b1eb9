#include <exception>
#include <iostream>

#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace pipewright;
  CLI::App app{
      "Plans, simulates and runs pipeline-parallel training of deep "
      "neural networks"};
  app.require_subcommand(1);
  cli::Exit exit;
  cli::add_commands(app, exit);
  try {
    app.parse(argc, argv);
    return exit.code;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ErrorCode::Usage);
  } catch (const std::exception& e) {
    std::cerr << "pipewright: this is a bug of ours: " << e.what() << "\n";
    return static_cast<int>(ErrorCode::Bug);
  }
}
