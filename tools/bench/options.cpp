#include "tools/bench/options.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "tools/bench/shape.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"

namespace tutti::bench {
namespace {

constexpr int kMaxRanks = 4096;

/// What the user wrote, before words become values.
struct Words {
  std::string test;
  std::optional<std::string> min_size, max_size, step_size;
  std::size_t factor = 0;
  std::string type = "float";
  std::string op = "sum";
  std::string root = "0";
  std::string memory = "pages";
  std::string binding = "auto";
  std::string limit = "auto";
  std::string device = "host";
  std::string compress;
  int blocking = 0;
  int registration = 0;
  int average = 1;
  int graph = 0;
  int cpu_time = 0;
  int iteration_timing = 0;
  int iteration_skip = 0;
  int device_kernel = 0;
  int timestamps = 0;
  int unused = 0;
  bool only_in_place = false;
  bool only_out_of_place = false;
};

Error unknown(std::string_view what, std::string_view word, std::span<const std::string> legal) {
  const std::string guess = nearest(word, legal);
  return make_error(Code::kInvalidArgument, "unknown {} `{}`{}; legal are {}", what, word,
                    guess.empty() ? "" : fmt::format(", did you mean `{}`?", guess),
                    fmt::join(legal, " "));
}

/// The names of 0 .. count-1 of an enumeration, then "all".
template <class Enum>
std::vector<std::string> names_and_all(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(name_of(static_cast<Enum>(i)));
  names.emplace_back("all");
  return names;
}

/// One value by its name, or every value for "all".
template <class Enum>
Result<std::vector<Enum>> values_named(std::string_view what, const std::string& word, int count) {
  const std::vector<std::string> names = names_and_all<Enum>(count);
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) return unknown(what, word, names);
  std::vector<Enum> values;
  for (int i = 0; i < count; ++i) {
    if (word == "all" || found - names.begin() == i) values.push_back(static_cast<Enum>(i));
  }
  return values;
}

Result<std::vector<Collective>> tests_named(const std::string& word) {
  if (word == "all") return std::vector<Collective>(all_tests().begin(), all_tests().end());
  if (const auto test = test_by_name(word)) return std::vector<Collective>{*test};
  std::vector<std::string> names = {"all"};
  for (const Collective test : all_tests()) names.emplace_back(test_name(test));
  return unknown("collective", word, names);
}

Result<tools::SizeRange> size_range(const Words& words, bool perf_program) {
  // nccl-tests' default is one size; on a laptop a sweep says more.
  tools::SizeRange range = perf_program ? tools::SizeRange{32 << 20, 32 << 20, 1 << 20, 1}
                                        : tools::SizeRange{8, 16 << 20, 0, 8};
  if (words.min_size) {
    TUTTI_ASSIGN(range.min, tools::parse_size(*words.min_size));
    if (!words.max_size) range.max = std::max(range.max, range.min);
  }
  if (words.max_size) {
    TUTTI_ASSIGN(range.max, tools::parse_size(*words.max_size));
    if (!words.min_size) range.min = std::min(range.min, range.max);
  }
  if (words.step_size) {
    TUTTI_ASSIGN(range.step, tools::parse_size(*words.step_size));
    range.factor = 1;
  }
  if (words.factor != 0) range.factor = words.factor;
  if (words.step_size && words.factor > 1) {
    return make_error(Code::kInvalidArgument,
                      "-i {} and -f {} exclude each other: sizes either add or multiply",
                      *words.step_size, words.factor);
  }
  TUTTI_TRY(tools::sizes_of(range));
  return range;
}

Result<Rank> root_named(const std::string& word) {
  if (word == "all" || word == "-1") return Options::kAllRoots;
  Rank root = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), root);
  if (failure != std::errc{} || end != word.data() + word.size() || root < 0) {
    return make_error(Code::kInvalidArgument, "`{}` is not a root: give a rank from 0, or all",
                      word);
  }
  return root;
}

/// A flag of nccl-tests whose larger values ask for what is not here.
struct LimitedFlag {
  const char* name;
  int value;
  int largest;  ///< that is supported
  const char* asks_for;
};

Status refuse_unsupported(const Words& words) {
  const LimitedFlag flags[] = {
      {"-G/--cudagraph", words.graph, 0, "replays of a CUDA graph"},
      {"-C/--report_cputime", words.cpu_time, 0, "the time that a CPU needs to launch GPU kernels"},
      {"-I/--per_iter_timing", words.iteration_timing, 0,
       "statistics over single iterations; --percentiles shows those over short batches"},
      {"-K/--per_iter_skip", words.iteration_skip, 0,
       "statistics without the first iterations; -w leaves out the first ones"},
      {"-M/--memory", words.memory == "1" ? 1 : 0, 0, "a report of a GPU's memory"},
      {"-D/--device_implementation", words.device_kernel, 0, "a kernel over NCCL's device API"},
      {"-R/--local_register", words.registration, 1,
       "symmetric windows; -R 1 registers the buffers"}};
  for (const auto& [name, value, largest, asks_for] : flags) {
    if (value > largest) {
      return make_error(Code::kInvalidArgument, "{} {} is not supported: it asks for {}", name,
                        value, asks_for);
    }
  }
  return ok_status();
}

Status apply_words(const Words& words, bool perf_program, Options& options) {
  TUTTI_TRY(refuse_unsupported(words));
  if (!perf_program) {
    TUTTI_ASSIGN(options.tests, tests_named(words.test));
  }
  TUTTI_ASSIGN(options.sizes, size_range(words, perf_program));
  TUTTI_ASSIGN(options.types, values_named<DataType>("type", words.type, kDataTypes));
  TUTTI_ASSIGN(options.ops, values_named<ReduceOp>("reduction", words.op, kReduceOps));
  TUTTI_ASSIGN(options.root, root_named(words.root));
  if (!words.compress.empty()) {
    TUTTI_ASSIGN(const codec::Compression compression, codec::parse_compression(words.compress));
    for (const Collective test : all_tests())
      if (test != kSendRecv) options.compressions.emplace(test, compression);
    options.sets_compression = true;
  }
  options.memory = words.memory == "alloc" ? Memory::kAlloc : Memory::kPages;
  options.binding = words.binding == "none" ? Binding::kNone : Binding::kAuto;
  options.on_gpus = words.device == "cuda";
  options.show_limit = words.limit == "auto" && !options.on_gpus;
  options.barrier = words.blocking != 0;
  options.register_buffers = words.registration != 0;
  options.timestamps = words.timestamps != 0;
  if (words.only_in_place) options.out_of_place = false;
  if (words.only_out_of_place) options.in_place = false;
  return ok_status();
}

Status check_consistency(const Options& options) {
  if (!options.compressions.empty() && options.on_gpus)
    return make_error(Code::kInvalidArgument,
                      "--compress: compressed calls run on host memory alone; use --device host");
  for (const auto& [test, compression] : options.compressions)
    if (compression.feedback)
      return make_error(Code::kInvalidArgument,
                        "--compress {}: errors are fed back by programs that keep them; leave "
                        "errors=feedback out",
                        compression.text());
  if (options.gate_percent >= 0 && options.compare.empty()) {
    return make_error(Code::kInvalidArgument,
                      "--gate {} compares with an earlier run: name its JSON with --compare FILE",
                      options.gate_percent);
  }
  if (options.ranks % options.ranks_per_process() != 0) {
    return make_error(Code::kInvalidArgument,
                      "--ranks {} is not a multiple of the {} ranks that each process drives "
                      "(-t {} x -g {})",
                      options.ranks, options.ranks_per_process(), options.threads,
                      options.ranks_per_thread);
  }
  if (options.ranks_per_process() > kMaxRanks) {
    return make_error(
        Code::kInvalidArgument, "-t {} x -g {} makes {} ranks in one process; {} is the most",
        options.threads, options.ranks_per_thread, options.ranks_per_process(), kMaxRanks);
  }
  if (options.ranks != 0 && options.root >= options.ranks) {
    return make_error(Code::kInvalidArgument, "root {} is not one of the ranks 0..{}", options.root,
                      options.ranks - 1);
  }
  return ok_status();
}

void add_message_options(tools::CommandLine& app, Words& words) {
  app.add_option("-b,--minbytes", words.min_size, "smallest message (K, M, G are binary)");
  app.add_option("-e,--maxbytes", words.max_size, "largest message");
  app.add_option("-i,--stepbytes", words.step_size, "add this from size to size");
  app.add_option("-f,--stepfactor", words.factor, "multiply by this from size to size")
      .in_range(1, 1 << 20);
  app.add_option("-o,--op", words.op, "sum prod max min avg mulsum all");
  app.add_option(
      "-d,--datatype", words.type,
      "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all");
  app.add_option("-r,--root", words.root, "root rank, or all");
}

void add_series_options(tools::CommandLine& app, Options& options, Words& words) {
  app.add_option("-n,--iters", options.iterations,
                 "timed iterations (without it: until the median is known to 2 %, or 1 s a row)")
      .in_range(1, 1'000'000'000);
  app.add_option("-w,--warmup_iters", options.warmups, "iterations before timing")
      .in_range(0, 1'000'000);
  app.add_option("-m,--agg_iters", options.aggregated, "operations in one group").in_range(1, 1024);
  app.add_option("-c,--check", options.checks, "checked iterations before timing; 0: no checks")
      .in_range(0, 1'000'000);
  app.add_option("-N,--run_cycles", options.cycles, "repeat the table; 0: for ever")
      .in_range(0, 1'000'000'000);
  app.add_option("-z,--blocking", words.blocking, "1..3: a barrier after every iteration")
      .in_range(0, 3);
  const auto in_place = app.add_flag("--in-place", words.only_in_place, "in-place calls only");
  app.add_flag("--out-of-place", words.only_out_of_place, "out-of-place calls only")
      .excludes(in_place);
  app.add_option("-u,--unalign", options.misalign, "elements between a page and each buffer")
      .in_range(0, 4096);
  app.add_option("--device", words.device,
                 "host: the ranks' buffers are memory of the host; cuda: of GPUs, which the ranks "
                 "of a host take in turn, so that several may share one")
      .one_of({"host", "cuda"});
  app.add_option("-R,--local_register", words.registration, "1: register the buffers")
      .in_range(0, 2);
  app.add_option("-M,--memory", words.memory,
                 "pages: ordinary memory; alloc: ncclMemAlloc, which peers can map (0, 1: whether "
                 "nccl-tests reports a GPU's memory; 0 only)")
      .one_of({"pages", "alloc", "0", "1"});
}

void add_rank_options(tools::CommandLine& app, Options& options, Words& words) {
  app.add_option("--ranks", options.ranks,
                 "start this many local ranks (default alone: one for each core, at least 2)")
      .in_range(1, kMaxRanks);
  app.add_option("-t,--nthreads", options.threads, "threads of each process").in_range(1, 1024);
  app.add_option("-g,--ngpus", options.ranks_per_thread, "ranks that each thread drives")
      .in_range(1, 1024);
  app.add_flag(kJoinedFlag, options.joined).hidden();
  app.add_option("--bind", words.binding, "auto: a core for each local rank where they fit; none")
      .one_of({"auto", "none"});
  app.add_option("--compress", words.compress,
                 "send floats in this format (as TUTTI_COMPRESS), as in int8:block=128; shows how "
                 "far results are off");
  app.add_option("--algo", options.algorithm, "run this algorithm (as TUTTI_ALGO)");
  app.add_option("-T,--timeout", options.timeout_s, "seconds for one operation (as TUTTI_TIMEOUT)")
      .in_range(0, 604800);
}

void add_report_options(tools::CommandLine& app, Options& options, Words& words) {
  app.add_flag("--percentiles", options.percentiles, "more columns: p50 p90 p99 of both forms");
  app.add_option("--limit", words.limit,
                 "auto: a column with % of what this machine's memory allows (one host); none")
      .one_of({"auto", "none"});
  app.add_option("-S,--report_timestamps", words.timestamps, "1: a last column with the time")
      .in_range(0, 1);
  app.add_option("-J,--output_file,--json", options.json, "write results as JSON (- for stdout)");
  app.add_option("--compare", options.compare, "JSON of an earlier run to compare with");
  app.add_option("--gate", options.gate_percent, "exit 4 when a row is slower by this many percent")
      .in_range(0, 1e6);
  app.add_option("--expect", options.expected_gbs,
                 "exit 4 when the average bus bandwidth is below this many GB/s")
      .in_range(0, 1e9);
}

/// Accepted because scripts pass them. -y: a host communicator has but the null stream; -p: threads
/// always start their ranks together; -a: times are those of the slowest rank; -x: what a GPU's
/// communicator may occupy; -V: of -D. What refuse_unsupported refuses may be 0.
void add_compatibility_options(tools::CommandLine& app, Words& words) {
  app.add_option("-a,--average", words.average, "no effect: times are the slowest rank's")
      .in_range(0, 3);
  app.add_option("-y,--stream_null", words.unused, "no effect on host communicators");
  app.add_option("-p,--parallel_init", words.unused, "no effect: threads always start in parallel");
  app.add_option("-x,--cta_policy", words.unused, "no effect on host communicators").in_range(0, 2);
  app.add_option("-V,--device_cta_count", words.unused, "no effect without -D");
  const std::pair<const char*, int*> off[] = {{"-G,--cudagraph", &words.graph},
                                              {"-C,--report_cputime", &words.cpu_time},
                                              {"-I,--per_iter_timing", &words.iteration_timing},
                                              {"-K,--per_iter_skip", &words.iteration_skip},
                                              {"-D,--device_implementation", &words.device_kernel}};
  for (const auto& [names, value] : off) {
    app.add_option(names, *value, "not supported: 0 only").in_range(0, 1'000'000'000);
  }
}

}  // namespace

std::string program_name(std::span<const std::string> arguments) {
  if (arguments.empty() || !test_by_program(arguments[0])) return "tutti bench";
  return arguments[0].substr(arguments[0].rfind('/') + 1);
}

Result<ParsedOptions> parse_options(std::span<const std::string> arguments) {
  Options options;
  Words words;
  const auto program_test = test_by_program(arguments[0]);
  options.program = program_name(arguments);
  tools::CommandLine app("Times and checks collectives; tables and flags follow nccl-tests.",
                         options.program);
  if (program_test) {
    options.tests = {*program_test};
  } else {
    app.add_option("COLL", words.test,
                   "all_reduce all_gather reduce_scatter broadcast reduce all_to_all gather "
                   "scatter send_recv, or all")
        .required();
  }
  add_message_options(app, words);
  add_series_options(app, options, words);
  add_rank_options(app, options, words);
  add_report_options(app, options, words);
  add_compatibility_options(app, words);

  TUTTI_ASSIGN(const std::string said, app.read(arguments));
  if (!said.empty()) return ParsedOptions{std::nullopt, said};
  TUTTI_TRY(apply_words(words, program_test.has_value(), options));
  TUTTI_TRY(check_consistency(options));
  return ParsedOptions{std::move(options), ""};
}

}  // namespace tutti::bench
