// What persistent requests would save: messages between two ranks, to and fro,
// with requests made anew (as the channel does), with persistent ones on the
// same two buffers, and with persistent ones that a tensor must be copied into
// and out of, for tensors are somewhere else each time.
//
//   requests_benchmark     starts itself under mpirun -n 2

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "cli/program_arguments.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/mpi_include.h"

namespace pipewright::bench {
namespace {

enum class Way {
  Anew,
  Persistent,
  Copied
};

class PingPong {
 public:
  PingPong(int rank, std::size_t bytes)
      : rank_(rank), out_(bytes, 'x'), in_(bytes), tensor_(bytes, 'y') {
    const int size = static_cast<int>(bytes);
    check_mpi(MPI_Send_init(out_.data(), size, MPI_BYTE, 1 - rank, 1,
                            MPI_COMM_WORLD, &send_),
              "MPI_Send_init");
    check_mpi(MPI_Recv_init(in_.data(), size, MPI_BYTE, 1 - rank, 1,
                            MPI_COMM_WORLD, &receive_),
              "MPI_Recv_init");
  }
  ~PingPong() {
    MPI_Request_free(&send_);
    MPI_Request_free(&receive_);
  }

  // A message one way.
  Seconds time(Way way, int rounds) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      if (rank_ == 0) send(way);
      receive(way);
      if (rank_ == 1) send(way);
    }
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    return Seconds(took.count() / rounds / 2);
  }

 private:
  void send(Way way) {
    MPI_Request request = send_;
    if (way == Way::Anew) {
      MPI_Isend(out_.data(), static_cast<int>(out_.size()), MPI_BYTE, 1 - rank_,
                1, MPI_COMM_WORLD, &request);
    } else {
      if (way == Way::Copied)
        std::memcpy(out_.data(), tensor_.data(), out_.size());
      MPI_Start(&request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  void receive(Way way) {
    MPI_Request request = receive_;
    if (way == Way::Anew)
      MPI_Irecv(in_.data(), static_cast<int>(in_.size()), MPI_BYTE, 1 - rank_,
                1, MPI_COMM_WORLD, &request);
    else
      MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (way == Way::Copied) std::memcpy(tensor_.data(), in_.data(), in_.size());
  }

  const int rank_;
  std::vector<char> out_, in_, tensor_;
  MPI_Request send_ = MPI_REQUEST_NULL, receive_ = MPI_REQUEST_NULL;
};

// In turn, so that what else the machine does meets all alike.
void print_table(int rank) {
  using Align = TextTable::Align;
  TextTable table({{"message", Align::Right},
                   {"anew", Align::Right},
                   {"persistent", Align::Right},
                   {"persistent and copied", Align::Right}});
  for (const std::size_t bytes : {16UL, 4096UL, 131072UL, 1UL << 20}) {
    PingPong messages(rank, bytes);
    const int rounds = bytes > 100000 ? 300 : 3000;
    std::vector<std::string> row = {to_text(Bytes(bytes))};
    std::vector<Seconds> times[3];
    for (int turn = 0; turn < 15; ++turn)
      for (const Way way : {Way::Anew, Way::Persistent, Way::Copied})
        times[static_cast<int>(way)].push_back(messages.time(way, rounds));
    for (auto& of_way : times) {
      std::sort(of_way.begin(), of_way.end());
      row.push_back(to_text(of_way[of_way.size() / 2]));
    }
    table.add_row(row);
  }
  if (rank == 0) std::cout << table.to_text(100);
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  using namespace pipewright;
  CLI::App app{"Times persistent requests of MPI beside those made anew"};
  if (const auto code = cli::parse_arguments(app, argc, argv)) return *code;
  if (!is_launched()) {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-n",
             "2", argv[0], static_cast<char*>(nullptr));
    std::cout << "no mpirun here\n";
    return 0;
  }
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bench::print_table(rank);
  MPI_Finalize();
}
