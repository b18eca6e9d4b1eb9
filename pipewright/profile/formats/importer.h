// Imports profiles, placement instances, network measurements and plans of
// other systems. One file per format; each recognises its files by their
// content.
//
// An importer keeps what the source gives. What the source does not give
// (samples of a microbatch, device, halves of backward) comes from the options
// or is marked as estimated in the profile's origin, and `notes` explains it.
// Nothing here reads or writes files or prints.

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
  std::string
      name;  // for errors; some formats have information only in the path
  std::string text;
};

// What a source may not give. 0 and "" mean "not set".
struct ImportOptions {
  int samples = 0;          // of the microbatch the times are for
  std::string device;       // kind of device they were measured on
  std::string model;        // name of the model
  int tensor_parallel = 1;  // which degree, if a source has several
  int sequence = 0;         // which sequence length, if it has several
  int blocks = 0;           // how often the model repeats its block
  Seconds time_unit;        // of times without a unit
  std::string note;         // added to the origin
};

// Devices that the source describes.
struct ImportedDevices {
  std::string kind;
  int count = 0;
  Bytes memory;              // 0: no limit given
  BytesPerSecond bandwidth;  // between two of them; 0: not given
};

// Sums over the source, before anything is dropped.
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
  std::string no_profile;  // why there is no profile
  std::optional<PlacementInstance> placement;
  std::vector<PlacementSplit> splits;
  std::optional<PiperInstance> piper;
  std::vector<BandwidthTable> bandwidths;
  std::vector<PublishedPlan> plans;
  std::vector<ImportedDevices> devices;
  SourceTotals totals;
  std::vector<std::string> notes;  // what was dropped, assumed or derived
};

struct Importer {
  std::string name;   // as in --from
  std::string reads;  // for help
  // Fast, and also true for a damaged file of the format: reading it then gives
  // the error.
  bool (*recognises)(const SourceFile& file);
  // Needs at least one file. Fails with MalformedInput (file:line, what was
  // expected) or BadConfiguration (missing option, files do not fit together).
  Result<Imported> (*read)(std::span<const SourceFile> files,
                           const ImportOptions& options);
  // For a file that is given where a plan file is expected: the command that
  // reads it, for a hint (import_usage.h).
  std::string (*usage)(const SourceFile& file);
};

Importer pipedream_importer();
Importer dnn_partitioning_importer();
Importer piper_importer();
Importer sailor_importer();
Importer aceso_importer();
Importer galvatron_importer();

// All importers, in the order in which they are tried.
const std::vector<Importer>& importers();

// Who reads the file, by its content; null if nobody does.
const Importer* importer_for(const SourceFile& file);

// `from` is the name of an importer, or "" to choose it by content. All files
// must have the same format.
Result<Imported> import_files(std::span<const SourceFile> files,
                              const std::string& from,
                              const ImportOptions& options);

}  // namespace pipewright
