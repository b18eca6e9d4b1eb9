#include "cli/serve/http_server.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <thread>

#include "cli/plan/watch.h"
#include "cli/serve/bounded_server.h"
#include "cli/serve/request_guard.h"
#include "pipewright/base/text.h"
#include "pipewright/report/page.h"

namespace pipewright::cli {
namespace {

constexpr int kServingThreads = 32;
constexpr double kEndingSeconds = 2;
constexpr const char* kJsonType = "application/json";

void send_error(httplib::Response& response, int status,
                const std::string& message) {
  response.status = status;
  response.set_content(Json::object().set("error", message).to_line(),
                       kJsonType);
}

void send_json(httplib::Response& response, const Result<Json>& answer) {
  if (!answer) return send_error(response, 400, answer.error().to_text());
  response.set_content(answer->to_line(), kJsonType);
}

void set_limits(BoundedServer& server) {
  server.set_payload_max_length(kMaxRequestBytes);
  server.new_task_queue = [] {
    return new httplib::ThreadPool(kServingThreads);
  };
  // The library would let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
  server.set_exception_handler([](const auto&, auto& response, auto) {
    send_error(response, 500, "internal error");
  });
  server.set_error_handler([](const auto& request, auto& response) {
    if (response.body.empty())
      send_error(response, response.status,
                 response.status == 413
                     ? "the request is larger than 1 MiB"
                     : printable(request.method.substr(0, 20)) + " " +
                           printable(request.path.substr(0, 80)) +
                           " is not answered here");
  });
}

// One line of JSON per ranking, until all planners have answered or nobody
// listens.
void send_search(httplib::Response& response,
                 std::shared_ptr<const ServedSearch> search,
                 std::function<bool()> is_unwanted, PlanningService& service) {
  response.set_chunked_content_provider(
      "application/x-ndjson",
      [=, &service](std::size_t, httplib::DataSink& sink) {
        service.run(*search, is_unwanted, [&](const Json& ranking) {
          const std::string line = ranking.to_line() + "\n";
          sink.write(line.data(), line.size());
        });
        sink.done();
        return true;
      });
}

Json start_json(const PlanningService& service, const WatchedRuns& runs) {
  Json json = service.start();
  json.set("runs", runs.names());
  return json;
}

// A number in the address, or what it is without one.
std::int64_t number_in(const std::string& text, std::int64_t without) {
  return parse_integer(text).value_or(without);
}

void add_routes(BoundedServer& server, PlanningService& service,
                WatchedRuns& runs) {
  server.Get("/", [&](const auto&, auto& response) {
    response.set_content(
        page("Pipewright", start_json(service, runs), PageUse::Live),
        "text/html; charset=utf-8");
  });
  server.Post("/compare", [&](const auto& request, auto& response) {
    auto search = service.search(request.body);
    if (!search) return send_json(response, search.error());
    send_search(response,
                std::make_shared<const ServedSearch>(*std::move(search)),
                server.viewer_is_gone(), service);
  });
  server.Get(R"(/run/(\d{1,4}))", [&](const auto& request, auto& response) {
    const auto number = number_in(request.matches[1].str(), 0);
    send_json(response,
              runs.run(static_cast<std::size_t>(number),
                       number_in(request.get_param_value("seen"), -1)));
  });
  server.Get(R"(/run/(\d{1,4})/plan)",
             [&](const auto& request, auto& response) {
               const auto number = number_in(request.matches[1].str(), 0);
               send_json(response, runs.plan(static_cast<std::size_t>(number)));
             });
  server.Get("/metrics", [&](const auto&, auto& response) {
    response.set_content(runs.metrics(), "text/plain; version=0.0.4");
  });
  server.Post("/report", [&](const auto& request, auto& response) {
    send_json(response, service.report(request.body, server.viewer_is_gone()));
  });
}

int bound_port(BoundedServer& server, const HttpOptions& options) {
  if (options.port == 0) return server.bind_to_any_port(options.host);
  return server.bind_to_port(options.host, options.port) ? options.port : -1;
}

// While it exists, Ctrl-C and SIGTERM stop the server and, if searches do not
// end within two seconds, the program; the second signal does so at once.
class StopSignals {
 public:
  explicit StopSignals(BoundedServer& server) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    thread_ = std::jthread([this, &server](std::stop_token over) {
      if (!wait(over)) return;
      // stop() is for a server that runs.
      while (!server.is_running() && !over.stop_requested())
        std::this_thread::yield();
      server.stop_all();
      if (wait(over, kEndingSeconds)) ::_exit(kInterruptedExit);
      // A planner may look at its watch too seldom; nothing is lost with it.
      if (!over.stop_requested()) ::_exit(0);
    });
  }
  ~StopSignals() {
    thread_ = {};
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  // False if it is over, or late, before a signal comes.
  bool wait(const std::stop_token& over, double seconds = 1e9) const {
    const timespec pause{0, 20'000'000};
    const double end = now_seconds() + seconds;
    while (!over.stop_requested() && now_seconds() < end)
      if (sigtimedwait(&signals_, nullptr, &pause) > 0) return true;
    return false;
  }

  sigset_t signals_{}, before_{};
  std::jthread thread_;
};

}  // namespace

Result<void> serve_http(PlanningService& service, WatchedRuns& runs,
                        const HttpOptions& options,
                        const std::function<void(int)>& started) {
  BoundedServer server;
  set_limits(server);
  const StopSignals signals(server);
  const int port = bound_port(server, options);
  if (port <= 0)
    return Error{ErrorCode::InUse,
                 "cannot listen on " + options.host + ", port " +
                     std::to_string(options.port),
                 {},
                 "another program may use it; --port 0 takes one that is free",
                 {}};
  const RequestGuard guard(options.host, port, options.token);
  server.set_pre_routing_handler([&](const auto& request, auto& response) {
    const Refusal refusal = guard.refusal(request);
    if (refusal.status == 0) return httplib::Server::HandlerResponse::Unhandled;
    send_error(response, refusal.status, refusal.reason);
    return httplib::Server::HandlerResponse::Handled;
  });
  add_routes(server, service, runs);
  started(port);
  server.listen_after_bind();
  return {};
}

}  // namespace pipewright::cli
