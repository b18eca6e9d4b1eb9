// A transport that records where its workers are and injects faults. Everything
// else is the inner transport's.

#pragma once

#include <memory>
#include <optional>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/injection.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

// `progress` must outlive the transport.
std::unique_ptr<Transport> watched_transport(
    std::unique_ptr<Transport> inner, Progress& progress,
    std::optional<Injection> injection);

}  // namespace pipewright
