#include "pipewright/timeline/svg.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"
#include "pipewright/timeline/picture_scale.h"

namespace pipewright {
namespace {

constexpr double kLeft = 78, kTop = 14, kRow = 30, kBox = 24, kRight = 56;
constexpr double kTitle = 18, kActionWidth = 20;
constexpr double kMinBetweenLines = 5;  // pixels, on average

struct Look {
  ActionKind kind;
  const char* colour;
  const char* darker;  // for all but the first of a worker's stages
  const char* name;
};
constexpr Look kLooks[] = {
    {ActionKind::Forward, "#8fb8f0", "#5f93d8", "forward"},
    {ActionKind::Backward, "#93d19a", "#62b26d", "backward"},
    {ActionKind::BackwardInput, "#b9dd8a", "#93c155", "input gradients"},
    {ActionKind::BackwardWeight, "#6cc4b0", "#3fa18c", "weight gradients"},
    {ActionKind::Recompute, "#f5d77e", "#d9b548", "recompute"},
    {ActionKind::Step, "#e8938a", "#d06a60", "step"},
    {ActionKind::Reduce, "#cdb7e8", "#a98bd0", "all-reduce"},
};

const char* colour_of(ActionKind kind, bool later_stage = false) {
  for (const Look& look : kLooks)
    if (look.kind == kind) return later_stage ? look.darker : look.colour;
  return "#999999";
}

// 1, 2 or 5 times a power of ten, so that a run has four to ten ticks.
double tick_of(double run) {
  const double power = std::pow(10, std::floor(std::log10(run / 4)));
  for (double step : {5.0, 2.0})
    if (run / (step * power) >= 4) return step * power;
  return power;
}

std::string number(double x) {
  std::string text = std::to_string(std::round(x * 100) / 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// So that a microbatch's number has room in the row with the most actions.
double width_of(const Timeline& timeline) {
  std::size_t most = 0;
  for (std::size_t w = 0; w < timeline.workers.size(); ++w)
    most = std::max(most, own_spans(timeline, w).size());
  return std::clamp(kLeft + kRight + kActionWidth * static_cast<double>(most),
                    1000.0, 4000.0);
}

std::string xml_text(const std::string& text) {
  std::string safe;
  for (char c : text)
    safe += c == '&'   ? "&amp;"
            : c == '<' ? "&lt;"
            : c == '>' ? "&gt;"
                       : std::string(1, c);
  return safe;
}

class Picture {
 public:
  Picture(const Program& program, const Timeline& timeline,
          const SvgOptions& options)
      : program_(program),
        timeline_(timeline),
        options_(options),
        width_(options.width > 0 ? options.width : width_of(timeline)),
        top_(options.title.empty() ? kTop : kTop + kTitle) {}

  std::string text() {
    const auto rows = static_cast<double>(timeline_.workers.size());
    const double bottom = top_ + rows * kRow;
    if (!options_.title.empty())
      words(kLeft, kTop + 4, "start", xml_text(options_.title));
    add_grid(bottom);
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w) add_row(w);
    if (options_.transfers && !are_transfers_dense()) add_transfers();
    add_axis(bottom);
    add_legend(bottom + 40);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
           number(width_) + "\" height=\"" + number(bottom + 54) +
           "\" font-family=\"Helvetica, Arial, sans-serif\" "
           "font-size=\"11\">\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
           body_ + "</svg>\n";
  }

 private:
  double x(Seconds time) const {
    const double run = std::max(timeline_.duration.value(), 1e-300);
    return kLeft + time.value() / run * (width_ - kLeft - kRight);
  }
  double y(std::size_t worker) const {
    return top_ + static_cast<double>(worker) * kRow;
  }

  void box(double left, double top, double width, double height,
           const char* colour) {
    body_ += "<rect x=\"" + number(left) + "\" y=\"" + number(top) +
             "\" width=\"" + number(width) + "\" height=\"" + number(height) +
             "\" fill=\"" + colour +
             "\" stroke=\"#ffffff\" stroke-width=\"0.6\"/>\n";
  }
  void words(double left, double top, const char* anchor,
             const std::string& text) {
    body_ += "<text x=\"" + number(left) + "\" y=\"" + number(top) +
             "\" text-anchor=\"" + anchor + "\" fill=\"#222222\">" + text +
             "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* style) {
    body_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
             number(x2) + "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
  }

  void add_grid(double bottom) {
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w)
      box(kLeft, y(w), x(timeline_.duration) - kLeft, kBox, "#f1f1f1");
    line(kLeft, top_ - 4, kLeft, bottom, "stroke=\"#bbbbbb\"");
  }

  void add_row(std::size_t w) {
    words(kLeft - 8, y(w) + 16, "end", "worker " + std::to_string(w));
    if (w < timeline_.spans.size())
      for (const Span& span : timeline_.spans[w])
        if (span.kind == ActionKind::Reduce)
          box(x(span.start), y(w) + kBox, x(span.end) - x(span.start), 4,
              colour_of(span.kind));
    const std::vector<Span> own = own_spans(timeline_, w);
    StageId first;
    for (const Span& span : own)
      if (first.is_none() || span.stage < first) first = span.stage;
    for (const Span& span : own) {
      const double left = x(span.start), width = x(span.end) - left;
      if (width <= 0) continue;
      has_later_stages_ |= span.stage != first;
      box(left, y(w), width, kBox, colour_of(span.kind, span.stage != first));
      const std::string text = std::to_string(span.microbatch.value);
      if (is_compute(span.kind) && width > 7 * static_cast<double>(text.size()))
        words(left + width / 2, y(w) + 16, "middle", text);
    }
    const double share =
        timeline_.duration.value() > 0
            ? timeline_.workers[w].busy / timeline_.duration * 100
            : 0;
    words(x(timeline_.duration) + 6, y(w) + 16, "start",
          std::to_string(std::lround(share)) + " %");
  }

  // Whether some row has more lines to or from it than can be told apart.
  bool are_transfers_dense() const {
    std::vector<double> lines(timeline_.workers.size(), 0);
    for (const auto& spans : timeline_.spans)
      for (const Span& span : spans) {
        if (span.kind != ActionKind::Send || span.transfer.is_none()) continue;
        const Transfer& what = program_.transfers[span.transfer.index()];
        const auto [first, last] = std::minmax(what.from, what.to);
        for (std::size_t w = first.index(); w < last.index(); ++w) ++lines[w];
      }
    const double most =
        lines.empty() ? 0 : *std::max_element(lines.begin(), lines.end());
    return most * kMinBetweenLines > width_ - kLeft - kRight;
  }

  void add_transfers() {
    for (const auto& spans : timeline_.spans)
      for (const Span& span : spans) {
        if (span.kind != ActionKind::Send || span.transfer.is_none()) continue;
        const Transfer& what = program_.transfers[span.transfer.index()];
        const bool down = what.to > what.from;
        line(x(span.start), y(what.from.index()) + (down ? kBox : 0),
             x(span.end), y(what.to.index()) + (down ? 0 : kBox),
             "stroke=\"#555555\" stroke-width=\"0.7\" "
             "stroke-opacity=\"0.7\"");
      }
  }

  void add_axis(double bottom) {
    const double run = timeline_.duration.value();
    const double tick = run > 0 ? tick_of(run) : 1;
    for (int i = 0; i * tick <= run; ++i) {
      const Seconds time(i * tick);
      line(x(time), bottom, x(time), bottom + 4, "stroke=\"#888888\"");
      words(x(time), bottom + 16, "middle", to_text(time));
    }
  }

  bool is_used(ActionKind kind) const {
    for (const auto& spans : timeline_.spans)
      for (const Span& span : spans)
        if (span.kind == kind && span.end > span.start) return true;
    return false;
  }

  void add_legend(double top) {
    double left = kLeft;
    for (const Look& look : kLooks) {
      if (!is_used(look.kind)) continue;
      box(left, top - 9, 12, 12, look.colour);
      words(left + 17, top + 1, "start", look.name);
      left += 34 + 6 * static_cast<double>(std::string(look.name).size());
    }
    if (has_later_stages_)
      words(left, top + 1, "start", "darker: later stages of a worker");
  }

  const Program& program_;
  const Timeline& timeline_;
  const SvgOptions& options_;
  const double width_, top_;
  std::string body_;
  bool has_later_stages_ = false;
};

}  // namespace

std::string svg(const Program& program, const Timeline& timeline,
                const SvgOptions& options) {
  return Picture(program, timeline, options).text();
}

}  // namespace pipewright
