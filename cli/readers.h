// All readers of files in one table: `pipewright validate` chooses from it, and
// the robustness test and the fuzz targets run over all of it.
//
// A new reader is one entry in readers.cc and a folder of samples under
// fuzz/samples/; the tests require both.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright::cli {

struct Reader {
  std::string name;     // "plan"; also the name of its samples and fuzz target
  std::string format;   // the "format" key of our JSON files; otherwise ""
  bool is_ours = true;  // false: a format of another system
  // A short description of the content ("4 stages, 4 workers"), or the error.
  Result<std::string> (*read)(std::string_view text, const std::string& file);
};

const std::vector<Reader>& readers();

// Null if there is none of that name.
const Reader* reader_named(std::string_view name);

// The reader for a text, by its "format" key or its first word. Fails with
// MalformedInput if the text is neither JSON nor a schedule, or has an unknown
// format.
Result<const Reader*> reader_of(std::string_view text, const std::string& file);

}  // namespace pipewright::cli
