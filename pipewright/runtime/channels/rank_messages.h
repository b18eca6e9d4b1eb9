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
#include "pipewright/runtime/channels/link_messages.h"
#include "pipewright/runtime/channels/message_address.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/message_layout.h"

namespace pipewright {

class MessageSender {
 public:
  // The engine and the links must outlive it; `name` ("activations of transfer
  // 3") is for error messages.
  MessageSender(MessageEngine& engine, LinkMessages& links,
                std::vector<MessageAddress> to, Priority priority,
                std::string name);

  // Without the engine's mutex: makes ready what send() then sends.
  void prepare(const Values& values);
  // With the mutex. Throws if the layout differs from the first message's.
  void send(std::int32_t key, const ParameterUses& uses,
            const std::shared_ptr<int>& unreceived = nullptr);

 private:
  bool goes_over_links() const;
  void send_form(const MessageAddress& to);

  MessageEngine& engine_;
  LinkMessages& links_;
  const std::vector<MessageAddress> to_;
  const Priority priority_;
  const std::string name_;
  std::optional<MessageForm> form_;
  Values sent_;                 // only while it is sent
  Values on_device_;            // the same, for links
  CopiesEvent copied_;          // of it
  std::uint64_t checksum_ = 0;  // of it
};

// All calls with the engine's mutex held.
class MessageReceiver {
 public:
  using Receive = MessageEngine::Receive;

  MessageReceiver(MessageEngine& engine, LinkMessages& links,
                  const MessageAddress& from, Priority priority,
                  std::string name);
  MessageReceiver(const MessageReceiver&) = delete;
  MessageReceiver& operator=(const MessageReceiver&) = delete;

  // The receive of the message with that key; posts it if nobody has.
  Receive& post(std::int32_t key);
  // Whether the message of this receive has arrived.
  bool has_arrived(std::int32_t key, Receive& posted);
  // The message has arrived; without the mutex, before its tensors are taken.
  // Throws CorruptedMessage if its checksum is another.
  void open(std::int32_t key, Receive& arrived);
  // The message has arrived and its tensors were taken.
  void end(std::int32_t key);
  const ParameterUses& uses() const { return form_->uses; }  // once one is open

 private:
  // Shared, for requests of a cancelled run outlive the receiver.
  struct Slot {
    bool is_used = false;
    std::int32_t key = 0;
    std::shared_ptr<Receive> receive;
  };
  Slot& free_slot();
  void set_form(const std::string& text);
  bool comes_over_link() const { return links_.come_from(from_.rank); }
  void check(std::int32_t key, Receive& arrived) const;

  MessageEngine& engine_;
  LinkMessages& links_;
  const MessageAddress from_;
  const Priority priority_;
  const std::string name_;
  bool is_form_expected_ = false;
  std::optional<MessageForm> form_;
  std::vector<Slot> slots_;
};

}  // namespace pipewright
