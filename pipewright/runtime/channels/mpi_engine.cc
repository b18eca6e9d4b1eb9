// Requests and their progress; see mpi_engine.h.

#include "pipewright/runtime/channels/mpi_engine.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "pipewright/runtime/channels/channel.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

// MPI counts in int. What has low priority goes in small pieces, so that what
// comes behind it with a higher one waits for a piece at most.
constexpr std::size_t kPiece = std::size_t{1} << 30;
constexpr std::size_t kLowPiece = std::size_t{1} << 20;
// A receiver may need a piece of low priority before it gets to what has a
// higher one, or one from further behind: no piece waits longer than this.
constexpr auto kLongestYield = std::chrono::milliseconds(2);

constexpr int kCancelTag = 1;

// Between looks of the thread. Each takes some microseconds of a core that
// computes: every 50 us they took a sixth of it. In a millisecond a link of
// 10 Gb/s empties a socket's buffer about once.
constexpr long kNap_ns = 1'000'000;

// Waking up takes tens of microseconds: most messages are there before.
constexpr auto kLongSpin = std::chrono::microseconds(200);
constexpr auto kShortSpin = std::chrono::microseconds(5);
// After that nobody minds a millisecond.
constexpr auto kLongWait = std::chrono::seconds(1);
std::atomic<bool> cores_are_shared{false};

// Of a line's tag MPI sees two: one for tensors, one for texts.
int tensor_tag(const MpiEngine::Line& line) { return 2 * line.tag; }
int text_tag(const MpiEngine::Line& line) { return 2 * line.tag + 1; }
int place(const MpiEngine::Line& line) {
  return line.group->place_of(line.rank);
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

void sleep_for_ns(long ns) {
  const timespec time{0, ns};
  ::nanosleep(&time, nullptr);
}

}  // namespace

void Patience::pause() {
  if (++rounds_ == 1) since_ = Clock::now();
  const auto waited = Clock::now() - since_;
  if (waited < (cores_are_shared ? kShortSpin : kLongSpin)) return;
  sleep_for_ns(waited < kLongWait ? 20'000 : 1'000'000);
}

void Patience::set_cores_shared(bool are_shared) {
  cores_are_shared = are_shared;
}

at::Tensor MpiEngine::Receive::taken(std::size_t value, std::size_t place) {
  return as_received(std::exchange(buffers[value][place], {}),
                     (*layout)[value][place].device);
}

MpiEngine::MpiEngine(MPI_Comm world) : sends_directly_(takes_device_memory()) {
  for (MPI_Comm* comm : {&everyone_.comm, &control_}) {
    check_mpi(MPI_Comm_dup(world, comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(world, &rank_);
  MPI_Comm_size(world, &size_);
  peers_.resize(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) everyone_.ranks.push_back(rank);
  largest_tag_ = (largest_mpi_tag(world) - 1) / 2;
  post_cancel_receive();
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // short sleeps stay short
}

// Requests of a cancelled run stay with MPI: their memory must stay, too.
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

void MpiEngine::post_cancel_receive() {
  check_mpi(MPI_Irecv(&cancel_word_, 1, MPI_INT, MPI_ANY_SOURCE, kCancelTag,
                      control_, &cancel_request_),
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
  Queue& queue = queue_of(peers_[static_cast<std::size_t>(rank)], priority);
  queue.room += num_pieces(layout, priority) * static_cast<std::size_t>(count);
  queue.waiting.reserve(queue.room);
}

void MpiEngine::expect_receives(const MessageLayout& layout, Priority priority,
                                int count) {
  room_ += num_pieces(layout, priority) * static_cast<std::size_t>(count);
  active_.reserve(room_);
  pending_.reserve(room_);
  completed_.reserve(room_);
}

// The last piece of a message that is waited for is complete only when its
// receive has been posted, however small it is: nobody gets ahead without end.
void MpiEngine::start(Outgoing outgoing, int& under_way) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto isend = outgoing.waiting ? MPI_Issend : MPI_Isend;
  const Line& to = outgoing.to;
  check_mpi(isend(outgoing.from, outgoing.bytes, MPI_BYTE, place(to),
                  tensor_tag(to), to.group->comm, &request),
            "MPI_Isend");
  ++under_way;
  add_request(request, {.tensor = std::move(outgoing.tensor),
                        .under_way = &under_way,
                        .waiting = std::move(outgoing.waiting)});
}

void MpiEngine::send(const Line& to, const Values& values, Priority priority,
                     const std::shared_ptr<int>& waiting) {
  Peer& peer = peers_[static_cast<std::size_t>(to.rank)];
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
  if (waiting) ++*waiting;
  pieces_.back().waiting = waiting;
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
  return peer.queues[priority == Priority::Saved ? 0 : 1];
}

void MpiEngine::start_low(Peer& peer, Queue& queue) {
  while (!queue.waiting.empty()) {
    const Clock::time_point now = Clock::now();
    if (queue.under_way > 0 && now - queue.last_start < kLongestYield) return;
    if (peer.high > 0 && now - queue.waiting.front().since < kLongestYield)
      return;
    start(queue.waiting.pop_front(), queue.under_way);
    queue.last_start = now;
    if (!queue.waiting.empty()) queue.waiting.front().since = now;
  }
}

void MpiEngine::send_text(const Line& to, std::string text) {
  auto kept = std::make_shared<const std::string>(std::move(text));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(kept->data(), static_cast<int>(kept->size()), MPI_BYTE,
                      place(to), text_tag(to), to.group->comm, &request),
            "MPI_Isend");
  add_request(request, {.text = std::move(kept)});
}

void MpiEngine::receive(const Line& from, const MessageLayout& layout,
                        Priority priority,
                        const std::shared_ptr<Receive>& into) {
  into->layout = &layout;
  into->buffers.resize(layout.size());
  for (std::size_t v = 0; v < layout.size(); ++v) {
    Tensors& tensors = into->buffers[v];
    tensors.clear();
    for (const TensorLayout& form : layout[v]) {
      tensors.push_back(buffer_of(form, sends_directly_));
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

void MpiEngine::expect_text(const Line& from,
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
    const Pending& pending = pending_[static_cast<std::size_t>(
        completed_[static_cast<std::size_t>(i)])];
    if (pending.under_way) --*pending.under_way;
    if (pending.waiting) --*pending.waiting;
    if (pending.into) --pending.into->outstanding;
  }
  for (int i = count - 1; i >= 0; --i) {
    const auto at =
        static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
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
    const Line& from = texts_[i].from;
    check_mpi(MPI_Improbe(place(from), text_tag(from), from.group->comm, &flag,
                          &message, &status),
              "MPI_Improbe");
    if (!flag) {
      ++i;
      continue;
    }
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::string text(static_cast<std::size_t>(size), '\0');
    check_mpi(MPI_Mrecv(text.data(), size, MPI_BYTE, &message, &status),
              "MPI_Mrecv");
    const Expected expected = std::move(texts_[i]);
    texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
    expected.arrived(text);
  }
}

void MpiEngine::move_on() {
  last_move_ = Clock::now();
  test_requests();
  probe_texts();
  for (Peer& peer : peers_)
    for (Queue& queue : peer.queues)
      if (!queue.waiting.empty()) start_low(peer, queue);
}

void MpiEngine::tell_cancelled() {
  if (std::exchange(cancelled_, true)) return;
  static const int word = 1;
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&word, 1, MPI_INT, to, kCancelTag, control_, &request);
    add_request(request, Pending());
  }
}

void MpiEngine::wait_until(c10::function_ref<bool()> done) {
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw std::runtime_error(failure_);
    if (cancelled_) throw Cancelled();
    if (done()) return;
    move_on();
    if (cancelled_) throw Cancelled();
    if (done()) return;
  }
}

void MpiEngine::start_thread() {
  thread_ = std::thread([this] {
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    while (!ends_) {
      sleep_for_ns(kNap_ns);
      const std::lock_guard lock(mutex_);
      // The worker moves messages between actions, too.
      if (cancelled_ ||
          Clock::now() - last_move_ < std::chrono::nanoseconds(kNap_ns / 2))
        continue;
      try {
        if (!active_.empty() || !texts_.empty()) move_on();
      } catch (const std::exception& error) {
        failure_ = error.what();  // for who waits next
        return;
      }
    }
  });
}

}  // namespace pipewright
