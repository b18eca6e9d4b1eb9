// Requests and their progress; see message_engine.h.

#include "pipewright/runtime/channels/message_engine.h"

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

// Low priority is sent in small pieces, of which no more
// bytes than one piece may have are under way, so that a message of high
// priority waits for at most so many. Small tensors of a message go together:
// one after the other, each would wait until a computing worker's thread looks.
constexpr std::size_t kPiece = RankNetwork::kMaxSize;
constexpr std::size_t kLowPiece = std::size_t{1} << 20;
// A receiver may need a piece of low priority before messages of high priority,
// or a later piece first: no piece waits longer than this.
constexpr auto kMaxYield = std::chrono::milliseconds(2);

// Between two rounds of the thread. A round takes some microseconds of a core
// that computes: one every 50 us took a sixth of it. In a millisecond a link of
// 10 Gb/s empties a socket's buffer about once.
constexpr long kProgressInterval_ns = 1'000'000;

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
  throw CorruptedMessage("the form of messages from rank " +
                         std::to_string(from) + " to rank " +
                         std::to_string(to) +
                         " has arrived with other bits than it was sent with");
}

void sleep_for_ns(long ns) {
  const timespec time{0, ns};
  ::nanosleep(&time, nullptr);
}

}  // namespace

at::Tensor MessageEngine::Receive::take(std::size_t value, std::size_t index) {
  return as_received(std::exchange(buffers[value][index], {}), place);
}

MessageEngine::MessageEngine(RankNetwork& network, bool has_checksums)
    : network_(network),
      rank_(network.rank()),
      everyone_(network.space_of_all()),
      cancellation_(network.cancellation()),
      active_(network.requests()),
      peers_(static_cast<std::size_t>(network.size())),
      has_checksums_(has_checksums) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // short sleeps stay short
}

// Requests of a cancelled run stay with the network, so their memory must not
// be freed.
MessageEngine::~MessageEngine() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
  if (!active_->empty()) {
    static auto* const abandoned = new std::vector<std::vector<Pending>>;
    abandoned->push_back(std::move(pending_));
    pipewright::abandon(std::move(active_));
  }
  if (cancelled_) pipewright::abandon(std::move(everyone_));
}

void MessageEngine::all_reduce(MessageSpace& space, const at::Tensor& numbers,
                               const std::shared_ptr<Receive>& into) {
  space.all_reduce(*active_, numbers);
  ++into->outstanding;
  pending_.push_back({.tensor = numbers, .into = into});
}

void MessageEngine::expect_sends(int rank, const MessageLayout& layout,
                                 Priority priority, int count) {
  expect_receives(layout, priority, count);  // a request is a request
  if (priority == Priority::High) return;
  Queue& queue = queue_of(peers_[rank], priority);
  queue.num_expected += num_pieces(layout, priority) * count;
  queue.waiting.reserve(queue.num_expected);
}

void MessageEngine::expect_receives(const MessageLayout& layout,
                                    Priority priority, int count) {
  num_expected_ += num_pieces(layout, priority) * count;
  active_->reserve(num_expected_);
  pending_.reserve(num_expected_);
}

// The last piece of a bounded transfer's message is complete only when its
// receive has been posted, however small the message is.
void MessageEngine::start(Outgoing outgoing, std::int64_t& under_way) {
  const Envelope& to = outgoing.to;
  to.space->send(*active_, to.rank, to.tag, outgoing.from, outgoing.bytes,
                 outgoing.unreceived ? Delivery::Received : Delivery::Copied);
  under_way += static_cast<std::int64_t>(outgoing.bytes);
  pending_.push_back({.tensor = std::move(outgoing.tensor),
                      .under_way = &under_way,
                      .bytes = outgoing.bytes,
                      .unreceived = std::move(outgoing.unreceived)});
}

void MessageEngine::send(const Envelope& to, const Values& values,
                         Priority priority,
                         const std::shared_ptr<int>& unreceived,
                         const CopiesEvent& copied) {
  if (unreceived && has_bytes(values)) ++*unreceived;
  if (copied || !copying_.empty())
    copying_.push_back({copied, to, values, priority, unreceived});
  else
    start_message(to, values, priority, unreceived);
}

// A message waits for those before it, so that a rank's messages leave in the
// order in which they were sent.
void MessageEngine::start_copied() {
  while (!copying_.empty() &&
         (!copying_.front().copied || copying_.front().copied->query())) {
    const Copying message = copying_.pop_front();
    start_message(message.to, message.values, message.priority,
                  message.unreceived);
  }
}

void MessageEngine::start_message(const Envelope& to, const Values& values,
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
             std::min(piece_size(priority), bytes - at), to, nullptr,
             Clock::time_point()});
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

MessageEngine::Queue& MessageEngine::queue_of(Peer& peer, Priority priority) {
  return peer.queues[priority == Priority::Kept ? 0 : 1];
}

void MessageEngine::start_low(Peer& peer, Queue& queue) {
  while (!queue.waiting.empty()) {
    const Clock::time_point now = Clock::now();
    const auto bytes =
        static_cast<std::size_t>(queue.under_way) + queue.waiting.front().bytes;
    if (queue.under_way > 0 && bytes > kLowPiece &&
        now - queue.last_start < kMaxYield)
      return;
    if (peer.high > 0 && now - queue.waiting.front().since < kMaxYield) return;
    start(queue.waiting.pop_front(), queue.under_way);
    queue.last_start = now;
    if (!queue.waiting.empty()) queue.waiting.front().since = now;
  }
}

void MessageEngine::send_text(const Envelope& to, std::string text) {
  const std::uint64_t checksum = checksum_of(text);
  text.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  auto kept = std::make_shared<const std::string>(std::move(text));
  to.space->send_text(*active_, to.rank, to.tag, kept->data(), kept->size());
  pending_.push_back({.text = std::move(kept)});
}

void MessageEngine::receive(const Envelope& from, const MessageLayout& layout,
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
        from.space->receive(
            *active_, from.rank, from.tag,
            static_cast<char*>(tensors.back().mutable_data_ptr()) + at,
            std::min(piece_size(priority), bytes - at));
        ++into->outstanding;
        pending_.push_back({.into = into});
      }
    }
  }
}

void MessageEngine::expect_text(
    const Envelope& from, std::function<void(const std::string&)> arrived) {
  texts_.push_back({from, std::move(arrived)});
}

bool MessageEngine::is_queue_empty() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.queues[0].waiting.empty() && peer.queues[1].waiting.empty();
  });
}

void MessageEngine::test_requests() {
  if (!cancelled_ && cancellation_->has_come()) cancelled_ = true;
  active_->test([this](std::size_t at) {
    Pending& pending = pending_[at];
    if (!place_.is_cpu() && pending.tensor.defined())
      sent_.push_back(std::move(pending.tensor));
    if (pending.under_way)
      *pending.under_way -= static_cast<std::int64_t>(pending.bytes);
    if (pending.unreceived) --*pending.unreceived;
    if (pending.into) --pending.into->outstanding;
    pending_[at] = std::move(pending_.back());
    pending_.pop_back();
  });
}

bool MessageEngine::next_text(const Envelope& from, std::string& text) {
  if (!from.space->next_text(from.rank, from.tag, text)) return false;
  take_checksum(text, from.rank, rank_);
  return true;
}

void MessageEngine::probe_texts() {
  for (std::size_t i = 0; i < texts_.size();) {
    if (!next_text(texts_[i].from, text_)) {
      ++i;
      continue;
    }
    const Expected expected = std::move(texts_[i]);
    texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
    expected.arrived(text_);
  }
}

void MessageEngine::make_progress() {
  last_progress_ = Clock::now();
  test_requests();
  probe_texts();
  start_copied();
  for (Peer& peer : peers_)
    for (Queue& queue : peer.queues)
      if (!queue.waiting.empty()) start_low(peer, queue);
}

void MessageEngine::cancel_all() {
  if (!std::exchange(cancelled_, true)) cancellation_->send();
}

void MessageEngine::abandon() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

void MessageEngine::wait_until(c10::function_ref<bool()> done) {
  for (Backoff backoff;; backoff.pause()) {
    if (idle_work_) idle_work_();
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (cancelled_) throw Cancelled();
    if (done()) return;
    make_progress();
    if (cancelled_) throw Cancelled();
    if (done()) return;
  }
}

void MessageEngine::start_thread() {
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
        if (!active_->empty() || !texts_.empty() || !copying_.empty())
          make_progress();
      } catch (const std::exception&) {
        failure_ = std::current_exception();  // thrown by the next wait
        return;
      }
    }
  });
}

}  // namespace pipewright
