// The rows of a run in three forms: nccl-tests' table, JSON, a comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/bench/limit.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/shape.hpp"
#include "tutti/error.hpp"

namespace tutti::bench {

/// One form (out of place, in place) of one row. Times are microseconds of one operation on the
/// slowest rank; percentiles are over batches of at least 20 us.
struct Timing {
  double mean_us = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  std::uint64_t iterations = 0;
  std::optional<std::uint64_t> wrong;   ///< elements, over all ranks; nullopt when unchecked
  std::optional<double> limit_percent;  ///< of the machine's limit; nullopt where there is none
  /// How far compressed results are off, at most and in the mean, relative to the largest and to
  /// the mean magnitude of what was wanted, over all ranks; nullopt when unchecked, or exact.
  struct Loss {
    double max = 0, mean = 0;
  };
  std::optional<Loss> loss;
};

struct Row {
  Shape shape;
  std::string algorithm;
  std::optional<Timing> out_of_place;  ///< nullopt: not asked for
  std::optional<Timing> in_place;      ///< nullopt: not asked for, or no such form
  std::string timestamp;               ///< with Options::timestamps
};

/// A member of the job, for the table's head.
struct Member {
  Rank rank = 0;
  std::int32_t process = 0;
  std::string host;
  std::string processor;  ///< or the GPU
  int gpu = -1;           ///< as its process numbers it; -1: buffers are the host's
};

/// Who took part, and how they talk.
struct Job {
  Rank ranks = 1;
  std::int32_t hosts = 1;
  std::vector<std::string> transports;
  std::string tutti_version;
  int nccl_headers = 0;  ///< NCCL_VERSION_CODE this program was built with
  int nccl_version = 0;  ///< what the library says
  std::vector<Member> members;
};

/// All of a run. Bandwidths: mean of every timed form of every row, as nccl-tests has it.
struct Report {
  Options options;
  std::vector<std::string> arguments;
  Job job;
  std::string start_time;
  std::string end_time;
  std::optional<CopyBandwidth> limit;
  std::string no_limit = "not measured";  ///< why there is none, "" where there is one
  std::vector<Row> rows;
  std::vector<std::string> errors;  ///< why the run failed

  [[nodiscard]] std::uint64_t wrong() const;
  [[nodiscard]] double average_bus_bandwidth() const;
};

// ------------------------------------------------------------------------------------- table

/// The lines before the first row, the last one without a line end left out.
std::string table_head(const Options& options, const Job& job);
/// The three lines of column titles of one collective; they start with its name when the run has
/// several.
std::string column_titles(const Options& options, Collective test);
/// One row, with its line end.
std::string table_row(const Options& options, const Row& row);
/// "# Out of bounds values ...", "# Avg bus bandwidth ...".
std::string table_foot(const Report& report);

// -------------------------------------------------------------------------------------- JSON

/// The format that docs/bench.md describes: nccl-tests' version 3 and more.
nlohmann::json to_json(const Report& report);

// -------------------------------------------------------------------------------- comparison

/// A row of an earlier run beside the same row of this one.
struct Change {
  Shape shape;
  bool in_place = false;
  double before_us = 0;  ///< medians
  double after_us = 0;
  [[nodiscard]] double percent() const { return (after_us / before_us - 1) * 100; }
};

/// Pairs the rows that both runs have. Errors: `earlier` is not a bench run's JSON, or no row
/// pairs.
Result<std::vector<Change>> compare(const nlohmann::json& earlier, const Report& report);
/// Whether `earlier`, read from `path`, can be compared with at all: asked before a long run.
Status check_comparable(const nlohmann::json& earlier, const std::string& path);

/// A line for each change, and a last one that counts those slower by more than gate_percent (when
/// that is not negative).
std::string comparison_text(std::span<const Change> changes, double gate_percent);
bool passes_gate(std::span<const Change> changes, double gate_percent);

}  // namespace tutti::bench
