// Reads MODEL of the command line: a zoo name or a file, either with layers
// split ("mine.json:split=fc@24", split_layers.h).

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/model/model.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/split_layers.h"
#include "pipewright/model/zoo/zoo.h"

namespace pipewright {
namespace {

// Text with a slash or .json means a file, even if there is none.
bool looks_like_file(const std::string& text) {
  const bool is_json =
      text.size() > 5 && text.substr(text.size() - 5) == ".json";
  return is_json || text.find('/') != std::string::npos;
}

bool exists(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

// Of a file with settings; the length of the text where it has none.
std::size_t end_of_file_name(const std::string& text) {
  constexpr std::string_view kJson = ".json";
  if (exists(text)) return text.size();
  const std::size_t split = text.rfind(":split=");
  if (split != std::string::npos) return split;
  const std::size_t json = text.rfind(std::string(kJson) + ":");
  return json == std::string::npos ? text.size() : json + kJson.size();
}

Result<Model> read_model(const std::string& file) {
  PIPEWRIGHT_TRY(std::string text, read_file(file));
  if (is_exported_model(text)) return parse_exported(text, file);
  return parse_model(text, file);
}

// The model of the file with settings, of which a file has one.
Result<Model> read_model(const std::string& file, std::string_view settings) {
  constexpr std::string_view kSplit = "split=";
  const auto refused = [&file](const Error& error) {
    return bad_configuration(file + ": " + error.message, error.hint);
  };
  if (!settings.starts_with(kSplit))
    return bad_configuration(
        file + ": expected split=LAYER@OUTPUTS after the colon, found \"" +
            std::string(settings) + "\"",
        "all else is set in the file");
  const auto splits = parse_splits(settings.substr(kSplit.size()));
  if (!splits) return refused(splits.error());
  PIPEWRIGHT_TRY(const Model whole, read_model(file));
  Result<Model> model = with_splits(whole, *splits);
  if (!model) return refused(model.error());
  return model;
}

}  // namespace

Result<Model> load_model(const std::string& name_or_file) {
  const std::string name = name_or_file.substr(0, name_or_file.find(':'));
  if (find_zoo_entry(name)) return zoo_model(name_or_file);
  const std::size_t end = end_of_file_name(name_or_file);
  const std::string file = name_or_file.substr(0, end);
  if (!looks_like_file(file) && !exists(file)) return zoo_model(name_or_file);
  if (end == name_or_file.size()) return read_model(file);
  return read_model(file, std::string_view(name_or_file).substr(end + 1));
}

}  // namespace pipewright
