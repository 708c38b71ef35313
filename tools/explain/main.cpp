// tutti explain: says which algorithm would run for a call, what it and all others would take, and
// why they do not run.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/comm/this_host.hpp"
#include "src/cost/asked.hpp"
#include "src/cost/calibration_store.hpp"
#include "src/cost/measured_store.hpp"
#include "src/sim/simulate.hpp"
#include "src/topo/detect/probe.hpp"
#include "src/topo/job/fuse.hpp"
#include "tools/algo/names.hpp"
#include "tools/explain/candidates.hpp"
#include "tools/explain/compressed.hpp"
#include "tools/explain/nics.hpp"
#include "tools/picture/svg.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/program/sizes.hpp"
#include "tools/sim/machine.hpp"

namespace {

using namespace tutti;         // NOLINT(google-build-using-namespace): the program's own vocabulary
using namespace tutti::tools;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kProgram = "tutti explain";

struct Options {
  std::string collective, size;
  int ranks = 0;
  std::string layout, topology;
  std::string type = "float", op = "sum";
  Rank root = 0;
  std::string compress;  ///< "": as TUTTI_COMPRESS says
  std::string calibration_path, table_path, json_path;
};

template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(name_of(static_cast<Enum>(i)));
  return names;
}

/// `name` must be one of names_of().
template <class Enum>
Enum named(const std::string& name, int count) {
  const auto names = names_of<Enum>(count);
  return static_cast<Enum>(std::ranges::find(names, name) - names.begin());
}

constexpr int kPlainOps = static_cast<int>(ReduceOp::kPreMulSum);

void add_options(CommandLine& app, Options& options) {
  app.add_option("COLLECTIVE", options.collective, "what is called")
      .required()
      .one_of(collective_names());
  app.add_option("SIZE", options.size, "bytes as tutti bench counts them: 8, 64K, 4M").required();
  app.add_option("-n,--ranks", options.ranks,
                 "ranks, all on one host (default: as many as processors)")
      .in_range(2, kMostAlgoRanks);
  app.add_option("--layout", options.layout, "ranks on hosts: 2x4 is 2 hosts of 4, 4,3,4 is three");
  app.add_option("--topology", options.topology,
                 "a machine as in tutti sim, with a rank on each GPU, or CPU node");
  app.add_option("-d,--datatype", options.type, "type of the elements")
      .one_of(names_of<DataType>(kDataTypes))
      .shows_default();
  app.add_option("-o,--op", options.op, "how they are reduced")
      .one_of(names_of<ReduceOp>(kPlainOps))
      .shows_default();
  app.add_option("-r,--root", options.root, "root rank").in_range(0, kMostAlgoRanks);
  app.add_option("--compress", options.compress,
                 "also say what the call would do in this format, as in int8:block=128 (default: "
                 "TUTTI_COMPRESS's)");
  app.add_option("--calibration", options.calibration_path,
                 "constants of the model by tutti calibrate, for times and, but with --topology, "
                 "the choice (default: TUTTI_CALIBRATION's)");
  app.add_option("--table", options.table_path,
                 "a table by tutti tune, in place of the one that the library uses here");
  app.add_option("--json", options.json_path, "write the results there; - for standard output");
}

/// Where the ranks are, and, of a topology, what joins them.
struct Ranks {
  lower::Placement placement;
  ir::Layout layout;
  simtool::Machine machine;  ///< without a fabric where there is no topology
};

Result<Ranks> ranks_of(const Options& options) {
  const int given = (options.ranks != 0) + !options.layout.empty() + !options.topology.empty();
  if (given > 1)
    return make_error(Code::kInvalidArgument,
                      "say who calls, in one way: --ranks, --layout or --topology");
  Ranks ranks;
  if (given == 0) {
    const std::int32_t here = std::min(simtool::ranks_of_this_machine(), kMostAlgoRanks);
    note(fmt::format(
        "{}: {} ranks, as many as processors here; --ranks, --layout or --topology name others\n",
        kProgram, here));
    ranks.placement.host.assign(static_cast<std::size_t>(here), 0);
    return ranks;
  }
  if (!options.topology.empty()) {
    simtool::MachineOptions machine;
    machine.topology = options.topology;
    TUTTI_ASSIGN(ranks.machine, simtool::make_machine(machine));
    if (ranks.machine.ranks() > kMostAlgoRanks)
      return make_error(Code::kInvalidArgument,
                        "--topology '{}' has {} ranks; at most {} are compared", options.topology,
                        ranks.machine.ranks(), kMostAlgoRanks);
    for (const topo::NodeId node : ranks.machine.placement.ranks)
      ranks.placement.host.push_back(
          static_cast<std::int32_t>(ranks.machine.topology->node(node).host));
    ranks.layout = ranks.machine.layout;
    return ranks;
  }
  if (options.ranks != 0) {
    ranks.placement.host.assign(static_cast<std::size_t>(options.ranks), 0);
    return ranks;
  }
  TUTTI_ASSIGN(ranks.layout, layout_named(options.layout));
  ranks.placement.host.resize(ranks.layout.cells.size());
  const auto nodes = ir::nodes_of(ranks.layout);
  for (std::size_t host = 0; host < nodes.size(); ++host)
    for (const Rank rank : nodes[host])
      ranks.placement.host[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(host);
  return ranks;
}

/// Of ranks that cost nothing, so that links alone take time.
Calibration links_alone(int ranks) {
  Calibration free;
  free.measured_on = "links alone: what ranks do is free";
  free.call_us = free.step_us = free.copy_ps_per_byte = free.reduce_ps_per_byte = 0;
  free.cpus_per_host = static_cast<std::uint32_t>(ranks);
  free.inside = free.between = {};
  return free;
}

/// What times are predicted with; where the library has one, it proposes with it, too.
Status add_calibration(const Options& options, const Ranks& ranks, const Settings& settings,
                       Question& question) {
  if (ranks.machine.fabric) {
    question.calibration = links_alone(ranks.machine.ranks());
    if (options.calibration_path.empty()) return ok_status();
  }
  std::optional<Calibration> given;
  if (options.calibration_path.empty()) {
    given = CalibrationStore(settings.text("CALIBRATION")).calibration();
  } else {
    TUTTI_ASSIGN(given, simtool::load_calibration(options.calibration_path));
  }
  question.calibration = given.value_or(Calibration{});
  if (!ranks.machine.fabric) question.policy.calibration = std::move(given);
  return ok_status();
}

/// None where all ranks share a host.
Result<std::vector<NearNics>> nics_between_hosts(const Ranks& ranks, const Settings& settings) {
  if (std::ranges::max(ranks.placement.host) == std::ranges::min(ranks.placement.host))
    return std::vector<NearNics>();
  if (ranks.machine.topology) return near_nics(*ranks.machine.topology, ranks.machine.placement);
  ThisHost here(std::make_unique<topo::FilesProbe>(), settings);
  TUTTI_ASSIGN(const topo::Noted host, here.describe());
  return near_nics_of_host(host.topology);
}

/// How machines are wired whose hosts are all like this one, as communicators see it.
Result<std::uint64_t> wiring_of(const lower::Placement& placement, const Settings& settings) {
  ThisHost here(std::make_unique<topo::FilesProbe>(), settings);
  TUTTI_ASSIGN(const topo::Noted host, here.describe());
  const auto hosts = static_cast<std::size_t>(1 + *std::ranges::max_element(placement.host));
  std::vector<topo::JobRank> ranks;
  for (const std::int32_t each : placement.host)
    ranks.push_back({static_cast<topo::HostId>(each), {}});
  TUTTI_ASSIGN(const topo::JobTopology job,
               topo::fuse(std::vector<topo::Noted>(hosts, host), ranks));
  return job.wiring;
}

/// What was measured, where the ranks are on hosts like this one.
Status add_table(const Options& options, const Settings& settings, Question& question) {
  question.policy.arrangement = arrangement_of(question.placement.host);
  TUTTI_ASSIGN(question.policy.arrangement.topology, wiring_of(question.placement, settings));
  if (options.table_path.empty()) {
    question.policy.table = store_of_table(settings)->table();
    return ok_status();
  }
  TUTTI_ASSIGN(const std::string text, read_file(options.table_path, kMostTableBytes));
  auto table = MeasuredTable::parse(text);
  if (!table)
    return make_error(Code::kWrongData, "{}: {}", shown_path(options.table_path),
                      table.error().what);
  question.policy.table = *std::move(table);
  return ok_status();
}

Result<Question> question_of(const Options& options, const Ranks& ranks) {
  Question question;
  question.request = {.collective = collective_named(options.collective),
                      .ranks = static_cast<std::int32_t>(ranks.placement.host.size()),
                      .root = options.root,
                      .layout = ranks.layout};
  if (options.root >= question.request.ranks)
    return make_error(Code::kInvalidArgument, "--root {} is none of {} ranks", options.root,
                      question.request.ranks);
  question.type = named<DataType>(options.type, kDataTypes);
  question.op = named<ReduceOp>(options.op, kPlainOps);
  TUTTI_ASSIGN(const std::size_t bytes, tools::parse_size(options.size));
  const double each = sim::size_of_call(question.request, {1, size_of(question.type)});
  question.count = bytes / static_cast<std::size_t>(each);
  if (question.count == 0)
    return make_error(Code::kInvalidArgument,
                      "{} of {} bytes over {} ranks is less than an element each",
                      options.collective, bytes, question.request.ranks);
  question.placement = ranks.placement;
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  question.policy = {.forced = asked_algorithms(settings, algorithms::all()),
                     .deterministic = settings.flag("DETERMINISTIC"),
                     .staging_bytes = static_cast<std::size_t>(settings.integer("STAGING_BYTES"))};
  if (options.topology.empty()) TUTTI_TRY(add_table(options, settings, question));
  TUTTI_TRY(add_calibration(options, ranks, settings, question));
  question.fabric = ranks.machine.fabric.get();
  return question;
}

std::string text_of(const CompressedCall& call) {
  return fmt::format(
      "\nCompressed as {} ({:.4g} bits a value){}: {}, which rounds a contribution {} at most.\n"
      "It takes {}, plain {}: {}. Encoding and decoding take as long as on one CPU here.\n",
      call.format, call.bits, call.between_hosts ? " between hosts" : "", call.algorithm,
      call.roundings == 1 ? "once" : fmt::format("{} times", call.roundings), time_text(call.us),
      time_text(call.plain_us),
      call.pays_from ? fmt::format("it pays from {} on", size_text(*call.pays_from))
                     : "it does not pay at any size up to 1G");
}

std::string text_of(const Question& question, const Explanation& found) {
  const Candidate& chosen = found.chosen();
  const ir::Request& request = question.request;
  std::string text =
      fmt::format("{} of {} elements ({}), {} ranks{}\n{} runs: {}\n", name_of(request.collective),
                  question.count, name_of(question.type), request.ranks,
                  request.layout.empty() ? "" : " as " + ir::print(request.layout), found.algorithm,
                  found.reason);
  text += fmt::format("Times are predicted ({}).\n\n", question.calibration.measured_on);
  Table table({"ALGORITHM", "TIME", "RATIO", ""});
  for (const Candidate& candidate : found.candidates) {
    if (!candidate.us) {
      table.add({candidate.name, "-", "-", candidate.why});
      continue;
    }
    table.add({candidate.name, time_text(*candidate.us),
               fmt::format("{:.2f}", *candidate.us / *chosen.us), candidate.why});
  }
  return text + table.text({1, 2});
}

std::string json_of(const Options& options, const Question& question, const Explanation& found,
                    const std::optional<CompressedCall>& compressed,
                    const std::vector<NearNics>& nics) {
  nlohmann::ordered_json json;
  json["collective"] = options.collective;
  json["ranks"] = question.request.ranks;
  json["layout"] = ir::print(question.request.layout);
  json["count"] = question.count;
  json["type"] = options.type;
  json["algorithm"] = found.algorithm;
  json["reason"] = found.reason;
  json["forced"] = found.forced;
  for (const Candidate& candidate : found.candidates) {
    nlohmann::ordered_json row{{"algorithm", candidate.name}};
    row["predicted_us"] = candidate.us ? nlohmann::ordered_json(*candidate.us) : nullptr;
    row["why"] = candidate.why;
    json["candidates"].push_back(row);
  }
  if (compressed) {
    json["compressed"] = {{"format", compressed->format},
                          {"bits", compressed->bits},
                          {"algorithm", compressed->algorithm},
                          {"roundings", compressed->roundings},
                          {"between_hosts", compressed->between_hosts},
                          {"predicted_us", compressed->us},
                          {"plain_us", compressed->plain_us},
                          {"pays_from_bytes", nullptr}};
    if (compressed->pays_from) json["compressed"]["pays_from_bytes"] = *compressed->pays_from;
  }
  for (const NearNics& row : nics)
    json["nics"].push_back({{"host", row.host},
                            {"node", row.node},
                            {"ranks", row.ranks},
                            {"nics", row.nics},
                            {"path", row.path},
                            {"place", row.place},
                            {"bandwidth", row.bandwidth}});
  return json.dump(1) + "\n";
}

Status run(const Options& options) {
  TUTTI_TRY(options.json_path.empty() ? ok_status() : check_writable(options.json_path));
  TUTTI_ASSIGN(const Ranks ranks, ranks_of(options));
  TUTTI_ASSIGN(const Question question, question_of(options, ranks));
  TUTTI_ASSIGN(const Explanation found, explain(question));
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  const std::string format =
      options.compress.empty()
          ? format_of_setting(settings.text("COMPRESS"), question.request.collective)
          : options.compress;
  std::optional<CompressedCall> compressed;
  if (!format.empty()) {
    auto call = explain_compressed(question, format);
    // What the setting does not compress travels plain.
    if (!call && !options.compress.empty()) return std::move(call).error();
    if (call) compressed = *std::move(call);
  }
  TUTTI_ASSIGN(const auto nics, nics_between_hosts(ranks, settings));
  return write_results(
      options.json_path,
      text_of(question, found) + (compressed ? text_of(*compressed) : "") + text_of(nics),
      [&] { return json_of(options, question, found, compressed, nics); });
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app(
      "Says which algorithm runs for a call, what each would take, and why not another.", kProgram);
  Options options;
  add_options(app, options);
  if (const auto code = app.parse(argc, argv)) return *code;
  const Status done = run(options);
  return done ? kExitFine : fail(kProgram, done.error());
}
