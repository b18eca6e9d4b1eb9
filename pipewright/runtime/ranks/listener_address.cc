#include "pipewright/runtime/ranks/listener_address.h"

#include <algorithm>
#include <random>

#include "pipewright/runtime/ranks/agreement.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {

ListenerAddress own_listener(const Listener& listener) {
  std::random_device random;
  return {host_name(), own_addresses(), listener.port,
          (std::uint64_t{random()} << 32) | random()};
}

std::string packed(const ListenerAddress& listener) {
  Packer packer;
  packer.text(listener.host);
  packer.number(listener.addresses.size());
  for (const std::string& address : listener.addresses) packer.text(address);
  packer.number(listener.port);
  packer.number(listener.token);
  return packer.take();
}

ListenerAddress unpacked_listener(const std::string& bytes) {
  Unpacker unpacker(bytes);
  ListenerAddress listener;
  listener.host = unpacker.text();
  listener.addresses.resize(unpacker.number<std::size_t>());
  for (std::string& address : listener.addresses) address = unpacker.text();
  listener.port = unpacker.number<int>();
  listener.token = unpacker.number<std::uint64_t>();
  // Loopback comes last, and on the same host is tried first. Containers may
  // share a host's name and not reach each other over loopback.
  if (listener.host == host_name())
    std::rotate(listener.addresses.begin(), listener.addresses.end() - 1,
                listener.addresses.end());
  else
    listener.addresses.pop_back();
  return listener;
}

}  // namespace pipewright
