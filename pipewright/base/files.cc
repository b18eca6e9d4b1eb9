#include "pipewright/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pipewright {
namespace {

Error cannot(ErrorCode code, const std::filesystem::path& path,
             std::string message, std::string hint = {}) {
  return {code, std::move(message), path.string(), std::move(hint), {}};
}

std::string reason() { return std::strerror(errno); }

// Closes on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0)
    return cannot(ErrorCode::MissingInput, path, "cannot be read: " + reason());
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0)
    return cannot(ErrorCode::MissingInput, path, "cannot be read: " + reason());
  if (S_ISDIR(status.st_mode))
    return cannot(ErrorCode::MissingInput, path, "is a folder, not a file");
  std::string text;
  char buffer[1 << 16];
  while (true) {
    ssize_t n = ::read(file.fd(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return cannot(ErrorCode::MissingInput, path,
                    "cannot be read: " + reason());
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (static_cast<std::int64_t>(text.size()) > kLargestTextFile.value())
      return cannot(ErrorCode::MalformedInput, path,
                    "is larger than 256 MiB, the most that is read");
  }
}

Result<void> write_file(const std::filesystem::path& path,
                        std::string_view text) {
  std::string temporary = path.string() + ".tmp." + std::to_string(::getpid());
  Descriptor file(::open(temporary.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0)
    return cannot(ErrorCode::CannotCreate, path,
                  "cannot be created: " + reason(),
                  "does the folder exist, and may you write there?");
  bool written = write_all(file.fd(), text) && file.close() &&
                 ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    Error error = cannot(ErrorCode::CannotWrite, path,
                         "cannot be written: " + reason(), "is the disk full?");
    ::unlink(temporary.c_str());
    return error;
  }
  std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : ".";
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (directory.fd() >= 0) ::fsync(directory.fd());
  return {};
}

}  // namespace pipewright
