// Scalars over steps in a file that TensorBoard reads.
//
// The file is a sequence of records: length, checksum of the length, an Event,
// its checksum. An Event is a message of protocol buffers
// (tensorflow/core/util/ event.proto): wall_time = 1, step = 2, file_version =
// 3, summary = 5, session_log = 7; a Summary has values of tag = 1 and
// simple_value = 2. The checksum is CRC-32C, rotated and offset
// (record_writer.h: "masked").

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright::cli {

using Scalars = std::vector<std::pair<std::string, double>>;

class EventFile {
 public:
  // A new file in the folder, which is made if it is not there. Values of steps
  // from `first_step` on that older files of the folder have are replaced.
  // Fails with CannotCreate.
  static Result<EventFile> create(const std::filesystem::path& folder,
                                  std::int64_t first_step);

  // Fails with CannotWrite; later calls may succeed.
  Result<void> add(std::int64_t step, const Scalars& scalars);

 private:
  Result<void> write(const std::string& event);

  std::filesystem::path path_;
  std::ofstream stream_;
};

std::uint32_t crc32c(std::string_view bytes);

}  // namespace pipewright::cli
