#include "experiments/convergence/loss_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace pipewright {
namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 60, kRight = 190, kTop = 36, kBottom = 44;

struct Axes {
  double last_time = 1, low = -2, high = 1;  // powers of ten

  double x(double time) const {
    return kLeft + (kWidth - kLeft - kRight) * time / last_time;
  }
  double y(double loss) const {
    const double place =
        (std::log10(std::max(loss, 1e-9)) - low) / (high - low);
    return kHeight - kBottom -
           (kHeight - kTop - kBottom) * std::clamp(place, 0.0, 1.0);
  }
};

Axes axes_of(const std::vector<LossLine>& lines) {
  Axes axes;
  double least = 1e9, most = 1e-9, last = 0;
  for (const LossLine& line : lines) {
    last =
        std::max(last, line.seconds * static_cast<double>(line.losses.size()));
    for (const double loss : line.losses) {
      least = std::min(least, loss);
      most = std::max(most, loss);
    }
  }
  if (last > 0) axes.last_time = last;
  if (least <= most) {
    axes.low = std::floor(std::log10(std::max(least, 1e-6)));
    axes.high = std::min(std::ceil(std::log10(most) * 4) / 4, axes.low + 6);
  }
  if (axes.high <= axes.low) axes.high = axes.low + 1;
  return axes;
}

void text(std::ostream& out, double x, double y, const std::string& words,
          const std::string& anchor = "start",
          const std::string& colour = "#333") {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor
      << "\" fill=\"" << colour << "\">" << words << "</text>\n";
}

void draw_grid(std::ostream& out, const Axes& axes) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (double power = axes.low; power <= axes.high + 1e-9; power += 1) {
    const double y = axes.y(std::pow(10.0, power));
    out << "<path d=\"M" << kLeft << " " << y << "H" << right
        << "\" stroke=\"#ddd\"/>\n";
    std::ostringstream label;
    label << std::pow(10.0, power);
    text(out, kLeft - 6, y + 4, label.str(), "end");
  }
  for (int i = 0; i <= 4; ++i) {
    const double time = axes.last_time * i / 4;
    std::ostringstream label;
    label.precision(3);
    label << time;
    text(out, axes.x(time), bottom + 16, label.str(), "middle");
  }
  text(out, (kLeft + right) / 2, bottom + 34,
       "simulated time (a stage's forward is 1)", "middle");
  text(out, kLeft, kTop - 8, "training loss");
}

}  // namespace

std::vector<double> smoothed(const std::vector<double>& values, int window) {
  std::vector<double> result;
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    const auto length = static_cast<std::size_t>(window);
    if (i >= length) sum -= values[i - length];
    result.push_back(sum / static_cast<double>(std::min(i + 1, length)));
  }
  return result;
}

std::string loss_plot(const std::string& title,
                      const std::vector<LossLine>& lines, int window) {
  static const std::array<std::string, 8> kColours = {
      "#000000", "#d62728", "#ff7f0e", "#9467bd",
      "#1f77b4", "#2ca02c", "#17becf", "#8c564b"};
  const Axes axes = axes_of(lines);
  std::ostringstream out;
  out.precision(5);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth
      << "\" height=\"" << kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  text(out, kWidth / 2, 16, title, "middle");
  draw_grid(out, axes);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& colour = kColours[i % kColours.size()];
    const auto losses = smoothed(lines[i].losses, window);
    out << "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" << colour
        << "\" points=\"";
    const std::size_t every = std::max<std::size_t>(losses.size() / 200, 1);
    for (std::size_t k = 0; k < losses.size(); k += every)
      out << axes.x(lines[i].seconds * static_cast<double>(k + 1)) << ","
          << axes.y(losses[k]) << " ";
    out << "\"/>\n";
    text(out, kWidth - kRight + 12, kTop + 18 * static_cast<double>(i + 1),
         lines[i].name + (losses.empty() ? ": diverged" : ""), "start", colour);
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace pipewright
