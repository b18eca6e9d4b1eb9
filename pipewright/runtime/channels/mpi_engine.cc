// Requests and their progress; see mpi_engine.h.

#include "pipewright/runtime/channels/mpi_engine.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "pipewright/runtime/channels/backoff.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/message_checksum.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

// MPI counts in int. Low priority is sent in small pieces, of which no more
// bytes than one piece may have are under way, so that a message of high
// priority waits for at most so many. Small tensors of a message go together:
// one after the other, each would wait until a computing worker's thread looks.
constexpr std::size_t kPiece = std::size_t{1} << 30;
constexpr std::size_t kLowPiece = std::size_t{1} << 20;
// A receiver may need a piece of low priority before messages of high priority,
// or a later piece first: no piece waits longer than this.
constexpr auto kMaxYield = std::chrono::milliseconds(2);

constexpr int kCancelTag = 1;

// Between two rounds of the thread. A round takes some microseconds of a core
// that computes: one every 50 us took a sixth of it. In a millisecond a link of
// 10 Gb/s empties a socket's buffer about once.
constexpr long kProgressInterval_ns = 1'000'000;

// An envelope's tag is two tags of MPI: one for tensors, one for texts.
int tensor_tag(const MpiEngine::Envelope& envelope) { return 2 * envelope.tag; }
int text_tag(const MpiEngine::Envelope& envelope) {
  return 2 * envelope.tag + 1;
}
int place(const MpiEngine::Envelope& envelope) {
  return envelope.group->place_of(envelope.rank);
}

int largest_mpi_tag(MPI_Comm comm) {
  int* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found);
  return found ? *value : 32767;  // the least that MPI promises
}

std::size_t piece_size(Priority priority) {
  return priority == Priority::High ? kPiece : kLowPiece;
}

std::size_t num_pieces(const MessageLayout& layout, Priority priority) {
  std::size_t count = 0;
  for (const auto& of_value : layout)
    for (const TensorLayout& form : of_value)
      if (form.is_defined)
        count += (form.bytes + piece_size(priority) - 1) / piece_size(priority);
  return count;
}

bool has_bytes(const Values& values) {
  for (const Tensors& tensors : values)
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && tensor.nbytes() > 0) return true;
  return false;
}

// Removes it from the end of the text.
void take_checksum(std::string& text, int from, int to) {
  std::uint64_t checksum = 0;
  if (text.size() >= sizeof(checksum)) {
    const std::size_t end = text.size() - sizeof(checksum);
    std::memcpy(&checksum, text.data() + end, sizeof(checksum));
    text.resize(end);
    if (checksum == checksum_of(text)) return;
  }
  throw CorruptedMessage("the layout of messages from rank " +
                         std::to_string(from) + " to rank " +
                         std::to_string(to) +
                         " has arrived with other bits than it was sent with");
}

void sleep_for_ns(long ns) {
  const timespec time{0, ns};
  ::nanosleep(&time, nullptr);
}

}  // namespace

at::Tensor MpiEngine::Receive::take(std::size_t value, std::size_t index) {
  return as_received(std::exchange(buffers[value][index], {}), place);
}

MpiEngine::MpiEngine(MPI_Comm world, bool has_checksums)
    : has_checksums_(has_checksums) {
  for (MPI_Comm* comm : {&everyone_.comm, &control_}) {
    check_mpi(MPI_Comm_dup(world, comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(world, &rank_);
  MPI_Comm_size(world, &size_);
  peers_.resize(size_);
  for (int rank = 0; rank < size_; ++rank) everyone_.ranks.push_back(rank);
  largest_tag_ = (largest_mpi_tag(world) - 1) / 2;
  post_cancel_receive();
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // short sleeps stay short
}

// Requests of a cancelled run stay with MPI, so their memory must not be freed.
MpiEngine::~MpiEngine() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
  if (!active_.empty()) {
    static auto* const abandoned = new std::vector<std::vector<Pending>>;
    abandoned->push_back(std::move(pending_));
    return;
  }
  if (cancel_request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&cancel_request_);
    MPI_Wait(&cancel_request_, MPI_STATUS_IGNORE);
  }
  if (cancelled_) return;
  for (MPI_Comm* comm : {&everyone_.comm, &control_}) MPI_Comm_free(comm);
}

// It may come after the engine is gone.
void MpiEngine::post_cancel_receive() {
  static int word = 0;
  check_mpi(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, kCancelTag, control_,
                      &cancel_request_),
            "MPI_Irecv");
}

void MpiEngine::add_request(MPI_Request request, Pending pending) {
  active_.push_back(request);
  pending_.push_back(std::move(pending));
}

void MpiEngine::add_request(MPI_Request request, at::Tensor kept,
                            const std::shared_ptr<Receive>& into) {
  ++into->outstanding;
  add_request(request, {.tensor = std::move(kept), .into = into});
}

void MpiEngine::expect_sends(int rank, const MessageLayout& layout,
                             Priority priority, int count) {
  expect_receives(layout, priority, count);  // a request is a request
  if (priority == Priority::High) return;
  Queue& queue = queue_of(peers_[rank], priority);
  queue.num_expected += num_pieces(layout, priority) * count;
  queue.waiting.reserve(queue.num_expected);
}

void MpiEngine::expect_receives(const MessageLayout& layout, Priority priority,
                                int count) {
  num_expected_ += num_pieces(layout, priority) * count;
  active_.reserve(num_expected_);
  pending_.reserve(num_expected_);
  completed_.reserve(num_expected_);
}

// MPI_Issend: the last piece of a bounded transfer's message is complete only
// when its receive has been posted, however small the message is.
void MpiEngine::start(Outgoing outgoing, std::int64_t& under_way) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto isend = outgoing.unreceived ? MPI_Issend : MPI_Isend;
  const Envelope& to = outgoing.to;
  check_mpi(isend(outgoing.from, outgoing.bytes, MPI_BYTE, place(to),
                  tensor_tag(to), to.group->comm, &request),
            "MPI_Isend");
  under_way += outgoing.bytes;
  add_request(request, {.tensor = std::move(outgoing.tensor),
                        .under_way = &under_way,
                        .bytes = outgoing.bytes,
                        .unreceived = std::move(outgoing.unreceived)});
}

void MpiEngine::send(const Envelope& to, const Values& values,
                     Priority priority, const std::shared_ptr<int>& unreceived,
                     const CopiesEvent& copied) {
  if (unreceived && has_bytes(values)) ++*unreceived;
  if (copied || !copying_.empty())
    copying_.push_back({copied, to, values, priority, unreceived});
  else
    start_message(to, values, priority, unreceived);
}

// A message waits for those before it, so that a rank's messages leave in the
// order in which they were sent.
void MpiEngine::start_copied() {
  while (!copying_.empty() &&
         (!copying_.front().copied || copying_.front().copied->query())) {
    const Copying message = copying_.pop_front();
    start_message(message.to, message.values, message.priority,
                  message.unreceived);
  }
}

void MpiEngine::start_message(const Envelope& to, const Values& values,
                              Priority priority,
                              const std::shared_ptr<int>& unreceived) {
  Peer& peer = peers_[to.rank];
  pieces_.clear();
  for (const auto& tensors : values)
    for (const at::Tensor& tensor : tensors) {
      const std::size_t bytes = tensor.defined() ? tensor.nbytes() : 0;
      for (std::size_t at = 0; at < bytes; at += piece_size(priority))
        pieces_.push_back(
            {tensor, static_cast<const char*>(tensor.const_data_ptr()) + at,
             static_cast<int>(std::min(piece_size(priority), bytes - at)), to,
             nullptr, Clock::time_point()});
    }
  if (pieces_.empty()) return;
  pieces_.back().unreceived = unreceived;
  if (priority == Priority::High) {
    for (Outgoing& piece : pieces_) start(std::move(piece), peer.high);
    return;
  }
  Queue& queue = queue_of(peer, priority);
  for (Outgoing& piece : pieces_) {
    piece.since = Clock::now();
    queue.waiting.push_back(std::move(piece));
  }
  start_low(peer, queue);
}

MpiEngine::Queue& MpiEngine::queue_of(Peer& peer, Priority priority) {
  return peer.queues[priority == Priority::Kept ? 0 : 1];
}

void MpiEngine::start_low(Peer& peer, Queue& queue) {
  while (!queue.waiting.empty()) {
    const Clock::time_point now = Clock::now();
    const std::int64_t bytes = queue.under_way + queue.waiting.front().bytes;
    if (queue.under_way > 0 && bytes > std::int64_t{kLowPiece} &&
        now - queue.last_start < kMaxYield)
      return;
    if (peer.high > 0 && now - queue.waiting.front().since < kMaxYield) return;
    start(queue.waiting.pop_front(), queue.under_way);
    queue.last_start = now;
    if (!queue.waiting.empty()) queue.waiting.front().since = now;
  }
}

void MpiEngine::send_text(const Envelope& to, std::string text) {
  const std::uint64_t checksum = checksum_of(text);
  text.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  auto kept = std::make_shared<const std::string>(std::move(text));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(kept->data(), static_cast<int>(kept->size()), MPI_BYTE,
                      place(to), text_tag(to), to.group->comm, &request),
            "MPI_Isend");
  add_request(request, {.text = std::move(kept)});
}

void MpiEngine::receive(const Envelope& from, const MessageLayout& layout,
                        Priority priority,
                        const std::shared_ptr<Receive>& into) {
  into->place = place_;
  into->buffers.resize(layout.size());
  for (std::size_t v = 0; v < layout.size(); ++v) {
    Tensors& tensors = into->buffers[v];
    tensors.clear();
    for (const TensorLayout& form : layout[v]) {
      tensors.push_back(buffer_of(form, place_));
      const std::size_t bytes = form.is_defined ? form.bytes : 0;
      for (std::size_t at = 0; at < bytes; at += piece_size(priority)) {
        const auto size =
            static_cast<int>(std::min(piece_size(priority), bytes - at));
        auto* to = static_cast<char*>(tensors.back().mutable_data_ptr()) + at;
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Irecv(to, size, MPI_BYTE, place(from), tensor_tag(from),
                            from.group->comm, &request),
                  "MPI_Irecv");
        add_request(request, at::Tensor(), into);
      }
    }
  }
}

void MpiEngine::expect_text(const Envelope& from,
                            std::function<void(const std::string&)> arrived) {
  texts_.push_back({from, std::move(arrived)});
}

bool MpiEngine::is_queue_empty() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.queues[0].waiting.empty() && peer.queues[1].waiting.empty();
  });
}

void MpiEngine::test_requests() {
  int flag = 0;
  if (!cancelled_ && cancel_request_ != MPI_REQUEST_NULL) {
    check_mpi(MPI_Test(&cancel_request_, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    if (flag) cancelled_ = true;
  }
  if (active_.empty()) return;
  completed_.resize(active_.size());
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(active_.size()), active_.data(),
                         &count, completed_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return;
  std::sort(completed_.begin(), completed_.begin() + count);
  for (int i = 0; i < count; ++i) {
    const Pending& pending = pending_[completed_[i]];
    if (pending.under_way) *pending.under_way -= pending.bytes;
    if (pending.unreceived) --*pending.unreceived;
    if (pending.into) --pending.into->outstanding;
  }
  for (int i = count - 1; i >= 0; --i) {
    const int at = completed_[i];
    active_[at] = active_.back();
    pending_[at] = std::move(pending_.back());
    active_.pop_back();
    pending_.pop_back();
  }
}

void MpiEngine::probe_texts() {
  for (std::size_t i = 0; i < texts_.size();) {
    int flag = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    const Envelope& from = texts_[i].from;
    check_mpi(MPI_Improbe(place(from), text_tag(from), from.group->comm, &flag,
                          &message, &status),
              "MPI_Improbe");
    if (!flag) {
      ++i;
      continue;
    }
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::string text(size, '\0');
    check_mpi(MPI_Mrecv(text.data(), size, MPI_BYTE, &message, &status),
              "MPI_Mrecv");
    take_checksum(text, from.rank, rank_);
    const Expected expected = std::move(texts_[i]);
    texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
    expected.arrived(text);
  }
}

void MpiEngine::make_progress() {
  last_progress_ = Clock::now();
  test_requests();
  probe_texts();
  start_copied();
  for (Peer& peer : peers_)
    for (Queue& queue : peer.queues)
      if (!queue.waiting.empty()) start_low(peer, queue);
}

void MpiEngine::cancel_all() {
  if (std::exchange(cancelled_, true)) return;
  static const int word = 1;
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&word, 1, MPI_INT, to, kCancelTag, control_, &request);
    add_request(request, Pending());
  }
}

void MpiEngine::abandon() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

void MpiEngine::wait_until(c10::function_ref<bool()> done) {
  for (Backoff backoff;; backoff.pause()) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (cancelled_) throw Cancelled();
    if (done()) return;
    make_progress();
    if (cancelled_) throw Cancelled();
    if (done()) return;
  }
}

void MpiEngine::start_thread() {
  thread_ = std::thread([this] {
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    while (!ends_) {
      sleep_for_ns(kProgressInterval_ns);
      const std::lock_guard lock(mutex_);
      // The worker makes progress between actions, too.
      if (cancelled_ || Clock::now() - last_progress_ <
                            std::chrono::nanoseconds(kProgressInterval_ns / 2))
        continue;
      try {
        if (!active_.empty() || !texts_.empty() || !copying_.empty())
          make_progress();
      } catch (const std::exception&) {
        failure_ = std::current_exception();  // thrown by the next wait
        return;
      }
    }
  });
}

}  // namespace pipewright
