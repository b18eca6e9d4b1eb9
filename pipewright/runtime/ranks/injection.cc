// Faults on purpose; see injection.h.

#include "pipewright/runtime/ranks/injection.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "pipewright/base/text.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"

namespace pipewright {
namespace {

using Fault = Injection::Kind;

constexpr std::array<std::pair<const char*, Fault>, 7> kKinds = {{
    {"kill", Fault::Kill},
    {"stop", Fault::Stop},
    {"loop", Fault::Loop},
    {"nan", Fault::Nan},
    {"throw", Fault::Throw},
    {"missing", Fault::Missing},
    {"full", Fault::Full},
}};

std::optional<ActionKind> action_of(char letter) {
  switch (letter) {
    case 'F':
      return ActionKind::Forward;
    case 'B':
      return ActionKind::Backward;
    case 'I':
      return ActionKind::BackwardInput;
    case 'W':
      return ActionKind::BackwardWeight;
    case 'R':
      return ActionKind::Recompute;
    case 'S':
      return ActionKind::Step;
    default:
      return std::nullopt;
  }
}

Error unknown(const std::string& what) {
  return bad_configuration(
      "--inject does not know \"" + what + "\"",
      "as kill:rank=2,step=5,action=B3; or stop, loop, nan, throw, full, "
      "missing");
}

Result<void> read_setting(const std::string& key, const std::string& value,
                          Injection& injection) {
  const auto number = parse_integer(value);
  if (key == "action") {
    injection.action = value.empty() ? std::nullopt : action_of(value[0]);
    if (!injection.action) return unknown(value);
    if (value.size() == 1) return {};
    const auto microbatch = parse_integer(value.substr(1));
    if (!microbatch || *microbatch < 0) return unknown(value);
    injection.microbatch = *microbatch;
    return {};
  }
  if (!number || *number < 0) return unknown(key + "=" + value);
  if (key == "rank")
    injection.rank = static_cast<int>(*number);
  else if (key == "step")
    injection.step = *number;
  else if (key == "seconds")
    injection.seconds = Seconds(static_cast<double>(*number));
  else
    return unknown(key);
  return {};
}

// A child outside of the stop wakes its parent.
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

bool Injection::is_at(int here, const Place& place) const {
  if (here != rank || place.step != step || kind == Fault::Missing)
    return false;
  if (!action) return true;
  return place.kind == *action && place.microbatch == microbatch;
}

void inject(const Injection& injection) {
  switch (injection.kind) {
    case Fault::Kill:
      ::raise(SIGKILL);
      break;
    case Fault::Stop:
      stop_self(injection.seconds);
      break;
    case Fault::Loop:
      for (volatile bool forever = true; forever;) {
      }
      break;
    case Fault::Throw:
      throw std::runtime_error("made to fail by --inject");
    case Fault::Missing:
      while (true) ::pause();
    case Fault::Full:
      pretend_disk_is_full();
      break;
    case Fault::Nan:
      break;
  }
}

}  // namespace pipewright
