// Frames in and out; see socket_link.h.

#include "pipewright/runtime/channels/socket_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace pipewright {
namespace {

// While a piece is under way words wait.
constexpr std::size_t kPieceOfFrame = std::size_t{1} << 20;
constexpr std::size_t kMaxFrames = 32;  // that leave in one call
// A request this large is worth a call of its own.
constexpr std::size_t kWriteAt = std::size_t{1} << 15;
// The words of gates are such texts: so many wait without asking for memory.
constexpr std::size_t kShortTexts = 64, kShortText = 64;
constexpr std::uint64_t kMaxText = std::uint64_t{1} << 30;
// What one look moves at most, so that others have their turn.
constexpr std::size_t kMaxMoved = std::size_t{16} << 20;

template <class List>
auto first_of(List& list, const MessageKey& key) {
  return std::find_if(list.begin(), list.end(), [&](const auto& each) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(each)>>)
      return each->key == key;
    else
      return each.key == key;
  });
}

bool is_for_later() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

SocketLink::SocketLink(Socket socket, int rank)
    : socket_(std::move(socket)), rank_(rank) {
  wire_.reserve(kMaxFrames);
  arrived_.reserve(kShortTexts);
  unused_.reserve(2 * kShortTexts);
  unused_.resize(kShortTexts);
  for (std::string& text : unused_) text.reserve(kShortText);
}

void SocketLink::reserve(std::size_t count) {
  words_.reserve(count);
  texts_.reserve(count);
  for (auto* list : {&granted_, &waiting_, &posted_}) list->reserve(count);
  grants_.reserve(count);
}

void SocketLink::check_size(const SocketRequest& sent,
                            std::uint64_t receive) const {
  if (sent.size != receive)
    throw std::runtime_error("a message of " + std::to_string(sent.size) +
                             " bytes meets a receive of " +
                             std::to_string(receive) + " bytes on rank " +
                             std::to_string(rank_));
}

void SocketLink::send(SocketRequest& request) {
  const auto ready = first_of(grants_, request.key);
  if (ready == grants_.end()) {
    waiting_.push_back(&request);
    return;
  }
  check_size(request, ready->size);
  grants_.erase(ready);
  granted_.push_back(&request);
  if (request.size >= kWriteAt) write();
}

// The word leaves with the next look: most messages have several tensors.
void SocketLink::receive(SocketRequest& request) {
  posted_.push_back(&request);
  words_.push_back({FrameHeader::Kind::Ready, request.key, request.size});
}

void SocketLink::send_text(SocketRequest& request) {
  texts_.push_back(&request);
  write();
}

void SocketLink::cancel(std::uint32_t space) {
  words_.push_back({FrameHeader::Kind::Cancel, {space, 0}, 0});
  write();
}

bool SocketLink::next_text(const MessageKey& key, std::string& text) {
  const auto found = first_of(arrived_, key);
  if (found == arrived_.end()) return false;
  text.assign(found->bytes);  // a copy: each keeps its memory
  unused_.push_back(std::move(found->bytes));
  arrived_.erase(found);
  return true;
}

void SocketLink::grant(const FrameHeader& ready) {
  const auto found = first_of(waiting_, ready.key);
  if (found == waiting_.end()) {
    grants_.push_back(ready);
    return;
  }
  check_size(**found, ready.size);
  granted_.push_back(*found);
  waiting_.erase(found);
}

void SocketLink::require(bool holds, const char* otherwise) const {
  if (!holds)
    throw std::runtime_error("a message from rank " + std::to_string(rank_) +
                             " " + otherwise);
}

void SocketLink::begin_frame(std::vector<std::uint32_t>& cancelled) {
  left_ = 0;
  switch (header_.kind) {
    case FrameHeader::Kind::Ready:
      return grant(header_);
    case FrameHeader::Kind::Cancel:
      return cancelled.push_back(header_.key.space);
    case FrameHeader::Kind::Text:
      require(header_.size <= kMaxText, "is too large");
      if (!unused_.empty()) {
        arriving_.bytes = std::move(unused_.back());
        unused_.pop_back();
      }
      arriving_.key = header_.key;
      arriving_.bytes.resize(header_.size);
      to_ = arriving_.bytes.data();
      break;
    case FrameHeader::Kind::Piece: {
      const auto found = first_of(posted_, header_.key);
      require(found != posted_.end(), "has no receive");
      into_ = *found;
      require(header_.size <= into_->size - into_->moved, "is too large");
      to_ = into_->bytes + into_->moved;
      break;
    }
    default:
      require(false, "is of no known kind");
  }
  left_ = header_.size;
  if (left_ == 0) end_frame();
}

void SocketLink::end_frame() {
  if (header_.kind == FrameHeader::Kind::Text) {
    arrived_.push_back(std::exchange(arriving_, {}));
    return;
  }
  into_->moved += header_.size;
  if (into_->moved < into_->size) return;
  into_->is_complete = true;
  posted_.erase(std::find(posted_.begin(), posted_.end(), into_));
}

void SocketLink::take(const char* bytes, std::size_t size,
                      std::vector<std::uint32_t>& cancelled) {
  while (size > 0) {
    const bool is_header = left_ == 0;
    const std::size_t n =
        std::min(size, is_header ? sizeof(header_) - header_bytes_ : left_);
    char* to =
        is_header ? reinterpret_cast<char*>(&header_) + header_bytes_ : to_;
    std::memcpy(to, bytes, n);
    bytes += n;
    size -= n;
    if (!is_header) {
      to_ += n;
      left_ -= n;
      if (left_ == 0) end_frame();
    } else if ((header_bytes_ += n) == sizeof(header_)) {
      header_bytes_ = 0;
      begin_frame(cancelled);
    }
  }
}

// What is large goes where it is wanted without a copy.
void SocketLink::read(std::vector<std::uint32_t>& cancelled) {
  for (std::size_t all = 0; socket_.is_open() && all < kMaxMoved;) {
    const bool is_direct = left_ >= buffer_.size();
    const std::size_t wanted = is_direct ? left_ : buffer_.size();
    const ssize_t n = ::recv(socket_.fd(), is_direct ? to_ : buffer_.data(),
                             wanted, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && !is_for_later())) return close();
    if (n < 0) return;
    const auto size = static_cast<std::size_t>(n);
    all += size;
    if (!is_direct) {
      take(buffer_.data(), size, cancelled);
    } else {
      to_ += size;
      left_ -= size;
      if (left_ == 0) end_frame();
    }
    if (size < wanted) return;
  }
}

void SocketLink::add_piece(SocketRequest& request) {
  const std::size_t size =
      std::min(kPieceOfFrame, request.size - request.moved);
  wire_.push_back({{FrameHeader::Kind::Piece, request.key, size},
                   request.bytes + request.moved,
                   size,
                   nullptr});
  request.moved += size;
  if (request.moved == request.size) wire_.back().ends = &request;
}

void SocketLink::fill_wire() {
  if (first_ < wire_.size()) return;
  wire_.clear();
  first_ = offset_ = 0;
  while (!words_.empty() && wire_.size() < kMaxFrames)
    wire_.push_back({words_.pop_front(), nullptr, 0, nullptr});
  while (!texts_.empty() && wire_.size() < kMaxFrames) {
    SocketRequest& text = *texts_.pop_front();
    wire_.push_back({{FrameHeader::Kind::Text, text.key, text.size},
                     text.bytes,
                     text.size,
                     &text});
  }
  std::size_t pieces = 0, bytes = 0;
  while (pieces < granted_.size() && wire_.size() < kMaxFrames &&
         bytes < kPieceOfFrame) {
    add_piece(*granted_[pieces]);
    bytes += wire_.back().size;
    if (wire_.back().ends) ++pieces;
  }
  granted_.erase(granted_.begin(),
                 granted_.begin() + static_cast<std::ptrdiff_t>(pieces));
}

void SocketLink::has_left(std::size_t bytes) {
  offset_ += bytes;
  while (first_ < wire_.size()) {
    Frame& frame = wire_[first_];
    const std::size_t whole = sizeof(frame.header) + frame.size;
    if (offset_ < whole) return;
    offset_ -= whole;
    ++first_;
    if (frame.ends) frame.ends->is_complete = true;
  }
}

void SocketLink::write() {
  for (std::size_t all_moved = 0; socket_.is_open();) {
    fill_wire();
    if (first_ == wire_.size() || all_moved >= kMaxMoved) return;
    std::array<iovec, 2 * kMaxFrames> parts;
    std::size_t count = 0, skipped = offset_, all = 0;
    const auto add = [&](const void* bytes, std::size_t size) {
      const std::size_t skip = std::min(skipped, size);
      skipped -= skip;
      if (size == skip) return;
      char* from = const_cast<char*>(static_cast<const char*>(bytes));
      parts[count++] = {from + skip, size - skip};
      all += size - skip;
    };
    for (std::size_t f = first_; f < wire_.size(); ++f) {
      add(&wire_[f].header, sizeof(FrameHeader));
      add(wire_[f].bytes, wire_[f].size);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n =
        ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && !is_for_later()) return close();
    if (n < 0) return;
    has_left(static_cast<std::size_t>(n));
    all_moved += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < all) return;
  }
  while (!texts_.empty()) texts_.pop_front()->is_complete = true;
}

// Nobody will read texts any more: as if they had left.
void SocketLink::close() {
  socket_.close();
  for (; first_ < wire_.size(); ++first_)
    if (wire_[first_].header.kind == FrameHeader::Kind::Text)
      wire_[first_].ends->is_complete = true;
  while (!texts_.empty()) texts_.pop_front()->is_complete = true;
}

void SocketLink::shut_down() {
  write();
  if (socket_.is_open()) ::shutdown(socket_.fd(), SHUT_WR);
}

void SocketLink::drain(Seconds within) {
  while (socket_.is_open()) {
    wait_for_any({&socket_}, within);
    const ssize_t n =
        ::recv(socket_.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (n <= 0) close();
  }
}

}  // namespace pipewright
