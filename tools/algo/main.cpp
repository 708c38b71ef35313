// tutti algo: lists, draws, exports and proves schedules.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "algorithms/algorithms.hpp"
#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"
#include "tools/algo/export.hpp"
#include "tools/algo/names.hpp"
#include "tools/algo/proofs.hpp"
#include "tools/algo/traffic.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Code;
using tutti::Collective;
using tutti::make_error;
using tutti::read_file;
using tutti::Result;
using tutti::Status;
using tutti::ir::Algorithm;
using tutti::ir::Layout;
using tutti::ir::Proof;
using tutti::ir::Request;
using tutti::ir::Schedule;
using Json = nlohmann::ordered_json;

constexpr std::string_view kProgram = "tutti algo";
constexpr const char* kLayoutHelp =
    "how ranks stand to each other: 2x4 (2 nodes of 4), 4,3,4 (nodes of so many), 4x4x4 (a grid)";

// --- list ----------------------------------------------------------------------------------------

/// How often a sum over 8 ranks, or over 2 hosts of 4, is rounded when its data is compressed.
Result<std::optional<std::uint32_t>> roundings_of(const Algorithm& algorithm) {
  for (const Collective collective : collectives_of(algorithm)) {
    if (!reduces(collective)) continue;
    for (const Layout& layout : {Layout{}, Layout::grid({4, 2})}) {
      const Request request{collective, 8, 0, false, layout};
      if (!algorithm.supports(request)) continue;
      TUTTI_ASSIGN(const Schedule schedule, algorithm.generate(request));
      const auto messages = layout.empty() ? tutti::ir::CompressedMessages::kAll
                                           : tutti::ir::CompressedMessages::kBetweenHosts;
      TUTTI_ASSIGN(const Proof proof, tutti::ir::verify(tutti::ir::compress(schedule, messages)));
      return std::optional(proof.lossy_steps);
    }
  }
  return std::optional<std::uint32_t>();
}

int list(const std::string& json_path) {
  Table table({"ALGORITHM", "COLLECTIVES", "FOR", "ROUNDED", "SUMMARY"});
  Json json = Json::array();
  for (const Algorithm& algorithm : tutti::algorithms::with_in_network()) {
    std::vector<std::string> names;
    for (const Collective collective : collectives_of(algorithm))
      names.emplace_back(name_of(collective));
    const std::string_view needs = name_of(needs_of(algorithm));
    const auto roundings = roundings_of(algorithm);
    if (!roundings) return fail(kProgram, roundings.error());
    table.add({std::string(algorithm.name), fmt::format("{}", fmt::join(names, " ")),
               std::string(needs), *roundings ? fmt::format("{} x", **roundings) : "-",
               std::string(algorithm.summary)});
    json.push_back({{"name", algorithm.name},
                    {"collectives", names},
                    {"for", needs},
                    {"roundings", *roundings ? Json(**roundings) : Json()},
                    {"summary", algorithm.summary}});
  }
  const std::string text = table.text() +
                           "ROUNDED: a contribution to a sum over 8 ranks, or 2 hosts of 4, when "
                           "its data is compressed\n";
  const Status written = write_results(json_path, text, [&] { return json.dump(2) + "\n"; });
  return written ? kExitFine : fail(kProgram, written.error());
}

// --- show ----------------------------------------------------------------------------------------

struct ShowOptions {
  std::string algorithm;  ///< or a file
  std::string collective;
  int ranks = 0;       ///< 0: not given
  std::string layout;  ///< "": not given
  int root = 0;
  bool in_place = false;
  bool rounds = false;
  std::string compress;  ///< which messages; "": none
  std::string output;
};

/// -n and --layout agree, and one of them is given.
Result<int> ranks_of(const ShowOptions& options, const Layout& layout) {
  const auto placed = static_cast<int>(layout.cells.size());
  if (options.ranks == 0 && layout.empty())
    return make_error(Code::kInvalidArgument, "-n N or --layout is required for an algorithm");
  if (options.ranks != 0 && !layout.empty() && options.ranks != placed)
    return make_error(Code::kInvalidArgument,
                      "-n {} contradicts --layout {}, which has {} ranks; leave -n out",
                      options.ranks, options.layout, placed);
  return layout.empty() ? options.ranks : placed;
}

Result<Request> request_of(const ShowOptions& options, const Algorithm& algorithm) {
  const auto supported = collectives_of(algorithm);
  if (supported.empty())
    return make_error(Code::kInternal, "{} supports no collective", algorithm.name);
  TUTTI_ASSIGN(Layout layout, layout_named(options.layout));
  TUTTI_ASSIGN(const int ranks, ranks_of(options, layout));
  Request request{.collective = options.collective.empty() ? supported.front()
                                                           : collective_named(options.collective),
                  .ranks = ranks,
                  .root = options.root,
                  .in_place = options.in_place,
                  .layout = std::move(layout)};
  if (options.root >= ranks)
    return make_error(Code::kInvalidArgument, "root {} is not one of {} ranks", options.root,
                      ranks);
  if (request.layout.empty() && needs_of(algorithm) != Needs::kNothing)
    return make_error(Code::kInvalidArgument,
                      "{} needs to know which ranks are near: use --layout, such as 2x4 for 2 "
                      "nodes of 4 ranks",
                      algorithm.name);
  if (!algorithm.supports(request))
    return make_error(
        Code::kInvalidArgument, "{} has no {} for {} ranks{}{}; see `tutti algo list`",
        algorithm.name, name_of(request.collective), ranks,
        options.layout.empty() ? "" : " as " + options.layout, options.in_place ? " in place" : "");
  return request;
}

Result<std::string> render(const Schedule& schedule, const std::string& suffix, bool rounds) {
  const bool is_text = suffix.empty() || suffix == ".txt";
  if (rounds && !is_text)
    return make_error(Code::kInvalidArgument, "--rounds is text: use it without -o, or with .txt");
  if (is_text && !rounds) return tutti::ir::print(schedule);
  if (suffix == ".json") return to_json(schedule);
  if (suffix == ".xml") return tutti::exchange::write_msccl_xml(schedule);
  if (suffix != ".svg" && !rounds)
    return make_error(Code::kInvalidArgument, "unknown suffix '{}'; use .txt, .svg, .xml or .json",
                      suffix);
  TUTTI_ASSIGN(const Proof proof, tutti::ir::verify(schedule));
  TUTTI_ASSIGN(const Traffic traffic, traffic_of(schedule, proof));
  if (rounds) return to_rounds(schedule, proof, traffic);
  return to_svg(schedule, proof, traffic);
}

Result<Schedule> schedule_of_file(const std::string& path, const ShowOptions& options) {
  TUTTI_ASSIGN(const std::string text, read_file(path, kLargestAlgoFile));
  TUTTI_ASSIGN(tutti::exchange::Schedules schedules, schedules_of(path, text));
  if (options.in_place && schedules.size() > 1) return std::move(schedules.back());
  return std::move(schedules.front());
}

Result<Schedule> schedule_of(const ShowOptions& options) {
  if (const auto path = file_named(options.algorithm)) {
    if (!options.layout.empty())
      return make_error(Code::kInvalidArgument, "--layout is for algorithms; '{}' is a file",
                        options.algorithm);
    return schedule_of_file(*path, options);
  }
  TUTTI_ASSIGN(const Algorithm* algorithm, find_algorithm(options.algorithm));
  TUTTI_ASSIGN(const Request request, request_of(options, *algorithm));
  return algorithm->generate(request);
}

Status show(const ShowOptions& options) {
  const std::string output = options.output.empty() ? "-" : options.output;
  TUTTI_TRY(check_writable(output));
  TUTTI_ASSIGN(Schedule schedule, schedule_of(options));
  if (!options.compress.empty()) {
    if (!schedule.formats.empty())
      return make_error(Code::kInvalidArgument, "--compress: {} has formats of its own",
                        options.algorithm);
    schedule = tutti::ir::compress(schedule, options.compress == "all"
                                                 ? tutti::ir::CompressedMessages::kAll
                                                 : tutti::ir::CompressedMessages::kBetweenHosts);
  }
  TUTTI_ASSIGN(const std::string text,
               render(schedule, std::filesystem::path(options.output).extension(), options.rounds));
  return write_output(output, text);
}

// --- verify --------------------------------------------------------------------------------------

/// "4" or "1..33".
Result<RankRange> parse_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto number = [](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size() ? value : -1;
  };
  const RankRange range = {number(text.substr(0, dots)),
                           number(dots == std::string_view::npos ? text : text.substr(dots + 2))};
  if (range.first < 1 || range.last < range.first || range.last > kMostAlgoRanks)
    return make_error(Code::kInvalidArgument,
                      "'{}' is no range of ranks; write N or N..M with 1 <= N <= M <= {}", text,
                      kMostAlgoRanks);
  return range;
}

/// A row for each schedule of a file.
Result<std::vector<Proved>> prove_text(const std::string& path, const std::string& text) {
  const auto started = tutti::Clock::now();
  TUTTI_ASSIGN(const tutti::exchange::Schedules schedules, schedules_of(path, text));
  std::vector<Proved> rows;
  for (const Schedule& schedule : schedules) {
    TUTTI_ASSIGN(const Proof proof, tutti::ir::verify(schedule));
    Proved& row = rows.emplace_back();
    row.collective = schedule.request.collective;
    row.algorithm = schedule.algorithm;
    row.first_ranks = row.last_ranks = schedule.request.ranks;
    if (!schedule.request.layout.empty()) row.layouts = {print(schedule.request.layout)};
    row.schedules = 1;
    row.steps = proof.steps;
    row.rounds = proof.rounds;
    row.compressed = {proof.lossy_steps, proof.same_bits.value_or(true)};
    row.seconds = std::chrono::duration<double>(tutti::Clock::now() - started).count();
  }
  return rows;
}

struct VerifyOptions {
  std::string what;  ///< an algorithm or a file
  bool all = false;
  std::string range;
  std::string layout;
  std::string collective;
  std::string json_path;
};

std::string layouts_of(const Proved& row) {
  constexpr std::size_t kMostShown = 20;
  if (row.layouts.empty()) return "-";
  const bool is_short = row.layouts.size() == 1 && row.layouts[0].size() <= kMostShown;
  return is_short ? row.layouts[0] : std::to_string(row.layouts.size());
}

/// Of a contribution: where all messages are compressed, and where those between hosts are. "*":
/// not all ranks get the same bits.
std::string roundings_in(const Proved& row) {
  const auto text = [](const Proved::Compressed& compressed) {
    const bool all_counted = compressed.roundings < tutti::ir::kMostLossyCounted;
    return fmt::format("{}{}{}", compressed.roundings, all_counted ? "" : "+",
                       compressed.same_bits ? "" : "*");
  };
  return row.between_hosts ? fmt::format("{} / {}", text(row.compressed), text(*row.between_hosts))
                           : text(row.compressed);
}
Json in_json(const Proved::Compressed& compressed) {
  return {{"roundings", compressed.roundings}, {"same_bits", compressed.same_bits}};
}

Status print_rows(const std::vector<Proved>& rows, const std::string& json_path, double seconds) {
  Table table({"COLLECTIVE", "ALGORITHM", "RANKS", "LAYOUTS", "SCHEDULES", "ROUNDS", "ROUNDED",
               "STEPS", "SECONDS"});
  Json json = Json::array();
  Proved sum{};
  for (const Proved& row : rows) {
    table.add({std::string(name_of(row.collective)), row.algorithm,
               row.first_ranks == row.last_ranks
                   ? std::to_string(row.first_ranks)
                   : fmt::format("{}..{}", row.first_ranks, row.last_ranks),
               layouts_of(row), std::to_string(row.schedules), std::to_string(row.rounds),
               roundings_in(row), std::to_string(row.steps), fmt::format("{:.3f}", row.seconds)});
    json.push_back({{"collective", name_of(row.collective)},
                    {"algorithm", row.algorithm},
                    {"first_ranks", row.first_ranks},
                    {"last_ranks", row.last_ranks},
                    {"layouts", row.layouts},
                    {"every_root", row.every_root},
                    {"schedules", row.schedules},
                    {"rounds", row.rounds},
                    {"compressed", in_json(row.compressed)},
                    {"steps", row.steps},
                    {"seconds", row.seconds}});
    if (row.between_hosts) json.back()["compressed_between_hosts"] = in_json(*row.between_hosts);
    sum.schedules += row.schedules;
    sum.steps += row.steps;
    sum.every_root &= row.every_root;
  }
  std::string text =
      fmt::format("{}{} schedules of {} steps proved in {:.2f} s\n",
                  table.text({2, 3, 4, 5, 6, 7, 8}), sum.schedules, sum.steps, seconds);
  text +=
      "ROUNDED: a contribution, when all data is compressed / when only what crosses hosts is; "
      "*: not all ranks get the same bits\n";
  if (!sum.every_root)
    text += fmt::format("of more than {} ranks, only roots 0, 1, n/2 and n-1 were proved\n",
                        kEveryRootUpTo);
  return write_results(json_path, text, [&] { return json.dump(2) + "\n"; });
}

/// What is to be proved: the text of one file, or schedules of algorithms.
struct Selection {
  std::optional<std::string> file;  ///< its path
  std::string file_text;            ///< and what it holds
  std::vector<Claim> claims;
};

/// The schedules of these algorithms that the options ask for.
Result<std::vector<Claim>> claims_of(std::span<const Algorithm> algorithms,
                                     const VerifyOptions& options) {
  if (options.range.empty() == options.layout.empty())
    return make_error(Code::kInvalidArgument,
                      "either -n N, -n N..M or --layout is required for an algorithm");
  TUTTI_ASSIGN(const Layout layout, layout_named(options.layout));
  RankRange range;
  if (layout.empty()) {
    TUTTI_ASSIGN(range, parse_range(options.range));
  }
  std::vector<Claim> claims;
  for (const std::string& name : collective_names()) {
    if (!options.collective.empty() && options.collective != name) continue;
    const Collective collective = collective_named(name);
    for (const Algorithm& algorithm : algorithms)
      claims.push_back(layout.empty() ? claim_for_ranks(algorithm, collective, range)
                                      : claim_for_layout(algorithm, collective, layout));
  }
  if (std::ranges::all_of(claims, [](const Claim& claim) { return claim.requests.empty(); }))
    return make_error(Code::kInvalidArgument, "nothing to prove: {} no {} for {}",
                      options.all ? "there is" : options.what + " has",
                      options.collective.empty() ? "collective" : options.collective,
                      layout.empty() ? options.range + " ranks" : "layout " + options.layout);
  return claims;
}

/// Errors: of usage, or of the file system.
Result<Selection> select(const VerifyOptions& options) {
  if (options.all == !options.what.empty())
    return make_error(Code::kInvalidArgument, "give one algorithm, one file or --all");
  Selection selection;
  std::span<const Algorithm> algorithms = tutti::algorithms::with_in_network();
  if (!options.all) selection.file = file_named(options.what);
  if (selection.file) {
    TUTTI_ASSIGN(selection.file_text, read_file(*selection.file, kLargestAlgoFile));
    return selection;
  }
  if (!options.all) {
    const Result<const Algorithm*> found = find_algorithm(options.what);
    if (!found)
      return make_error(found.error().code, "{}; nor is there a file of that name",
                        found.error().what);
    algorithms = {*found, 1};
  }
  TUTTI_ASSIGN(selection.claims, claims_of(algorithms, options));
  return selection;
}

/// A bar on standard error, where that is a terminal.
void draw_progress(std::size_t done, std::size_t all) {
  constexpr std::size_t kWidth = 40;
  if (::isatty(STDERR_FILENO) == 0 || all == 0) return;
  const std::string bar(kWidth * done / all, '#');
  note(fmt::format("\r[{:<{}}] {} of {} schedules", bar, kWidth, done, all));
}

void erase_progress() {
  if (::isatty(STDERR_FILENO) != 0) note("\r\x1b[K");
}

Status check_json(const std::string& path) {
  return path.empty() ? tutti::ok_status() : check_writable(path);
}

Result<std::vector<Proved>> prove(const Selection& selection) {
  if (selection.file) return prove_text(*selection.file, selection.file_text);
  const unsigned threads = std::max(std::thread::hardware_concurrency(), 1U);
  auto rows = tutti::tools::prove(selection.claims, threads, draw_progress);
  erase_progress();
  return rows;
}

int verify(const VerifyOptions& options) {
  const Result<Selection> selection = select(options);
  if (!selection) return fail(kProgram, selection.error());
  if (const Status writable = check_json(options.json_path); !writable)
    return fail(kProgram, writable.error());
  const auto started = tutti::Clock::now();
  const Result<std::vector<Proved>> rows = prove(*selection);
  if (!rows && rows.error().code == Code::kUnavailable) return fail(kProgram, rows.error());
  if (!rows) return fail(kProgram, kExitWrongData, rows.error().what);
  const std::chrono::duration<double> seconds = tutti::Clock::now() - started;
  const Status printed = print_rows(*rows, options.json_path, seconds.count());
  return printed ? kExitFine : fail(kProgram, printed.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app("Lists, draws, exports and proves schedules.", kProgram);

  std::string json_path;
  CommandLine list_command = app.add_command("list", "all algorithms and what they can do");
  list_command.add_option("--json", json_path, "write the list as JSON; '-': standard output");

  ShowOptions show_options;
  CommandLine show_command = app.add_command("show", "one schedule as text, picture or JSON");
  show_command
      .add_option("algorithm", show_options.algorithm, "name of an algorithm, or a file with one")
      .required();
  show_command.add_option("-n,--ranks", show_options.ranks, "number of ranks (of an algorithm)")
      .in_range(1, kMostAlgoRanks);
  show_command.add_option("--layout", show_options.layout, kLayoutHelp);
  show_command
      .add_option("--coll", show_options.collective,
                  "collective (default: the first the algorithm has)")
      .one_of(collective_names());
  show_command.add_option("--root", show_options.root, "root rank").in_range(0, kMostAlgoRanks);
  show_command.add_flag("--in-place", show_options.in_place, "input and output overlap");
  show_command.add_flag("--rounds", show_options.rounds,
                        "text of the messages of each round, instead of the steps of each rank");
  show_command
      .add_option("--compress", show_options.compress,
                  "make it send compressed data: in all messages, or in those between hosts")
      .one_of({"all", "hosts"});
  show_command.add_option("-o,--output", show_options.output,
                          "FILE.txt, FILE.svg, FILE.xml (MSCCL's) or FILE.json (for other "
                          "programs, not read again); default: text on standard output");

  VerifyOptions verify_options;
  CommandLine verify_command =
      app.add_command("verify", "prove schedules; exit 3 when one is wrong");
  verify_command.add_option(
      "what", verify_options.what,
      "name of an algorithm, or a file: text of `tutti algo show`, XML of MSCCL, "
      "JSON of MSCCL++ or SCCL");
  verify_command.add_flag("--all", verify_options.all, "every algorithm");
  verify_command.add_option("-n,--ranks", verify_options.range,
                            "N or N..M ranks; algorithms for two levels and grids are proved over "
                            "many layouts of so many");
  verify_command.add_option("--layout", verify_options.layout, kLayoutHelp);
  verify_command.add_option("--coll", verify_options.collective, "this collective only")
      .one_of(collective_names());
  verify_command.add_option("--json", verify_options.json_path,
                            "write the table as JSON; '-': standard output");

  if (const auto code = app.parse(argc, argv)) return *code;
  return within_memory(kProgram, [&]() -> int {
    if (list_command.is_chosen()) return list(json_path);
    if (verify_command.is_chosen()) return verify(verify_options);
    const Status shown = show(show_options);
    return shown ? kExitFine : fail(kProgram, shown.error());
  });
}
