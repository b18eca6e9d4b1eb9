// The answers of a program without cpp-httplib; see http_server.h.

#include "cli/serve/http_server.h"

namespace pipewright::cli {

Result<void> serve_http(PlanningService&, WatchedRuns&, const HttpOptions&,
                        const std::function<void(int)>&) {
  return bad_configuration(
      "this program has no HTTP server",
      "`pipewright` has one if it was built where libcpp-httplib-dev is "
      "installed (tools/setup core); `report` works without");
}

}  // namespace pipewright::cli
