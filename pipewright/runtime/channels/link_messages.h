// A worker's messages over the direct links of its rank, for one run. For
// channels/ alone.
//
// A link carries tensors in the order in which they were sent, and nothing
// else. So a notice goes ahead of each message, as text over the network: which
// message it is, and with the first of a subject what form it has. A worker
// that takes a message first receives those that were sent before it.
//
// All calls come from the worker's thread.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/message_layout.h"
#include "pipewright/runtime/channels/rank_links.h"
#include "pipewright/runtime/channels/ring.h"

namespace pipewright {

class LinkMessages {
 public:
  // What a message is of: a transfer or a reduction, and the key there.
  struct Name {
    std::int32_t subject = 0, key = 0;
    bool operator==(const Name&) const = default;
  };

  // The arguments must outlive it.
  LinkMessages(MessageEngine& engine, const Program& program,
               const RankLinks& links)
      : engine_(engine), program_(program), links_(links) {}

  // Whether messages to or from that rank go over links.
  bool lead_to(int rank) const { return links_.to(rank) != nullptr; }
  bool come_from(int rank) const { return links_.from(rank) != nullptr; }

  // With the engine's mutex. The tensors are on the device, without gaps;
  // `form` is that of all messages of the subject. `unreceived` counts those
  // that have not been received.
  void send(int to, const Name& name, const Values& values,
            const MessageForm& form, const std::shared_ptr<int>& unreceived);
  // With the mutex: forgets what has been received.
  void make_progress();
  bool is_idle() const;
  // Whether the worker may give its device what writes to sent tensors. With
  // the mutex.
  bool let_write();

  // With the mutex: whether its notice has come.
  bool has_come(int from, const Name& name);
  // Its notice has come; without the mutex. The tensors are at that place.
  Values take(int from, const Name& name, at::Device place);
  const MessageForm& form(int from, std::int32_t subject) const;

 private:
  struct Sent {
    Values values;
    std::shared_ptr<int> unreceived;
  };
  struct Outgoing {
    DirectLink* link = nullptr;
    std::int64_t num_forgotten = 0;
    Ring<Sent> under_way;
    std::set<std::int32_t> known;  // subjects whose form was sent
  };
  struct Notice {
    Name name;
    bool is_received = false;
    Values values;  // once it is
  };
  struct Incoming {
    DirectLink* link = nullptr;
    std::vector<Notice> notices;  // in the order of sends; taken ones are gone
    std::map<std::int32_t, MessageForm> forms;  // by subject
  };

  MessageEngine::Envelope notices_of(int rank) const;
  Outgoing& outgoing(int rank);
  Incoming& incoming(int rank);
  void forget_received(Outgoing& to);

  MessageEngine& engine_;
  const Program& program_;
  const RankLinks& links_;
  std::map<int, Outgoing> outgoing_;  // by rank
  std::map<int, Incoming> incoming_;
  Tensors list_;  // of one message; kept for its memory
  std::string text_;
};

}  // namespace pipewright
