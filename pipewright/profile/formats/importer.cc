// The list of formats. A new one is one file and one line here.

#include "pipewright/profile/formats/importer.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"

namespace pipewright {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Importer& importer : importers()) list.push_back(importer.name);
  return list;
}

const Importer* named(const std::string& name) {
  for (const Importer& importer : importers())
    if (importer.name == name) return &importer;
  return nullptr;
}

Result<const Importer*> chosen_by_content(std::span<const SourceFile> files) {
  const Importer* chosen = nullptr;
  for (const SourceFile& file : files) {
    const Importer* importer = importer_for(file);
    if (!importer)
      return malformed("unknown file format", file.name,
                       "known: " + join(names(), ", ") +
                           "; --from FORMAT tells what does not match");
    if (chosen && chosen->name != importer->name)
      return bad_configuration(files.front().name + " is a " + chosen->name +
                                   " file, " + file.name + " a " +
                                   importer->name + " file",
                               "import files of one format at a time");
    chosen = importer;
  }
  return chosen;
}

// Names and descriptions are written to our files, which are UTF-8.
Result<void> check_text(std::span<const SourceFile> files) {
  for (const SourceFile& file : files) {
    if (line_of_bad_text(file.name) > 0)
      return bad_configuration("a file name is not UTF-8");
    if (const int line = line_of_bad_text(file.text); line > 0)
      return malformed("expected UTF-8 text",
                       file.name + ":" + std::to_string(line));
  }
  return {};
}

// Writes the notes into the profile's origin as well.
Result<void> finish(const ImportOptions& options, Imported& imported) {
  if (!imported.profile) return {};
  Profile& profile = *imported.profile;
  std::string& description = profile.origin.description;
  for (const std::string& note : imported.notes) description += "; " + note;
  if (!options.note.empty()) description += "; " + options.note;
  return profile.check(profile.model);
}

}  // namespace

const std::vector<Importer>& importers() {
  static const std::vector<Importer> all = {
      pipedream_importer(), dnn_partitioning_importer(),
      piper_importer(),     sailor_importer(),
      aceso_importer(),     galvatron_importer()};
  return all;
}

const Importer* importer_for(const SourceFile& file) {
  for (const Importer& importer : importers())
    if (importer.recognises(file)) return &importer;
  return nullptr;
}

Result<Imported> import_files(std::span<const SourceFile> files,
                              const std::string& from,
                              const ImportOptions& options) {
  if (files.empty()) return bad_configuration("no file to import");
  Result<void> is_text = check_text(files);
  if (!is_text) return is_text.error();
  const Importer* importer = nullptr;
  if (from.empty()) {
    PIPEWRIGHT_TRY(importer, chosen_by_content(files));
  } else {
    importer = named(from);
    if (!importer)
      return bad_configuration("unknown format \"" + from + "\"",
                               suggestion(from, names()));
  }
  PIPEWRIGHT_TRY(Imported imported, importer->read(files, options));
  imported.from = importer->name;
  Result<void> done = finish(options, imported);
  if (!done) return done.error();
  return imported;
}

}  // namespace pipewright
