// Keeps verdicts between processes: a small JSON file for each machine.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/settings.hpp"
#include "src/cost/measured_table.hpp"
#include "src/cost/tuning.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What times on a machine depend on: processor, CPUs that this thread may use, kernel.
std::string machine_signature();

/// The file that the setting TUTTI_TUNING_FILE stands for; "": none.
std::string tuning_file(const std::string& setting, const Environment& environment,
                        std::string_view machine);

/// The file that the setting TUTTI_TUNING_TABLE stands for, in the same folder; "": none.
std::string table_file(const std::string& setting, const Environment& environment,
                       std::string_view machine);

/// The measured table of a process. Reads the file at the first request. If it cannot be read or is
/// invalid, logs a warning and has an empty table. Thread-safe.
class TableStore {
 public:
  /// An empty `path` means no table.
  explicit TableStore(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  MeasuredTable table();

 private:
  const std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  MeasuredTable table_;
};

/// The text of a file with one machine's verdicts, and its parser. A text of another machine yields
/// no verdicts. The parser accepts any bytes; errors name the wrong line or entry.
std::string tuning_text(std::string_view machine, const std::vector<Verdict>& verdicts);
Result<std::vector<Verdict>> parse_tuning(std::string_view text, std::string_view machine);

/// The verdicts that a process knows: at most the newest 4,096, also in its file. Thread-safe.
/// Reads the file at the first request. If it cannot be read or written, logs that.
class TuningStore {
 public:
  /// An empty `path` means that nothing is kept.
  TuningStore(std::string path, std::string machine)
      : path_(std::move(path)), machine_(std::move(machine)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Verdicts for communicators of `ranks` ranks, newest first, without those that are too old.
  std::vector<Verdict> verdicts(std::int32_t ranks);
  std::size_t size();
  /// Remembers a verdict until the process ends. With `keep`, also writes it to the file, whose
  /// other entries stay.
  void add(const Verdict& verdict, bool keep);

 private:
  void load_once();
  void merge(const std::vector<Verdict>& verdicts);
  [[nodiscard]] std::vector<Verdict> newest_first() const;
  void forget_the_oldest();
  Status save();
  /// Makes `next` the new file; `file` is its open and locked descriptor.
  Status replace_by(int file, const std::string& next);

  const std::string path_, machine_;
  std::mutex writing_;  ///< one thread at a time writes the file; locked before mutex_
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<CallClass, Verdict> verdicts_;
};

}  // namespace tutti
