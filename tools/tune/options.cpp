#include "tools/tune/options.hpp"

#include <algorithm>

#include "src/base/result.hpp"
#include "tools/bench/shape.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/tune/ways.hpp"

namespace tutti::tune {
namespace {

/// What the user wrote, before words become values.
struct Words {
  std::vector<std::string> collectives = {"all"};
  std::string min_size = "8", max_size = "64M", type = "float", binding = "auto";
  std::size_t factor = 8;
};

/// Sends and receives have nothing to choose from.
std::vector<std::string> collective_names() {
  std::vector<std::string> names = {"all"};
  for (const Collective test : bench::all_tests())
    if (test != bench::kSendRecv) names.emplace_back(bench::test_name(test));
  return names;
}

void add_options(tools::CommandLine& app, Options& options, Words& words) {
  app.add_option("COLL", words.collectives, "collectives, or all").one_of(collective_names());
  app.add_option("-b,--minbytes", words.min_size, "smallest message (K, M, G are binary)");
  app.add_option("-e,--maxbytes", words.max_size, "largest message");
  app.add_option("-f,--stepfactor", words.factor, "multiply by this from size to size")
      .in_range(2, 1 << 20);
  app.add_option("--algo", options.meter.algorithms, "measure these algorithms alone (a,b,...)")
      .comma_separated();
  app.add_option("--time-per-cell", options.meter.seconds_per_cell,
                 "seconds for each collective and size, about")
      .in_range(0.01, 3600);
  app.add_option("--ranks", options.bench.ranks,
                 "start this many local ranks (default alone: one for each core, at least 2)")
      .in_range(2, 4096);
  app.add_option("--bind", words.binding, "auto: a core for each local rank where they fit; none")
      .one_of({"auto", "none"});
  app.add_flag(bench::kJoinedFlag, options.bench.joined).hidden();
  app.add_option("-o,--output", options.output,
                 "file of the table, to which what was measured is added (default: the one that "
                 "TUTTI_TUNING_TABLE names)");
  app.add_option("--json", options.json, "write all times as JSON (- for stdout)");
  const tools::Option check = app.add_flag(
      "--check", options.check, "say how far the library's own choice is from the fastest way");
  app.add_option("--expect", options.expected_percent,
                 "with --check: exit 4 when the mean regret is above so many percent")
      .in_range(0, 1e6)
      .needs(check);
  app.add_option("--merge", options.merge,
                 "put these tables together, the newer measurement first, into -o")
      .excludes(check);
}

Status apply(const Words& words, Options& options) {
  const bool all = std::ranges::find(words.collectives, "all") != words.collectives.end();
  for (const Collective test : bench::all_tests()) {
    const auto named = [&](const std::string& word) { return bench::test_by_name(word) == test; };
    if (test != bench::kSendRecv && (all || std::ranges::any_of(words.collectives, named)))
      options.bench.tests.push_back(test);
  }
  TUTTI_ASSIGN(options.bench.sizes.min, tools::parse_size(words.min_size));
  TUTTI_ASSIGN(options.bench.sizes.max, tools::parse_size(words.max_size));
  options.bench.sizes.factor = words.factor;
  TUTTI_TRY(tools::sizes_of(options.bench.sizes));
  if (options.bench.sizes.min == 0)
    return make_error(Code::kInvalidArgument, "-b 0: there is nothing to measure of no bytes");
  if (words.binding == "none") options.bench.binding = bench::Binding::kNone;
  options.bench.program = kProgram;
  options.meter.settles_first = options.check;
  if (!options.merge.empty() && options.output.empty())
    return make_error(Code::kInvalidArgument, "--merge: name the file to write with -o FILE");
  return check_names(options.meter.algorithms);
}

}  // namespace

std::optional<int> parse_options(std::span<const std::string> arguments, Options& options) {
  tools::CommandLine app(
      "Measures which algorithms are the fastest on these ranks, and stores a table of it.",
      kProgram);
  Words words;
  add_options(app, options, words);
  if (const auto code = app.parse(arguments)) return code;
  const Status applied = apply(words, options);
  if (applied) return std::nullopt;
  return tools::fail(kProgram, tools::kExitUsage, applied.error().what);
}

}  // namespace tutti::tune
