#include "pipewright/profile/formats/pipedream_graph.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"

namespace pipewright {
namespace {

// Splits at " -- ". Other spaces belong to the parts.
std::vector<std::string_view> at_dashes(std::string_view line) {
  constexpr std::string_view kDashes = " -- ";
  std::vector<std::string_view> parts;
  while (true) {
    std::size_t at = line.find(kDashes);
    parts.push_back(line.substr(0, at));
    if (at == std::string_view::npos) return parts;
    line.remove_prefix(at + kDashes.size());
  }
}

std::optional<double> figure(std::string_view text, double max) {
  auto number = parse_real(trim(text));
  if (!number || !(*number >= 0) || *number > max) return std::nullopt;
  return number;
}

// A number, or the sum of a tuple.
std::optional<double> activation(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.front() != '[')
    return figure(text, kMaxImportedBytes);
  if (text.back() != ']' || text.size() < 2) return std::nullopt;
  double sum = 0;
  for (std::string_view part : split(text.substr(1, text.size() - 2), ';')) {
    auto number = figure(part, kMaxImportedBytes);
    if (!number) return std::nullopt;
    sum += *number;
  }
  if (sum > kMaxImportedBytes) return std::nullopt;
  return sum;
}

// Sort key of ids: the text before a trailing number, then the number.
std::tuple<std::string_view, std::int64_t, std::string_view> id_key(
    std::string_view id) {
  std::size_t digits = id.size();
  while (digits > 0 && id[digits - 1] >= '0' && id[digits - 1] <= '9') --digits;
  auto number = parse_integer(id.substr(digits));
  if (!number) return {id, -1, id};
  return {id.substr(0, digits), *number, id};
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Result<PipeDreamGraph> read(std::string_view text) {
    for (std::string_view line : split(text, '\n')) {
      ++line_;
      if (trim(line).empty()) continue;
      const bool indented = line.front() == ' ' || line.front() == '\t';
      Result<void> done = indented ? edge(trim(line)) : node(trim(line));
      if (!done) return done.error();
    }
    if (graph_.nodes.empty())
      return malformed("the file has no nodes", file_, kNodeForm);
    return sorted();
  }

 private:
  static constexpr const char* kNodeForm =
      "a node line is: ID -- DESCRIPTION -- forward_compute_time=MS, "
      "backward_compute_time=MS, activation_size=BYTES, parameter_size=BYTES";

  Error refuse(std::string message, std::string hint = {}) const {
    return malformed(std::move(message), file_ + ":" + std::to_string(line_),
                     std::move(hint));
  }

  Result<void> node(std::string_view line) {
    if (!graph_.edges.empty())
      return refuse(
          "expected an edge (indented), found \"" + shortened_line(line) + "\"",
          "all nodes come before the first edge");
    auto parts = at_dashes(line);
    if (parts.size() != 3 && parts.size() != 4)
      return refuse(
          "expected a node of 3 or 4 parts separated by \" -- \", "
          "found " +
              std::to_string(parts.size()),
          kNodeForm);
    PipeDreamNode node;
    node.id = std::string(trim(parts[0]));
    node.description = std::string(trim(parts[1]));
    if (node.id.empty() || node.id.find_first_of(" \t") != std::string::npos)
      return refuse("expected an id without spaces, found \"" +
                    shortened_line(node.id) + "\"");
    Result<void> figures_read = figures(parts[2], node);
    if (!figures_read) return figures_read;
    if (parts.size() == 4) {
      Result<void> stage_read = stage(parts[3], node);
      if (!stage_read) return stage_read;
    }
    if (!index_of_.emplace(node.id, graph_.nodes.size()).second)
      return refuse("duplicate node " + node.id);
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> figures(std::string_view text, PipeDreamNode& node) {
    struct Field {
      std::string_view name;
      double* value;
      double max;
    };
    const std::array<Field, 4> fields = {
        {{"forward_compute_time=", &node.forward_ms, kMaxImportedMs},
         {"backward_compute_time=", &node.backward_ms, kMaxImportedMs},
         {"activation_size=", &node.activation_bytes, kMaxImportedBytes},
         {"parameter_size=", &node.parameter_bytes, kMaxImportedBytes}}};
    auto parts = split(text, ',');
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto& [name, value, max] = fields[i];
      std::string_view part = i < parts.size() ? trim(parts[i]) : "";
      if (part.substr(0, name.size()) != name)
        return refuse("expected \"" + std::string(name) + "\", found \"" +
                          shortened_line(part) + "\"",
                      kNodeForm);
      part.remove_prefix(name.size());
      auto number = i == 2 ? activation(part) : figure(part, max);
      if (!number)
        return refuse("expected a number from 0 to " + exact_text(max) +
                      " after " + std::string(name) + ", found \"" +
                      shortened_line(part) + "\"");
      *value = *number;
    }
    if (parts.size() > fields.size())
      return refuse("expected the end of the line, found \"" +
                    shortened_line(parts[fields.size()]) + "\"");
    return {};
  }

  Result<void> stage(std::string_view text, PipeDreamNode& node) {
    constexpr std::string_view kName = "stage_id=";
    text = trim(text);
    std::optional<std::int64_t> number;
    if (text.substr(0, kName.size()) == kName)
      number = parse_integer(text.substr(kName.size()));
    if (!number || *number < 0 || *number > 1'000'000)
      return refuse("expected \"stage_id=\" and a number from 0, found \"" +
                    shortened_line(text) + "\"");
    node.stage = static_cast<int>(*number);
    return {};
  }

  Result<void> edge(std::string_view line) {
    auto parts = at_dashes(line);
    if (parts.size() != 2)
      return refuse("expected an edge \"ID -- ID\", found \"" +
                    shortened_line(line) + "\"");
    std::array<int, 2> ends{};
    for (std::size_t i = 0; i < 2; ++i) {
      auto found = index_of_.find(std::string(trim(parts[i])));
      if (found == index_of_.end())
        return refuse("the edge names " + shortened_line(trim(parts[i])) +
                      ", which is not a node of this file");
      ends[i] = static_cast<int>(found->second);
    }
    if (ends[0] == ends[1])
      return refuse("the edge connects " + std::string(trim(parts[0])) +
                    " with itself");
    graph_.edges.emplace_back(ends[0], ends[1]);
    return {};
  }

  static std::string shortened_line(std::string_view text) {
    constexpr std::size_t kMaxShown = 60;
    if (text.size() <= kMaxShown) return std::string(text);
    return std::string(text.substr(0, kMaxShown)) + "...";
  }

  Result<PipeDreamGraph> sorted() {
    std::vector<int> by_id(graph_.nodes.size());
    std::iota(by_id.begin(), by_id.end(), 0);
    auto node_at = [this](int i) -> PipeDreamNode& { return graph_.nodes[i]; };
    std::sort(by_id.begin(), by_id.end(), [&](int a, int b) {
      return id_key(node_at(a).id) < id_key(node_at(b).id);
    });
    PipeDreamGraph graph;
    std::vector<int> place(by_id.size());
    for (std::size_t i = 0; i < by_id.size(); ++i)
      place[by_id[i]] = static_cast<int>(i);
    for (const auto& [source, dest] : graph_.edges)
      graph.edges.emplace_back(place[source], place[dest]);
    for (int i : by_id) graph.nodes.push_back(std::move(node_at(i)));
    std::sort(graph.edges.begin(), graph.edges.end());
    auto twice = std::adjacent_find(graph.edges.begin(), graph.edges.end());
    if (twice != graph.edges.end())
      return malformed("duplicate edge " + graph.nodes[twice->first].id +
                           " -- " + graph.nodes[twice->second].id,
                       file_);
    return graph;
  }

  std::string file_;
  int line_ = 0;
  PipeDreamGraph graph_;
  std::unordered_map<std::string, std::size_t> index_of_;
};

}  // namespace

Result<PipeDreamGraph> parse_pipedream_graph(std::string_view text,
                                             const std::string& file) {
  return Reader(file).read(text);
}

}  // namespace pipewright
