// Others' profiles, instances, network measurements and plans, brought into our
// own nouns. One file a format; each says by which content it knows its files.
//
// An importer keeps what the source gives and guesses nothing: what the source
// leaves out (samples of a microbatch, device, halves of backward) is named in
// the options or marked as estimated in the profile's origin, and `notes` says
// it in words. Nothing here reads or writes files or prints.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/profile/formats/bandwidth_table.h"
#include "pipewright/profile/formats/piper_instance.h"
#include "pipewright/profile/formats/placement.h"
#include "pipewright/profile/formats/published_plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct SourceFile {
  std::string name;  // as in errors; some formats keep facts only in the path
  std::string text;
};

// What a source may leave out. 0 and "" mean "not named".
struct ImportOptions {
  int samples = 0;          // of the microbatch the times are for
  std::string device;       // kind of device they were measured on
  std::string model;        // name of the model
  int tensor_parallel = 1;  // which degree, where a source has several
  int sequence = 0;         // which sequence length, where it has several
  int blocks = 0;           // how often the repeated block stands in the model
  std::string note;         // added to the origin as it is
};

// A device that the source itself speaks of.
struct ImportedDevices {
  std::string kind;
  int count = 0;
  Bytes memory;              // 0: no limit given
  BytesPerSecond bandwidth;  // between two of them; 0: not given
};

// Sums over the source as it stands, before anything is dropped or joined.
struct SourceTotals {
  int nodes = 0;
  int edges = 0;
  Seconds forward;
  Seconds backward;
  Bytes parameters;
};

struct Imported {
  std::string from;  // the importer's name
  std::string what;  // "layer graph", "placement instance and expert split"
  std::optional<Profile> profile;
  std::string no_profile;  // why there is none
  std::optional<PlacementInstance> placement;
  std::vector<PlacementSplit> splits;
  std::optional<PiperInstance> piper;
  std::vector<BandwidthTable> bandwidths;
  std::vector<PublishedPlan> plans;
  std::vector<ImportedDevices> devices;
  SourceTotals totals;
  std::vector<std::string> notes;  // dropped, assumed, derived: for people
};

struct Importer {
  std::string name;   // as in --from
  std::string reads;  // for help
  // Cheap, and true also for a damaged file of the kind: the reader then says
  // what is wrong with it.
  bool (*recognises)(const SourceFile& file);
  // At least one file. Fails with MalformedInput (file:line, what was expected)
  // or BadConfiguration (an option is needed, files do not go together).
  Result<Imported> (*read)(std::span<const SourceFile> files,
                           const ImportOptions& options);
};

Importer pipedream_importer();
Importer dnn_partitioning_importer();
Importer piper_importer();
Importer sailor_importer();
Importer aceso_importer();
Importer galvatron_importer();

// All of them, in the order in which they are asked.
const std::vector<Importer>& importers();

// `from` is a name, or "" to choose by content: every file must then be of one
// kind.
Result<Imported> import_files(std::span<const SourceFile> files,
                              const std::string& from,
                              const ImportOptions& options);

}  // namespace pipewright
