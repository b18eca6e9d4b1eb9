// How --help writes options: as the library does, but options that another one
// excludes come in the order of their names. The library has them in the order
// of their addresses, which differs from run to run.

#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

namespace pipewright::cli {

std::vector<const CLI::Option*> by_name(const std::set<CLI::Option*>& options);

class HelpOrder : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace pipewright::cli
