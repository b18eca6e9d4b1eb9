// What a command prints and its exit code, for tests that meet pipewright from
// outside, as a person does.

#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace pipewright {

struct Answer {
  std::string text;  // what went to standard output
  int code = 0;
};

// Runs a line of shell.
inline Answer answer_of(const std::string& line) {
  FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe);
  Answer answer;
  std::array<char, 4096> buffer;
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    answer.text.append(buffer.data(), n);
  answer.code = WEXITSTATUS(::pclose(pipe));
  return answer;
}

// The command line's.
inline Answer run_pipewright(const std::string& arguments,
                             const std::string& redirection = "2>&1") {
  return answer_of(PIPEWRIGHT_BINARY " " + arguments + " " + redirection);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace pipewright
