// Serves plans, runs and the page over HTTP. Without the library
// cpp-httplib, no_http_server.cc says so.

#pragma once

#include <functional>
#include <string>

#include "cli/serve/planning_service.h"
#include "cli/serve/watched_runs.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8765;    // 0: any that is free
  std::string token;  // "": none is asked for
};

// Until Ctrl-C or SIGTERM; a second one ends the program at once. Calls
// `started` with the port once requests are accepted. Fails with InUse if the
// address and port cannot be used.
Result<void> serve_http(PlanningService& service, WatchedRuns& runs,
                        const HttpOptions& options,
                        const std::function<void(int port)>& started);

}  // namespace pipewright::cli
