// MPI's communicators and requests; see mpi_network.h.

#include "pipewright/runtime/channels/mpi_network.h"

#include <algorithm>

#include "pipewright/runtime/channels/mpi_include.h"
#include "pipewright/runtime/channels/mpi_version.h"

namespace pipewright {
namespace {

constexpr int kCancelTag = 1;

// A tag is two tags of MPI: one for messages, one for texts.
int message_tag(int tag) { return 2 * tag; }
int text_tag(int tag) { return 2 * tag + 1; }

// MPI counts in int.
int count_of(std::size_t size) { return static_cast<int>(size); }

class MpiRequests final : public RequestList {
 public:
  std::size_t size() const override { return active_.size(); }
  void reserve(std::size_t count) override {
    active_.reserve(count);
    completed_.reserve(count);
  }
  void add(MPI_Request request) { active_.push_back(request); }

  void test(c10::function_ref<void(std::size_t)> completed) override {
    if (active_.empty()) return;
    completed_.resize(active_.size());
    int count = 0;
    check_mpi(MPI_Testsome(count_of(active_.size()), active_.data(), &count,
                           completed_.data(), MPI_STATUSES_IGNORE),
              "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return;
    std::sort(completed_.begin(), completed_.begin() + count);
    for (int i = count - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(completed_[i]);
      active_[at] = active_.back();
      active_.pop_back();
      completed(at);
    }
  }

 private:
  std::vector<MPI_Request> active_;
  std::vector<int> completed_;
};

class MpiSpace final : public MessageSpace {
 public:
  MpiSpace(MPI_Comm comm, std::vector<int> ranks)
      : comm_(comm), ranks_(std::move(ranks)) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~MpiSpace() override { MPI_Comm_free(&comm_); }

  void send(RequestList& requests, int to, int tag, const void* bytes,
            std::size_t size, Delivery until) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto isend = until == Delivery::Received ? MPI_Issend : MPI_Isend;
    check_mpi(isend(bytes, count_of(size), MPI_BYTE, place_of(to),
                    message_tag(tag), comm_, &request),
              "MPI_Isend");
    add(requests, request);
  }

  void receive(RequestList& requests, int from, int tag, void* bytes,
               std::size_t size) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(bytes, count_of(size), MPI_BYTE, place_of(from),
                        message_tag(tag), comm_, &request),
              "MPI_Irecv");
    add(requests, request);
  }

  void send_text(RequestList& requests, int to, int tag, const void* bytes,
                 std::size_t size) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(bytes, count_of(size), MPI_BYTE, place_of(to),
                        text_tag(tag), comm_, &request),
              "MPI_Isend");
    add(requests, request);
  }

  bool next_text(int from, int tag, std::string& text) override {
    int has_come = 0, size = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(place_of(from), text_tag(tag), comm_, &has_come,
                          &message, &status),
              "MPI_Improbe");
    if (has_come == 0) return false;
    MPI_Get_count(&status, MPI_BYTE, &size);
    text.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Mrecv(text.data(), size, MPI_BYTE, &message, &status),
              "MPI_Mrecv");
    return true;
  }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    MpiRequests requests;
    requests.add(request);
    requests.wait();
  }

  void all_reduce(RequestList& requests, const at::Tensor& numbers) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const bool is_double = numbers.scalar_type() == at::kDouble;
    check_mpi(MPI_Iallreduce(
                  MPI_IN_PLACE, numbers.mutable_data_ptr(),
                  count_of(static_cast<std::size_t>(numbers.numel())),
                  is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, comm_, &request),
              "MPI_Iallreduce");
    add(requests, request);
  }

 private:
  static void add(RequestList& requests, MPI_Request request) {
    static_cast<MpiRequests&>(requests).add(request);
  }

  // Its number in the communicator: 0, 1, ...
  int place_of(int rank) const {
    return static_cast<int>(
        std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }

  MPI_Comm comm_;
  const std::vector<int> ranks_;
};

MPI_Comm duplicate_of_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return comm;
}

// The word may come after this object is gone, so its memory is static.
class MpiCancellation final : public Cancellation {
 public:
  MpiCancellation() : comm_(duplicate_of_world()) {
    static int word = 0;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, kCancelTag, comm_,
                        &request_),
              "MPI_Irecv");
  }
  ~MpiCancellation() override {
    if (request_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&request_);
      MPI_Wait(&request_, MPI_STATUS_IGNORE);
    }
    if (!is_sent_ && !has_come_) MPI_Comm_free(&comm_);
  }

  // Requests that are never asked about: the words leave by themselves.
  void send() override {
    static const int word = 1;
    is_sent_ = true;
    int rank = 0, size = 0;
    MPI_Comm_rank(comm_, &rank);
    MPI_Comm_size(comm_, &size);
    for (int to = 0; to < size; ++to) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (to != rank)
        MPI_Isend(&word, 1, MPI_INT, to, kCancelTag, comm_, &request);
    }
  }

  bool has_come() override {
    if (has_come_) return true;
    int flag = 0;
    check_mpi(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return has_come_ = flag != 0;
  }

 private:
  MPI_Comm comm_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_sent_ = false, has_come_ = false;
};

class MpiNetwork final : public RankNetwork {
 public:
  MpiNetwork() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    int* largest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found);
    if (found != 0) largest_mpi_tag_ = *largest;
  }
  ~MpiNetwork() override { MPI_Finalize(); }

  std::string name() const override { return "MPI"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int largest_tag() const override { return (largest_mpi_tag_ - 1) / 2; }
  bool adds_up() const override { return true; }

  HostRanks ranks_on_host() const override {
    MPI_Comm host = MPI_COMM_NULL;
    HostRanks ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &host);
    MPI_Comm_rank(host, &ranks.mine);
    MPI_Comm_size(host, &ranks.count);
    MPI_Comm_free(&host);
    return ranks;
  }

  std::unique_ptr<RequestList> requests() override {
    return std::make_unique<MpiRequests>();
  }

  std::unique_ptr<MessageSpace> space(const std::vector<int>& ranks) override {
    ++num_spaces_;
    if (static_cast<int>(ranks.size()) == size_)
      return std::make_unique<MpiSpace>(duplicate_of_world(), ranks);
    if (!std::binary_search(ranks.begin(), ranks.end(), rank_)) return nullptr;
    return std::make_unique<MpiSpace>(created(ranks), ranks);
  }

  std::unique_ptr<Cancellation> cancellation() override {
    return std::make_unique<MpiCancellation>();
  }

 private:
  // The tag tells apart groups that are created at the same time.
  MPI_Comm created(const std::vector<int>& ranks) const {
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count_of(ranks.size()), ranks.data(), &members);
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, members,
                                    num_spaces_ % largest_mpi_tag_, &comm),
              "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return comm;
  }

  int rank_ = 0, size_ = 1;
  int largest_mpi_tag_ = 32767;  // the least that MPI promises
  int num_spaces_ = 0;
};

}  // namespace

Result<std::unique_ptr<RankNetwork>> mpi_network() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) !=
      MPI_SUCCESS)
    return bad_configuration("MPI does not start",
                             "does mpirun -n 2 hostname work?");
  std::unique_ptr<RankNetwork> network = std::make_unique<MpiNetwork>();
  if (provided < MPI_THREAD_MULTIPLE)
    return bad_configuration(
        mpi_version() + " does not allow calls from several threads at once",
        "install an MPI that was built with MPI_THREAD_MULTIPLE");
  return network;
}

}  // namespace pipewright
