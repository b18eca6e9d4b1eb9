// Messages from one worker to one or several others that all have one layout:
// those of a transfer, or a worker's contributions to a reduction. For
// channels/ alone.
//
// The layout is sent ahead as text, once per run; from then on receives are
// posted into buffers of that layout before anything arrives. Senders and
// receivers keep the lists that messages need, so that after the first messages
// no memory is allocated.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/message_layout.h"

namespace pipewright {

// Which gradient a tensor is.
struct ParameterUse {
  ParameterId parameter;
  LayerId layer;
  bool operator==(const ParameterUse&) const = default;
};
using ParameterUses = std::vector<ParameterUse>;

// Where a sender's messages go, or a receiver's come from. A tag is made of the
// index of the transfer or reduction and of a message's key, so that
// receives match their messages in whatever order keys are taken.
struct MessageAddress {
  MessageSpace* space = nullptr;
  int rank = 0;
  std::int32_t index = 0;
  int num_tags = 1;  // per index; keys under way at once are closer together
  int expected = 1;  // messages under way at once

  MessageEngine::Envelope envelope(std::int32_t key) const;
};
// `index` is that of a transfer, or of a reduction, of the program. Messages of
// both do not mix: they use different spaces.
MessageAddress message_address(const MessageEngine& engine,
                               const Program& program, MessageSpace& space,
                               int rank, std::int32_t index);

class MessageSender {
 public:
  // The engine must outlive it; `name` ("activations of transfer 3") is for
  // error messages.
  MessageSender(MessageEngine& engine, std::vector<MessageAddress> to,
                Priority priority, std::string name);

  // Without the engine's mutex: makes ready what send() then sends.
  void prepare(const Values& values);
  // With the mutex. Throws if the layout differs from the first message's.
  void send(std::int32_t key, const ParameterUses& uses,
            const std::shared_ptr<int>& unreceived = nullptr);

 private:
  MessageEngine& engine_;
  const std::vector<MessageAddress> to_;
  const Priority priority_;
  const std::string name_;
  std::optional<MessageLayout> layout_;
  ParameterUses uses_;
  Values sent_;                 // only while it is sent
  CopiesEvent copied_;          // of it
  std::uint64_t checksum_ = 0;  // of it
};

// All calls with the engine's mutex held.
class MessageReceiver {
 public:
  using Receive = MessageEngine::Receive;

  MessageReceiver(MessageEngine& engine, const MessageAddress& from,
                  Priority priority, std::string name);
  MessageReceiver(const MessageReceiver&) = delete;
  MessageReceiver& operator=(const MessageReceiver&) = delete;

  // The receive of the message with that key; posts it if nobody has.
  Receive& post(std::int32_t key);
  // The message has arrived; without the mutex, before its tensors are taken.
  // Throws CorruptedMessage if its checksum is another.
  void check(std::int32_t key, Receive& arrived) const;
  // The message has arrived and its tensors were taken.
  void end(std::int32_t key);
  const ParameterUses& uses() const { return uses_; }  // once one has arrived

 private:
  // Shared, for requests of a cancelled run outlive the receiver.
  struct Slot {
    bool is_used = false;
    std::int32_t key = 0;
    std::shared_ptr<Receive> receive;
  };
  Slot& free_slot();
  void set_layout(const std::string& text);

  MessageEngine& engine_;
  const MessageAddress from_;
  const Priority priority_;
  const std::string name_;
  bool is_layout_expected_ = false;
  std::optional<MessageLayout> layout_;
  ParameterUses uses_;
  std::vector<Slot> slots_;
};

}  // namespace pipewright
