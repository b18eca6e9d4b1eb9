#include "pipewright/profile/formats/galvatron_files.h"

#include <algorithm>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"

namespace pipewright {
namespace {

// Reads one key of the computation file; false if the key is unknown.
bool take_time(const std::string& key, double ms, GalvatronTimes& times) {
  if (auto n = numbers_in(key, "layernum[#]_bsz#"))
    times.whole_ms[(*n)[0]][{(*n)[1], 0}] = ms;
  else if (auto s = numbers_in(key, "layernum[#]_bsz#_seq#"))
    times.whole_ms[(*s)[0]][{(*s)[1], (*s)[2]}] = ms;
  else if (key == "layertype_0")
    times.layer_ms_only = ms;
  else if (auto l = numbers_in(key, "layertype_0_bsz#"))
    times.layer_ms[{(*l)[0], 0}] = ms;
  else if (auto ls = numbers_in(key, "layertype_0_bsz#_seq#"))
    times.layer_ms[{(*ls)[0], (*ls)[1]}] = ms;
  else if (auto o = numbers_in(key, "layertype_other_0_bsz#"))
    times.other_ms[{(*o)[0], 0}] = ms;
  else if (auto os = numbers_in(key, "layertype_other_0_bsz#_seq#"))
    times.other_ms[{(*os)[0], (*os)[1]}] = ms;
  else
    return false;
  return true;
}

double megabytes(const JsonCursor& at) {
  return at.real(0, kMaxImportedMegabytes);
}

void read_layer(JsonCursor layer, GalvatronMemory& memory) {
  memory.is_given = true;
  memory.parameters_mb = megabytes(layer.at("parameter_size"));
  JsonCursor kept = layer.at("tp_activation_per_bsz_dict");
  memory.kept_mb = megabytes(kept.at("1"));
  memory.input_mb = megabytes(kept.at("checkpoint"));
  layer.refuse_other_keys();
}

// The value at degree 1, if there is one value per degree.
double at_degree_one(JsonCursor value) {
  if (value.json() && value.json()->if_object())
    return megabytes(value.at("1"));
  return megabytes(value);
}

void read_other(JsonCursor other, double& states, double& kept) {
  states = at_degree_one(other.at("model_states"));
  kept = at_degree_one(other.at("activation"));
  other.refuse_other_keys();
}

// Collects the measured sizes of one operation in one table.
class NetworkReader {
 public:
  GalvatronNetwork network;

  // False if the key is unknown.
  bool take(const std::string& key, const JsonCursor& value) {
    if (key == "overlap_coe") {
      network.overlap = value.real(0, 1e6);
      return true;
    }
    const double number = value.real(1e-9, 1e9);
    if (auto a = numbers_in(key, "allreduce_size_#_consec_#"))
      add_rate("all_reduce", (*a)[0], (*a)[1] ? "consecutive" : "strided",
               number);
    else if (auto p = numbers_in(key, "pp_size_#"))
      add_rate("p2p", (*p)[0], "", number);
    else if (auto r = numbers_in(key, "allreduce_size_#_#MB_time"))
      add_time("all_reduce", (*r)[0], (*r)[1], number);
    else if (auto t = numbers_in(key, "all2all_size_#_#MB_time"))
      add_time("all_to_all", (*t)[0], (*t)[1], number);
    else
      return false;
    return true;
  }

 private:
  void add_rate(const std::string& operation, int devices,
                const std::string& who, double gigabytes) {
    BandwidthTable table;
    table.operation = operation;
    table.from = table.to = who;
    table.devices = devices;
    table.points = {{Bytes(0), BytesPerSecond(gigabytes * 1e9)}};
    network.tables.push_back(std::move(table));
  }

  void add_time(const std::string& operation, int devices, int mb, double ms) {
    auto [at, is_new] =
        timed_.emplace(std::pair(operation, devices), network.tables.size());
    if (is_new) {
      network.tables.emplace_back();
      network.tables.back().operation = operation;
      network.tables.back().devices = devices;
    }
    const double bytes = mb * kMebibyte;
    network.tables[at->second].points.push_back(
        {whole_bytes(bytes), BytesPerSecond(bytes / ms * 1e3)});
  }

  std::map<std::pair<std::string, int>, std::size_t> timed_;
};

// Whole numbers separated by commas: "1,1,2".
std::vector<int> list_of(const JsonCursor& at) {
  std::vector<int> numbers;
  if (!at.exists()) return numbers;
  const std::string text = at.text();
  if (!at.is_text()) return numbers;
  for (std::string_view part : split(text, ',')) {
    auto number = parse_integer(trim(part));
    if (!number || *number < 0 || *number > kMaxImportedCount) {
      at.fail("expected numbers separated by commas");
      return {};
    }
    numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

// A digit or a list of it, "0,0,0"; also true if it is missing.
bool consists_of(const JsonCursor& at, char digit) {
  return !at.exists() || at.json()->to_line().find_first_not_of(
                             std::string("\", ") + digit) == std::string::npos;
}

std::vector<bool> flags_of(const std::vector<int>& numbers, std::size_t first,
                           std::size_t count) {
  std::vector<bool> flags;
  for (std::size_t i = first; i < first + count && i < numbers.size(); ++i)
    flags.push_back(numbers[i] != 0);
  return flags;
}

struct LayerLists {
  std::vector<int> division, degrees, shards, recompute;
};

void add_stages(const LayerLists& lists, PublishedPlan& plan) {
  std::size_t first = 0;
  for (std::size_t count : lists.division) {
    PublishedStage stage;
    stage.replicas = 0;  // the number of GPUs is not in the file
    for (std::size_t i = first; i < first + count; ++i) {
      stage.layers.push_back(static_cast<int>(i));
      stage.tensor_parallel.push_back(lists.degrees[i]);
    }
    stage.shards_weights = flags_of(lists.shards, first, count);
    stage.recompute = flags_of(lists.recompute, first, count);
    first += count;
    plan.stages.push_back(std::move(stage));
  }
}

void check_lists(const LayerLists& lists, JsonCursor& root) {
  std::size_t layers = 0;
  for (std::size_t count : lists.division) layers += count;
  auto expect = [&](const std::vector<int>& list, const char* key) {
    if (list.size() != layers)
      root.find(key).fail("expected " + std::to_string(layers) +
                          " numbers, the sum of pp_division, found " +
                          std::to_string(list.size()));
  };
  expect(lists.degrees, "tp_sizes_enc");
  expect(lists.shards, "dp_types_enc");
  if (!lists.recompute.empty()) expect(lists.recompute, "checkpoint");
}

}  // namespace

std::optional<std::vector<int>> numbers_in(std::string_view text,
                                           std::string_view form) {
  std::vector<int> numbers;
  for (char mark : form) {
    if (mark != '#') {
      if (text.empty() || text.front() != mark) return std::nullopt;
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length =
        std::min(text.find_first_not_of("0123456789"), text.size());
    auto number = parse_integer(text.substr(0, length));
    if (!number || *number > kMaxImportedCount) return std::nullopt;
    numbers.push_back(static_cast<int>(*number));
    text.remove_prefix(length);
  }
  if (!text.empty()) return std::nullopt;
  return numbers;
}

Result<GalvatronTimes> parse_galvatron_times(std::string_view text,
                                             const std::string& file) {
  return read_json(text, file, [&](JsonCursor& root) {
    GalvatronTimes times;
    for (const auto& [key, value] : root.members())
      if (!take_time(key, value.real(-kMaxImportedMs, kMaxImportedMs), times))
        value.fail("unknown key \"" + key + "\"",
                   "known: layernum[N]_bszN, layertype_0, layertype_0_bszN, "
                   "layertype_other_0_bszN, each also with _seqN");
    return times;
  });
}

Result<GalvatronMemory> parse_galvatron_memory(std::string_view text,
                                               const std::string& file) {
  return read_json(text, file, [&](JsonCursor& root) {
    GalvatronMemory memory;
    if (JsonCursor layer = root.find("layertype_0"); layer.exists()) {
      read_layer(layer, memory);
      read_other(root.at("other_memory_pp_on_first"), memory.first_states_mb,
                 memory.first_kept_mb);
      read_other(root.at("other_memory_pp_on_last"), memory.last_states_mb,
                 memory.last_kept_mb);
    }
    // The other entries are the raw measurements, and the same for other ways
    // to shard the memory.
    for (const auto& [key, value] : root.members())
      if (!value.json()->if_object()) value.fail("expected an object");
    return memory;
  });
}

Result<GalvatronNetwork> parse_galvatron_network(std::string_view text,
                                                 const std::string& file) {
  return read_json(text, file, [&](JsonCursor& root) {
    NetworkReader reader;
    for (const auto& [key, value] : root.members())
      if (!reader.take(key, value))
        value.fail("unknown key \"" + key + "\"",
                   "known: allreduce_size_N_consec_N, pp_size_N, "
                   "allreduce_size_N_NMB_time, all2all_size_N_NMB_time, "
                   "overlap_coe");
    for (BandwidthTable& table : reader.network.tables)
      std::sort(
          table.points.begin(), table.points.end(),
          [](const auto& a, const auto& b) { return a.message < b.message; });
    return reader.network;
  });
}

Result<PublishedPlan> parse_galvatron_plan(std::string_view text,
                                           const std::string& file) {
  LayerLists lists;
  Result<PublishedPlan> read = read_json(text, file, [&](JsonCursor& root) {
    PublishedPlan plan;
    plan.source = file;
    lists.division = list_of(root.at("pp_division"));
    lists.degrees = list_of(root.at("tp_sizes_enc"));
    lists.shards = list_of(root.at("dp_types_enc"));
    lists.recompute = list_of(root.find("checkpoint"));
    check_lists(lists, root);
    JsonCursor stages = root.at("pp_deg");
    const std::int64_t num_stages = stages.integer(1, kMaxImportedCount);
    if (stages.exists() &&
        num_stages != static_cast<std::int64_t>(lists.division.size()))
      stages.fail("expected " + std::to_string(lists.division.size()) +
                  " stages, as in pp_division");
    plan.minibatch =
        static_cast<int>(root.at("global_bsz").integer(1, kMaxImportedCount));
    plan.microbatches =
        static_cast<int>(root.at("chunks").integer(1, kMaxImportedCount));
    plan.schedule = root.at("pipeline_type").text();
    plan.optimizer_words = 2;                    // Adam
    plan.layers_before = plan.layers_after = 1;  // embedding and head
    if (JsonCursor type = root.find("default_dp_type"); type.exists())
      plan.data_parallel_type = type.text();
    root.find("tp_consecutive_flags");
    for (const auto& [key, neutral] :
         {std::pair<const char*, char>{"use_sp", '0'},
          {"vsp", '0'},
          {"vtp", '1'}})
      if (!consists_of(root.find(key), neutral))
        plan.unread.push_back("\"" + std::string(key) + "\"");
    root.refuse_other_keys();
    return plan;
  });
  if (read) add_stages(lists, *read);
  return read;
}

Result<int> parse_galvatron_layers(std::string_view text,
                                   const std::string& file) {
  PIPEWRIGHT_TRY(const std::int64_t layers,
                 read_json(text, file, [](JsonCursor& root) {
                   std::int64_t layers = 0;
                   for (const char* key : {"n_layer", "n_layers", "num_layers"})
                     if (JsonCursor count = root.find(key); count.exists())
                       layers = count.integer(1, 10'000);
                   if (JsonCursor depths = root.find("depths"); depths.exists())
                     for (const JsonCursor& depth : depths.elements())
                       layers += depth.integer(1, 1000);
                   return layers;
                 }));
  if (layers < 1 || layers > 10'000)
    return malformed(
        "expected a number of layers under n_layer, n_layers, "
        "num_layers or depths",
        file);
  return static_cast<int>(layers);
}

}  // namespace pipewright
