#include "cli/schedule_view.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/schedules/makespan.h"

namespace pipewright::cli {
namespace {

double duration_of(const ComputeAction& action,
                   const ScheduleRequest& request) {
  const auto& t = request.times.at(action.stage.index());
  switch (action.kind) {
    case ComputeKind::Backward:
      return (t.backward_input + t.backward_weight).value();
    case ComputeKind::BackwardInput:
      return t.backward_input.value();
    case ComputeKind::BackwardWeight:
      return t.backward_weight.value();
    default:
      return t.forward.value();
  }
}

// Places the boxes of a run, each as early as its worker and its inputs allow.
class Placing {
 public:
  Placing(const Orders& orders, int num_stages, int num_microbatches,
          const ScheduleRequest& request)
      : orders_(orders),
        num_stages_(num_stages),
        num_microbatches_(num_microbatches),
        request_(request),
        made_(2 * static_cast<std::size_t>(num_stages) *
              static_cast<std::size_t>(num_microbatches)),
        boxes_(orders.size()) {
    for (const auto& order : orders)
      for (const ComputeAction& action : order)
        if (is_made(action)) ++made_[index(action, 0)].missing;
  }

  std::vector<std::vector<ScheduleView::Box>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < orders_.size(); ++w)
        while (place_next(w)) moved = true;
    }
    return std::move(boxes_);
  }

 private:
  struct Made {
    double at = 0;
    int missing = 0;
    std::size_t worker = 0;
  };

  static bool is_made(const ComputeAction& a) {
    return a.kind != ComputeKind::BackwardWeight &&
           a.kind != ComputeKind::Recompute;
  }
  // Of the stage `offset` behind the action's.
  std::size_t index(const ComputeAction& a, int offset) const {
    const bool forward = a.kind == ComputeKind::Forward;
    return (static_cast<std::size_t>(forward ? 0 : num_stages_) +
            static_cast<std::size_t>(a.stage.value + offset)) *
               static_cast<std::size_t>(num_microbatches_) +
           static_cast<std::size_t>(a.microbatch);
  }

  // When the action's input is there, or nothing.
  std::optional<double> input_at(const ComputeAction& a, std::size_t w) const {
    const int offset = a.kind == ComputeKind::Forward ? -1 : 1;
    const int other = a.stage.value + offset;
    if (!is_made(a) || other < 0 || other >= num_stages_) return 0.0;
    const Made& made = made_[index(a, offset)];
    if (made.missing > 0) return std::nullopt;
    return made.at + (made.worker == w ? 0 : request_.transfer.value());
  }

  bool place_next(std::size_t w) {
    const auto& order = orders_[w];
    auto& boxes = boxes_[w];
    const std::size_t first = boxes.size();
    if (first == order.size()) return false;
    double start = first > 0 ? boxes.back().end : 0, length = 0;
    const std::size_t end = first + (order[first].joined ? 2 : 1);
    for (std::size_t i = first; i < end; ++i) {
      const auto at = input_at(order[i], w);
      if (!at) return false;
      start = std::max(start, *at);
      length += duration_of(order[i], request_);
    }
    for (std::size_t i = first; i < end; ++i) {
      boxes.push_back({order[i], start, start + length});
      if (!is_made(order[i])) continue;
      Made& made = made_[index(order[i], 0)];
      made.at = std::max(made.at, start + length);
      made.worker = w;
      --made.missing;
    }
    return true;
  }

  const Orders& orders_;
  int num_stages_, num_microbatches_;
  const ScheduleRequest& request_;
  std::vector<Made> made_;
  std::vector<std::vector<ScheduleView::Box>> boxes_;
};

double last_end(const std::vector<std::vector<ScheduleView::Box>>& workers) {
  double end = 0;
  for (const auto& boxes : workers)
    if (!boxes.empty()) end = std::max(end, boxes.back().end);
  return end;
}

// Enough repetitions of the body for fill and drain not to touch.
int minibatches_shown(const Schedule& schedule) {
  return schedule.is_asynchronous()
             ? schedule.sections().minibatches_outside + 2
             : 1;
}

char filler(ComputeKind kind) {
  switch (kind) {
    case ComputeKind::Backward:
      return '=';
    case ComputeKind::BackwardInput:
      return '-';
    case ComputeKind::BackwardWeight:
      return '~';
    default:
      return '.';
  }
}

// Whole columns per second if the shortest box is a whole number of columns,
// so that equal boxes look equal; never wider than asked.
double columns_per_second(const ScheduleView& view, int width,
                          std::size_t label) {
  double shortest = view.duration;
  for (const auto& boxes : view.workers)
    for (const auto& box : boxes)
      if (box.end > box.start)
        shortest = std::min(shortest, box.end - box.start);
  if (!(shortest > 0)) return 1;
  const double room = std::max(8, width);
  const double most = room * shortest / view.duration;
  const double whole = std::floor(most);
  const double wanted = static_cast<double>(label);
  return (whole >= 1 ? std::min(whole, wanted) : most) / shortest;
}

std::string label_of(const ComputeAction& a, bool with_stage) {
  return (with_stage ? std::to_string(a.stage.value) : "") + letter(a.kind) +
         std::to_string(a.microbatch);
}

std::string row_of(const std::vector<ScheduleView::Box>& boxes, double scale,
                   bool with_stage) {
  std::string row;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto& box = boxes[i];
    double from = box.start, to = box.end;
    // A pair shares its box: each takes half of the picture.
    if (box.action.joined) to = (from + to) / 2;
    if (i > 0 && boxes[i - 1].action.joined) from = (from + to) / 2;
    const auto begin = static_cast<std::size_t>(std::lround(from * scale));
    const auto end = static_cast<std::size_t>(std::lround(to * scale));
    if (end <= begin) continue;
    row.resize(std::max(row.size(), end), ' ');
    std::string text = label_of(box.action, with_stage);
    if (text.size() > end - begin) text = letter(box.action.kind);
    text.resize(end - begin, filler(box.action.kind));
    row.replace(begin, end - begin, text);
  }
  return row;
}

bool needs_stage(const ScheduleView& view) {
  for (const auto& boxes : view.workers)
    for (const auto& box : boxes)
      if (box.action.stage != boxes.front().action.stage) return true;
  return false;
}

}  // namespace

ScheduleView view_of(const Schedule& schedule, const ScheduleRequest& request) {
  ScheduleView view;
  view.num_stages = schedule.num_stages();
  view.num_microbatches = schedule.num_microbatches();
  view.is_asynchronous = schedule.is_asynchronous();
  const auto placed = [&](int minibatches) {
    return Placing(schedule.unrolled(minibatches), view.num_stages,
                   minibatches * view.num_microbatches, request)
        .run();
  };
  const int shown = minibatches_shown(schedule);
  view.workers = placed(shown);
  view.duration = view.step_seconds = last_end(view.workers);
  if (view.is_asynchronous)
    view.step_seconds = last_end(placed(shown + 1)) - view.duration;
  double busy = 0;
  for (int w = 0; w < schedule.num_workers(); ++w) {
    double sum = 0;
    for (const auto& a : schedule.sections().body[static_cast<std::size_t>(w)])
      sum += duration_of(a, request);
    busy += sum;
    view.busy.push_back(sum);
    view.peak.push_back(peak_activations(schedule, WorkerId(w)));
  }
  const double all = view.step_seconds * schedule.num_workers();
  view.bubble = all > 0 ? 1 - busy / all : 0;
  return view;
}

std::string to_text(const ScheduleView& view, const std::string& name,
                    int width) {
  const bool with_stage = needs_stage(view);
  std::size_t label = 0;
  for (const auto& boxes : view.workers)
    for (const auto& box : boxes)
      label = std::max(label, label_of(box.action, with_stage).size());
  const std::size_t margin = std::to_string(view.workers.size()).size() + 1;
  const double scale =
      columns_per_second(view, width - static_cast<int>(margin) - 1, label);
  std::string text = name + ": " + std::to_string(view.workers.size()) +
                     " workers, " + std::to_string(view.num_stages) +
                     " stages, " + std::to_string(view.num_microbatches) +
                     " microbatches\n";
  for (std::size_t w = 0; w < view.workers.size(); ++w) {
    std::string number = std::to_string(w);
    number.resize(margin, ' ');
    text += number + "|" + row_of(view.workers[w], scale, with_stage) + "\n";
  }
  text += "step " + pipewright::to_text(Seconds(view.step_seconds)) +
          (view.is_asynchronous ? " in the steady state" : "") + ", bubble " +
          pipewright::to_text(100 * std::max(0.0, view.bubble)) +
          " %, held at most";
  for (int peak : view.peak) text += " " + std::to_string(peak);
  return text + "\n";
}

Json to_json(const ScheduleView& view, const std::string& name) {
  Json json = Json::object();
  json.set("schedule", name);
  json.set("stages", view.num_stages);
  json.set("microbatches", view.num_microbatches);
  json.set("step_seconds", view.step_seconds);
  json.set("bubble", view.bubble);
  Json devices = Json::array();
  for (std::size_t w = 0; w < view.workers.size(); ++w) {
    Json device = Json::object();
    device.set("busy_seconds", view.busy[w]);
    device.set("activations_peak", view.peak[w]);
    devices.push(std::move(device));
  }
  json.set("devices", std::move(devices));
  return json;
}

}  // namespace pipewright::cli
