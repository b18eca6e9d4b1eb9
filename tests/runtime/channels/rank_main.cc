// The main of tests that a launcher starts: every rank runs all cases in the
// same order and prints only what fails. A rank that hangs is ended.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/runtime/channels/ranks.h"

namespace pipewright::testing {

RankSession& session() {
  static const std::unique_ptr<RankSession> started =
      RankSession::start().value();
  return *started;
}

}  // namespace pipewright::testing

int main(int argc, char** argv) {
  ::alarm(500);
  pipewright::testing::session();
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  context.setOption("minimal", pipewright::testing::session().rank() > 0);
  return context.run();
}
