#include "pipewright/timeline/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "pipewright/base/text.h"
#include "pipewright/timeline/picture_scale.h"

namespace pipewright {
namespace {

// One column: what is shown, and which kind colours it.
struct Cell {
  std::string glyph = " ";
  ActionKind kind = ActionKind::Send;  // Send: nothing
};
using Row = std::vector<Cell>;

constexpr std::size_t kPercent = 6;  // columns of " 100 %"

char digit(std::int32_t microbatch) {
  return "0123456789abcdefghijklmnopqrstuvwxyz"[microbatch % 36];
}

// What stands in a cell of `width` columns, without its fill.
std::string cell_text(const Span& span, int width, bool colour) {
  const std::string kind(1, letter(span.kind));
  if (span.kind == ActionKind::Step) return kind;
  const std::string number = std::to_string(span.microbatch);
  const auto fits = [width](const std::string& text) {
    return static_cast<int>(text.size()) <= width;
  };
  if (colour && fits(number)) return number;
  if (colour) return std::string(1, digit(span.microbatch));
  if (fits(kind + number)) return kind + number;
  if (width >= 2) return kind + digit(span.microbatch);
  return span.kind == ActionKind::Forward
             ? std::string(1, digit(span.microbatch))
             : kind;
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, const DrawOptions& options)
      : timeline_(timeline), options_(options) {
    const std::size_t last = std::max<std::size_t>(timeline.workers.size(), 1);
    label_ = static_cast<int>(std::to_string(last - 1).size() + 1);
    const int room =
        std::max(10, options.width - label_ - static_cast<int>(kPercent));
    const Seconds unit = natural_unit(timeline, room);
    columns_ = room;
    if (unit.value() > 0) {
      const double units = std::round(timeline.duration / unit);
      columns_ =
          static_cast<int>(units) * static_cast<int>(std::floor(room / units));
    }
  }

  std::string text() const {
    std::string text;
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w) text += line(w);
    return text + legend();
  }

 private:
  int column(Seconds time) const {
    const double run = timeline_.duration.value();
    if (run <= 0) return 0;
    return static_cast<int>(std::lround(time.value() / run * columns_));
  }

  std::string line(std::size_t w) const {
    std::string label = std::to_string(w);
    label.resize(static_cast<std::size_t>(label_), ' ');
    const double share =
        timeline_.duration.value() > 0
            ? timeline_.workers[w].busy / timeline_.duration * 100
            : 0;
    std::string percent = std::to_string(std::lround(share)) + " %";
    percent.insert(0, percent.size() < kPercent ? kPercent - percent.size() : 0,
                   ' ');
    return label + painted(row(w)) + percent + "\n";
  }

  Row row(std::size_t w) const {
    Row row(static_cast<std::size_t>(columns_));
    if (w < timeline_.spans.size())
      for (const Span& span : timeline_.spans[w])
        if (span.kind == ActionKind::Reduce) fill(row, span, "~", "~");
    const std::vector<Span> own = own_spans(timeline_, w);
    if (is_too_dense(own)) {
      fill_by_majority(row, own);
      return row;
    }
    for (const Span& span : own) {
      const int width = column(span.end) - column(span.start);
      if (width > 0)
        fill(row, span, cell_text(span, width, options_.colour),
             options_.colour ? " " : "\u2500");
    }
    return row;
  }

  void fill(Row& row, const Span& span, const std::string& text,
            const std::string& rest) const {
    const int begin = column(span.start);
    for (int c = begin; c < column(span.end); ++c) {
      const auto i = static_cast<std::size_t>(c - begin);
      row[static_cast<std::size_t>(c)] = {
          i < text.size() ? std::string(1, text[i]) : rest, span.kind};
    }
  }

  // More than one action a column: numbers would lie.
  bool is_too_dense(const std::vector<Span>& own) const {
    int actions = 0, columns = 0;
    for (const Span& span : own) {
      if (!is_compute(span.kind) || span.start == span.end) continue;
      ++actions;
      columns += column(span.end) - column(span.start);
    }
    return columns < actions;
  }

  // Each column shows the kind that takes most of its time, or nothing.
  void fill_by_majority(Row& row, const std::vector<Span>& own) const {
    constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::Step);
    std::vector<std::array<double, kKinds + 1>> share(row.size());
    const double per_second = columns_ / timeline_.duration.value();
    for (const Span& span : own) {
      const double from = span.start.value() * per_second;
      const double until = span.end.value() * per_second;
      for (auto c = static_cast<std::size_t>(from);
           c < row.size() && static_cast<double>(c) < until; ++c)
        share[c][static_cast<std::size_t>(span.kind)] +=
            std::min(until, static_cast<double>(c + 1)) -
            std::max(from, static_cast<double>(c));
    }
    for (std::size_t c = 0; c < row.size(); ++c) {
      double busy = 0;
      for (double part : share[c]) busy += part;
      const auto most = std::max_element(share[c].begin(), share[c].end());
      if (busy < 0.5) continue;
      const auto kind = static_cast<ActionKind>(most - share[c].begin());
      row[c] = {std::string(1, letter(kind)), kind};
    }
  }

  // Black on a background per kind; a cell that follows one of its own kind is
  // told apart by its number.
  std::string painted(const Row& row) const {
    std::string text;
    ActionKind now = ActionKind::Send;
    for (const Cell& cell : row) {
      if (options_.colour && cell.kind != now) {
        text += cell.kind == ActionKind::Send ? "\x1b[0m" : colour(cell.kind);
        now = cell.kind;
      }
      text += cell.glyph;
    }
    if (now != ActionKind::Send) text += options_.colour ? "\x1b[0m" : "";
    return text;
  }

  static const char* colour(ActionKind kind) {
    switch (kind) {
      case ActionKind::Forward:
        return "\x1b[30;48;5;111m";
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        return "\x1b[30;48;5;114m";
      case ActionKind::BackwardWeight:
        return "\x1b[30;48;5;79m";
      case ActionKind::Recompute:
        return "\x1b[30;48;5;222m";
      case ActionKind::Step:
        return "\x1b[30;48;5;210m";
      default:
        return "\x1b[0m";
    }
  }

  std::string legend() const {
    return std::string(static_cast<std::size_t>(label_), ' ') +
           to_text(timeline_.duration) + ", a column is " +
           to_text(timeline_.duration / static_cast<double>(columns_)) +
           "; right: busy\n";
  }

  const Timeline& timeline_;
  const DrawOptions& options_;
  int label_ = 0;
  int columns_ = 0;
};

}  // namespace

std::string draw(const Timeline& timeline, const DrawOptions& options) {
  return Drawing(timeline, options).text();
}

}  // namespace pipewright
