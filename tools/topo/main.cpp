// tutti topo: shows the topology of this machine or of another as a tree, a matrix or a picture.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/nccl/graph.hpp"
#include "src/topo/nccl/xml.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/topo/channels.hpp"
#include "tools/topo/list.hpp"
#include "tools/topo/picture.hpp"
#include "tools/topo/rdma.hpp"
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
constexpr std::size_t kLargestGraph = std::size_t{64} << 20U;

struct Options {
  TopologySource source;
  bool list = false;
  bool matrix = false;
  bool bandwidths = false;
  bool measure = false;
  bool rdma = false;
  double seconds = 2;
  std::string measured;
  std::string graph;
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

bool names_machine(const TopologySource& source) {
  return !source.from.empty() || !source.synthetic.empty() || !source.preset.empty() ||
         !source.machine.empty();
}

/// NCCL's channels; of a machine that is named, they must fit it.
Status show_graph(const Options& options) {
  TUTTI_TRY(check_outputs(outputs_of(options)));
  TUTTI_ASSIGN(const std::string text, read_file(options.graph, kLargestGraph));
  const auto graphs = tutti::topo::read_nccl_graph(text);
  if (!graphs)
    return make_error(Code::kWrongData, "{} is no graph file of NCCL: {}",
                      shown_path(options.graph), graphs.error().what);
  if (names_machine(options.source)) {
    TUTTI_ASSIGN(const NamedTopology named, load_topology(options.source));
    const Status fits = tutti::topo::check(*graphs, named.noted.topology);
    if (!fits)
      return make_error(Code::kWrongData, "{} does not fit {}: {}", shown_path(options.graph),
                        named.name, fits.error().what);
  }
  const std::string name = std::filesystem::path(options.graph).filename();
  if (!options.svg.empty()) TUTTI_TRY(write_output(options.svg, channels_picture(*graphs, name)));
  return options.svg == "-" ? tutti::ok_status() : print(channels_text(*graphs));
}

Status show(const Options& options) {
  if (options.list) return print(list_of_machines());
  if (options.rdma) {
    TUTTI_ASSIGN(const std::string text, rdma_of_this_machine());
    return print(text);
  }
  if (!options.graph.empty()) return show_graph(options);
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

/// Of the ranks of a job that measures, rank 0 alone shows what was found.
Status run(Options options) {
  if (!options.measure) return show(options);
  TUTTI_TRY(check_all(options));
  TUTTI_ASSIGN(options.source.measured, measure_interface(options.seconds));
  return options.source.measured ? show(options) : tutti::ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app("Shows the topology of this machine, or of another, as a tree.", kProgram);
  Options options;
  const std::string group = "Topology (default: this machine)";
  auto from = app.add_option("--from", options.source.from,
                             "a file: topology XML of NCCL, RCCL or lstopo, what `nvidia-smi topo "
                             "-m` printed, Tutti's JSON or a recorded machine");
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
  auto rdma =
      app.add_flag("--rdma", options.rdma,
                   "the RDMA devices of this machine: ports, addresses, limits, what is used");
  auto graph = app.add_option("--graph", options.graph,
                              "show the channels of a graph file of NCCL (NCCL_GRAPH_DUMP_FILE)");
  graph.value_name("FILE");
  auto matrix_flag =
      app.add_flag("--matrix", options.matrix, "the kind of path between all GPUs, NICs and CPUs");
  auto bandwidths =
      app.add_flag("--bandwidths", options.bandwidths, "the bandwidth of these paths in GB/s");
  auto measure = app.add_flag(
      "--measure", options.measure,
      "measure the interface between the hosts of this job (mpirun, srun, torchrun), and show rank "
      "0's machine with it where its driver tells no speed");
  auto seconds = app.add_option("--seconds", options.seconds, "about how long to measure (2)");
  seconds.in_range(0.01, 60).needs(measure);
  for (const Option& other : {from, synthetic, preset, machine, graph}) measure.excludes(other);
  for (const Option& other : {from, synthetic, preset, machine, graph, measure})
    rdma.excludes(other);
  auto measured = app.add_option("--measured", options.measured,
                                 "show the bus bandwidths that `tutti bench --json` wrote to FILE");
  app.add_option("--svg", options.svg, "write a picture to FILE; '-': standard output")
      .value_name("FILE");
  auto xml = app.add_option("--xml", options.xml, "write NCCL's topology XML");
  auto json = app.add_option("--json", options.json, "write Tutti's JSON");
  auto record = app.add_option("--record", options.record,
                               "write what detection reads of this machine, for a bug report");
  for (Option file : {measured, xml, json, record}) file.value_name("FILE");
  for (const Option& other : {matrix_flag, bandwidths, measured, xml, json, record})
    graph.excludes(other);
  if (const auto code = app.parse(argc, argv)) return *code;
  return within_memory(kProgram, [&] {
    const Status shown = run(options);
    return shown ? static_cast<int>(kExitFine) : fail(kProgram, shown.error());
  });
}
