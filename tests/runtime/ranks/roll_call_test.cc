// Ranks that have answered are not absent: every set of four, and answers that
// do not count.

#include "pipewright/runtime/ranks/roll_call.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

using namespace testing;

TEST_CASE("those who have not answered are absent") {
  for (unsigned answered = 0; answered < 16; ++answered) {
    const TemporaryFolder folder("roll-call");
    RollCall call(folder.path() / "run", "a", 4);
    std::vector<std::string> expected;
    for (int rank = 0; rank < 4; ++rank)
      if (answered >> rank & 1)
        call.answer(rank);
      else
        expected.push_back("rank " + std::to_string(rank));
    CHECK(call.absent() == join(expected, ", "));
    for (int rank = 0; rank < 4; ++rank) call.end(rank);
    if (answered != 0) CHECK(std::filesystem::is_empty(folder.path() / "run"));
  }
}

TEST_CASE("an answer of another start, a broken file: absent") {
  const TemporaryFolder folder("other-start");
  RollCall call(folder.path(), "a", 3);
  RollCall(folder.path(), "b", 3).answer(0);
  call.answer(1);
  REQUIRE(write_file(folder.path() / "start_2.json", "{\"start\": \"a\"").ok());
  CHECK(call.absent() == "rank 0, rank 2");
  call.answer(0);  // replaces the old one
  CHECK(call.absent() == "rank 2");
}

TEST_CASE("a process that has ended is named") {
  const TemporaryFolder folder("ended");
  RollCall call(folder.path(), "a", 2);
  call.answer(0);
  const pid_t child = ::fork();
  if (child == 0) {
    call.answer(1);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const std::string absent = call.absent();
  INFO(absent);
  CHECK(absent.starts_with("rank 1 (its process " + std::to_string(child) +
                           " on "));
  CHECK(absent.ends_with(" has ended)"));
}

TEST_CASE("a new folder is removed when all have left it, another one is not") {
  const TemporaryFolder folder("refused");
  RollCall first(folder.path() / "run", "a", 2);
  RollCall second(folder.path() / "run", "a", 2);
  first.answer(0);
  second.answer(1);
  CHECK(first.has_made_folder());
  CHECK(!second.has_made_folder());
  second.end(1);
  second.remove_new_folder();
  CHECK(std::filesystem::exists(folder.path() / "run"));
  first.end(0);
  first.remove_new_folder();
  CHECK(!std::filesystem::exists(folder.path() / "run"));
}

TEST_CASE("a folder that cannot be written: all are absent, nothing fails") {
  RollCall call("/dev/null/run", "a", 2);
  call.answer(0);
  CHECK(call.absent() == "rank 0, rank 1");
  call.end(0);
  RollCall("", "a", 2).answer(0);
}

}  // namespace
}  // namespace pipewright
