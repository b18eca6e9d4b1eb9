#include "cli/help/help_order.h"

#include <algorithm>

namespace pipewright::cli {

std::vector<const CLI::Option*> by_name(const std::set<CLI::Option*>& options) {
  std::vector<const CLI::Option*> sorted(options.begin(), options.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const CLI::Option* a, const CLI::Option* b) {
              return a->get_name() < b->get_name();
            });
  return sorted;
}

std::string HelpOrder::make_option_opts(const CLI::Option* option) const {
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::string label = " " + get_label("Excludes") + ":";
  const std::size_t excludes = text.rfind(label);  // comes last
  if (excludes == std::string::npos) return text;
  text.resize(excludes + label.size());
  for (const CLI::Option* other : by_name(option->get_excludes()))
    text += " " + other->get_name();
  return text;
}

}  // namespace pipewright::cli
