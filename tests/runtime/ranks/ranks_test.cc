// Injections, packing, progress, hosts, and the comparison before step 0.

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "pipewright/runtime/ranks/agreement.h"
#include "pipewright/runtime/ranks/injection.h"
#include "pipewright/runtime/ranks/packing.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {
namespace {

TEST_CASE("injections are parsed, and mistakes in them are errors") {
  const Injection kill =
      parse_injection("kill:rank=2,step=5,action=B3").value();
  CHECK(kill.kind == Injection::Kind::Kill);
  const Place there{WorkerId(2), StageId(1), ActionKind::Backward, 5, 3};
  CHECK(kill.is_at(2, there));
  CHECK(!kill.is_at(1, there));
  Place elsewhere = there;
  elsewhere.microbatch = 2;
  CHECK(!kill.is_at(2, elsewhere));
  const Injection send =
      parse_injection("kill:rank=2,step=5,action=send3").value();
  CHECK(!send.is_at(2, there));
  CHECK(send.is_at(2, {WorkerId(2), StageId(1), ActionKind::Send, 5, 3}));
  const Injection stop = parse_injection("stop:rank=1,seconds=2").value();
  CHECK(stop.seconds == Seconds(2));
  CHECK(stop.is_at(1, {WorkerId(1), StageId(0), ActionKind::Send, 1, 0}));
  for (const char* name : {"kill", "stop", "loop", "nan", "throw", "hang",
                           "lose", "memory", "missing", "full"})
    CHECK(parse_injection(name).ok());
  for (const char* text :
       {"", "kil", "kill:rank", "kill:rank=x", "kill:action=Q1", "kill:rank=-1",
        "kill:action=", "kill:action=sen1", "kill:action=FF", "kill:action=1",
        "kill:action=B-1", "kill:colour=1", "kill:"})
    CHECK(!parse_injection(text).ok());
}

TEST_CASE("what is packed is unpacked") {
  Packer packer;
  packer.number(3);
  packer.text("so");
  packer.tensors({at::arange(6).reshape({2, 3}).t(), at::Tensor(),
                  at::ones({0}), at::full({2}, 1.5, at::kHalf)});
  const std::string bytes = packer.take();
  Unpacker unpacker(bytes);
  CHECK(unpacker.number<int>() == 3);
  CHECK(unpacker.text() == "so");
  const auto tensors = unpacker.tensors();
  CHECK(tensors[0].equal(at::arange(6).reshape({2, 3}).t()));
  CHECK(!tensors[1].defined());
  CHECK(tensors[2].numel() == 0);
  CHECK(tensors[3].equal(at::full({2}, 1.5, at::kHalf)));
  CHECK(unpacker.is_done());
  CHECK_THROWS(unpacker.number<int>());
}

TEST_CASE("the last 64 actions are kept, and the longest step") {
  Progress progress;
  CHECK(progress.last_actions().empty());
  Action action;
  action.stage = StageId(0);
  for (int m = 0; m < 100; ++m) progress.begin(WorkerId(0), action, m, 4);
  const auto actions = progress.last_actions();
  REQUIRE(actions.size() == 64);
  CHECK(actions.front().place.step == 36 / 4 + 1);
  CHECK(actions.back().place.microbatch == 3);
  CHECK(to_text(actions.back().place) ==
        "step 25, stage 0, forward of microbatch 3");
  CHECK(progress.snapshot().longest_step > Seconds(0));
  CHECK(progress.snapshot().phase == Phase::Computes);
}

TEST_CASE("a step that is a whole run counts, what comes between does not") {
  Progress progress;
  Action action;
  action.stage = StageId(0);
  const auto pause = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  progress.begin(WorkerId(0), action, 0, 4);
  CHECK(progress.snapshot().longest_step == Seconds(0));
  pause();
  progress.enter(Phase::Between);
  const Seconds longest = progress.snapshot().longest_step;
  CHECK(longest >= Seconds(0.02));
  for (int i = 0; i < 10; ++i) pause();
  progress.begin(WorkerId(0), action, 4, 4);
  progress.enter(Phase::Between);
  CHECK(progress.snapshot().longest_step < Seconds(0.2));
}

TEST_CASE("a single rank agrees with itself, or fails with its error") {
  const auto alone = in_process_transport();
  CHECK(agree(*alone, Intentions{{"plan", "x"}}).ok());
  const Result<void> failed = agree(*alone, malformed("no plan"));
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::MalformedInput);
}

}  // namespace
}  // namespace pipewright
