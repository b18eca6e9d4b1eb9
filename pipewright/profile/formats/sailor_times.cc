#include "pipewright/profile/formats/sailor_times.h"

#include <set>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/sailor_files.h"

namespace pipewright {
namespace {

LayerTimes row_of(const JsonCursor& cursor) {
  const auto fields = cursor.elements();
  if (fields.size() != 3) {
    cursor.fail("expected [forward, backward, update] in seconds, found " +
                std::to_string(fields.size()) + " numbers");
    return {};
  }
  auto seconds = [&](std::size_t i) {
    return Seconds(fields[i].real(0, kMaxImportedSeconds));
  };
  // Backward as one number, until split_backward().
  return {seconds(0), seconds(1), Seconds(0), seconds(2)};
}

}  // namespace

Result<SailorTimes> parse_sailor_times(const SourceFile& file, int degree,
                                       bool is_of_plan) {
  PIPEWRIGHT_TRY(Json json, parse_json(file.text, file.name));
  JsonErrors errors(file.name);
  SailorTimes times;
  std::set<int> degrees;
  for (const auto& [size, tables] : JsonCursor(json, errors).members()) {
    const int microbatch = count_key(size, tables);
    for (const auto& [key, layers] : tables.members()) {
      const int found = count_key(key, layers);
      degrees.insert(found);
      std::vector<LayerTimes> rows;
      for (const JsonCursor& layer : numbered_members(layers))
        rows.push_back(row_of(layer));
      if (rows.empty()) layers.fail("there are no layers");
      if (found == degree) times[microbatch] = std::move(rows);
    }
  }
  if (!errors.empty()) return errors.error();
  if (times.empty()) {
    std::vector<std::string> known;
    for (int d : degrees) known.push_back(std::to_string(d));
    return bad_configuration(
        file.name + " has no times at tensor-parallel degree " +
            std::to_string(degree) + (is_of_plan ? ", the plan's" : ""),
        is_of_plan
            ? "it has those at " + join(known, ", ")
            : "choose one with --tensor-parallel N: " + join(known, ", "));
  }
  return times;
}

}  // namespace pipewright
