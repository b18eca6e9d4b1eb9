#include "pipewright/base/check.h"

namespace pipewright {

void fail_check(const char* condition, const char* file, int line,
                const std::string& message) {
  throw Bug(std::string(file) + ":" + std::to_string(line) + ": " + message +
            " [" + condition + "]");
}

}  // namespace pipewright
