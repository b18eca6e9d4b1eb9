// Messages from one worker to another, or to several, that all have one form:
// those of a transfer, or a worker's gradients of a reduction. For
// channels/mpi_*.cc alone.
//
// The form goes ahead as text, once a run; from then on receives are posted
// into buffers of that form before anything arrives. A stream keeps the lists
// that its messages take, so that after the first ones it asks for no memory.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/runtime/channels/message_layout.h"
#include "pipewright/runtime/channels/mpi_engine.h"

namespace pipewright {

// Of a parameter: which gradient a tensor is.
struct ParameterUse {
  ParameterId parameter;
  LayerId layer;
  bool operator==(const ParameterUse&) const = default;
};
using ParameterUses = std::vector<ParameterUse>;

// A tag is made of the stream's index among all and a message's key, so that
// receives find their messages whatever the order in which keys are taken.
struct StreamAddress {
  const MpiGroup* group = nullptr;
  int rank = 0;
  std::int32_t index = 0;
  int window = 1;    // keys that are under way at once lie closer together
  int expected = 1;  // messages, under way at once
  MpiEngine::Line line(std::int32_t key) const;
};

class OutgoingStream {
 public:
  // The engine outlives it; `name` is for who reads what went wrong.
  OutgoingStream(MpiEngine& engine, std::vector<StreamAddress> to,
                 Priority priority, std::string name);

  // Without the engine's mutex: makes ready what send() then sends.
  void prepare(const Values& values);
  // With it. Throws if the form is another than the first message's.
  void send(const Values& values, std::int32_t key, const ParameterUses& uses,
            const std::shared_ptr<int>& waiting = nullptr);

 private:
  MpiEngine& engine_;
  const std::vector<StreamAddress> to_;
  const Priority priority_;
  const std::string name_;
  std::optional<MessageLayout> layout_;
  ParameterUses uses_;
  Values sent_;  // only while it is sent
};

// All with the engine's mutex held.
class IncomingStream {
 public:
  using Receive = MpiEngine::Receive;

  IncomingStream(MpiEngine& engine, const StreamAddress& from,
                 Priority priority);
  IncomingStream(const IncomingStream&) = delete;
  IncomingStream& operator=(const IncomingStream&) = delete;

  // The message of that key: expected from now on, if it was not already.
  Receive& posted(std::int32_t key);
  // It has arrived and its tensors were taken.
  void end(std::int32_t key);
  const ParameterUses& uses() const { return uses_; }  // once one has arrived

 private:
  // Shared, for requests of a cancelled run outlive the stream.
  struct Place {
    bool is_used = false;
    std::int32_t key = 0;
    std::shared_ptr<Receive> receive;
  };
  Place& unused();
  void learn(const std::string& text);

  MpiEngine& engine_;
  const StreamAddress from_;
  const Priority priority_;
  bool is_expected_ = false;
  std::optional<MessageLayout> layout_;
  ParameterUses uses_;
  std::vector<Place> places_;
};

}  // namespace pipewright
