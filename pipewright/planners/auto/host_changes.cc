#include "pipewright/planners/auto/host_changes.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// How many changes in a hundred are of the group of hosts that ends the step.
constexpr std::size_t kAtTheEnd = 70;
constexpr std::size_t kMaxCutMove = 3;
constexpr std::size_t kMaxUrgency = 50;  // percent of the longest path

// Kinds of changes: of what a group holds, and all of them.
constexpr std::size_t kOfGroups = 9, kOfAll = 15;

}  // namespace

std::optional<HostShape> HostChanges::next(const HostShape& shape,
                                           int last_group) {
  return changed(shape, last_group, kOfGroups);
}

std::optional<HostShape> HostChanges::next_of_all(const HostShape& shape,
                                                  int last_group) {
  return changed(shape, last_group, kOfAll);
}

// By one of the first `kinds` kinds of changes.
std::optional<HostShape> HostChanges::changed(const HostShape& shape,
                                              int last_group,
                                              std::size_t kinds) {
  shape_ = shape;
  const bool at_the_end = number(100) < kAtTheEnd;
  subject_ = at_the_end ? at(last_group) : number(shape.hosts.size());
  const bool is_possible = change(number(kinds));
  if (!is_possible || shape_.stages.size() > max_stages_) return {};
  drop_empty_groups(last_group);
  return shape_;
}

HostShape HostChanges::next_order(const HostShape& shape) {
  shape_ = shape;
  change_urgency();
  return shape_;
}

bool HostChanges::change(std::size_t which) {
  switch (which) {
    case 0:
      return move_hosts();
    case 1:
    case 2:
      return move_cut();
    case 3:
    case 4:
      return divide();
    case 5:
      return join();
    case 6:
      shape_.microbatch = microbatches_[number(microbatches_.size())];
      return true;
    case 7:
    case 8:
      return move_stage();
    case 9:
    case 10:
      return swap_groups();
    case 11:
    case 12:
    case 13:
      return move_any_cut();
    default:
      change_urgency();
      return true;
  }
}

std::size_t HostChanges::stage_of_subject() {
  std::vector<std::size_t> own;
  for (std::size_t s = 0; s < shape_.stages.size(); ++s)
    if (at(shape_.stages[s].group) == subject_) own.push_back(s);
  return own[number(own.size())];
}

bool HostChanges::move_hosts() {
  const std::size_t from = number(shape_.hosts.size());
  const int count = 1 + static_cast<int>(number(3));
  if (from == subject_ || shape_.hosts[from] <= count) return false;
  shape_.hosts[from] -= count;
  shape_.hosts[subject_] += count;
  return true;
}

bool HostChanges::move_cut() {
  std::size_t stage = stage_of_subject();
  stage += number(2);
  if (stage == 0 || stage == shape_.stages.size()) return false;
  const int by = 1 + static_cast<int>(number(2));
  int& end = shape_.stages[stage - 1].end;
  end += number(2) == 0 ? by : -by;
  return end > shape_.first(stage - 1) && end < shape_.stages[stage].end;
}

// Either part stays, or goes to another group, or to new hosts.
bool HostChanges::divide() {
  const std::size_t stage = stage_of_subject();
  const int first = shape_.first(stage);
  const int cuts = shape_.stages[stage].end - first - 1;
  if (cuts < 1) return false;
  const int cut = first + 1 + static_cast<int>(number(at(cuts)));
  const HostStage whole = shape_.stages[stage];
  shape_.stages.insert(shape_.stages.begin() + std::ptrdiff_t(stage), whole);
  shape_.stages[stage].end = cut;
  HostStage& part = shape_.stages[stage + number(2)];
  if (number(2) == 0) {
    part.group = static_cast<int>(number(shape_.hosts.size()));
    return true;
  }
  const int hosts = shape_.hosts[subject_];
  if (hosts < 2) return false;
  const int given = 1 + static_cast<int>(number(at(hosts - 1)));
  part.group = static_cast<int>(shape_.hosts.size());
  shape_.hosts[subject_] -= given;
  shape_.hosts.push_back(given);
  return true;
}

bool HostChanges::join() {
  const std::size_t stage = number(shape_.stages.size());
  if (stage + 1 == shape_.stages.size()) return false;
  if (number(2) == 0)
    shape_.stages[stage + 1].group = shape_.stages[stage].group;
  shape_.stages.erase(shape_.stages.begin() + std::ptrdiff_t(stage));
  return true;
}

bool HostChanges::move_stage() {
  const std::size_t stage = stage_of_subject();
  const std::size_t to = number(shape_.hosts.size());
  if (to == subject_) return false;
  shape_.stages[stage].group = static_cast<int>(to);
  return true;
}

// Of any group, as the next two: what makes the last one end late often happens
// elsewhere.
bool HostChanges::swap_groups() {
  HostStage& a = shape_.stages[number(shape_.stages.size())];
  HostStage& b = shape_.stages[number(shape_.stages.size())];
  std::swap(a.group, b.group);
  return a.group != b.group;
}

bool HostChanges::move_any_cut() {
  const std::size_t stage = number(shape_.stages.size());
  if (stage + 1 == shape_.stages.size()) return false;
  int& end = shape_.stages[stage].end;
  end += static_cast<int>(number(2 * kMaxCutMove + 1)) - int{kMaxCutMove};
  return end > shape_.first(stage) && end < shape_.stages[stage + 1].end;
}

void HostChanges::change_urgency() {
  HostStage& stage = shape_.stages[number(shape_.stages.size())];
  const int percent = static_cast<int>(number(2 * kMaxUrgency + 1));
  stage.urgency[number(3)] = (percent - int{kMaxUrgency}) / 100.0;
}

// Their hosts go to the group that ended the step, or to the one that took
// its place.
void HostChanges::drop_empty_groups(int last_group) {
  for (int g = static_cast<int>(shape_.hosts.size()); g-- > 0;) {
    const auto holds = [g](const HostStage& s) { return s.group == g; };
    if (std::any_of(shape_.stages.begin(), shape_.stages.end(), holds))
      continue;
    const int hosts = shape_.hosts[at(g)];
    shape_.hosts.erase(shape_.hosts.begin() + g);
    for (HostStage& stage : shape_.stages)
      if (stage.group > g) --stage.group;
    const int heir = std::min(last_group, int(shape_.hosts.size()) - 1);
    shape_.hosts[at(heir)] += hosts;
  }
}

}  // namespace pipewright
