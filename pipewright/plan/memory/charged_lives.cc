#include "pipewright/plan/memory/charged_lives.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipewright {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

bool is_shared(const Transfer& transfer) {
  return transfer.kind != TransferKind::Gradient && !transfer.again;
}

bool frees(const ChargedLives& lives, std::size_t i, const Value& value) {
  const auto& frees = lives.sets[i].frees;
  return std::any_of(frees.begin(), frees.end(),
                     [&](const Free& free) { return free.value == value; });
}

// The first action that frees it.
std::size_t end_of(const ChargedLives& lives, const Value& value) {
  for (std::size_t i = 0; i < lives.sets.size(); ++i)
    if (frees(lives, i, value)) return i;
  return kNowhere;
}

ActionKind kind(const ChargedLives& lives, std::size_t i) {
  return lives.passage->actions[i].kind;
}

std::size_t find(const ChargedLives& lives, StageId stage, ActionKind kind) {
  const auto& actions = lives.passage->actions;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].stage == stage && actions[i].kind == kind) return i;
  return kNowhere;
}

void move_end(ChargedLives& lives, const Value& value, std::size_t from,
              std::size_t to) {
  std::erase_if(lives.sets[from].frees,
                [&](const Free& free) { return free.value == value; });
  lives.sets[to].frees.push_back({value, LayerId()});
}

class Charging {
 public:
  Charging(const Program& program, std::vector<ChargedLives>& workers)
      : program_(program) {
    for (ChargedLives& lives : workers) {
      of_[lives.passage->worker] = &lives;
      for (const Action& action : lives.passage->actions)
        if (action.kind == ActionKind::Send)
          if (is_shared(program.transfer(action.transfer)))
            transfers_.push_back(action.transfer);
    }
  }

  void run() {
    keep_what_several_read();
    for (TransferId id : transfers_)
      for (const Value& value : program_.transfer(id).values) share(id, value);
  }

 private:
  // Of what F made: R may make the value anew, and free that.
  std::size_t end_at_maker(const ChargedLives& maker,
                           const Value& value) const {
    const auto moved = moved_.find({maker.passage->worker, value});
    return moved == moved_.end() ? end_of(maker, value) : moved->second;
  }
  void move(ChargedLives& maker, const Value& value, std::size_t from,
            std::size_t to) {
    move_end(maker, value, from, to);
    moved_[{maker.passage->worker, value}] = to;
  }

  // What is handed to several workers is nobody's alone. It is gone about when
  // its maker's backward is.
  void keep_what_several_read() {
    std::map<std::pair<WorkerId, Value>, WorkerId> reader;
    for (TransferId id : transfers_) {
      const Transfer& transfer = program_.transfer(id);
      for (const Value& value : transfer.values) {
        const auto [first, is_first] =
            reader.try_emplace({transfer.from, value}, transfer.to);
        if (is_first || first->second == transfer.to) continue;
        ChargedLives& maker = *of_.at(transfer.from);
        const std::size_t end = end_at_maker(maker, value);
        std::size_t backward =
            find(maker, transfer.made_by, ActionKind::Backward);
        if (backward == kNowhere)
          backward = find(maker, transfer.made_by, ActionKind::BackwardInput);
        if (kind(maker, end) == ActionKind::Send && backward != kNowhere)
          move(maker, value, end, backward);
      }
    }
  }

  void share(TransferId id, const Value& value) {
    const Transfer& transfer = program_.transfer(id);
    ChargedLives& maker = *of_.at(transfer.from);
    ChargedLives& reader = *of_.at(transfer.to);
    const std::size_t end = end_at_maker(maker, value);
    if (kind(maker, end) == ActionKind::Send ||
        kind(maker, end) == ActionKind::Forward)
      return;
    reader.at_maker.insert({id, value});
    // Both have to free it, and the reader's W may be late.
    const std::size_t read = end_of(reader, value);
    if (kind(maker, end) != ActionKind::BackwardInput || read == kNowhere ||
        kind(reader, read) != ActionKind::BackwardWeight)
      return;
    const std::size_t late = find(maker, maker.passage->actions[end].stage,
                                  ActionKind::BackwardWeight);
    // A W that already frees what R made anew has one effect in all passages,
    // also in those in which F's tensor is gone by then.
    if (late != kNowhere && !frees(maker, late, value))
      move(maker, value, end, late);
  }

  const Program& program_;
  std::map<WorkerId, ChargedLives*> of_;
  std::vector<TransferId> transfers_;
  std::map<std::pair<WorkerId, Value>, std::size_t> moved_;  // where to
};

}  // namespace

void charge_makers(const Program& program, std::vector<ChargedLives>& workers) {
  Charging(program, workers).run();
}

}  // namespace pipewright
