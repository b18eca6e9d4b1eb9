#include "cli/commands.h"

int main(int argc, char** argv) { return pipewright::cli::run(argc, argv); }
