#include "pipewright/timeline/chrome_trace.h"

#include <algorithm>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/timeline/picture_scale.h"

namespace pipewright {
namespace {

// Lane numbers; transfers that overlap use the following numbers.
constexpr int kCompute = 0, kStep = 1, kSend = 100, kReceive = 200,
              kReduce = 300;

const char* name_of(TransferKind kind) {
  switch (kind) {
    case TransferKind::Gradient:
      return "gradient";
    case TransferKind::Activation:
      return "activation";
    case TransferKind::Saved:
      return "saved";
    default:
      return "weights";
  }
}

// Assigns intervals, sorted by start, to as few lanes as possible.
class Lanes {
 public:
  int place(Seconds start, Seconds end) {
    for (std::size_t i = 0; i < ends_.size(); ++i)
      if (ends_[i] <= start) {
        ends_[i] = end;
        return static_cast<int>(i);
      }
    ends_.push_back(end);
    return static_cast<int>(ends_.size()) - 1;
  }
  int size() const { return static_cast<int>(ends_.size()); }

 private:
  std::vector<Seconds> ends_;
};

class Trace {
 public:
  Trace(const Program& program, const Timeline& timeline)
      : program_(program),
        timeline_(timeline),
        sends_(timeline.workers.size()),
        receives_(timeline.workers.size()),
        reduces_(timeline.workers.size()) {}

  std::string text() {
    text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    for (std::size_t w = 0; w < timeline_.spans.size(); ++w)
      for (const Span& span : timeline_.spans[w])
        if (span.kind == ActionKind::Send)
          transfers_.push_back(&span);
        else
          add_own(span);
    add_transfers();
    add_memory();
    add_names();
    if (text_.ends_with(",\n")) text_.resize(text_.size() - 2);
    return text_ + "\n]}\n";
  }

 private:
  static double microseconds(Seconds time) { return time.value() * 1e6; }

  void add(const Json& event) { text_ += event.to_line() + ",\n"; }

  Json event(const char* phase, std::string name, int process, int lane) {
    Json json = Json::object();
    json.set("ph", phase);
    json.set("name", std::move(name));
    json.set("pid", process);
    json.set("tid", lane);
    return json;
  }

  Json slice(std::string name, int process, int lane, const Span& span) {
    Json json = event("X", std::move(name), process, lane);
    json.set("ts", microseconds(span.start));
    json.set("dur", microseconds(span.end - span.start));
    return json;
  }

  void add_own(const Span& span) {
    const std::string stage = std::to_string(span.stage.value);
    std::string name = stage + letter(span.kind);
    if (is_compute(span.kind)) name += std::to_string(span.microbatch.value);
    if (span.kind == ActionKind::Step) name = "step stage " + stage;
    if (span.kind == ActionKind::Reduce) name = "all-reduce stage " + stage;
    int lane = is_compute(span.kind) ? kCompute : kStep;
    if (span.kind == ActionKind::Reduce)
      lane =
          kReduce + reduces_[span.worker.index()].place(span.start, span.end);
    Json json = slice(name, span.worker.value, lane, span);
    Json arguments = Json::object();
    arguments.set("stage", span.stage.value);
    arguments.set("microbatch", span.microbatch.value);
    arguments.set("version", span.version);
    json.set("args", std::move(arguments));
    add(json);
  }

  void add_transfers() {
    std::stable_sort(
        transfers_.begin(), transfers_.end(),
        [](const Span* a, const Span* b) { return a->start < b->start; });
    int number = 0;
    for (const Span* span : transfers_) add_transfer(*span, number++);
  }

  void add_transfer(const Span& span, int number) {
    const Transfer& what = program_.transfers[span.transfer.index()];
    const std::string message =
        std::string(name_of(what.kind)) + " " +
        std::to_string(what.is_keyed_by_version() ? span.version
                                                  : span.microbatch.value);
    const int from = what.from.value, to = what.to.value;
    const int send =
        kSend + sends_[what.from.index()].place(span.start, span.end);
    const int receive =
        kReceive + receives_[what.to.index()].place(span.start, span.end);
    Json arguments = Json::object();
    arguments.set("bytes", what.bytes.value());
    Json sent = slice(message + " to " + std::to_string(to), from, send, span);
    sent.set("args", arguments);
    add(sent);
    Json received =
        slice(message + " from " + std::to_string(from), to, receive, span);
    received.set("args", std::move(arguments));
    add(received);
    add_arrow("s", number, from, send, span.start);
    add_arrow("f", number, to, receive, (span.start + span.end) / 2);
  }

  void add_arrow(const char* phase, int number, int process, int lane,
                 Seconds time) {
    Json json = event(phase, "transfer", process, lane);
    json.set("cat", "transfer");
    json.set("id", number);
    json.set("ts", microseconds(time));
    if (*phase == 'f') json.set("bp", "e");
    add(json);
  }

  void add_memory() {
    for (std::size_t w = 0; w < timeline_.memory.size(); ++w)
      for (const MemoryPoint& point : timeline_.memory[w]) {
        Json json = event("C", "memory", static_cast<int>(w), kCompute);
        json.set("ts", microseconds(point.time));
        Json arguments = Json::object();
        arguments.set("bytes", point.bytes.value());
        json.set("args", std::move(arguments));
        add(json);
      }
  }

  void add_name(const char* what, int process, int lane, std::string name) {
    Json json = event("M", what, process, lane);
    Json arguments = Json::object();
    arguments.set("name", std::move(name));
    json.set("args", std::move(arguments));
    add(json);
  }

  void add_names() {
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w) {
      const int process = static_cast<int>(w);
      add_name("process_name", process, 0, "worker " + std::to_string(w));
      add_name("thread_name", process, kCompute, "compute");
      add_name("thread_name", process, kStep, "step");
      for (int i = 0; i < sends_[w].size(); ++i)
        add_name("thread_name", process, kSend + i, "send");
      for (int i = 0; i < receives_[w].size(); ++i)
        add_name("thread_name", process, kReceive + i, "receive");
      for (int i = 0; i < reduces_[w].size(); ++i)
        add_name("thread_name", process, kReduce + i, "all-reduce");
    }
  }

  const Program& program_;
  const Timeline& timeline_;
  std::string text_;
  std::vector<const Span*> transfers_;
  std::vector<Lanes> sends_, receives_, reduces_;  // per worker
};

}  // namespace

std::string chrome_trace(const Program& program, const Timeline& timeline) {
  return Trace(program, timeline).text();
}

}  // namespace pipewright
