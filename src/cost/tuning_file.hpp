// Where verdicts are kept from one process to the next: a small JSON file for each machine.
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

/// What the times of a machine depend on: processor, CPUs that this thread may use, kernel.
std::string machine_signature();

/// The file that the setting TUTTI_TUNING_FILE means; "": none.
std::string tuning_file(const std::string& setting, const Environment& environment,
                        std::string_view machine);

/// The file that the setting TUTTI_TUNING_TABLE means, beside that one; "": none.
std::string table_file(const std::string& setting, const Environment& environment,
                       std::string_view machine);

/// The measured table of a process. Its file is read when it is first asked for; one that cannot be
/// read, or is no table, is a warning, and the table is empty. Thread-safe.
class TableStore {
 public:
  /// `path` "": there is none.
  explicit TableStore(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  MeasuredTable table();

 private:
  const std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  MeasuredTable table_;
};

/// The text of a file, and back: the verdicts of one machine. A text of another machine has none.
/// An error names the line, or the entry, that is wrong; any bytes may be parsed.
std::string tuning_text(std::string_view machine, const std::vector<Verdict>& verdicts);
Result<std::vector<Verdict>> parse_tuning(std::string_view text, std::string_view machine);

/// The verdicts that a process knows: the newest 4,096, and its file holds no more. Thread-safe.
/// The file is read when they are first asked for; one that cannot be read or written is a line in
/// the log.
class TuningStore {
 public:
  /// `path` "": nothing is kept.
  TuningStore(std::string path, std::string machine)
      : path_(std::move(path)), machine_(std::move(machine)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Those for communicators of `ranks` ranks that are not too old, newest first.
  std::vector<Verdict> verdicts(std::int32_t ranks);
  std::size_t size();
  /// Remembers a verdict until the process ends, and where `keep` in the file, whose other entries
  /// stay.
  void add(const Verdict& verdict, bool keep);

 private:
  void load_once();
  void merge(const std::vector<Verdict>& verdicts);
  [[nodiscard]] std::vector<Verdict> newest_first() const;
  void forget_the_oldest();
  Status save();
  /// `next` is the new file, open as `file` and locked.
  Status replace_by(int file, const std::string& next);

  const std::string path_, machine_;
  std::mutex writing_;  ///< one thread at a time writes the file; taken before mutex_
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<CallClass, Verdict> verdicts_;
};

}  // namespace tutti
