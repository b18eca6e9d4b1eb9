// The text form of a Schedule, as schedule.h shows it.

#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {
namespace {

struct Header {
  int stages = 0, microbatches = 0, minibatches_outside = 0;
};

std::string line_text(std::size_t worker,
                      const std::vector<ComputeAction>& order) {
  std::string text = std::to_string(worker) + ":";
  bool joined = false;
  for (const ComputeAction& action : order) {
    text += (joined ? "+" : " ") + to_text(action);
    joined = action.joined;
  }
  return text + "\n";
}

std::string section_text(const char* name, const Orders& orders, bool named) {
  std::string text;
  if (named) text += std::string(name) + "\n";
  for (std::size_t w = 0; w < orders.size(); ++w)
    text += line_text(w, orders[w]);
  return text;
}

std::optional<ComputeKind> kind_of(char c) {
  for (ComputeKind kind :
       {ComputeKind::Forward, ComputeKind::Backward, ComputeKind::BackwardInput,
        ComputeKind::BackwardWeight, ComputeKind::Recompute})
    if (letter(kind) == c) return kind;
  return std::nullopt;
}

std::optional<std::int32_t> small_integer(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > 1'000'000'000) return std::nullopt;
  return static_cast<std::int32_t>(*number);
}

std::optional<ComputeAction> parse_action(std::string_view text) {
  const std::size_t at = text.find_first_not_of("0123456789");
  if (at == std::string_view::npos) return std::nullopt;
  const auto stage = small_integer(text.substr(0, at));
  const auto kind = kind_of(text[at]);
  const auto microbatch = small_integer(text.substr(at + 1));
  if (!stage || !kind || !microbatch) return std::nullopt;
  return ComputeAction{StageId(*stage), MicrobatchId(*microbatch), *kind};
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file)
      : text_(text), file_(file) {}

  Result<Schedule> parse() {
    for (std::string_view line : split(text_, '\n')) {
      ++line_number_;
      line_ = line;
      std::string_view content = trim(line.substr(0, line.find('#')));
      if (content.empty()) continue;
      if (auto error = read(content)) return *std::move(error);
    }
    if (!header_) return fault(text_, "the file is empty", kFirstLine);
    auto schedule = Schedule::create(header_->stages, header_->microbatches,
                                     std::move(sections_));
    if (schedule) return schedule;
    Error error = schedule.error();
    error.where = file_;
    return error;
  }

 private:
  static constexpr const char* kFirstLine =
      "the first line reads: schedule v1 stages=2 microbatches=3";

  // The column is where `part`, a piece of the line, begins.
  Error fault(std::string_view part, std::string message,
              std::string hint = {}) const {
    std::string where = file_ + ":" + std::to_string(line_number_);
    if (part.data() >= line_.data() &&
        part.data() <= line_.data() + line_.size())
      where += ":" + std::to_string(part.data() - line_.data() + 1);
    return malformed(std::move(message), std::move(where), std::move(hint));
  }

  std::optional<Error> read(std::string_view line) {
    if (!header_) return read_header(line);
    if (line == "prologue") return begin(line, sections_.prologue);
    if (line == "body") return begin(line, sections_.body);
    if (line == "epilogue") return begin(line, sections_.epilogue);
    return read_worker(line);
  }

  std::optional<Error> begin(std::string_view line, Orders& section) {
    if (!section.empty() || section_ == &section)
      return fault(line, "a second section \"" + std::string(line) + "\"");
    section_ = &section;
    return std::nullopt;
  }

  std::optional<Error> read_header(std::string_view line) {
    Header header;
    int word_number = 0;
    for (std::string_view word : split(line, ' ')) {
      if (word.empty()) continue;
      if (++word_number <= 2) {
        if (word != (word_number == 1 ? "schedule" : "v1"))
          return fault(word, "not a schedule of version 1", kFirstLine);
        continue;
      }
      const std::size_t equals = std::min(word.find('='), word.size() - 1);
      const std::string_view name = word.substr(0, equals);
      const auto number = small_integer(word.substr(equals + 1));
      int* field = name == "stages"                ? &header.stages
                   : name == "microbatches"        ? &header.microbatches
                   : name == "minibatches_outside" ? &header.minibatches_outside
                                                   : nullptr;
      if (!field || !number)
        return fault(word, "\"" + std::string(word) + "\" is not a setting",
                     kFirstLine);
      *field = *number;
    }
    if (header.stages < 1 || header.microbatches < 1)
      return fault(line, "stages and microbatches must be at least 1",
                   kFirstLine);
    header_ = header;
    sections_.minibatches_outside = header.minibatches_outside;
    return std::nullopt;
  }

  std::optional<Error> read_worker(std::string_view line) {
    const std::size_t colon = line.find(':');
    const auto worker = small_integer(line.substr(0, colon));
    const auto expected = static_cast<std::int32_t>(section_->size());
    if (colon == std::string_view::npos || worker != expected)
      return fault(line, "expected worker " + std::to_string(expected) +
                             " (\"" + std::to_string(expected) +
                             ": 0F0 0B0\") or a section");
    section_->emplace_back();
    for (std::string_view word : split(line.substr(colon + 1), ' ')) {
      if (word.empty() || trim(word).empty()) continue;
      if (auto error = read_unit(trim(word), section_->back())) return error;
    }
    return std::nullopt;
  }

  std::optional<Error> read_unit(std::string_view word,
                                 std::vector<ComputeAction>& order) const {
    const auto parts = split(word, '+');
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto action = parse_action(parts[i]);
      if (!action)
        return fault(
            parts[i],
            "\"" + std::string(parts[i].substr(0, 40)) + "\" is not an action",
            "actions read 1F0: stage, one of F B I W R, microbatch");
      action->joined = i + 1 < parts.size();
      order.push_back(*action);
    }
    return std::nullopt;
  }

  std::string_view text_, line_;
  const std::string& file_;
  int line_number_ = 0;
  std::optional<Header> header_;
  Schedule::Sections sections_;
  Orders* section_ = &sections_.body;
};

}  // namespace

Result<Schedule> Schedule::parse(std::string_view text,
                                 const std::string& file) {
  return Parser(text, file).parse();
}

std::string Schedule::to_text() const {
  std::string text = "schedule v1 stages=" + std::to_string(num_stages_) +
                     " microbatches=" + std::to_string(num_microbatches_);
  const bool named = !sections_.prologue.empty() || !sections_.epilogue.empty();
  if (sections_.minibatches_outside > 0)
    text +=
        " minibatches_outside=" + std::to_string(sections_.minibatches_outside);
  text += "\n";
  if (!sections_.prologue.empty())
    text += section_text("prologue", sections_.prologue, true);
  text += section_text("body", sections_.body, named);
  if (!sections_.epilogue.empty())
    text += section_text("epilogue", sections_.epilogue, true);
  return text;
}

}  // namespace pipewright
