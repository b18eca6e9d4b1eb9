// What went wrong, where, and how to fix it.
//
// An Error is a failure that can be expected: a bad file, a plan that does not
// fit. A bug is not an Error but a failed PIPEWRIGHT_CHECK (check.h).

#pragma once

#include <string>
#include <vector>

namespace pipewright {

// The value is the exit code of the program.
enum class ErrorCode : int {
  Usage = 2,
  MalformedInput = 65,
  MissingInput = 66,
  InUse = 69,  // another process has the run folder
  Bug = 70,
  OutOfMemory = 71,  // of this machine, or of a device
  CannotCreate = 73,
  CannotWrite = 74,
  WorkerLost = 75,
  WorkersDisagree = 76,
  BadConfiguration = 78,
  LossNotFinite = 79,
};

struct Error {
  ErrorCode code = ErrorCode::Bug;
  std::string message;        // what is wrong, with the numbers
  std::string where;          // file:line and key path, or stage and worker
  std::string hint;           // how to fix it; may be empty
  std::vector<Error> others;  // further errors found in the same input

  // "where: message (hint)": one line for this error and one for each of the
  // others.
  std::string to_text() const;
};

Error malformed(std::string message, std::string where = {},
                std::string hint = {});
Error bad_configuration(std::string message, std::string hint = {});

}  // namespace pipewright
