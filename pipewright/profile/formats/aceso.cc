// Aceso (Liu et al., "Aceso: Efficient Parallel DNN Training through Iterative
// Bottleneck Alleviation", EuroSys 2024): operator times as a profile, and its
// measured collectives and point-to-point rates. CSV, of three kinds:
//
//   op_name,forward-compute,backward-compute,input_size,output_size,weights,
//     activations,fwd_reserved,bwd_reserved          microseconds and MB
//   data_size(MB),time(ms)                           one row per size
//   1,2,4,...  then a line of GB/s                   sizes in MB
//
// Microbatch, tensor-parallel degree and variant are only in the file's name,
// MODEL_mbsN_tpN_algoN.csv, as are a collective's name and number of GPUs. Skip
// connections are part of the sizes, so the operators form a chain. Sizes are
// one GPU's; a profile at degree N is for a group of N, so it has N times as
// much of each. Aceso's GPUs each send their own output, so a group sends all
// of them. MB is 2^20 bytes: 6.000 MB of weights is 3 x 1024 x 1024 halves.

#include <algorithm>
#include <array>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright {
namespace {

constexpr std::string_view kOperators =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,"
    "activations,fwd_reserved,bwd_reserved";
constexpr std::string_view kCollective = "data_size(MB),time(ms)";
constexpr std::size_t kColumns = 9;

std::string_view first_line(std::string_view text) {
  return trim(text.substr(0, text.find('\n')));
}

// Whether the line is whole numbers in ascending order: "1,2,4,8".
bool is_size_line(std::string_view line) {
  std::int64_t last = 0;
  int count = 0;
  for (std::string_view part : split(line, ',')) {
    auto number = parse_integer(trim(part));
    if (!number || *number <= last) return false;
    last = *number;
    ++count;
  }
  return count >= 2;
}

bool recognises_aceso(const SourceFile& file) {
  const std::string_view line = first_line(file.text);
  return line.substr(0, 8) == "op_name," || line == kCollective ||
         is_size_line(line);
}

// The number after `mark` in a name: 4 in "gpt_350M_mbs4_tp1" for "_mbs".
std::optional<int> number_after(std::string_view name, std::string_view mark) {
  const std::size_t at = name.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(at + mark.size());
  rest = rest.substr(0, rest.find_first_not_of("0123456789"));
  auto number = parse_integer(rest);
  if (!number || *number < 0 || *number > (1 << 20)) return std::nullopt;
  return static_cast<int>(*number);
}

struct Operator {
  std::string name;
  std::array<double, kColumns - 1> figures{};
  double forward_us() const { return figures[0]; }
  double backward_us() const { return figures[1]; }
  double output_mb() const { return figures[3]; }
  double weights_mb() const { return figures[4]; }
  double activations_mb() const { return figures[5]; }
  double workspace_mb() const { return std::max(figures[6], figures[7]); }
};

Error at_line(const SourceFile& file, std::size_t line, std::string message,
              std::string hint = {}) {
  return malformed(std::move(message), file.name + ":" + std::to_string(line),
                   std::move(hint));
}

Result<Operator> parse_operator(const SourceFile& file, std::size_t line,
                                std::string_view text) {
  const auto cells = split(text, ',');
  if (cells.size() != kColumns)
    return at_line(file, line,
                   "expected " + std::to_string(kColumns) + " columns, found " +
                       std::to_string(cells.size()));
  Operator op;
  op.name = std::string(trim(cells[0]));
  if (op.name.empty()) return at_line(file, line, "an operator has no name");
  for (std::size_t i = 1; i < kColumns; ++i) {
    const double max =
        i <= 2 ? kMaxImportedSeconds * 1e6 : kMaxImportedMegabytes;
    auto number = parse_real(trim(cells[i]));
    if (!number || !(*number >= 0) || *number > max)
      return at_line(file, line,
                     "expected a number from 0 to " + to_text(max) +
                         " in column " +
                         std::string(split(kOperators, ',')[i]) + ", found \"" +
                         std::string(trim(cells[i])).substr(0, 40) + "\"");
    op.figures[i - 1] = *number;
  }
  return op;
}

Result<std::vector<Operator>> parse_operators(const SourceFile& file) {
  const auto lines = split(file.text, '\n');
  if (trim(lines[0]) != kOperators)
    return at_line(file, 1, "expected the columns " + std::string(kOperators));
  std::vector<Operator> operators;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = trim(lines[i]);
    if (line.empty()) continue;
    PIPEWRIGHT_TRY(Operator op, parse_operator(file, i + 1, line));
    operators.push_back(std::move(op));
  }
  if (operators.empty())
    return at_line(file, 2, "expected an operator, found the end of the file");
  return operators;
}

// What is in the file's name.
struct NamedFacts {
  std::string model;
  int microbatch = 0;
  int degree = 1;
  int variant = -1;
};

NamedFacts facts_of(const std::string& path) {
  const auto parts = path_parts(path, 1);
  const std::string name = parts.empty() ? path : parts[0];
  NamedFacts facts;
  const std::size_t mark = name.rfind("_mbs");
  facts.model =
      name.substr(0, mark == std::string::npos ? name.rfind('.') : mark);
  facts.microbatch = number_after(name, "_mbs").value_or(0);
  facts.degree = std::max(1, number_after(name, "_tp").value_or(1));
  facts.variant = number_after(name, "_algo").value_or(-1);
  return facts;
}

bool is_block(const Operator& op) { return op.name.rfind("enc-", 0) == 0; }

// The operators of a transformer block are listed once in the source: makes
// `blocks` numbered copies of them.
std::vector<Operator> repeated(const std::vector<Operator>& once, int blocks) {
  auto first = std::find_if(once.begin(), once.end(), is_block);
  auto last = std::find_if_not(first, once.end(), is_block);
  if (blocks <= 1 || first == once.end()) return once;
  std::vector<Operator> all(once.begin(), first);
  for (int block = 0; block < blocks; ++block)
    for (auto op = first; op != last; ++op) {
      all.push_back(*op);
      all.back().name =
          "block" + std::to_string(block) + "." + op->name.substr(4);
    }
  all.insert(all.end(), last, once.end());
  return all;
}

class AcesoProfile {
 public:
  AcesoProfile(const ImportOptions& options, Imported& imported)
      : options_(options), imported_(imported) {}

  Result<void> take(const SourceFile& file) {
    NamedFacts facts = facts_of(file.name);
    if (options_.samples > 0) facts.microbatch = options_.samples;
    if (facts.microbatch < 1) {
      facts.microbatch = 1;
      imported_.notes.push_back(
          "assumed: " + file.name +
          " is for a microbatch of 1 sample; its name does not say (set it "
          "with --samples N)");
    }
    if (!names_.empty() &&
        (facts.model != facts_.model || facts.degree != facts_.degree ||
         facts.variant != facts_.variant))
      return bad_configuration(
          file.name + " differs from " + names_.front() +
              " in model, tensor-parallel degree or variant",
          "import one of them at a time");
    facts_ = facts;
    PIPEWRIGHT_TRY(std::vector<Operator> once, parse_operators(file));
    if (std::max(1, options_.blocks) * std::ssize(once) > kMaxLayers)
      return bad_configuration("--blocks " + std::to_string(options_.blocks) +
                               " makes more than " +
                               std::to_string(kMaxLayers) + " layers");
    Result<void> done = add(file, repeated(once, options_.blocks));
    if (!done) return done;
    has_blocks_ = std::any_of(once.begin(), once.end(), is_block);
    names_.push_back(file.name);
    return {};
  }

  bool has_operators() const { return !names_.empty(); }

  void finish() {
    profile_.model = options_.model.empty() ? facts_.model : options_.model;
    profile_.origin.source = "aceso";
    profile_.origin.description = names_of(names_);
    profile_.origin.split_is_estimated = true;
    if (facts_.degree > 1) imported_.notes.push_back(group_note(kind()));
    if (options_.device.empty())
      imported_.notes.push_back(
          "assumed: measured on V100, as Aceso's published profiles are; the "
          "source does not say (set it with --device KIND)");
    if (options_.blocks == 0 && has_blocks_)
      imported_.notes.push_back(
          "as in the source, the operators of a transformer block are listed "
          "once (repeat them with --blocks N)");
    const ProfileTotals totals =
        totals_of(profile_, kind(), profile_.sizes.begin()->first);
    imported_.totals = {profile_.num_layers(), totals.edges, totals.forward,
                        totals.backward, totals.parameters};
    imported_.profile = std::move(profile_);
  }

 private:
  std::string kind() const {
    return group_kind(options_.device.empty() ? "V100" : options_.device,
                      facts_.degree);
  }

  // Of the whole group.
  Bytes of_mb(double mb_of_one) const {
    return group_bytes(mb_of_one * kMebibyte, facts_.degree);
  }

  Result<void> add(const SourceFile& file, const std::vector<Operator>& list) {
    if (profile_.layers.empty())
      for (const Operator& op : list)
        add_to_chain(profile_, op.name, op.name, of_mb(op.weights_mb()));
    if (list.size() != profile_.layers.size())
      return malformed(std::to_string(list.size()) + " operators, but " +
                           names_.front() + " has " +
                           std::to_string(profile_.layers.size()),
                       file.name);
    auto& times = profile_.times[kind()][facts_.microbatch];
    auto& sizes = profile_.sizes[facts_.microbatch];
    if (!times.empty())
      return bad_configuration("two files have a microbatch of " +
                                   std::to_string(facts_.microbatch) + ": " +
                                   file.name,
                               "import one file per microbatch size");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Operator& op = list[i];
      const ProfileLayer& layer = profile_.layers[i];
      if (op.name != layer.name)
        return malformed("operator " + std::to_string(i + 1) + " is " +
                             op.name + ", but " + names_.front() + " has " +
                             layer.name,
                         file.name);
      times.push_back(times_of(Seconds(op.forward_us() * 1e-6),
                               Seconds(op.backward_us() * 1e-6), layer));
      sizes.push_back({of_mb(op.output_mb()), of_mb(op.activations_mb()),
                       of_mb(op.workspace_mb())});
    }
    return {};
  }

  const ImportOptions& options_;
  Imported& imported_;
  Profile profile_;
  NamedFacts facts_;
  bool has_blocks_ = false;
  std::vector<std::string> names_;
};

std::optional<double> positive(std::string_view cell, double max) {
  auto number = parse_real(trim(cell));
  if (!number || !(*number > 0) || *number > max) return std::nullopt;
  return number;
}

// "prim_gpt_350M_all_gather_2gpus.csv".
void name_collective(const std::string& path, BandwidthTable& table) {
  const auto parts = path_parts(path, 1);
  const std::string name = parts.empty() ? path : parts[0];
  table.operation = "collective";
  table.devices = 0;
  for (const char* known :
       {"all_gather", "all_reduce", "all_to_all", "reduce_scatter"}) {
    const std::string mark = "_" + std::string(known) + "_";
    if (!contains(name, mark)) continue;
    table.operation = known;
    table.devices = number_after(name, mark).value_or(0);
  }
}

Result<BandwidthTable> parse_collective(const SourceFile& file) {
  BandwidthTable table;
  name_collective(file.name, table);
  const auto lines = split(file.text, '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    const auto cells = split(lines[i], ',');
    auto size = positive(cells[0], kMaxImportedMegabytes);
    auto time = cells.size() == 2 ? positive(cells[1], 1e12) : std::nullopt;
    if (!size || !time)
      return at_line(
          file, i + 1,
          "expected a positive size in MB and a positive time in ms");
    const Bytes message = whole_bytes(*size * kMebibyte);
    table.points.push_back(
        {message, BytesPerSecond(*size * kMebibyte / (*time * 1e-3))});
  }
  std::sort(table.points.begin(), table.points.end(),
            [](const auto& a, const auto& b) { return a.message < b.message; });
  for (std::size_t i = 1; i < table.points.size(); ++i)
    if (table.points[i].message == table.points[i - 1].message)
      return malformed("duplicate size " + to_text(table.points[i].message),
                       file.name);
  if (table.points.empty())
    return at_line(file, 2, "expected a row, found the end of the file");
  return table;
}

Result<BandwidthTable> parse_point_to_point(const SourceFile& file) {
  const auto lines = split(file.text, '\n');
  const auto sizes = split(lines[0], ',');
  const auto rates = split(lines.size() > 1 ? lines[1] : "", ',');
  BandwidthTable table;
  table.operation = "p2p";
  if (contains(file.name, "inter_node"))
    table.from = table.to = "inter-node";
  else if (contains(file.name, "intra_node"))
    table.from = table.to = "intra-node";
  if (rates.size() != sizes.size())
    return at_line(file, 2,
                   "expected " + std::to_string(sizes.size()) +
                       " rates, found " + std::to_string(rates.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto size = positive(sizes[i], kMaxImportedMegabytes);
    auto rate = positive(rates[i], 1e9);
    if (!size) return at_line(file, 1, "expected positive sizes in MB");
    if (!rate)
      return at_line(file, 2,
                     "expected a positive rate in GB/s, found \"" +
                         std::string(trim(rates[i])).substr(0, 40) + "\"");
    table.points.push_back(
        {whole_bytes(*size * kMebibyte), BytesPerSecond(*rate * 1e9)});
  }
  for (std::size_t i = 2; i < lines.size(); ++i)
    if (!trim(lines[i]).empty())
      return at_line(file, i + 1, "expected the end of the file");
  return table;
}

Result<Imported> read_aceso(std::span<const SourceFile> files,
                            const ImportOptions& options) {
  Imported imported;
  AcesoProfile maker(options, imported);
  for (const SourceFile& file : files) {
    const std::string_view line = first_line(file.text);
    if (line == kCollective) {
      PIPEWRIGHT_TRY(BandwidthTable table, parse_collective(file));
      imported.bandwidths.push_back(std::move(table));
    } else if (is_size_line(line)) {
      PIPEWRIGHT_TRY(BandwidthTable table, parse_point_to_point(file));
      imported.bandwidths.push_back(std::move(table));
    } else {
      Result<void> done = maker.take(file);
      if (!done) return done.error();
    }
  }
  if (maker.has_operators()) {
    maker.finish();
    imported.what = "operator times";
  } else {
    imported.no_profile = "no file has operator times";
  }
  if (!imported.bandwidths.empty())
    imported.what +=
        imported.what.empty() ? "network rates" : " and network rates";
  return imported;
}

std::string aceso_usage(const SourceFile& file) {
  const std::string_view line = first_line(file.text);
  if (line == kCollective || is_size_line(line))
    return printed_usage(file, "no plan can be made of network rates");
  return profile_usage(file, "--blocks N");
}

}  // namespace

Importer aceso_importer() {
  return {"aceso",
          "Aceso's operator times, collectives and point-to-point rates (CSV)",
          recognises_aceso, read_aceso, aceso_usage};
}

}  // namespace pipewright
