#include "pipewright/plan/method.h"

#include "pipewright/base/check.h"

namespace pipewright {

std::string to_text(Method method) {
  switch (method) {
    case Method::Sync:
      return "sync";
    case Method::Stash:
      return "stash";
    case Method::VerticalSync:
      return "vertical-sync";
    case Method::TwoBw:
      return "2bw";
    case Method::PipeMare:
      return "pipemare";
    case Method::Naive:
      return "naive";
  }
  PIPEWRIGHT_CHECK(false, "a method without a name");
}

std::optional<Method> parse_method(std::string_view text) {
  for (Method method : kMethods)
    if (to_text(method) == text) return method;
  return std::nullopt;
}

}  // namespace pipewright
