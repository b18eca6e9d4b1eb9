#include "pipewright/timeline/draw.h"

#include <algorithm>
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
    shown_ = legible(room);
    columns_ = room;
    const Seconds unit = natural_unit(timeline, room);
    if (unit.value() > 0 && shown_ == timeline.duration) {
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
    const double share = shown_.value() > 0 ? time / shown_ : 0;
    return static_cast<int>(std::lround(std::min(share, 1.0) * columns_));
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

  // All of the run, or as much as leaves three columns for an action: what is
  // narrower cannot be read.
  Seconds legible(int room) const {
    std::size_t most = 1;
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w)
      most = std::max(most, own_spans(timeline_, w).size());
    if (static_cast<double>(room) >= 1.2 * static_cast<double>(most))
      return timeline_.duration;
    return timeline_.duration * (room / (3.0 * static_cast<double>(most)));
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
    std::string text(static_cast<std::size_t>(label_), ' ');
    if (shown_ < timeline_.duration)
      text += "the first " + to_text(shown_) + " of ";
    return text + to_text(timeline_.duration) + ", a column is " +
           to_text(shown_ / static_cast<double>(columns_)) + "; right: busy\n";
  }

  const Timeline& timeline_;
  const DrawOptions& options_;
  int label_ = 0;
  int columns_ = 0;
  Seconds shown_;  // from the start
};

}  // namespace

std::string draw(const Timeline& timeline, const DrawOptions& options) {
  return Drawing(timeline, options).text();
}

}  // namespace pipewright
