#include "pipewright/timeline/draw.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "pipewright/base/text.h"
#include "pipewright/timeline/picture_scale.h"

namespace pipewright {
namespace {

// One column: what is shown, and what colours it.
struct Cell {
  std::string glyph = " ";
  ActionKind kind = ActionKind::Send;  // Send: nothing
  bool later_stage = false;

  bool looks_like(const Cell& other) const {
    return kind == other.kind && later_stage == other.later_stage;
  }
};
using Row = std::vector<Cell>;

constexpr int kPercent = 6;  // columns of " 100 %"
constexpr int kMaxBands = 4;
// The mean number of columns per action. One band is drawn if it is at least
// kMinColumns (kMinColumnsWithLetters if forwards need their letter); in
// several bands it is between kMinBandColumns and kMaxBandColumns.
constexpr double kMinColumns = 1.4, kMinColumnsWithLetters = 2;
constexpr double kMinBandColumns = 1.8, kMaxBandColumns = 6;

char digit(MicrobatchId microbatch) {
  return "0123456789abcdefghijklmnopqrstuvwxyz"[microbatch.value % 36];
}

// The text of a cell of `width` columns, without its fill.
std::string cell_text(const Span& span, int width, bool colour,
                      bool later_stage) {
  const char upper = letter(span.kind);
  const std::string kind(
      1, later_stage ? static_cast<char>(std::tolower(upper)) : upper);
  if (span.kind == ActionKind::Step) return kind;
  const std::string number = std::to_string(span.microbatch.value);
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

// How the run is divided into bands.
struct Layout {
  int columns = 1;  // per band
  int bands = 1;
  Seconds band;  // time per band
};

// Whether a worker has more than one stage: only letters distinguish them.
bool has_later_stages(const Timeline& timeline) {
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    const std::vector<Span> own = own_spans(timeline, w);
    for (const Span& span : own)
      if (span.stage != own.front().stage) return true;
  }
  return false;
}

// The mean time of an action.
Seconds mean_action(const Timeline& timeline) {
  Seconds sum;
  std::size_t actions = 0;
  for (std::size_t w = 0; w < timeline.workers.size(); ++w)
    for (const Span& span : own_spans(timeline, w)) {
      if (span.end <= span.start) continue;
      sum += span.end - span.start;
      ++actions;
    }
  return actions > 0 ? sum / static_cast<double>(actions) : Seconds(0);
}

// One band, with equal actions equally wide, if that is readable; otherwise
// several bands below each other; of a run that is too long for them, the
// first.
Layout layout_of(const Timeline& timeline, int width) {
  const Seconds run = timeline.duration, mean = mean_action(timeline);
  const Seconds unit = natural_unit(timeline);
  double units = unit.value() > 0 ? std::round(run / unit) : 0;
  Layout whole{width, 1, run};
  if (units > 0 && units <= width)
    whole.columns = static_cast<int>(units * std::floor(width / units));
  const double min_columns =
      has_later_stages(timeline) ? kMinColumnsWithLetters : kMinColumns;
  if (!(mean.value() > 0) || mean / run * whole.columns >= min_columns)
    return whole;
  const double actions = run / mean;
  if (units == 0 || units > kMaxBandColumns * actions)
    units = std::ceil(kMinBandColumns * actions);
  const double each = std::clamp(std::ceil(kMinBandColumns * actions / units),
                                 1.0, static_cast<double>(width));
  double per_band = std::floor(width / each);
  const double bands = std::ceil(units / per_band);
  if (bands <= kMaxBands) per_band = std::ceil(units / bands);
  return {static_cast<int>(per_band * each),
          bands <= kMaxBands ? static_cast<int>(bands) : 1,
          run * (per_band / units)};
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, const DrawOptions& options)
      : timeline_(timeline), options_(options) {
    const std::size_t last = std::max<std::size_t>(timeline.workers.size(), 1);
    label_ = static_cast<int>(std::to_string(last - 1).size() + 1);
    layout_ =
        layout_of(timeline, std::max(10, options.width - label_ - kPercent));
  }

  std::string text() const {
    std::vector<Row> rows;
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w)
      rows.push_back(row(w));
    std::string text;
    for (int band = 0; band < layout_.bands; ++band) {
      for (std::size_t w = 0; w < rows.size(); ++w)
        text += line(w, rows[w], band);
      if (band + 1 < layout_.bands) text += "\n";
    }
    return text + legend();
  }

 private:
  int all_columns() const { return layout_.columns * layout_.bands; }

  int column(Seconds time) const {
    const double share = layout_.band.value() > 0 ? time / layout_.band : 0;
    const double bands = layout_.bands;
    return static_cast<int>(
        std::lround(std::min(share, bands) * layout_.columns));
  }

  // The last band ends with the share of time that the worker is busy.
  std::string line(std::size_t w, const Row& row, int band) const {
    std::string label = std::to_string(w);
    label.resize(label_, ' ');
    const auto first = row.begin() + band * layout_.columns;
    label += painted(Row(first, first + layout_.columns));
    if (band + 1 == layout_.bands) return label + percent(w) + "\n";
    label.erase(label.find_last_not_of(' ') + 1);
    return label + "\n";
  }

  std::string percent(std::size_t w) const {
    const double share =
        timeline_.duration.value() > 0
            ? timeline_.workers[w].busy / timeline_.duration * 100
            : 0;
    const std::string text = std::to_string(std::lround(share)) + " %";
    return std::string(std::max<std::ptrdiff_t>(0, kPercent - std::ssize(text)),
                       ' ') +
           text;
  }

  Row row(std::size_t w) const {
    Row row(all_columns());
    if (w < timeline_.spans.size())
      for (const Span& span : timeline_.spans[w])
        if (span.kind == ActionKind::Reduce) fill(row, span, "~", "~", false);
    const std::vector<Span> own = own_spans(timeline_, w);
    StageId first;
    for (const Span& span : own)
      if (first.is_none() || span.stage < first) first = span.stage;
    for (const Span& span : own) {
      const int width = column(span.end) - column(span.start);
      const bool later = span.stage != first;
      if (width > 0)
        fill(row, span, cell_text(span, width, options_.colour, later),
             options_.colour ? " " : "\u2500", later);
    }
    return row;
  }

  void fill(Row& row, const Span& span, const std::string& text,
            const std::string& rest, bool later_stage) const {
    const int begin = column(span.start);
    for (int c = begin; c < column(span.end); ++c) {
      const int i = c - begin;
      row[c] = {i < std::ssize(text) ? std::string(1, text[i]) : rest,
                span.kind, later_stage};
    }
  }

  // Black on a background colour per kind; neighbouring cells of the same kind
  // differ in their number.
  std::string painted(const Row& row) const {
    std::string text;
    Cell now;
    for (const Cell& cell : row) {
      if (options_.colour && !cell.looks_like(now)) {
        text += colour(cell);
        now = cell;
      }
      text += cell.glyph;
    }
    if (options_.colour && now.kind != ActionKind::Send) text += "\x1b[0m";
    return text;
  }

  // Later stages of the worker are darker.
  static std::string colour(const Cell& cell) {
    const int number = colour_number(cell.kind, cell.later_stage);
    return number == 0 ? "\x1b[0m"
                       : "\x1b[30;48;5;" + std::to_string(number) + "m";
  }
  static int colour_number(ActionKind kind, bool later_stage) {
    switch (kind) {
      case ActionKind::Forward:
        return later_stage ? 68 : 111;
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        return later_stage ? 71 : 114;
      case ActionKind::BackwardWeight:
        return later_stage ? 37 : 79;
      case ActionKind::Recompute:
        return 222;
      case ActionKind::Step:
        return 210;
      default:
        return 0;
    }
  }

  std::string legend() const {
    const Seconds shown = layout_.band * layout_.bands;
    std::string text(label_, ' ');
    if (shown < timeline_.duration * (1 - 1e-9))
      text += "the first " + to_text(shown) + " of ";
    return text + to_text(timeline_.duration) + ", one column is " +
           to_text(layout_.band / static_cast<double>(layout_.columns)) +
           "; right: share of time busy\n";
  }

  const Timeline& timeline_;
  const DrawOptions& options_;
  int label_ = 0;
  Layout layout_;
};

}  // namespace

std::string draw(const Timeline& timeline, const DrawOptions& options) {
  return Drawing(timeline, options).text();
}

}  // namespace pipewright
