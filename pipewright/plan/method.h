// How weights move: which version a forward and a backward read.
//
// "Version v" of a stage's weights is what they are after v optimizer steps of
// that stage. Only lowering asks what a method is called; from the program on,
// versions are numbers in actions.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace pipewright {

enum class Method {
  Sync,          // every microbatch reads its own minibatch's version
  Stash,         // forward the newest, backward what its forward read
  VerticalSync,  // all stages read what the first stage's forward read
  TwoBw,         // the version one minibatch before its own
  PipeMare,      // forward and backward the newest, backward corrected
  Naive,         // forward and backward the newest: the control arm
};

inline constexpr std::array kMethods = {Method::Sync,         Method::Stash,
                                        Method::VerticalSync, Method::TwoBw,
                                        Method::PipeMare,     Method::Naive};

std::string to_text(Method method);  // "sync", "stash", "2bw", ...
std::optional<Method> parse_method(std::string_view text);

// Whether minibatches overlap, so that the schedule fills once and never
// drains.
inline bool is_asynchronous(Method method) { return method != Method::Sync; }

}  // namespace pipewright
