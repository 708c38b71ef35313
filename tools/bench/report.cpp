#include "tools/bench/report.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tutti::bench {
namespace {

/// A number in `width` columns with as many of two decimals as fit.
std::string fitted(double value, int width) {
  for (int decimals = 2; decimals > 0; --decimals) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (static_cast<int>(text.size()) <= width) return fmt::format("{:>{}}", text, width);
  }
  return fmt::format("{:>{}.0f}", value, width);
}

std::string timing_columns(const Shape& shape, const std::optional<Timing>& timing) {
  if (!timing) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const double bandwidth = algorithm_bandwidth(shape, timing->mean_us);
  return fmt::format("  {}  {}  {}  {:>6}", fitted(timing->mean_us, 7), fitted(bandwidth, 6),
                     fitted(bandwidth * bus_factor(shape.test, shape.ranks), 6),
                     timing->wrong ? fmt::to_string(*timing->wrong) : "N/A");
}

std::string percentile_columns(const std::optional<Timing>& timing) {
  if (!timing) return fmt::format("  {:>8}  {:>8}  {:>8}", "N/A", "N/A", "N/A");
  return fmt::format("  {}  {}  {}", fitted(timing->p50_us, 8), fitted(timing->p90_us, 8),
                     fitted(timing->p99_us, 8));
}

/// Blank without a limit: the columns before it keep their places.
std::string limit_column(const std::optional<Timing>& timing) {
  return timing && timing->limit_percent ? "  " + fitted(*timing->limit_percent, 7)
                                         : fmt::format("  {:>7}", "");
}

/// Blank where results are exact: the columns before it keep their places.
std::string loss_columns(const std::optional<Timing>& timing) {
  return timing && timing->loss
             ? fmt::format("  {:>9.2e}  {:>9.2e}", timing->loss->max, timing->loss->mean)
             : fmt::format("  {:>9}  {:>9}", "", "");
}

std::string redop_text(const Shape& shape) {
  return std::string(reduces(shape.test) ? name_of(shape.op) : "none");
}

Rank shown_root(const Shape& shape) { return rooted(shape.test) ? shape.root : -1; }

template <class Visit>
void for_each_timing(std::span<const Row> rows, Visit visit) {
  for (const Row& row : rows) {
    if (row.out_of_place) visit(row.shape, *row.out_of_place);
    if (row.in_place) visit(row.shape, *row.in_place);
  }
}

}  // namespace

std::uint64_t Report::wrong() const {
  std::uint64_t total = 0;
  for_each_timing(rows,
                  [&](const Shape&, const Timing& timing) { total += timing.wrong.value_or(0); });
  return total;
}

double Report::average_bus_bandwidth() const {
  double total = 0;
  int timings = 0;
  for_each_timing(rows, [&](const Shape& shape, const Timing& timing) {
    total += algorithm_bandwidth(shape, timing.mean_us) * bus_factor(shape.test, shape.ranks);
    ++timings;
  });
  return timings == 0 ? 0 : total / timings;
}

std::string table_head(const Options& options, const Job& job) {
  std::string text = fmt::format("# tutti-bench version {} nccl-headers={} nccl-library={}\n",
                                 job.tutti_version, job.nccl_headers, job.nccl_version);
  text += fmt::format("# Collective test starting: {}\n", options.program);
  const bool multiplies = options.sizes.factor > 1;
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} "
      "agg iters: {} validation: {} graph: 0\n#\n",
      options.threads, options.ranks_per_thread, options.sizes.min, options.sizes.max,
      multiplies ? options.sizes.factor : options.sizes.step, multiplies ? "factor" : "bytes",
      options.warmups, options.iterations == 0 ? "adaptive" : fmt::to_string(options.iterations),
      options.aggregated, options.checks);
  std::string before;
  for (const auto& [test, compression] : options.compressions)
    if (std::ranges::find(options.tests, test) != options.tests.end() &&
        std::exchange(before, compression.text()) != compression.text())
      text += fmt::format("# Floats of {} travel as {}, {:.4g} bits a value\n", test_name(test),
                          compression.text(), compression.format->traits().bits);
  text += fmt::format(
      "# Using {} ranks on {} host{} over {}\n", job.ranks, job.hosts, job.hosts == 1 ? "" : "s",
      job.transports.empty() ? "memory" : fmt::to_string(fmt::join(job.transports, ", ")));
  for (const Member& member : job.members) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [{}] {}\n",
                        member.rank, member.process, member.host, std::max(member.gpu, 0),
                        member.gpu < 0 ? "host" : "cuda", member.processor);
  }
  return text + "#\n";
}

std::string column_titles(const Options& options, Collective test) {
  std::string above = fmt::format("# {:<48}  {:^31}  {:^31}", "", "out-of-place", "in-place");
  std::string names =
      fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  std::string units =
      fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int form = 0; form < 2; ++form) {
    names += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong");
    units += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  names += fmt::format("  {:<20}", "algorithm");
  units += fmt::format("  {:<20}", "");
  for (int form = 0; form < (options.percentiles ? 2 : 0); ++form) {
    names += fmt::format("  {:>8}  {:>8}  {:>8}", "p50", "p90", "p99");
    units += fmt::format("  {:>8}  {:>8}  {:>8}", "(us)", "(us)", "(us)");
  }
  if (!options.percentiles) {
    names += fmt::format("  {:>8}  {:>8}", "p50", "p99");
    units += fmt::format("  {:>8}  {:>8}", "(us)", "(us)");
  }
  if (options.show_limit) {
    names += fmt::format("  {:>7}", "%limit");
    units += fmt::format("  {:>7}", "");
  }
  if (!options.compressions.empty()) {
    names += fmt::format("  {:>9}  {:>9}", "max err", "mean err");
    units += fmt::format("  {:>9}  {:>9}", "(rel.)", "(rel.)");
  }
  if (options.timestamps) names += fmt::format("  {:>20}", "time stamp");
  const std::string title =
      options.tests.size() > 1 ? fmt::format("#\n# {}\n", test_name(test)) : std::string();
  return fmt::format("{}{}\n{}\n{}\n", title, above, names, units);
}

std::string table_row(const Options& options, const Row& row) {
  const Shape& shape = row.shape;
  std::string text =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", shown_bytes(shape), shape.count,
                  name_of(shape.type), redop_text(shape), shown_root(shape));
  text += timing_columns(shape, row.out_of_place);
  text += timing_columns(shape, row.in_place);
  text += fmt::format("  {:<20}", row.algorithm);
  const auto& timing = row.out_of_place ? row.out_of_place : row.in_place;
  if (options.percentiles) {
    text += percentile_columns(row.out_of_place) + percentile_columns(row.in_place);
  } else {
    text += timing ? fmt::format("  {}  {}", fitted(timing->p50_us, 8), fitted(timing->p99_us, 8))
                   : fmt::format("  {:>8}  {:>8}", "N/A", "N/A");
  }
  if (options.show_limit) text += limit_column(timing);
  if (!options.compressions.empty()) text += loss_columns(timing);
  if (options.timestamps) text += fmt::format("  {:>20}", row.timestamp);
  return text + "\n";
}

std::string table_foot(const Report& report) {
  const std::uint64_t wrong = report.wrong();
  return fmt::format(
      "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.6g}\n#\n"
      "# Collective test concluded: {}\n",
      wrong, wrong == 0 ? "OK" : "FAILED", report.average_bus_bandwidth(), report.options.program);
}

std::string comparison_text(std::span<const Change> changes, double gate_percent) {
  std::string text = "#\n# Compared with the earlier run (medians)\n";
  text += fmt::format("#{:>15}  {:>12}  {:>8}  {:>6}  {:>5}  {:>12}  {:>10}  {:>10}  {:>8}\n",
                      "collective", "size", "type", "redop", "root", "form", "before(us)",
                      "after(us)", "change");
  for (const Change& change : changes) {
    const Shape& shape = change.shape;
    text += fmt::format(
        "#{:>15}  {:>12}  {:>8}  {:>6}  {:>5}  {:>12}  {:>10.2f}  {:>10.2f}  {:>+7.1f}%\n",
        test_name(shape.test), shown_bytes(shape), name_of(shape.type), redop_text(shape),
        shown_root(shape), change.in_place ? "in-place" : "out-of-place", change.before_us,
        change.after_us, change.percent());
  }
  if (gate_percent < 0) return text;
  const auto slower = std::ranges::count_if(
      changes, [&](const Change& change) { return change.percent() > gate_percent; });
  return text + fmt::format("# Slower by more than {:g} % : {} of {} {}\n", gate_percent, slower,
                            changes.size(), slower == 0 ? "OK" : "FAILED");
}

bool passes_gate(std::span<const Change> changes, double gate_percent) {
  return gate_percent < 0 ||
         std::ranges::none_of(
             changes, [&](const Change& change) { return change.percent() > gate_percent; });
}

}  // namespace tutti::bench
