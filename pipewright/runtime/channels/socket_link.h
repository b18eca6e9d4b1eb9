// The connection to one other rank, and the messages that wait for it. For
// channels/socket_*.cc alone; nothing here is safe for several threads.
//
// The receiver leads: for each receive that it posts it sends a word that it is
// ready, and only then does the sender send. So bytes go straight to where they
// are wanted, and a message that has left has a receive. Words and texts, which
// are small, overtake messages: those are sent in pieces.
//
// A connection that breaks is no error here: what waits for it never ends, and
// the heartbeat says which rank is lost.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/runtime/channels/ring.h"
#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {

// Which messages match: those of one space with one tag.
struct MessageKey {
  std::uint32_t space = 0;
  std::int32_t tag = 0;
  bool operator==(const MessageKey&) const = default;
};

// A message that is sent or received, or a text that is sent.
struct SocketRequest {
  MessageKey key;
  char* bytes = nullptr;
  std::size_t size = 0;
  std::size_t moved = 0;
  bool is_complete = false;
};

// All ranks run the same build, so it is sent as it is.
struct FrameHeader {
  enum class Kind : std::uint32_t {
    Ready,  // a receive of that size is posted
    Piece,  // of a message
    Text,   // whole
    Cancel  // see Cancellation
  };
  Kind kind = Kind::Ready;
  MessageKey key;
  std::uint64_t size = 0;  // of what follows, or of the receive
};

class SocketLink {
 public:
  SocketLink(Socket socket, int rank);

  int fd() const { return socket_.fd(); }
  void reserve(std::size_t count);  // requests at once

  // A request must outlive the link, or be complete.
  void send(SocketRequest& request);
  void receive(SocketRequest& request);
  void send_text(SocketRequest& request);
  void cancel(std::uint32_t space);

  // Move what the connection gives or takes now. Cancelled spaces are added to
  // the list. Throw std::runtime_error if ranks do not agree about a message.
  void read(std::vector<std::uint32_t>& cancelled);
  void write();
  bool next_text(const MessageKey& key, std::string& text);

  // This rank sends no more; waits for the end of what the other one sends.
  void shut_down();
  void drain(Seconds within);

 private:
  struct Text {
    MessageKey key;
    std::string bytes;
  };
  // What is being written: a header, and what follows it.
  struct Frame {
    FrameHeader header;
    const char* bytes = nullptr;
    std::size_t size = 0;
    SocketRequest* ends = nullptr;  // complete when this has left
  };

  void begin_frame(std::vector<std::uint32_t>& cancelled);
  void end_frame();
  void grant(const FrameHeader& ready);
  void require(bool holds, const char* otherwise) const;
  void check_size(const SocketRequest& sent, std::uint64_t receive) const;
  void take(const char* bytes, std::size_t size,
            std::vector<std::uint32_t>& cancelled);
  void fill_wire();
  void add_piece(SocketRequest& request);
  void has_left(std::size_t bytes);
  void close();

  Socket socket_;
  const int rank_;  // at the other end

  Ring<FrameHeader> words_;     // to be sent
  Ring<SocketRequest*> texts_;  // to be sent
  std::vector<SocketRequest*>
      granted_;  // to be sent, their receives are posted
  std::vector<SocketRequest*> waiting_;  // their receives are not
  std::vector<FrameHeader> grants_;      // receives whose messages are not sent
  std::vector<Frame> wire_;              // leaves before anything else
  std::size_t first_ = 0, offset_ = 0;   // of wire_: the next byte

  std::vector<SocketRequest*> posted_;  // receives
  std::vector<Text> arrived_;
  Text arriving_;
  std::vector<std::string> unused_;  // for their memory
  FrameHeader header_;               // of the frame that is being read
  std::size_t header_bytes_ = 0;     // of it, that have come
  SocketRequest* into_ = nullptr;    // a piece's request
  char* to_ = nullptr;
  std::size_t left_ = 0;
  std::array<char, 65536> buffer_;
};

}  // namespace pipewright
