// The kinds of links that there are; see direct_link.h.

#include "pipewright/runtime/direct_link.h"

#include <map>
#include <mutex>

namespace pipewright {
namespace {

struct KindsByType {
  std::mutex mutex;
  std::map<c10::DeviceType, LinkKinds> kinds;
};

KindsByType& kinds_by_type() {
  static KindsByType kinds;
  return kinds;
}

}  // namespace

LinkKinds link_kinds(c10::DeviceType type) {
  KindsByType& all = kinds_by_type();
  const std::lock_guard lock(all.mutex);
  const auto found = all.kinds.find(type);
  return found == all.kinds.end() ? LinkKinds() : found->second;
}

void use_link_kinds(c10::DeviceType type, LinkKinds kinds) {
  KindsByType& all = kinds_by_type();
  const std::lock_guard lock(all.mutex);
  all.kinds[type] = std::move(kinds);
}

}  // namespace pipewright
