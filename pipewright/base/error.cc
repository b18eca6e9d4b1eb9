#include "pipewright/base/error.h"

#include <utility>

#include "pipewright/base/text.h"

namespace pipewright {

std::string Error::to_text() const {
  std::string text;
  if (!where.empty()) text += where + ": ";
  text += message;
  if (!hint.empty()) text += " (" + hint + ")";
  text = printable(text);
  for (const Error& other : others) text += "\n" + other.to_text();
  return text;
}

Error malformed(std::string message, std::string where, std::string hint) {
  return {ErrorCode::MalformedInput,
          std::move(message),
          std::move(where),
          std::move(hint),
          {}};
}

Error bad_configuration(std::string message, std::string hint) {
  return {
      ErrorCode::BadConfiguration, std::move(message), {}, std::move(hint), {}};
}

}  // namespace pipewright
