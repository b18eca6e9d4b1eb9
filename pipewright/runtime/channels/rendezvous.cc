// The store, and one connection per pair of ranks; see rendezvous.h.

#include "pipewright/runtime/channels/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "pipewright/runtime/ranks/listener_address.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kOneAddress{10};  // some lead nowhere

Error unreachable(std::string message) {
  return {ErrorCode::InUse,
          std::move(message),
          "",
          "can the hosts reach each other's ports?",
          {}};
}

// Says who calls, and who answers: addresses of private networks may lead to
// another host than the one that is meant.
struct Greeting {
  std::uint64_t token = 0;
  std::int64_t rank = 0;
  bool operator==(const Greeting&) const = default;
};

// Rank 0 has the store, unless torchrun has one. It must stay until all have
// read it: until they are connected.
c10::intrusive_ptr<c10d::Store> opened_store(const MeetingPlace& place,
                                             Seconds limit) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.isServer = place.rank == 0 && !place.has_store;
  options.waitWorkers = false;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(limit.value() * 1e3));
  return c10::make_intrusive<c10d::TCPStore>(place.address, options);
}

std::string key_of(const MeetingPlace& place, int rank) {
  return "pipewright/" + place.start + "/" + std::to_string(rank);
}

std::vector<ListenerAddress> exchanged(c10d::Store& store,
                                       const MeetingPlace& place,
                                       const ListenerAddress& own) {
  store.set(key_of(place, place.rank), packed(own));
  std::vector<ListenerAddress> all;
  for (int rank = 0; rank < place.size; ++rank) {
    const std::vector<std::uint8_t> bytes = store.get(key_of(place, rank));
    all.push_back(unpacked_listener({bytes.begin(), bytes.end()}));
  }
  return all;
}

class Meeting {
 public:
  Meeting(const MeetingPlace& place, const std::vector<ListenerAddress>& all,
          Seconds limit)
      : place_(place), all_(all), limit_(limit), begin_(Clock::now()) {
    found_.sockets.resize(all.size());
    found_.on_host.count = 0;
    for (int rank = 0; rank < place.size; ++rank)
      if (at(rank).host == at(place.rank).host) {
        if (rank == place.rank) found_.on_host.mine = found_.on_host.count;
        ++found_.on_host.count;
      }
  }

  // A rank calls those before it, and is called by those after it.
  Result<RankConnections> connect(const Socket& listener) {
    for (int rank = 0; rank < place_.rank; ++rank) {
      Socket socket = called(rank);
      if (!socket.is_open())
        return unreachable("rank " + std::to_string(place_.rank) +
                           " cannot reach rank " + std::to_string(rank) +
                           " on " + at(rank).host + " port " +
                           std::to_string(at(rank).port));
      found_.sockets[static_cast<std::size_t>(rank)] = std::move(socket);
    }
    for (int left = place_.size - 1 - place_.rank; left > 0;) {
      if (over()) return unreachable("not all ranks have connected");
      Socket socket = accepted(listener, Seconds(0.5));
      if (socket.is_open() && answer(std::move(socket))) --left;
    }
    return std::move(found_);
  }

 private:
  const ListenerAddress& at(int rank) const {
    return all_[static_cast<std::size_t>(rank)];
  }
  Seconds left() const {
    return limit_ -
           Seconds(
               std::chrono::duration<double>(Clock::now() - begin_).count());
  }
  bool over() const { return left() < Seconds(0); }
  Greeting greeting_of(int rank) const { return {at(rank).token, rank}; }

  Socket called(int rank) const {
    const Greeting own = greeting_of(place_.rank);
    for (const std::string& address : at(rank).addresses) {
      Greeting other;
      Socket socket =
          connected({address}, at(rank).port, std::min(left(), kOneAddress));
      if (socket.is_open() && send_whole(socket, &own, sizeof(own), left()) &&
          receive_whole(socket, &other, sizeof(other), left()) &&
          other == greeting_of(rank))
        return socket;
    }
    return {};
  }

  bool answer(Socket socket) {
    Greeting other;
    if (!receive_whole(socket, &other, sizeof(other), Seconds(2))) return false;
    if (other.rank <= place_.rank || other.rank >= place_.size) return false;
    const int rank = static_cast<int>(other.rank);
    Socket& place = found_.sockets[static_cast<std::size_t>(rank)];
    const Greeting own = greeting_of(place_.rank);
    if (place.is_open() || other != greeting_of(rank) ||
        !send_whole(socket, &own, sizeof(own), Seconds(2)))
      return false;
    place = std::move(socket);
    return true;
  }

  const MeetingPlace& place_;
  const std::vector<ListenerAddress>& all_;
  const Seconds limit_;
  const Clock::time_point begin_;
  RankConnections found_;
};

}  // namespace

Result<RankConnections> meet(const MeetingPlace& place, Seconds limit) {
  PIPEWRIGHT_TRY(const Listener listener, listening_socket());
  try {
    const auto store = opened_store(place, limit);
    const auto all = exchanged(*store, place, own_listener(listener));
    Result<RankConnections> met =
        Meeting(place, all, limit).connect(listener.socket);
    // torchrun's store outlives this start, and the next may have its name.
    // All have read it: they are connected.
    if (met && place.has_store) store->deleteKey(key_of(place, place.rank));
    return met;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return unreachable("ranks do not meet at " + place.address + ":" +
                       std::to_string(place.port) + ": " +
                       text.substr(0, text.find('\n')));
  }
}

}  // namespace pipewright
