#include "pipewright/runtime/unsupported_operator.h"

#include "pipewright/runtime/error_text.h"

namespace pipewright {

std::optional<Error> unsupported_operator(const std::exception& exception) {
  if (const auto* known = dynamic_cast<const UnsupportedOperator*>(&exception))
    return bad_configuration(known->what(), known->hint());
  const std::string line = first_line(exception);
  const std::size_t end =
      line.find(" does not have a deterministic implementation");
  if (end == std::string::npos) return std::nullopt;
  return bad_configuration(
      line.substr(0, end) +
          " has no kernel here that gives the same bits twice",
      "--fast-kernels lets it run all the same, and --device cpu runs it on "
      "CPU threads");
}

}  // namespace pipewright
