#include "cli/serve/request_guard.h"

#include <algorithm>

namespace pipewright::cli {
namespace {

// Takes as long for a token that is nearly right.
bool is_equal(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

bool is_json(const std::string& content_type) {
  return content_type.substr(0, content_type.find(';')) == "application/json";
}

}  // namespace

RequestGuard::RequestGuard(const std::string& host, int port, std::string token)
    : token_(std::move(token)) {
  for (const std::string& name :
       {std::string("127.0.0.1"), std::string("localhost"),
        std::string("[::1]"), host})
    hosts_.push_back(name + ":" + std::to_string(port));
}

bool RequestGuard::has_token(const httplib::Request& request) const {
  const std::string bearer = "Bearer ";
  const std::string given = request.get_header_value("Authorization");
  if (given.starts_with(bearer) &&
      is_equal(given.substr(bearer.size()), token_))
    return true;
  return is_equal(request.get_param_value("token"), token_);
}

// A page of another site that reaches us by a name of its own (DNS rebinding)
// shows in Host; one that sends its own requests here in Origin and
// Sec-Fetch-Site, which it cannot set.
Refusal RequestGuard::foreign(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host");
  if (token_.empty() &&
      std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end())
    return {403, "this server answers to " + hosts_[0] + " and " + hosts_[1]};
  const std::string site = request.get_header_value("Sec-Fetch-Site");
  if (!site.empty() && site != "same-origin" && site != "none")
    return {403, "requests of other sites are refused"};
  const std::string origin = request.get_header_value("Origin");
  if (!origin.empty() && origin != "http://" + host &&
      origin != "https://" + host)
    return {403, "requests of other sites are refused"};
  return {};
}

Refusal RequestGuard::refusal(const httplib::Request& request) const {
  if (const Refusal refused = foreign(request); refused.status != 0)
    return refused;
  if (!token_.empty() && !has_token(request))
    return {403, "the token is missing or wrong; serve printed it"};
  if (request.method != "GET" && request.method != "HEAD" &&
      request.method != "POST")
    return {405, "only GET and POST are answered"};
  if (request.has_header("Content-Encoding"))
    return {415, "a compressed request is not read"};
  if (request.method == "POST" &&
      !is_json(request.get_header_value("Content-Type")))
    return {415, "a request must be application/json"};
  return {};
}

}  // namespace pipewright::cli
