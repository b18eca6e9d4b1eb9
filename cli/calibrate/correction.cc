#include "cli/calibrate/correction.h"

#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"

namespace pipewright::cli {
namespace {

std::string percent_text(double share) { return to_text(share * 100) + " %"; }

DeviceKind corrected_kind(DeviceKind kind, const Correction& correction) {
  kind.layer_overhead += correction.layer_overhead;
  kind.gradient_overhead += correction.gradient_overhead;
  kind.action_overhead += correction.action_overhead;
  kind.step_overhead += correction.step_overhead;
  if (correction.overlap >= 0) kind.overlap = correction.overlap;
  kind.base_memory += correction.base_memory;
  kind.fragmentation += correction.fragmentation;
  return kind;
}

Link corrected_link(Link link, double rate) {
  link.bandwidth = link.bandwidth * rate;
  for (MessageRates* rates : {&link.rates, &link.collective_rates})
    for (MessageRate& message : *rates) message.rate = message.rate * rate;
  return link;
}

}  // namespace

void set(Correction& correction, Parameter parameter, double value) {
  switch (parameter) {
    case Parameter::LayerOverhead:
      correction.layer_overhead = value;
      break;
    case Parameter::GradientOverhead:
      correction.gradient_overhead = Seconds(value);
      break;
    case Parameter::ActionOverhead:
      correction.action_overhead = Seconds(value);
      break;
    case Parameter::StepOverhead:
      correction.step_overhead = Seconds(value);
      break;
    case Parameter::Overlap:
      correction.overlap = value;
      break;
    case Parameter::LinkRate:
      correction.link_rate = value;
      break;
  }
}

double value_of(const Correction& correction, Parameter parameter) {
  switch (parameter) {
    case Parameter::LayerOverhead:
      return correction.layer_overhead;
    case Parameter::GradientOverhead:
      return correction.gradient_overhead.value();
    case Parameter::ActionOverhead:
      return correction.action_overhead.value();
    case Parameter::StepOverhead:
      return correction.step_overhead.value();
    case Parameter::Overlap:
      return correction.overlap;
    case Parameter::LinkRate:
      return correction.link_rate;
  }
  return 0;
}

std::string name_of(Parameter parameter) {
  switch (parameter) {
    case Parameter::LayerOverhead:
      return "layer_overhead";
    case Parameter::GradientOverhead:
      return "gradient_overhead_seconds";
    case Parameter::ActionOverhead:
      return "action_overhead_seconds";
    case Parameter::StepOverhead:
      return "step_overhead_seconds";
    case Parameter::Overlap:
      return "overlap";
    case Parameter::LinkRate:
      return "link_rate";
  }
  return "";
}

std::string parameter_text(const Correction& correction, Parameter parameter) {
  const double value = value_of(correction, parameter);
  switch (parameter) {
    case Parameter::LayerOverhead:
      return "layers take " + percent_text(value) + " longer than profiled";
    case Parameter::GradientOverhead:
      return "each backward of a layer with weights takes " +
             to_text(Seconds(value)) + " more";
    case Parameter::ActionOverhead:
      return "each action takes " + to_text(Seconds(value)) + " more";
    case Parameter::StepOverhead:
      return "each step takes " + to_text(Seconds(value)) + " more";
    case Parameter::Overlap:
      return percent_text(value) + " of a transfer overlaps with compute";
    case Parameter::LinkRate:
      return "links have " + percent_text(value) + " of their rates";
  }
  return "";
}

Result<Cluster> corrected(const Cluster& cluster,
                          const Correction& correction) {
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds())
    builder.add_kind(corrected_kind(kind, correction));
  for (SharedResource resource : cluster.resources()) {
    resource.bandwidth = resource.bandwidth * correction.link_rate;
    builder.add_resource(resource);
  }
  for (const Device& device : cluster.devices()) builder.add_device(device);
  std::vector<Link> links;
  for (const Link& link : cluster.links())
    links.push_back(corrected_link(link, correction.link_rate));
  for (std::size_t a = 0; a < cluster.devices().size(); ++a)
    for (std::size_t b = 0; b < cluster.devices().size(); ++b) {
      const int index =
          a == b ? -1 : cluster.link_index(DeviceId(a), DeviceId(b));
      if (index >= 0)
        builder.connect(DeviceId(a), DeviceId(b),
                        links[static_cast<std::size_t>(index)]);
    }
  return builder.build();
}

}  // namespace pipewright::cli
