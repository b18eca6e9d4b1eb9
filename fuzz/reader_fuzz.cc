// A libFuzzer program for the one reader it is compiled for: whatever the
// bytes, reading them ends with a value or an error that names its place.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "cli/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes,
                                      std::size_t size) {
  static const pipewright::cli::Reader* const reader =
      pipewright::cli::reader_named(PIPEWRIGHT_READER);
  if (!reader) {
    std::cerr << "no reader is called " PIPEWRIGHT_READER "\n";
    std::abort();
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto answer = reader->read(text, "input");
  if (!answer && answer.error().to_text().find("input") == std::string::npos) {
    std::cerr << "an error without a place: " << answer.error().to_text()
              << "\n";
    std::abort();
  }
  return 0;
}
