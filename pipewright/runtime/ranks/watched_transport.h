// A transport that records where its workers are and injects faults. Everything
// else is the inner transport's.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/injection.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

using CorruptionHook = std::function<void(const CorruptedMessage&)>;

// `progress` must outlive the transport. `on_corrupted` is called where
// gather() or broadcast() gets other bits than were sent, before that is
// thrown.
std::unique_ptr<Transport> watched_transport(std::unique_ptr<Transport> inner,
                                             Progress& progress,
                                             std::optional<Injection> injection,
                                             CorruptionHook on_corrupted = {},
                                             StallHooks stalls = {});

}  // namespace pipewright
