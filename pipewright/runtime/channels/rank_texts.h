// What ranks tell each other between runs. For channels/ alone.

#pragma once

#include <memory>
#include <string>

#include "pipewright/runtime/channels/rank_network.h"

namespace pipewright {

// A sender does not wait for the receiver, unless a text is large: then it
// follows its header in pieces. Texts of a rank arrive in the order in which
// they were sent.
class RankTexts {
 public:
  // Every rank constructs one at the same time.
  explicit RankTexts(RankNetwork& network);

  void send(const std::string& bytes, int to);
  // Blocks. Throws CorruptedMessage if it has other bits than were sent.
  std::string received(int from);
  void barrier() { space_->barrier(); }
  // Messages may still be under way.
  void abandon();

 private:
  std::unique_ptr<MessageSpace> space_;
  std::unique_ptr<RequestList> requests_;
};

}  // namespace pipewright
