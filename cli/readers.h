// Everything that reads a file, in one table: `pipewright validate` chooses
// from it, and the robustness test and the fuzz targets run over all of it.
//
// A new reader is one entry in readers.cc and a folder of samples under
// fuzz/samples/; the tests insist on both.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright::cli {

struct Reader {
  std::string name;    // "plan"; also of its folder of samples and fuzz target
  std::string format;  // the "format" key of a JSON file of ours; "" for others
  bool is_ours = true;  // validate offers it; false: of another project
  // What was read in a few words ("4 stages on 4 workers"), or what is wrong.
  Result<std::string> (*read)(std::string_view text, const std::string& file);
};

const std::vector<Reader>& readers();

// Null unless there is one of that name.
const Reader* reader_named(std::string_view name);

// The reader for a text, by its "format" key or its first words. Fails with
// MalformedInput: not JSON and no schedule, or a format nobody knows.
Result<const Reader*> reader_of(std::string_view text, const std::string& file);

}  // namespace pipewright::cli
