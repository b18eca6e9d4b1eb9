// Faults on purpose; see injection.h.

#include "pipewright/runtime/ranks/injection.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "pipewright/base/text.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "pipewright/runtime/device_fault.h"

namespace pipewright {
namespace {

using Kind = Injection::Kind;

constexpr std::array<std::pair<const char*, Kind>, 10> kKinds = {{
    {"kill", Kind::Kill},
    {"stop", Kind::Stop},
    {"loop", Kind::Loop},
    {"nan", Kind::Nan},
    {"throw", Kind::Throw},
    {"hang", Kind::Hang},
    {"lose", Kind::Lose},
    {"memory", Kind::Memory},
    {"missing", Kind::Missing},
    {"full", Kind::Full},
}};

constexpr std::array<std::pair<const char*, ActionKind>, 7> kActions = {{
    {"F", ActionKind::Forward},
    {"B", ActionKind::Backward},
    {"I", ActionKind::BackwardInput},
    {"W", ActionKind::BackwardWeight},
    {"R", ActionKind::Recompute},
    {"S", ActionKind::Step},
    {"send", ActionKind::Send},
}};

std::optional<ActionKind> action_of(const std::string& name) {
  for (const auto& [each, kind] : kActions)
    if (name == each) return kind;
  return std::nullopt;
}

Error unknown(const std::string& what) {
  return bad_configuration(
      "--inject: unknown \"" + what + "\"",
      "for example kill:rank=2,step=5,action=B3; or stop, loop, nan, throw, "
      "hang, lose, memory, full, missing");
}

Result<void> read_setting(const std::string& key, const std::string& value,
                          Injection& injection) {
  const auto number = parse_integer(value);
  if (key == "action") {
    const std::size_t end =
        std::min(value.find_first_of("-0123456789"), value.size());
    injection.action = action_of(value.substr(0, end));
    if (!injection.action) return unknown(value);
    if (end == value.size()) return {};
    const auto microbatch = parse_integer(value.substr(end));
    if (!microbatch || *microbatch < 0) return unknown(value);
    injection.microbatch = *microbatch;
    return {};
  }
  if (!number || *number < 0 || *number > (1 << 30))
    return unknown(key + "=" + value);
  if (key == "rank")
    injection.rank = static_cast<int>(*number);
  else if (key == "step")
    injection.step = *number;
  else if (key == "times")
    injection.times = static_cast<int>(*number);
  else if (key == "seconds")
    injection.seconds = Seconds(static_cast<double>(*number));
  else
    return unknown(key);
  return {};
}

// A child, which is not stopped, wakes its parent.
void stop_self(Seconds seconds) {
  if (seconds > Seconds(0) && ::fork() == 0) {
    ::usleep(static_cast<useconds_t>(seconds.value() * 1e6));
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
}

}  // namespace

Result<Injection> parse_injection(const std::string& text) {
  Injection injection;
  injection.text = text;
  const std::string name = text.substr(0, text.find(':'));
  bool is_known = false;
  for (const auto& [each, kind] : kKinds)
    if (name == each) {
      injection.kind = kind;
      is_known = true;
    }
  if (!is_known) return unknown(name);
  std::size_t at = text.find(':');
  while (at != std::string::npos) {
    const std::size_t end = text.find(',', at + 1);
    const std::string setting = text.substr(
        at + 1, end == std::string::npos ? std::string::npos : end - at - 1);
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) return unknown(setting);
    if (auto read = read_setting(setting.substr(0, equals),
                                 setting.substr(equals + 1), injection);
        !read)
      return read.error();
    at = end;
  }
  return injection;
}

Result<void> check_injection(const Injection& injection,
                             const Program& program) {
  const auto never = [&injection](const std::string& reason,
                                  const std::string& hint) {
    return bad_configuration(
        "--inject " + injection.text + " would never happen: " + reason, hint);
  };
  const int workers = program.num_workers();
  if (injection.rank >= workers)
    return never("the plan has " + std::to_string(workers) + " workers",
                 "ranks are 0 to " + std::to_string(workers - 1));
  if (injection.kind == Kind::Missing && !is_launched())
    return never("there are no ranks", "start it with mpirun or torchrun");
  if (injection.kind == Kind::Full && injection.rank != 0)
    return never("only rank 0 writes checkpoints", "use rank=0");
  if (injection.step < 1) return never("steps count from 1", "use step=1");
  const WorkerProgram& code = program.workers[injection.rank];
  bool is_run = !injection.action.has_value(), has_transfers = false;
  for (const auto* section : {&code.prologue, &code.body, &code.epilogue})
    for (const Action& action : *section) {
      has_transfers |= !action.transfer.is_none();
      // Counted within its minibatch.
      const MicrobatchId first =
          program.first_microbatch(program.minibatch_of(action.microbatch));
      is_run |= injection.action == action.kind &&
                injection.microbatch == action.microbatch.value - first.value;
    }
  const std::string worker = "worker " + std::to_string(injection.rank);
  if (injection.kind == Kind::Nan && !has_transfers)
    return never(worker + " exchanges nothing with others",
                 "use a plan with several stages");
  if (!is_run)
    return never(worker + " does not run that action in any step",
                 "`pipewright simulate PLAN` draws which worker runs what; "
                 "microbatches are 0 to " +
                     std::to_string(program.num_microbatches - 1));
  return {};
}

bool Injection::is_at(int here, const Place& place) const {
  if (here != rank || place.step != step || kind == Kind::Missing) return false;
  if (!action) return true;
  return place.kind == *action && place.microbatch == microbatch;
}

void inject(const Injection& injection) {
  switch (injection.kind) {
    case Kind::Kill:
      ::raise(SIGKILL);
      break;
    case Kind::Stop:
      stop_self(injection.seconds);
      break;
    case Kind::Loop:
      for (volatile bool forever = true; forever;) {
      }
      break;
    case Kind::Throw:
      throw std::runtime_error("made to fail by --inject");
    case Kind::Hang:
      break_device(DeviceFault::Hangs);
      break;
    case Kind::Lose:
      break_device(DeviceFault::IsLost);
      break;
    case Kind::Memory:
      break_device(DeviceFault::IsFull);
      break;
    case Kind::Missing:
      while (true) ::pause();
    case Kind::Full:
      pretend_disk_is_full();
      break;
    case Kind::Nan:
      break;
  }
}

}  // namespace pipewright
