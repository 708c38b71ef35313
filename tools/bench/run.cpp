#include "tools/bench/run.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/base/result.hpp"
#include "tools/bench/crew.hpp"
#include "tools/bench/launch.hpp"
#include "tools/bench/limit.hpp"
#include "tools/bench/probe.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/series.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/machine.hpp"

namespace tutti::bench {
namespace {

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  ::gmtime_r(&now, &broken);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &broken);
  return text;
}

/// Every row that the options ask for, in the table's order. Sizes that round to the same count
/// appear once.
Result<std::vector<Shape>> shapes_of(const Options& options, Collective test, Rank ranks) {
  TUTTI_ASSIGN(const std::vector<std::size_t> sizes, tools::sizes_of(options.sizes));
  const std::vector<ReduceOp> none = {ReduceOp::kSum};
  const bool every_root = rooted(test) && options.root == Options::kAllRoots;
  const Rank first_root = every_root || !rooted(test) ? 0 : options.root;
  const Rank last_root = every_root ? ranks - 1 : first_root;
  std::vector<Shape> shapes;
  for (const DataType type : options.types) {
    for (const ReduceOp op : reduces(test) ? options.ops : none) {
      for (Rank root = first_root; root <= last_root; ++root) {
        for (const std::size_t size : sizes) {
          const Shape shape{test, type, op, ranks, root, count_for(test, type, ranks, size)};
          if (shapes.empty() || !(shapes.back() == shape)) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

/// The table goes to standard output, unless the JSON does.
Status print_table(const Options& options, std::string_view text) {
  if (options.json != "-") return tools::print(text);
  tools::note(text);
  return ok_status();
}

/// Room for two buffers of `bytes` for every rank on the host of `rank`. Running out while they are
/// touched would not be an error but a killed process.
Status check_memory(const Job& job, Rank rank, std::size_t bytes) {
  const std::string& host = job.members[static_cast<std::size_t>(rank)].host;
  const auto ranks = std::ranges::count(job.members, host, &Member::host);
  const double need = 2.0 * static_cast<double>(ranks) * static_cast<double>(bytes);
  const tools::Machine machine = tools::this_machine();
  const auto available = static_cast<double>(
      std::min(machine.memory_available_bytes, machine.memory_limit_bytes.value_or(UINT64_MAX)));
  if (need <= available) return ok_status();
  return make_error(Code::kUnavailable,
                    "the buffers of {} ranks on {} need {:.3g} GiB and {:.3g} GiB are available: "
                    "lower -e, or start fewer ranks",
                    ranks, host, need / (1 << 30), available / (1 << 30));
}

/// How a crew's walk through the table ended.
struct Outcome {
  Status status;
  std::uint64_t wrong_here = 0;
};

/// A crew's walk through the table. The leading crew fills the report and prints. What would stop a
/// crew alone (too little memory, a full disk) is agreed on, so that all end in good order; then
/// the leading crew returns the error, and the others success.
class Walk {
 public:
  Walk(Crew& crew, const Options& options, Report& report)
      : crew_(crew), options_(options), report_(report), progress_(crew.leads()) {}

  Status run() {
    TUTTI_ASSIGN(const Job job, crew_.describe());
    if (Status planned = plan(job); !planned) return end_together(std::move(planned));
    TUTTI_TRY(agree(check_machine(job),
                    "another host has too little memory: lower -e, or start fewer ranks"));
    if (crew_.leads()) report_.job = job;
    if (!ended_) print(table_head(options_, job));
    for (int cycle = 0; !ended_ && (options_.cycles == 0 || cycle < options_.cycles); ++cycle) {
      TUTTI_TRY(table());
    }
    return ended_ ? std::move(end_) : ok_status();
  }

  [[nodiscard]] std::uint64_t wrong_here() const { return wrong_here_; }
  /// All crews ended for the same reason: nobody waits for this one.
  [[nodiscard]] bool ended_together() const { return ended_; }

 private:
  /// For an error that all crews have alike.
  Status end_together(Status status) {
    ended_ = true;
    return crew_.leads() ? std::move(status) : ok_status();
  }

  /// Collective. `mine`: what stops this crew, if anything does.
  Status agree(const Status& mine, std::string_view what_stopped_another) {
    double stopped[1] = {mine ? 0.0 : 1.0};
    TUTTI_TRY(crew_.largest(stopped));
    if (stopped[0] == 0) return ok_status();
    end_ = end_together(mine ? Status(make_error(Code::kUnavailable, "{}", what_stopped_another))
                             : mine);
    return ok_status();
  }

  /// What this crew would run into later.
  Status check_machine(const Job& job) {
    TUTTI_TRY(check_memory(job, crew_.ranks()[0], largest_bytes()));
    if (!crew_.leads() || options_.json.empty()) return ok_status();
    Status writable = tools::check_writable(options_.json);
    if (!writable) report_.options.json.clear();  // it is tried no more
    return writable;
  }

  [[nodiscard]] std::size_t largest_bytes() const {
    std::size_t largest = 0;
    for (const auto& shapes : tables_)
      for (const Shape& shape : shapes) largest = std::max(largest, shown_bytes(shape));
    return largest;
  }

  Status plan(const Job& job) {
    hosts_ = job.hosts;
    if (options_.ranks != 0 && options_.ranks != job.ranks) {
      return make_error(Code::kInvalidArgument, "--ranks {}, but the job has {} ranks",
                        options_.ranks, job.ranks);
    }
    if (options_.root >= job.ranks) {
      return make_error(Code::kInvalidArgument, "root {} is not one of the ranks 0..{}",
                        options_.root, job.ranks - 1);
    }
    for (const Collective test : options_.tests) {
      TUTTI_ASSIGN(auto shapes, shapes_of(options_, test, job.ranks));
      tables_.push_back(std::move(shapes));
    }
    return ok_status();
  }

  Status table() {
    const std::size_t largest = largest_bytes();
    TUTTI_ASSIGN(const CrewBuffers buffers,
                 allocate_buffers(crew_, options_, std::max(largest, probe_sizes(largest).back())));
    TUTTI_TRY(find_limit(buffers, largest));
    std::size_t rows = 0;
    for (const auto& shapes : tables_) rows += shapes.size();
    std::size_t done = 0;
    for (const auto& shapes : tables_) {
      print(column_titles(options_, shapes.front().test));
      for (const Shape& shape : shapes) {
        progress_.show(
            done++, rows,
            fmt::format("{} {}", test_name(shape.test), tools::size_text(shown_bytes(shape))));
        TUTTI_TRY(row(shape, buffers));
        TUTTI_TRY(agree(printed_, "rank 0 cannot write the table"));
        if (ended_) return ok_status();
      }
    }
    progress_.clear();
    return ok_status();
  }

  /// Once, before anything is timed.
  Status find_limit(const CrewBuffers& buffers, std::size_t largest) {
    if (limit_ || !no_limit_.empty()) return ok_status();
    if (!options_.show_limit) {
      no_limit_ = "--limit none";
    } else if (hosts_ > 1) {
      no_limit_ = fmt::format("the ranks are on {} hosts; the limit is that of one", hosts_);
    } else {
      TUTTI_ASSIGN(limit_, probe_copies(crew_, buffers, largest));
      print(fmt::format("# Copies of all ranks together: {}\n#\n", bandwidth_text(*limit_)));
    }
    if (crew_.leads()) report_.limit = limit_;
    if (crew_.leads()) report_.no_limit = no_limit_;
    return ok_status();
  }

  void hold_to_limit(const Shape& shape, bool in_place, std::optional<Timing>& timing) const {
    if (!limit_ || !timing) return;
    timing->limit_percent = limit_percent(shape, in_place, *limit_, timing->mean_us);
  }

  Status row(const Shape& shape, const CrewBuffers& buffers) {
    TUTTI_TRY(crew_.use_operator(shape));
    Series series(crew_, options_, shape, buffers, iteration_);
    Row row{shape, crew_.algorithm(shape), {}, {}, options_.timestamps ? time_text() : ""};
    if (options_.out_of_place) {
      TUTTI_ASSIGN(row.out_of_place, series.measure(false));
    }
    if (options_.in_place) {
      TUTTI_ASSIGN(row.in_place, series.measure(true));
    }
    hold_to_limit(shape, false, row.out_of_place);
    hold_to_limit(shape, true, row.in_place);
    wrong_here_ += series.wrong_here();
    print(table_row(options_, row));
    if (crew_.leads()) report_.rows.push_back(std::move(row));
    return ok_status();
  }

  /// The first failure stops the run at the end of the row.
  void print(const std::string& text) {
    if (!crew_.leads() || !printed_) return;
    progress_.clear();
    printed_ = print_table(options_, text);
  }

  Crew& crew_;
  const Options& options_;
  Report& report_;  // written by the leading crew alone
  tools::ProgressBar progress_;
  std::vector<std::vector<Shape>> tables_;
  std::int32_t hosts_ = 1;
  std::optional<CopyBandwidth> limit_;
  std::string no_limit_;
  Status printed_;  // of the leading crew
  bool ended_ = false;
  Status end_;  // once ended_
  std::uint64_t iteration_ = 0;
  std::uint64_t wrong_here_ = 0;
};

Outcome run_crew(Meeting& meeting, const Options& options, int thread, Report& report) {
  auto crew = Crew::join(meeting, options, thread);
  if (!crew) return {std::move(crew).error()};
  bind_crew(options, thread);
  Walk walk(*crew, options, report);
  Status status = walk.run();
  if (!status && !walk.ended_together()) crew->abort();
  return {std::move(status), walk.wrong_here()};
}

/// The crews beside the first run in threads of their own.
std::vector<Outcome> run_crews(Meeting& meeting, const Options& options, Report& report) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(options.threads));
  std::vector<std::jthread> threads;
  for (int thread = 1; thread < options.threads; ++thread) {
    threads.emplace_back([&, thread] {
      outcomes[static_cast<std::size_t>(thread)] = run_crew(meeting, options, thread, report);
    });
  }
  outcomes[0] = run_crew(meeting, options, 0, report);
  threads.clear();
  return outcomes;
}

/// Compares with the earlier run; prints; the exit code.
Result<int> apply_comparison(const Options& options, const Report& report) {
  TUTTI_ASSIGN(const std::string text, read_file(options.compare, kLongestJson));
  const auto earlier = nlohmann::json::parse(text, nullptr, false);
  TUTTI_ASSIGN(const std::vector<Change> changes, compare(earlier, report));
  TUTTI_TRY(print_table(options, comparison_text(changes, options.gate_percent)));
  return passes_gate(changes, options.gate_percent) ? tools::kExitFine : tools::kExitSlow;
}

/// The last lines of a run that came to its end, and what they mean for the exit code.
Result<int> judge(const Report& report) {
  const Options& options = report.options;
  TUTTI_TRY(print_table(options, table_foot(report)));
  int code = report.wrong() > 0 ? tools::kExitWrongData : tools::kExitFine;
  if (!options.compare.empty()) {
    TUTTI_ASSIGN(const int compared, apply_comparison(options, report));
    if (code == tools::kExitFine) code = compared;
  }
  const double bandwidth = report.average_bus_bandwidth();
  if (options.expected_gbs >= 0 && bandwidth < options.expected_gbs) {
    TUTTI_TRY(print_table(
        options, fmt::format("# Expected at least {:g} GB/s, the average is {:.6g} : FAILED\n",
                             options.expected_gbs, bandwidth)));
    if (code == tools::kExitFine) code = tools::kExitSlow;
  }
  return code;
}

/// What rank 0 does at the end, of a failed run too: its rows and errors go into the JSON. `code`
/// is what the crews came to; the exit code.
int conclude(Report& report, int code) {
  const Options& options = report.options;
  if (report.errors.empty()) {
    const auto judged = judge(report);
    if (!judged) {
      report.errors.push_back(judged.error().what);
      code = tools::fail(options.program, judged.error());
    } else if (code == tools::kExitFine) {
      code = *judged;
    }
  }
  if (options.json.empty()) return code;
  // Arguments and errors may hold bytes that are not UTF-8.
  const std::string json =
      to_json(report).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const auto written = tools::write_output(options.json, json);
  if (written) return code;
  const int unwritten = tools::fail(options.program, written.error());
  return code == tools::kExitFine ? unwritten : code;
}

/// Nobody has met: whether this process would have been the first.
bool would_lead(bool launched) { return !launched || environment_number("RANK") == 0; }

/// The library reads these when its first function is called.
void export_settings(const Options& options) {
  ::setenv("TUTTI_DEVICE", options.on_gpus ? "cuda" : "host", 1);
  if (!options.algorithm.empty()) ::setenv("TUTTI_ALGO", options.algorithm.c_str(), 1);
  if (options.sets_compression) {
    std::string setting;
    for (const auto& [test, compression] : options.compressions)
      setting +=
          fmt::format("{}{}:{}", setting.empty() ? "" : ",", name_of(test), compression.text());
    ::setenv("TUTTI_COMPRESS", setting.c_str(), 1);
  }
  if (options.timeout_s > 0) {
    ::setenv("TUTTI_TIMEOUT", fmt::to_string(options.timeout_s).c_str(), 1);
  }
}

}  // namespace

int run_ranks(const Options& options, std::span<const std::string> arguments, bool launched) {
  export_settings(options);
  Report report;
  report.options = options;
  report.arguments = {arguments.begin(), arguments.end()};
  report.start_time = time_text();
  auto meeting = meet(options, launched);
  if (!meeting) {
    report.end_time = time_text();
    report.errors.push_back(meeting.error().what);
    const int code = tools::fail(options.program, meeting.error());
    return would_lead(launched) ? conclude(report, code) : code;
  }
  const std::vector<Outcome> outcomes = run_crews(*meeting, options, report);
  report.end_time = time_text();

  int code = tools::kExitFine;
  for (const Outcome& outcome : outcomes) {
    if (outcome.wrong_here > 0 && code == tools::kExitFine) code = tools::kExitWrongData;
    if (outcome.status) continue;
    const auto thread = static_cast<int>(&outcome - outcomes.data());
    const Rank first =
        meeting->process * options.ranks_per_process() + thread * options.ranks_per_thread;
    report.errors.push_back(fmt::format("rank {}: {}", first, outcome.status.error().what));
    code = tools::fail(fmt::format("{}: rank {}", options.program, first), outcome.status.error());
  }
  return meeting->process == 0 ? conclude(report, code) : code;
}

}  // namespace tutti::bench
