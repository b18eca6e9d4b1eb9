#include "pipewright/plan/program/program_messages.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/program_fault.h"

namespace pipewright {
namespace {

// One end of a message, and where in the program it is.
struct End {
  TransferId transfer;
  std::int32_t key = 0;
  ProgramMark mark;
};

class Matching {
 public:
  Matching(const Program& program, int repetitions, Messages& messages)
      : program_(program), repetitions_(repetitions), messages_(messages) {
    const int minibatches = program.minibatches_outside + repetitions;
    microbatches_ = minibatches * program.num_microbatches;
    std::map<std::tuple<WorkerId, WorkerId, TransferKind>, std::size_t> known;
    for (const Transfer& transfer : program.transfers) {
      auto [at, is_new] = known.try_emplace(
          {transfer.from, transfer.to, transfer.kind}, known.size());
      messages.channel_of.push_back(at->second);
      const int keys =
          transfer.is_keyed_by_version() ? minibatches + 1 : microbatches_;
      messages.numbers.emplace_back(keys, -1);
    }
    messages.num_channels = known.size();
    sends_.resize(known.size());
    receives_.resize(known.size());
  }

  std::optional<Error> fault() {
    for (std::size_t w = 0; w < program_.workers.size(); ++w)
      for (ActionCursor at(program_, WorkerId(w), repetitions_); !at.at_end();
           at.advance())
        if (auto error = note(at.action(), {WorkerId(w), at.position()}))
          return error;
    for (std::size_t c = 0; c < sends_.size(); ++c)
      if (auto error = channel_fault(c)) return error;
    return std::nullopt;
  }

 private:
  Error fail(const std::vector<ProgramMark>& marks, const std::string& why) {
    return program_fault(program_, repetitions_, marks, why);
  }

  std::optional<Error> note(const Action& action, ProgramMark mark) {
    if (is_compute(action.kind) && (action.microbatch.value < 0 ||
                                    action.microbatch.value >= microbatches_))
      return fail({mark}, "its microbatch is outside the run");
    const bool sends = action.kind == ActionKind::Send;
    if (!sends && action.kind != ActionKind::Receive) return std::nullopt;
    const std::size_t t = action.transfer.index();
    const std::int32_t key = program_.key(action);
    auto& numbers = messages_.numbers[t];
    if (key < 0 || key >= std::ssize(numbers))
      return fail({mark}, "its microbatch or version is outside the run");
    const std::size_t c = messages_.channel_of[t];
    auto& ends = sends ? sends_[c] : receives_[c];
    if (sends) {
      std::int64_t& number = numbers[at(key)];
      if (number >= 0) return fail({mark}, "it is sent twice");
      number = static_cast<std::int64_t>(ends.size());
    }
    ends.push_back({action.transfer, key, mark});
    return std::nullopt;
  }

  std::optional<Error> channel_fault(std::size_t c) {
    const auto& sends = sends_[c];
    const auto& receives = receives_[c];
    for (std::size_t n = 0; n < std::max(sends.size(), receives.size()); ++n) {
      if (n >= receives.size())
        return fail({sends[n].mark}, "it is sent but never received");
      if (n >= sends.size())
        return fail({receives[n].mark}, "it is received but never sent");
      if (sends[n].transfer != receives[n].transfer ||
          sends[n].key != receives[n].key)
        return fail({sends[n].mark, receives[n].mark},
                    "message " + std::to_string(n) +
                        " of the channel is sent and received in different "
                        "order");
    }
    return std::nullopt;
  }

  const Program& program_;
  int repetitions_;
  std::int32_t microbatches_ = 0;
  Messages& messages_;
  std::vector<std::vector<End>> sends_, receives_;  // per channel
};

}  // namespace

std::int32_t key_read(const Transfer& transfer, const ReadSet& set,
                      const Action& action) {
  if (!transfer.is_keyed_by_version()) return action.microbatch.value;
  for (const WeightRead& read : set.weights)
    if (read.group == transfer.group) return action.version + read.offset;
  return 0;
}

std::optional<Error> match_messages(const Program& program, int repetitions,
                                    Messages& messages) {
  return Matching(program, repetitions, messages).fault();
}

Messages matched_messages(const Program& program, int repetitions) {
  Messages messages;
  const auto fault = match_messages(program, repetitions, messages);
  PIPEWRIGHT_CHECK(!fault, "the program was not validated");
  return messages;
}

}  // namespace pipewright
