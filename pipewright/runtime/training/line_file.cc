#include "pipewright/runtime/training/line_file.h"

namespace pipewright {

namespace fs = std::filesystem;

Result<LineFile> LineFile::open(const fs::path& path, bool goes_on) {
  LineFile file;
  file.path_ = path;
  if (!goes_on) std::ofstream(path, std::ios::trunc);
  file.stream_.open(path, std::ios::app);  // also after go_back_to()
  if (!file.stream_)
    return Error{
        ErrorCode::CannotCreate, "cannot be opened", path.string(), "", {}};
  std::error_code ignored;
  file.size_ = fs::file_size(path, ignored);
  return file;
}

// Lines are in the order of their steps. One that cannot be read was cut off
// when a process died.
Result<void> LineFile::go_back_to(std::int64_t step) {
  std::ifstream lines(path_, std::ios::binary);
  std::uintmax_t end = 0;
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> json = parse_json(line, path_.string());
    const Json* found = json ? json->find("step") : nullptr;
    const auto* at =
        found ? std::get_if<std::int64_t>(&found->value()) : nullptr;
    if (lines.eof() || at == nullptr || *at > step) break;
    end += line.size() + 1;
  }
  if (end == size_) return {};
  std::error_code failed;
  fs::resize_file(path_, end, failed);
  if (failed)
    return Error{
        ErrorCode::CannotWrite, failed.message(), path_.string(), "", {}};
  size_ = end;
  return {};
}

Result<void> LineFile::add(const Json& line) {
  std::string text = line.to_line();
  if (text.empty() || text.back() != '\n') text += '\n';
  stream_ << text << std::flush;
  if (stream_) {
    size_ += text.size();
    return {};
  }
  // Removes the part of the line that was written: the next line may succeed.
  std::error_code ignored;
  stream_.close();
  fs::resize_file(path_, size_, ignored);
  stream_.clear();
  stream_.open(path_, std::ios::app);
  return Error{ErrorCode::CannotWrite,
               "cannot be written",
               path_.string(),
               "is the disk full?",
               {}};
}

}  // namespace pipewright
