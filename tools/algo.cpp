// tutti algo: lists, draws, exports and proves schedules.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "src/base/clock.hpp"
#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/exchange/read.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"
#include "tools/algo_export.hpp"
#include "tools/algo_traffic.hpp"
#include "tools/cli.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Code;
using tutti::Collective;
using tutti::make_error;
using tutti::Result;
using tutti::Status;
using tutti::ir::Algorithm;
using tutti::ir::Proof;
using tutti::ir::Request;
using tutti::ir::Schedule;
using Json = nlohmann::ordered_json;

constexpr std::string_view kProgram = "tutti algo";
constexpr int kMostRanks = 1024;  // a schedule of an all-to-all grows with the square
constexpr std::size_t kLargestFile = 256U << 20U;

// --- algorithms and collectives by name ----------------------------------------------------------

Result<const Algorithm*> find_algorithm(const std::string& name) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : tutti::algorithms::all()) {
    if (algorithm.name == name) return &algorithm;
    names.emplace_back(algorithm.name);
  }
  const std::string meant = tutti::nearest(name, names);
  return make_error(Code::kInvalidArgument, "there is no algorithm '{}'; {}", name,
                    meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean '{}'?", meant));
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int i = 0; i < tutti::kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::kSend || collective == Collective::kRecv) continue;
    names.emplace_back(name_of(collective));
  }
  return names;
}

Collective collective_named(const std::string& name) {
  const auto names = collective_names();
  return static_cast<Collective>(std::ranges::find(names, name) - names.begin());
}

/// The collectives that the algorithm supports for at least one number of ranks up to 33.
std::vector<Collective> collectives_of(const Algorithm& algorithm) {
  std::vector<Collective> supported;
  for (const std::string& name : collective_names()) {
    const Collective collective = collective_named(name);
    for (int ranks = 1; ranks <= 33; ++ranks) {
      if (!algorithm.supports({.collective = collective, .ranks = ranks})) continue;
      supported.push_back(collective);
      break;
    }
  }
  return supported;
}

// --- list ----------------------------------------------------------------------------------------

int list(const std::string& json_path) {
  Table table({"ALGORITHM", "COLLECTIVES", "RESULT", "SUMMARY"});
  Json json = Json::array();
  for (const Algorithm& algorithm : tutti::algorithms::all()) {
    std::vector<std::string> names;
    for (const Collective collective : collectives_of(algorithm))
      names.emplace_back(name_of(collective));
    table.add({std::string(algorithm.name), fmt::format("{}", fmt::join(names, " ")),
               algorithm.lossy ? "lossy" : "exact", std::string(algorithm.summary)});
    json.push_back({{"name", algorithm.name},
                    {"collectives", names},
                    {"lossy", algorithm.lossy},
                    {"summary", algorithm.summary}});
  }
  const Status written =
      write_results(json_path, table.text(), [&] { return json.dump(2) + "\n"; });
  return written ? kExitFine : fail(kProgram, written.error());
}

// --- show ----------------------------------------------------------------------------------------

struct ShowOptions {
  std::string algorithm;  ///< or a file
  std::string collective;
  int ranks = 0;  ///< 0: not given
  int root = 0;
  bool in_place = false;
  bool rounds = false;
  std::string output;
};

Result<Request> request_of(const ShowOptions& options, const Algorithm& algorithm) {
  const auto supported = collectives_of(algorithm);
  if (supported.empty())
    return make_error(Code::kInternal, "{} supports no collective", algorithm.name);
  const Request request{.collective = options.collective.empty()
                                          ? supported.front()
                                          : collective_named(options.collective),
                        .ranks = options.ranks,
                        .root = options.root,
                        .in_place = options.in_place};
  if (options.root >= options.ranks)
    return make_error(Code::kInvalidArgument, "root {} is not one of {} ranks", options.root,
                      options.ranks);
  if (!algorithm.supports(request))
    return make_error(Code::kInvalidArgument, "{} has no {} for {} ranks{}; see `tutti algo list`",
                      algorithm.name, name_of(request.collective), options.ranks,
                      options.in_place ? " in place" : "");
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

/// Whether the word names a file rather than an algorithm.
bool is_file(const std::string& what) {
  const auto known = tutti::algorithms::all();
  return std::ranges::find(known, what, &Algorithm::name) == known.end() &&
         std::filesystem::exists(what);
}

/// The schedules of a file's text; errors name the file.
Result<tutti::exchange::Schedules> schedules_of(const std::string& path, const std::string& text) {
  auto schedules = tutti::exchange::read(text);
  if (!schedules) return tutti::exchange::at_place(path, schedules.error());
  return schedules;
}

Result<Schedule> schedule_of_file(const ShowOptions& options) {
  TUTTI_ASSIGN(const std::string text, read_file(options.algorithm, kLargestFile));
  TUTTI_ASSIGN(tutti::exchange::Schedules schedules, schedules_of(options.algorithm, text));
  if (options.in_place && schedules.size() > 1) return std::move(schedules.back());
  return std::move(schedules.front());
}

Result<Schedule> schedule_of(const ShowOptions& options) {
  if (is_file(options.algorithm)) return schedule_of_file(options);
  TUTTI_ASSIGN(const Algorithm* algorithm, find_algorithm(options.algorithm));
  if (options.ranks == 0)
    return make_error(Code::kInvalidArgument, "-n N is required for an algorithm");
  TUTTI_ASSIGN(const Request request, request_of(options, *algorithm));
  return algorithm->generate(request);
}

Status show(const ShowOptions& options) {
  TUTTI_ASSIGN(const Schedule schedule, schedule_of(options));
  const std::string output = options.output.empty() ? "-" : options.output;
  TUTTI_ASSIGN(const std::string text,
               render(schedule, std::filesystem::path(options.output).extension(), options.rounds));
  return write_output(output, text);
}

// --- verify --------------------------------------------------------------------------------------

struct RankRange {
  int first = 1;
  int last = 1;
};

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
  if (range.first < 1 || range.last < range.first || range.last > kMostRanks)
    return make_error(Code::kInvalidArgument,
                      "'{}' is no range of ranks; write N or N..M with 1 <= N <= M <= {}", text,
                      kMostRanks);
  return range;
}

/// One line of the table: what was proved of one collective of one algorithm.
struct Proved {
  Collective collective;
  std::string algorithm;
  int first_ranks = 0;
  int last_ranks = 0;
  std::uint64_t schedules = 0;
  std::uint64_t steps = 0;
  std::uint32_t rounds = 0;
  double seconds = 0;
};

std::vector<Request> requests_for(const Algorithm& algorithm, Collective collective, int ranks) {
  std::vector<Request> requests;
  const int roots = rooted(collective) ? ranks : 1;
  for (const bool in_place : {false, true})
    for (int root = 0; root < roots; ++root) {
      const Request request{collective, ranks, root, in_place};
      if (algorithm.supports(request)) requests.push_back(request);
    }
  return requests;
}

Status prove(const Algorithm& algorithm, const Request& request, Proved& row) {
  const auto where = [&](const tutti::Error& error) {
    return make_error(error.code, "{} {}, {} ranks, root {}{}: {}", algorithm.name,
                      name_of(request.collective), request.ranks, request.root,
                      request.in_place ? ", in place" : "", error.what);
  };
  const Result<Schedule> schedule = algorithm.generate(request);
  if (!schedule) return where(schedule.error());
  const Result<Proof> proof = tutti::ir::verify(*schedule);
  if (!proof) return where(proof.error());
  if (row.schedules++ == 0) row.first_ranks = request.ranks;
  row.last_ranks = request.ranks;
  row.steps += proof->steps;
  row.rounds = std::max(row.rounds, proof->rounds);
  return tutti::ok_status();
}

/// Adds a row for what the algorithm has of a collective; stops at the first schedule that is
/// wrong.
Status prove_all_of(const Algorithm& algorithm, Collective collective, RankRange range,
                    std::vector<Proved>& rows) {
  Proved row{.collective = collective, .algorithm = std::string(algorithm.name)};
  const auto started = tutti::Clock::now();
  for (int ranks = range.first; ranks <= range.last; ++ranks)
    for (const Request& request : requests_for(algorithm, collective, ranks))
      TUTTI_TRY(prove(algorithm, request, row));
  row.seconds = std::chrono::duration<double>(tutti::Clock::now() - started).count();
  if (row.schedules > 0) rows.push_back(row);
  return tutti::ok_status();
}

/// Adds a row for each schedule of a file.
Status prove_text(const std::string& path, const std::string& text, std::vector<Proved>& rows) {
  const auto started = tutti::Clock::now();
  TUTTI_ASSIGN(const tutti::exchange::Schedules schedules, schedules_of(path, text));
  for (const Schedule& schedule : schedules) {
    TUTTI_ASSIGN(const Proof proof, tutti::ir::verify(schedule));
    rows.push_back(
        {.collective = schedule.request.collective,
         .algorithm = schedule.algorithm,
         .first_ranks = schedule.request.ranks,
         .last_ranks = schedule.request.ranks,
         .schedules = 1,
         .steps = proof.steps,
         .rounds = proof.rounds,
         .seconds = std::chrono::duration<double>(tutti::Clock::now() - started).count()});
  }
  return tutti::ok_status();
}

struct VerifyOptions {
  std::string what;  ///< an algorithm or a file
  bool all = false;
  std::string range;
  std::string json_path;
};

Status print_rows(const std::vector<Proved>& rows, const std::string& json_path) {
  Table table({"COLLECTIVE", "ALGORITHM", "RANKS", "SCHEDULES", "ROUNDS", "STEPS", "SECONDS"});
  Json json = Json::array();
  Proved sum{};
  for (const Proved& row : rows) {
    table.add({std::string(name_of(row.collective)), row.algorithm,
               row.first_ranks == row.last_ranks
                   ? std::to_string(row.first_ranks)
                   : fmt::format("{}..{}", row.first_ranks, row.last_ranks),
               std::to_string(row.schedules), std::to_string(row.rounds), std::to_string(row.steps),
               fmt::format("{:.3f}", row.seconds)});
    json.push_back({{"collective", name_of(row.collective)},
                    {"algorithm", row.algorithm},
                    {"first_ranks", row.first_ranks},
                    {"last_ranks", row.last_ranks},
                    {"schedules", row.schedules},
                    {"rounds", row.rounds},
                    {"steps", row.steps},
                    {"seconds", row.seconds}});
    sum.schedules += row.schedules;
    sum.steps += row.steps;
    sum.seconds += row.seconds;
  }
  const std::string text =
      fmt::format("{}{} schedules of {} steps proved in {:.2f} s\n", table.text({2, 3, 4, 5, 6}),
                  sum.schedules, sum.steps, sum.seconds);
  return write_results(json_path, text, [&] { return json.dump(2) + "\n"; });
}

/// What is to be proved: the text of one file, or algorithms for some numbers of ranks.
struct Selection {
  std::optional<std::string> file_text;
  std::vector<Algorithm> algorithms;
  RankRange range;
};

/// Errors: of usage, or of the file system.
Result<Selection> select(const VerifyOptions& options) {
  if (options.all == !options.what.empty())
    return make_error(Code::kInvalidArgument, "give one algorithm, one file or --all");
  Selection selection;
  const auto known = tutti::algorithms::all();
  if (!options.all && is_file(options.what)) {
    TUTTI_ASSIGN(selection.file_text, read_file(options.what, kLargestFile));
    return selection;
  }
  if (options.all) {
    selection.algorithms.assign(known.begin(), known.end());
  } else {
    const Result<const Algorithm*> found = find_algorithm(options.what);
    if (!found)
      return make_error(found.error().code, "{}; nor is there a file of that name",
                        found.error().what);
    selection.algorithms = {**found};
  }
  if (options.range.empty())
    return make_error(Code::kInvalidArgument, "-n N or -n N..M is required for an algorithm");
  TUTTI_ASSIGN(selection.range, parse_range(options.range));
  return selection;
}

Status prove(const Selection& selection, const std::string& what, std::vector<Proved>& rows) {
  if (selection.file_text) return prove_text(what, *selection.file_text, rows);
  for (const std::string& collective : collective_names())
    for (const Algorithm& algorithm : selection.algorithms)
      TUTTI_TRY(prove_all_of(algorithm, collective_named(collective), selection.range, rows));
  return tutti::ok_status();
}

int verify(const VerifyOptions& options) {
  const Result<Selection> selection = select(options);
  if (!selection) return fail(kProgram, selection.error());
  std::vector<Proved> rows;
  const Status proved = prove(*selection, options.what, rows);
  if (!proved) return fail(kProgram, kExitWrongData, proved.error().what);
  if (rows.empty())
    return fail(kProgram, kExitUsage,
                fmt::format("nothing to prove: {} supports no collective for {} ranks",
                            options.what, options.range));
  const Status printed = print_rows(rows, options.json_path);
  return printed ? kExitFine : fail(kProgram, printed.error());
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CLI::App app("Lists, draws, exports and proves schedules.", std::string(kProgram));
  app.require_subcommand(1);

  std::string json_path;
  CLI::App& list_command = *app.add_subcommand("list", "all algorithms and what they can do");
  list_command.add_option("--json", json_path, "write the list as JSON; '-': standard output");

  ShowOptions show_options;
  CLI::App& show_command = *app.add_subcommand("show", "one schedule as text, picture or JSON");
  show_command
      .add_option("algorithm", show_options.algorithm, "name of an algorithm, or a file with one")
      ->required();
  show_command.add_option("-n,--ranks", show_options.ranks, "number of ranks (of an algorithm)")
      ->check(CLI::Range(1, kMostRanks));
  show_command
      .add_option("--coll", show_options.collective,
                  "collective (default: the first the algorithm has)")
      ->check(one_of(collective_names()));
  show_command.add_option("--root", show_options.root, "root rank")->check(CLI::NonNegativeNumber);
  show_command.add_flag("--in-place", show_options.in_place, "input and output overlap");
  show_command.add_flag("--rounds", show_options.rounds,
                        "text of the messages of each round, instead of the steps of each rank");
  show_command.add_option("-o,--output", show_options.output,
                          "FILE.txt, FILE.svg, FILE.xml (MSCCL's) or FILE.json (default: text on "
                          "standard output)");

  VerifyOptions verify_options;
  CLI::App& verify_command =
      *app.add_subcommand("verify", "prove schedules; exit 3 when one is wrong");
  verify_command.add_option(
      "what", verify_options.what,
      "name of an algorithm, or a file: text of `tutti algo show`, XML of MSCCL, "
      "JSON of MSCCL++ or SCCL");
  verify_command.add_flag("--all", verify_options.all, "every algorithm");
  verify_command.add_option("-n,--ranks", verify_options.range, "N or N..M ranks");
  verify_command.add_option("--json", verify_options.json_path,
                            "write the table as JSON; '-': standard output");

  if (const auto code = parse(app, argc, argv)) return *code;
  if (list_command.parsed()) return list(json_path);
  if (verify_command.parsed()) return verify(verify_options);
  const Status shown = show(show_options);
  return shown ? kExitFine : fail(kProgram, shown.error());
}
