// Reads MODEL of the command line: a zoo name or a file.

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/model/model.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/zoo/zoo.h"

namespace pipewright {
namespace {

// Text with a slash or .json means a file, even if there is none.
bool looks_like_file(const std::string& text) {
  const bool is_json =
      text.size() > 5 && text.substr(text.size() - 5) == ".json";
  return is_json || text.find('/') != std::string::npos;
}

}  // namespace

Result<Model> load_model(const std::string& name_or_file) {
  const std::string name = name_or_file.substr(0, name_or_file.find(':'));
  if (find_zoo_entry(name)) return zoo_model(name_or_file);
  std::error_code ignored;
  if (!looks_like_file(name_or_file) &&
      !std::filesystem::exists(name_or_file, ignored))
    return zoo_model(name_or_file);
  PIPEWRIGHT_TRY(std::string text, read_file(name_or_file));
  if (is_exported_model(text)) return parse_exported(text, name_or_file);
  return parse_model(text, name_or_file);
}

}  // namespace pipewright
