// A file of JSON objects, one per line, each with the step that it is about. A
// line is written whole or not at all. See metrics.jsonl and pieces.jsonl in
// docs/reference/formats/metrics.md.

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"

namespace pipewright {

class LineFile {
 public:
  // Goes on after the lines that are there, or starts anew. Fails with
  // CannotCreate.
  static Result<LineFile> open(const std::filesystem::path& path, bool goes_on);

  // Fails with CannotWrite; the file is then as before.
  Result<void> add(const Json& line);

  // Drops the lines after this step: they are trained again. Fails with
  // CannotWrite.
  Result<void> go_back_to(std::int64_t step);

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
  std::uintmax_t size_ = 0;  // of whole lines
};

}  // namespace pipewright
