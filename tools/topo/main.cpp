// tutti topo: shows the topology of this machine or of another as a tree, a matrix or a picture.
#include <algorithm>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/nccl/xml.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/topo/list.hpp"
#include "tools/topo/picture.hpp"
#include "tools/topo/source.hpp"
#include "tools/topo/text.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Code;
using tutti::make_error;
using tutti::read_file;
using tutti::Result;
using tutti::Status;

constexpr std::string_view kProgram = "tutti topo";
constexpr std::size_t kLargestBenchJson = std::size_t{64} << 20U;

struct Options {
  TopologySource source;
  bool list = false;
  bool matrix = false;
  bool bandwidths = false;
  std::string measured;
  std::string svg, xml, json, record;  ///< files to write; "-": standard output
};

std::vector<Output> outputs_of(const Options& options) {
  return {{"--svg", options.svg},
          {"--xml", options.xml},
          {"--json", options.json},
          {"--record", options.record}};
}

/// One thing alone can be written to standard output.
Status check_all(const Options& options) {
  const std::vector<Output> outputs = outputs_of(options);
  TUTTI_TRY(check_outputs(outputs));
  const std::string_view taken = option_on_standard_output(outputs);
  if (!taken.empty() && (options.matrix || options.bandwidths))
    return make_error(Code::kInvalidArgument,
                      "{} - leaves no room for a matrix on standard output: give it a file", taken);
  return tutti::ok_status();
}

Result<std::vector<Measured>> measured_of(const Options& options,
                                          const tutti::topo::Topology& topology) {
  if (options.measured.empty()) return std::vector<Measured>();
  TUTTI_ASSIGN(const std::string text, read_file(options.measured, kLargestBenchJson));
  return read_measured(options.measured, text, topology);
}

/// What a reader of the XML will find otherwise than it is; "" for nothing.
std::string lost_in_xml(const tutti::topo::Topology& topology, const std::string& xml) {
  const auto again = tutti::topo::read_nccl_xml(xml);
  if (!again) return again.error().what;
  std::vector<std::string> changes;
  for (int i = 0; i < tutti::topo::kNodeKinds; ++i) {
    const auto kind = static_cast<tutti::topo::NodeKind>(i);
    const auto had = std::ranges::count(topology.nodes(), kind, &tutti::topo::Node::kind);
    const auto has = std::ranges::count(again->topology.nodes(), kind, &tutti::topo::Node::kind);
    if (had != has)
      changes.push_back(fmt::format("{} of kind {} become {}", had, name_of(kind), has));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

Status show(const Options& options) {
  if (options.list) return print(list_of_machines());
  TUTTI_TRY(check_all(options));
  if (!options.record.empty()) {
    TUTTI_ASSIGN(const std::string record, record_this_machine());
    TUTTI_TRY(write_output(options.record, record));
  }
  TUTTI_ASSIGN(const NamedTopology named, load_topology(options.source));
  const tutti::topo::Topology& topology = named.noted.topology;
  TUTTI_ASSIGN(const std::vector<Measured> measured, measured_of(options, topology));
  const Arrangement arrangement(topology, named.whole ? *named.whole : topology);
  if (!options.json.empty())
    TUTTI_TRY(write_output(options.json, tutti::topo::topology_json(topology)));
  if (!options.xml.empty()) {
    TUTTI_ASSIGN(const std::string xml, tutti::topo::write_nccl_xml(topology));
    TUTTI_TRY(write_output(options.xml, xml));
    if (const std::string lost = lost_in_xml(topology, xml); !lost.empty())
      note(fmt::format("{}: NCCL's XML does not say all that is here: {}; --json does\n", kProgram,
                       lost));
  }
  if (!options.svg.empty())
    TUTTI_TRY(write_output(options.svg, picture(arrangement, named.name, measured)));
  if (options.matrix) TUTTI_TRY(print(matrix(arrangement, Cells::kKinds)));
  if (options.matrix && options.bandwidths) TUTTI_TRY(print("\n"));
  if (options.bandwidths) TUTTI_TRY(print(matrix(arrangement, Cells::kBandwidths)));
  const bool is_taken = !option_on_standard_output(outputs_of(options)).empty();
  if (options.matrix || options.bandwidths || is_taken) return tutti::ok_status();
  return print(tree(arrangement, named.noted.assumptions, measured));
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app("Shows the topology of this machine, or of another, as a tree.", kProgram);
  Options options;
  const std::string group = "Topology (default: this machine)";
  auto from = app.add_option("--from", options.source.from,
                             "a file: NCCL's topology XML, Tutti's JSON, lstopo's XML or a "
                             "recorded machine");
  auto synthetic =
      app.add_option("--synthetic", options.source.synthetic,
                     "a machine of that shape: gpu:2x8, cpu:2x8@10GB/s, ring:8, torus:4x4");
  auto preset = app.add_option(
      "--preset", options.source.preset,
      "known machines and fabrics: dgx-h100, or 4x dgx-h100 over rail-optimised (docs/presets.md)");
  auto machine =
      app.add_option("--machine", options.source.machine, "a machine that --record wrote");
  from.value_name("FILE").group(group).excludes(synthetic).excludes(preset).excludes(machine);
  synthetic.value_name("TEXT").group(group).excludes(preset).excludes(machine);
  preset.value_name("TEXT").group(group).excludes(machine);
  machine.value_name("FILE").group(group);

  app.add_flag("--list", options.list,
               "all presets and synthetic machines with their parameters, and nothing else");
  app.add_flag("--matrix", options.matrix, "the kind of path between all GPUs, NICs and CPUs");
  app.add_flag("--bandwidths", options.bandwidths, "the bandwidth of these paths in GB/s");
  app.add_option("--measured", options.measured,
                 "show the bus bandwidths that `tutti bench --json` wrote to FILE")
      .value_name("FILE");
  app.add_option("--svg", options.svg, "write a picture to FILE; '-': standard output")
      .value_name("FILE");
  app.add_option("--xml", options.xml, "write NCCL's topology XML").value_name("FILE");
  app.add_option("--json", options.json, "write Tutti's JSON").value_name("FILE");
  app.add_option("--record", options.record,
                 "write what detection reads of this machine, for a bug report")
      .value_name("FILE");
  if (const auto code = app.parse(argc, argv)) return *code;
  return within_memory(kProgram, [&] {
    const Status shown = show(options);
    return shown ? static_cast<int>(kExitFine) : fail(kProgram, shown.error());
  });
}
