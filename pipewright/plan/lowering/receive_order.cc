#include "pipewright/plan/lowering/receive_order.h"

#include <algorithm>

#include "pipewright/base/check.h"

namespace pipewright {

void Channels::sent(const Transfer& transfer, const Action& send) {
  sends_[{transfer.from, transfer.to, transfer.kind}].push_back(send);
}

void Channels::used(TransferId transfer, MicrobatchId microbatch, int k) {
  if (uses_.size() <= transfer.index()) uses_.resize(transfer.index() + 1);
  std::vector<int>& uses = uses_[transfer.index()];
  if (uses.size() <= microbatch.index())
    uses.resize(microbatch.index() + 1, kUnused);
  int& use = uses[microbatch.index()];
  use = use == kUnused ? k : std::min(use, k);
}

void Channels::land_after(TransferId transfer, std::int32_t version, int k) {
  landings_[transfer][version] = k;
}

std::vector<Channels::Post> Channels::posts(std::size_t window) const {
  std::vector<Post> posts;
  std::size_t num_sends = 0;
  for (const auto& [key, sends] : sends_) num_sends += sends.size();
  posts.reserve(num_sends);
  for (const auto& [key, sends] : sends_) {
    const bool weights = key.kind == TransferKind::Weights;
    const std::size_t first = posts.size();
    std::vector<int> use;
    for (std::size_t n = 0; n < sends.size(); ++n) {
      const TransferId id = sends[n].transfer;
      Post post{key.to, -1, false, sends[n]};
      post.action.kind = ActionKind::Receive;
      if (weights) {
        post.position = landings_.at(id).at(sends[n].version);
      } else {
        use.push_back(uses_.at(id.index()).at(sends[n].microbatch.index()));
        PIPEWRIGHT_CHECK(use[n] != kUnused, "a message that nothing uses");
        if (n >= window) post.position = use[n - window];
        if (post.position >= use[n]) {
          post.position = use[n];
          post.before_use = true;
        }
      }
      posts.push_back(post);
    }
    // Never after a later message: one posted before its use at k stands
    // before one posted after k.
    const auto rank = [](const Post& p) {
      return 2 * p.position + (p.before_use ? 0 : 1);
    };
    for (std::size_t n = posts.size(); n-- > first + 1;) {
      if (rank(posts[n - 1]) <= rank(posts[n])) continue;
      posts[n - 1].position = posts[n].position;
      posts[n - 1].before_use = posts[n].before_use;
    }
  }
  return posts;
}

}  // namespace pipewright
