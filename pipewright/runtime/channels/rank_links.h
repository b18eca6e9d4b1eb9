// The direct links between the device of this rank and those of others
// (direct_link.h), where there are any. For channels/ alone.
//
// Two ranks that a program connects tell each other what their devices can do,
// and open a link of the best kind that both have; of the next one if that
// fails. Without any their messages go through memory of the host.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/rank_texts.h"
#include "pipewright/runtime/direct_link.h"

namespace pipewright {

// Which links to open: the best, none, or those of one kind.
struct LinkChoice {
  static constexpr const char* kBest = "auto";
  static constexpr const char* kNone = "host";
  std::string kind = kBest;  // or "nccl": a name in small letters

  bool allows(const LinkKind& kind) const;
};

class RankLinks {
 public:
  // The texts must outlive it.
  RankLinks(RankTexts& texts, int rank, LinkChoice choice)
      : texts_(texts), rank_(rank), choice_(std::move(choice)) {}

  // Opens those of the program that were not asked for before. All ranks that
  // have a worker call it at the same time, each with the place of its own.
  void open(const Program& program, at::Device place);
  // Forgets all links, whatever is under way.
  void drop();

  DirectLink* to(int rank) const { return find(to_, rank); }
  DirectLink* from(int rank) const { return find(from_, rank); }
  // What messages of this rank go over: "NCCL", where `network` is what is left
  // for the others.
  std::string to_text(const std::string& network) const;

 private:
  using Links = std::map<int, std::unique_ptr<DirectLink>>;  // by other rank
  struct Opened {
    std::unique_ptr<DirectLink> link;
    std::string kind, why_not;  // one of them
  };
  static DirectLink* find(const Links& links, int rank) {
    const auto found = links.find(rank);
    return found == links.end() ? nullptr : found->second.get();
  }

  Opened opened(int other, bool is_sender, at::Device place);
  Opened opened_as(LinkKind& kind, int other, bool is_sender, at::Device place);
  void exchange(std::string& why_not, int other);
  std::string invited(LinkKind& kind, at::Device place, int other);
  LinkKinds common_kinds(int other, bool is_sender, at::Device place,
                         std::string& why_not) const;

  RankTexts& texts_;
  const int rank_;
  const LinkChoice choice_;
  bool is_on_device_ = false;
  std::set<std::pair<int, int>> asked_for_;
  std::set<std::string> kinds_;  // in use
  std::string why_not_;          // the first reason, where a link is missing
  Links to_, from_;
};

}  // namespace pipewright
