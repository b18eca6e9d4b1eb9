#include "pipewright/runtime/channels/mpi_version.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "pipewright/runtime/channels/mpi_include.h"

namespace pipewright {
namespace {

constexpr int kMaxStart_ms = 10000;

std::string name_of_level(int level) {
  if (level == MPI_THREAD_MULTIPLE) return "MPI_THREAD_MULTIPLE";
  if (level == MPI_THREAD_SERIALIZED) return "MPI_THREAD_SERIALIZED";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "unknown";
}

int level_here() {
  int level = -1;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) !=
      MPI_SUCCESS)
    return -1;
  MPI_Finalize();
  return level;
}

// Where Open MPI keeps what it needs while it runs. Two programs that start at
// once may both want to make the folder that all would have in common, and the
// slower one, perhaps somebody's mpirun, then fails.
class SessionFolder {
 public:
  SessionFolder() {
    std::error_code failed;
    path_ = (std::filesystem::temp_directory_path(failed) / "pipewright-XXXXXX")
                .string();
    if (failed || !::mkdtemp(path_.data())) path_.clear();
  }
  ~SessionFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  void use() const {
    if (!path_.empty()) ::setenv("OMPI_MCA_orte_tmpdir_base", path_.c_str(), 1);
  }

 private:
  std::string path_;
};

// MPI without a launcher may print, hang or end the process.
int level_in_child() {
  const SessionFolder folder;
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int standard : {0, 1, 2}) ::dup2(nowhere, standard);
    folder.use();
    const int level = level_here();
    static_cast<void>(!::write(ends[1], &level, sizeof(level)));
    ::_exit(0);
  }
  ::close(ends[1]);
  int level = -1;
  pollfd answer{ends[0], POLLIN, 0};
  if (child > 0 && ::poll(&answer, 1, kMaxStart_ms) == 1 &&
      ::read(ends[0], &level, sizeof(level)) != sizeof(level))
    level = -1;
  ::close(ends[0]);
  if (child > 0) {
    if (level < 0) ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return level;
}

}  // namespace

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, length);
  return whole.substr(0, whole.find_first_of(",\n"));
}

std::string mpi_thread_level(bool is_launched) {
  return name_of_level(is_launched ? level_here() : level_in_child());
}

}  // namespace pipewright
