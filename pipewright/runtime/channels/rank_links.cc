// How two ranks agree on a link; see rank_links.h.

#include "pipewright/runtime/channels/rank_links.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "pipewright/base/text.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

using RankPair = std::pair<int, int>;  // sender, receiver

// All that a program sends messages between, in an order that every rank opens
// them in, so that none waits for another in a circle. Neighbours of even rank
// come first: then most pairs of a long pipeline need not wait.
std::vector<RankPair> pairs_of(const Program& program) {
  std::set<RankPair> pairs;
  for (const Transfer& transfer : program.transfers)
    pairs.insert({transfer.from.value, transfer.to.value});
  for (const Participants& participants : participants_of(program))
    for (const WorkerId from : participants.contributors)
      for (const auto& [to, stage] : participants.readers)
        pairs.insert({from.value, to.value});
  std::vector<RankPair> ordered;
  for (const RankPair& pair : pairs)
    if (pair.first != pair.second) ordered.push_back(pair);
  const auto place_of = [](const RankPair& pair) {
    return std::tuple(std::min(pair.first, pair.second) % 2, pair);
  };
  std::sort(ordered.begin(), ordered.end(),
            [&](const RankPair& a, const RankPair& b) {
              return place_of(a) < place_of(b);
            });
  return ordered;
}

// What a rank says about its device: each kind of link that it has, and its end
// of it.
using LinkEnds = std::map<std::string, std::string>;

std::string packed(const LinkEnds& ends) {
  Packer packer;
  packer.number(ends.size());
  for (const auto& [kind, end] : ends) {
    packer.text(kind);
    packer.text(end);
  }
  return packer.take();
}

LinkEnds unpacked_ends(const std::string& text) {
  Unpacker unpacker(text);
  LinkEnds ends;
  for (auto left = unpacker.number<std::size_t>(); left > 0; --left) {
    std::string kind = unpacker.text();
    ends[std::move(kind)] = unpacker.text();
  }
  return ends;
}

}  // namespace

bool LinkChoice::allows(const LinkKind& other) const {
  return kind == kBest || kind == lower_case(other.name());
}

void RankLinks::open(const Program& program, at::Device place) {
  is_on_device_ = !place.is_cpu();
  if (choice_.kind == LinkChoice::kNone) return;
  for (const RankPair& pair : pairs_of(program)) {
    const bool is_sender = pair.first == rank_;
    if (!is_sender && pair.second != rank_) continue;
    if (!asked_for_.insert(pair).second) continue;
    const int other = is_sender ? pair.second : pair.first;
    Opened link = opened(other, is_sender, place);
    if (link.link)
      kinds_.insert(link.kind);
    else if (why_not_.empty())
      why_not_ = link.why_not;
    if (link.link) (is_sender ? to_ : from_)[other] = std::move(link.link);
  }
}

// The same at both ranks, the best first; `why_not` says why one is missing.
LinkKinds RankLinks::common_kinds(int other, bool is_sender, at::Device place,
                                  std::string& why_not) const {
  const LinkKinds kinds = link_kinds(place.type());
  LinkEnds own;
  for (const auto& kind : kinds)
    if (choice_.allows(*kind)) own[kind->name()] = kind->end_at(place);
  texts_.send(packed(own), other);
  const LinkEnds others = unpacked_ends(texts_.received(other));
  why_not = "the devices of both ranks have none of one kind";
  LinkKinds common;
  for (const auto& kind : kinds) {
    const std::string name = kind->name();
    if (own.count(name) == 0 || others.count(name) == 0) continue;
    const std::string reason =
        is_sender ? kind->why_not(own.at(name), others.at(name))
                  : kind->why_not(others.at(name), own.at(name));
    if (reason.empty())
      common.push_back(kind);
    else
      why_not = reason;
  }
  return common;
}

// Empty if it fails: the other rank waits for it.
std::string RankLinks::invited(LinkKind& kind, at::Device place, int other) {
  std::string invitation;
  try {
    invitation = kind.invitation(place);
  } catch (const std::exception&) {
  }
  texts_.send(invitation, other);
  return invitation;
}

RankLinks::Opened RankLinks::opened(int other, bool is_sender,
                                    at::Device place) {
  Opened result;
  for (const auto& kind :
       common_kinds(other, is_sender, place, result.why_not)) {
    result = opened_as(*kind, other, is_sender, place);
    if (result.link) break;
  }
  return result;
}

// Reports it to the other rank, whose reason counts where there is none here.
void RankLinks::exchange(std::string& why_not, int other) {
  texts_.send(why_not, other);
  const std::string others_reason = texts_.received(other);
  if (why_not.empty()) why_not = others_reason;
}

// No rank waits for one that is not ready. A link that only one rank could open
// is not used.
RankLinks::Opened RankLinks::opened_as(LinkKind& kind, int other,
                                       bool is_sender, at::Device place) {
  Opened result;
  result.kind = kind.name();
  const std::string invitation =
      is_sender ? invited(kind, place, other) : texts_.received(other);
  if (invitation.empty()) {  // both know
    result.why_not = kind.name() + " cannot be set up";
    return result;
  }
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const std::exception& error) {
      result.why_not = first_line(error);
    }
    exchange(result.why_not, other);
    return result.why_not.empty();
  };
  if (attempt([&] { kind.prepare(place, is_sender); }) &&
      !attempt([&] { result.link = kind.open(place, invitation, is_sender); }))
    result.link.reset();
  return result;
}

void RankLinks::drop() {
  to_.clear();
  from_.clear();
  asked_for_.clear();
  kinds_.clear();
  why_not_.clear();
}

std::string RankLinks::to_text(const std::string& network) const {
  if (!is_on_device_) return network;
  std::string text;
  for (const std::string& kind : kinds_) text += kind + ", ";
  if (!asked_for_.empty() && why_not_.empty())
    return text.substr(0, text.size() - 2);
  return text + "pinned host memory over " + network +
         (why_not_.empty() ? "" : " (" + why_not_ + ")");
}

}  // namespace pipewright
