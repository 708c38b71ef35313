// The record of each step in log.jsonl: one JSON object per line (docs/formats.md).
//
// A run begins with a line that describes it. A resumed run adds such a line and its steps to the
// same file. A step can then be there twice, because steps after the checkpoint are repeated: the
// later line counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::trainer {

/// A run, or its continuation. Value.
struct RunRecord {
  std::uint64_t ranks = 0, parameters = 0, tokens_per_step = 0;
  std::uint64_t first_step = 1, steps = 0;  ///< steps: of the whole run; 0: not known
  std::string strategy = {}, precision = {}, data = {};
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// Where the time of a step went, of rank 0. Seconds. Value.
struct StepTimes {
  double all = 0;
  double forward = 0, backward = 0;  ///< without waiting
  double waiting = 0;                ///< for communication that nothing hid
  double optimizer = 0, data = 0;
  double coding = 0;  ///< compressing, beside or in the others
  /// What none of these is: agreements between ranks.
  [[nodiscard]] double other() const {
    return all - forward - backward - waiting - optimizer - data;
  }
  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

/// Payload that rank 0 sent in a step. Value.
struct StepBytes {
  std::uint64_t gathers = 0, reductions = 0, replicas = 0, others = 0;
  std::uint64_t other_hosts = 0;  ///< part of the first three
  /// What other_hosts, or all with one host, would be without compression; 0: there is none, or
  /// hosts have different numbers of ranks.
  std::uint64_t uncompressed = 0;
  [[nodiscard]] std::uint64_t all() const { return gathers + reductions + replicas + others; }
  friend bool operator==(const StepBytes&, const StepBytes&) = default;
};

/// Bytes of rank 0. Value.
struct StepMemory {
  std::uint64_t planned = 0;   ///< of parameters, gradients, moments and windows, as predicted
  std::uint64_t counted = 0;   ///< the most of those that were there at once
  std::uint64_t resident = 0;  ///< of the process
  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

/// Value.
struct StepRecord {
  std::uint64_t step = 0, samples = 0;  ///< samples: seen so far
  double seconds = 0;                   ///< in the run so far, continuations included
  double loss = 0, average = 0;         ///< nats a byte
  double norm = 0, rate = 0;            ///< of gradients before they were clipped; of learning
  double tokens_per_second = 0;
  StepTimes times = {};
  StepBytes bytes = {};
  StepMemory memory = {};
  /// How much of the time that these bytes take alone nobody waited for; where there are peers.
  std::optional<double> overlap = {};
  std::optional<double> loss_scale = {};  ///< where there is one
  std::optional<double> validation = {};  ///< nats a byte
  /// Norm of what compression left to later steps, of all ranks; in the unit of `norm`, or of
  /// momentum over the root of the variance.
  std::optional<double> owed = {};
  std::optional<std::string> sample = {};
  bool skipped = false;
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// A line each, with its end.
std::string json_line(const RunRecord& run);
std::string json_line(const StepRecord& step);

/// What a log holds; steps ascend. Value.
struct StepLog {
  std::vector<RunRecord> runs;
  std::vector<StepRecord> steps;
  friend bool operator==(const StepLog&, const StepLog&) = default;
};
/// Hostile-safe. A last line without its end is left out: it was being written. kWrongData says
/// what is wrong and in which line.
Result<StepLog> parse_log(std::string_view text);

/// "step 120/1000  loss 2.3456 ..." for people. `left`: seconds to the end, where that is known.
std::string text_line(const StepRecord& step, std::uint64_t steps, std::optional<double> left);
/// "1h02m", "6m12s", "8s".
std::string duration_text(double seconds);

}  // namespace tutti::trainer
