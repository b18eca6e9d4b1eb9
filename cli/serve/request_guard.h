// Which requests `serve` answers: those of its own page, and those of a program
// that a person started. Not those that another site makes a browser send.

#pragma once

#include <httplib.h>

#include <string>

namespace pipewright::cli {

struct Refusal {
  int status = 0;  // of HTTP; 0: the request is answered
  std::string reason;
};

class RequestGuard {
 public:
  // "" as token: none is asked for, and only names of this machine are.
  RequestGuard(const std::string& host, int port, std::string token);

  Refusal refusal(const httplib::Request& request) const;

 private:
  bool has_token(const httplib::Request& request) const;
  Refusal foreign(const httplib::Request& request) const;

  std::vector<std::string> hosts_;  // "127.0.0.1:8765"; what a Host may say
  std::string token_;
};

}  // namespace pipewright::cli
