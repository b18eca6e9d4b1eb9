// The kinds of devices and links that Pipewright knows by name. They are data
// (presets_text.cc), read once; a cluster file can define others.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/json_cursor.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct KindPreset {
  DeviceKind kind;
  bool is_this_machine = false;  // its numbers come from this_machine.h
  std::string default_link;      // between two of them on one host
  std::map<std::string, std::string> link_aliases;  // "nvlink" -> "nvlink2"
};

struct LinkPreset {
  std::string name;
  Link link;
  std::string source;
};

const std::vector<KindPreset>& kind_presets();
const std::vector<LinkPreset>& link_presets();

// Ignores case. Also cuda, cuda/N and cuda-stream, this machine's GPUs
// (this_machine_gpu.h). Fails with BadConfiguration and offers the nearest
// name. `num_devices` matters only for cpu: its devices share the machine's
// memory.
Result<KindPreset> find_kind(std::string_view name, int num_devices = 1);

// A kind in a file: in the presets or in a cluster file.
DeviceKind read_kind(JsonCursor at);
Json to_json(const DeviceKind& kind);
Duplex read_duplex(const JsonCursor& at);  // default: Full
const char* to_text(Duplex duplex);
// A number of bytes, bytes per second or seconds, or text as in units_text.h.
BytesPerSecond read_bandwidth(const JsonCursor& at);
MessageRates read_message_rates(const JsonCursor& at);  // [[bytes, rate], ...]
Json to_json(const MessageRates& rates);
Seconds read_latency(const JsonCursor& at);
Bytes read_memory(const JsonCursor& at);

// The text of the presets: one JSON object, "kinds" and "links".
extern const char* const kPresetsText;

}  // namespace pipewright
