#include "pipewright/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

Error cannot(ErrorCode code, const std::filesystem::path& path,
             std::string message, std::string hint = {}) {
  return {code, std::move(message), path.string(), std::move(hint), {}};
}

std::string reason() { return std::strerror(errno); }

// Closes the file when it goes out of scope.
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
    text.remove_prefix(n);
  }
  return true;
}

// A pipe or a device has nothing to sync: fsync() then fails, which is fine.
bool sync(int fd) {
  return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ||
         errno == EROFS;
}

Error cannot_write(const std::filesystem::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return cannot(ErrorCode::CannotWrite, path, "cannot be written: " + reason(),
                full ? "free some disk space" : "");
}

Error cannot_create(const std::filesystem::path& path) {
  return cannot(ErrorCode::CannotCreate, path, "cannot be created: " + reason(),
                "check that the folder exists and is writable");
}

// A pipe, a terminal, /dev/null: written in place. There is no old content to
// protect, and a rename would replace the device by a plain file.
Result<void> write_in_place(const std::filesystem::path& path,
                            std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.fd() < 0) return cannot_create(path);
  if (!write_all(file.fd(), text) || !sync(file.fd()) || !file.close())
    return cannot_write(path);
  return {};
}

// Unique within this process and across processes.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<int> count{0};
  return path.string() + ".tmp." + std::to_string(::getpid()) + "." +
         std::to_string(count++);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto cannot_read = [&] {
    return cannot(ErrorCode::MissingInput, path, "cannot be read: " + reason());
  };
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return cannot_read();
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return cannot_read();
  if (S_ISDIR(status.st_mode))
    return cannot(ErrorCode::MissingInput, path, "is a folder, not a file");
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (true) {
    ssize_t n = ::read(file.fd(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot_read();
    if (n == 0) return text;
    text.append(buffer.data(), n);
    if (static_cast<std::int64_t>(text.size()) > kMaxTextFile.value())
      return cannot(ErrorCode::MalformedInput, path,
                    "is larger than " + to_text(kMaxTextFile) + ", the limit");
  }
}

Result<void> write_file(const std::filesystem::path& path,
                        std::string_view text) {
  if (!path.has_filename())
    return cannot(ErrorCode::CannotCreate, path, "is not the name of a file");
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status))
    return cannot(ErrorCode::CannotCreate, path, "is a folder, not a file");
  if (std::filesystem::exists(status) &&
      !std::filesystem::is_regular_file(status))
    return write_in_place(path, text);
  // A symbolic link stays; the file that it points to is replaced.
  std::filesystem::path target =
      std::filesystem::weakly_canonical(path, ignored);
  if (ignored || target.empty()) target = path;

  const std::filesystem::path temporary = temporary_beside(target);
  Descriptor file(::open(temporary.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) return cannot_create(path);
  if (!write_all(file.fd(), text) || !sync(file.fd()) || !file.close() ||
      ::rename(temporary.c_str(), target.c_str()) != 0) {
    Error error = cannot_write(path);
    ::unlink(temporary.c_str());
    return error;
  }
  Descriptor folder(::open(target.parent_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (folder.fd() >= 0) ::fsync(folder.fd());
  return {};
}

}  // namespace pipewright
