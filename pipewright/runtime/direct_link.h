// Ways from the memory of one device into that of another, in two processes,
// that leave out the host's memory: between GPUs of one host by memory that
// both can read, and between hosts by NCCL.
//
// Channels between ranks use them where both ends have one of a kind
// (channels/rank_links.h); which kinds there are is for the devices to say.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

// One direction between two devices. The calls of an end come from one thread,
// and none of them waits for the device.
class DirectLink {
 public:
  virtual ~DirectLink() = default;

  // The sending end. The device reads the tensors, which are its own and
  // without gaps, after all that the calling thread has given to it. They stay
  // until num_received() counts this call, unless the link copies().
  virtual void send(const Tensors& tensors) = 0;
  // Whether the device copies them before it does what it is given next.
  virtual bool copies() const { return false; }
  // How many calls of send() have been received.
  virtual std::int64_t num_received() = 0;
  // What the calling thread gives to the device from now on may write to what
  // was sent before. False: the other end has not come that far, ask again.
  virtual bool lets_write() = 0;

  // The receiving end: into tensors of the same sizes as those of the next call
  // of send(), which has been made. What the calling thread gives to the device
  // from now on may read them.
  virtual void receive(const Tensors& tensors) = 0;
};

// Makes links of one kind.
class LinkKind {
 public:
  virtual ~LinkKind() = default;
  virtual std::string name() const = 0;  // "NCCL"

  // What the other end must know about the device at a place, as text.
  virtual std::string end_at(at::Device place) = 0;
  // Why there can be no link between these ends; empty if there can. Both
  // processes ask and get the same answer.
  virtual std::string why_not(const std::string& sender,
                              const std::string& receiver) = 0;
  // The sending end makes an invitation. Both prepare(), and if neither has
  // failed they open it at the same time: then an end may wait for the other.
  // Fails by an exception, at both ends or soon after at one.
  virtual std::string invitation(at::Device place) = 0;
  virtual void prepare(at::Device, bool /*is_sender*/) {}
  virtual std::unique_ptr<DirectLink> open(at::Device place,
                                           const std::string& invitation,
                                           bool is_sender) = 0;
};
using LinkKinds = std::vector<std::shared_ptr<LinkKind>>;

// Those of devices of a type, the best first. A device names them before it is
// used.
LinkKinds link_kinds(c10::DeviceType type);
void use_link_kinds(c10::DeviceType type, LinkKinds kinds);

}  // namespace pipewright
