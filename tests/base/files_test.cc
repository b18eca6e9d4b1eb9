#include "pipewright/base/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace pipewright {
namespace {

namespace fs = std::filesystem;

// A temporary folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name =
        (fs::temp_directory_path() / "pipewright.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()));
    path_ = name;
  }
  ~Folder() {
    fs::permissions(path_, fs::perms::owner_all);
    fs::remove_all(path_);
  }
  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  auto num_files() const {
    return std::distance(fs::directory_iterator(path_), {});
  }

 private:
  fs::path path_;
};

ErrorCode code_of(const auto& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().code;
}

}  // namespace

TEST_CASE("what is written is read back") {
  Folder folder;
  const std::string text("a\0b\n\xFF", 5);
  REQUIRE(write_file(folder / "x", text).ok());
  CHECK(*read_file(folder / "x") == text);
  REQUIRE(write_file(folder / "x", "").ok());
  CHECK(*read_file(folder / "x") == "");
  const std::string large(1 << 20, 'x');
  REQUIRE(write_file(folder / "x", large).ok());
  CHECK(*read_file(folder / "x") == large);
  CHECK(folder.num_files() == 1);
}

TEST_CASE("missing, a folder, no permission") {
  Folder folder;
  const auto missing = read_file(folder / "none");
  CHECK(code_of(missing) == ErrorCode::MissingInput);
  CHECK(missing.error().where == (folder / "none").string());
  CHECK(missing.error().message == "cannot be read: No such file or directory");
  CHECK(code_of(read_file(folder.path())) == ErrorCode::MissingInput);
  CHECK(code_of(read_file("")) == ErrorCode::MissingInput);
  REQUIRE(write_file(folder / "x", "1").ok());
  fs::permissions(folder / "x", fs::perms::none);
  if (::geteuid() == 0)
    CHECK(read_file(folder / "x").ok());  // root may read anything
  else
    CHECK(code_of(read_file(folder / "x")) == ErrorCode::MissingInput);
}

TEST_CASE("a file without end is rejected early") {
  const auto endless = read_file("/dev/zero");
  CHECK(code_of(endless) == ErrorCode::MalformedInput);
  CHECK(endless.error().message == "is larger than 67.1 MB, the limit");
}

TEST_CASE("a folder that does not exist or is not writable") {
  Folder folder;
  CHECK(code_of(write_file(folder / "no/x", "1")) == ErrorCode::CannotCreate);
  CHECK(code_of(write_file(folder.path(), "1")) == ErrorCode::CannotCreate);
  CHECK(code_of(write_file("", "1")) == ErrorCode::CannotCreate);
  CHECK(code_of(write_file("/proc/none", "1")) == ErrorCode::CannotCreate);
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(code_of(write_file(folder / "x", "1")) == ErrorCode::CannotCreate);
}

TEST_CASE("a full disk; and the device stays a device") {
  const auto full = write_file("/dev/full", "1");
  CHECK(code_of(full) == ErrorCode::CannotWrite);
  CHECK(full.error().message == "cannot be written: No space left on device");
  CHECK(full.error().hint == "free some disk space");
  CHECK(fs::is_character_file("/dev/full"));
  CHECK(write_file("/dev/null", "1").ok());
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a failed write leaves the old file and nothing else") {
  Folder folder;
  REQUIRE(write_file(folder / "x", "old").ok());
  // A name so long that the temporary beside it cannot exist.
  const std::string longest(250, 'n');
  CHECK_FALSE(write_file(folder / longest.c_str(), "new").ok());
  CHECK(folder.num_files() == 1);
  CHECK(*read_file(folder / "x") == "old");
}

TEST_CASE("a symbolic link stays one; its file changes") {
  Folder folder;
  REQUIRE(write_file(folder / "real", "old").ok());
  fs::create_symlink("real", folder / "link");
  REQUIRE(write_file(folder / "link", "new").ok());
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(*read_file(folder / "real") == "new");
}

TEST_CASE("a reader sees the old file or the new one, never a part") {
  Folder folder;
  const std::string a(200'000, 'a'), b(300'000, 'b');
  REQUIRE(write_file(folder / "x", a).ok());
  std::jthread writer([&] {
    for (int i = 0; i < 20; ++i)
      CHECK(write_file(folder / "x", i % 2 ? a : b).ok());
  });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = *read_file(folder / "x");
    CHECK((seen == a || seen == b));
  }
}

}  // namespace pipewright
